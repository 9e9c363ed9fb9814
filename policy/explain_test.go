package policy

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tool"
)

func TestNearestIsTheFirstChangeThatIsAllowed(t *testing.T) {
	for _, tt := range []struct{ name, mode, line, want string }{
		{"an option", ModeAuto, "git push --force origin main", `without "--force" in "git push --force origin main"`},
		{"a word", ModeAuto, "git push origin +main", `without "+main" in "git push origin +main"`},
		{"a command", ModeAuto, "ls && bwrap", `without "bwrap"`},
		{"a command in front", ModeAuto, "bwrap; ls", `without "bwrap"`},
		{"a mode", ModeDefault, "bfg", "in mode bypassPermissions"},
		{"nothing, where no change is enough", ModeBypassPermissions, "bwrap", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Options{})
			tries := 0
			got := Nearest(bash(t, tt.mode, tt.line), func(x Change) bool {
				tries++
				var args struct {
					Command string `json:"command"`
				}
				if err := json.Unmarshal(x.Args, &args); err != nil {
					t.Fatal(err)
				}
				c, err := CommandCall(args.Command, "/src", "/home/u", x.Mode)
				if err != nil {
					return false
				}
				d := decide(t, e, c)
				return d.Verdict == tool.Allow || d.Verdict == tool.Ask && d.By == tool.ByMode && x.Mode == ModeAuto
			})
			if got != tt.want {
				t.Errorf("nearest %q, want %q", got, tt.want)
			}
			if tries > maxNearest {
				t.Errorf("%d evaluations", tries)
			}
		})
	}
}

func TestNearestGivesUpAfterFiftyEvaluations(t *testing.T) {
	line := "git push -f " + strings.Repeat("x ", 5)
	for i := range 100 {
		line += "-" + strings.Repeat("y", i+1) + " "
	}
	tries := 0
	got := Nearest(bash(t, ModePlan, line), func(Change) bool { tries++; return false })
	if got != "" || tries != maxNearest {
		t.Errorf("nearest %q after %d evaluations, want none after %d", got, tries, maxNearest)
	}
}

func TestExplainIsTheDecision(t *testing.T) {
	e := newEngine(t, Options{Rules: Rules{Allow: []string{"Bash"}}})
	c := bash(t, ModeAuto, "git push -f")
	x, err := Explain(decide(t, e, c))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, f := range x.Findings {
		ids = append(ids, f.ID)
	}
	if got, want := strings.Join(ids, ", "), "allow Bash, developer.git.force_push"; got != want {
		t.Errorf("findings %s, want %s", got, want)
	}
	if !json.Valid(x.Input) {
		t.Errorf("the input is no JSON: %s", x.Input)
	}
}

func TestPrintDecisionPointsAtThePlace(t *testing.T) {
	line := "echo ü; bwrap sh"
	d := decide(t, newEngine(t, Options{}), bash(t, ModeAuto, line))
	d.Obligations.NoNetwork, d.Obligations.ReadOnly, d.Obligations.WallSeconds = true, true, 5
	d.Args = json.RawMessage(`{"a":1}`)
	var b bytes.Buffer
	PrintDecision(&b, d, line)
	for _, want := range []string{
		"deny, decided by the rules", "core.nested_sandbox: bwrap makes", "    " + line + "\n            ^^^^^^^^\n", "    hint: ",
		"on condition: no network", "on condition: nothing is written", "ends within 5 s", `rewritten to: {"a":1}`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	PrintDecision(&b, d, "") // the text is not at hand
	if !strings.Contains(b.String(), "at line 1, column ") {
		t.Errorf("no place in\n%s", b.String())
	}
	for _, by := range []tool.By{tool.ByMode, tool.ByFloor, tool.ByTool, tool.ByHook, tool.ByCore} {
		b.Reset()
		PrintDecision(&b, tool.Decision{By: by}, "")
		if strings.Contains(b.String(), "rules") || !strings.HasPrefix(b.String(), "deny") {
			t.Errorf("by %s: %s", by, b.String())
		}
	}
}
