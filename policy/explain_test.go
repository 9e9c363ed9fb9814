package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/tool"
)

func TestExplainSaysWhatWouldBeAllowed(t *testing.T) {
	for _, tt := range []struct{ name, mode, line, want string }{
		{"an option", ModeAuto, "git push --force origin main", `without "--force" in "git push --force origin main"`},
		{"a command", ModeAuto, "ls && bwrap", `without "bwrap"`},
		{"a mode", ModeDefault, "git reset --hard", "in mode bypassPermissions"},
		{"nothing, for what is allowed", ModeBypassPermissions, "ls", ""},
		{"nothing, for what no change allows", ModeBypassPermissions, "bwrap", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := bash(t, tt.mode, tt.line)
			c.Settings.AutoAllowBashIfSandboxed = tt.mode == ModeAuto
			x, err := newEngine(t, Options{}).Explain(context.Background(), c, true)
			if err != nil {
				t.Fatal(err)
			}
			if x.Nearest != tt.want {
				t.Errorf("nearest %q, want %q", x.Nearest, tt.want)
			}
		})
	}
}

func TestExplainIsTheDecision(t *testing.T) {
	e := newEngine(t, Options{Rules: Rules{Allow: []string{"Bash"}}})
	c := bash(t, ModeAuto, "git push -f")
	x, err := e.Explain(context.Background(), c, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x.Decision, decide(t, e, c)); diff != "" {
		t.Errorf("decision (-explained +decided):\n%s", diff)
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
