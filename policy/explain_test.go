package policy

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/permission"
)

func TestNearestIsTheFirstChangeThatIsAllowed(t *testing.T) {
	for _, tt := range []struct {
		name       string
		mode       tool.Mode
		line, want string
	}{
		{
			"an option", tool.ModeAuto, "git push --force origin main",
			`without "--force" in "git push --force origin main"`,
		},
		{"a word", tool.ModeAuto, "git push origin +main", `without "+main" in "git push origin +main"`},
		{"a command", tool.ModeAuto, "ls && bwrap", `without "bwrap"`},
		{"a command in front", tool.ModeAuto, "bwrap; ls", `without "bwrap"`},
		{"a mode", tool.ModeDefault, "make", "in mode auto"},
		{"nothing, where only asking nobody is enough", tool.ModeDefault, "bfg -D x", ""},
		{"nothing, where no change is enough", tool.ModeBypassPermissions, "bwrap", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Options{})
			tries := 0
			got := Nearest(bash(t, tt.mode, tt.line), func(x Change) bool {
				tries++
				c := bash(t, x.Mode, "true")
				if c.In.Args = x.Args; testFacts(t.Context(), c) != nil {
					return false
				}
				d := decide(t, e, c)
				return d.Verdict == tool.Allow || d.Verdict == tool.Ask && d.By == tool.ByMode &&
					x.Mode == tool.ModeAuto
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
	got := Nearest(bash(t, tool.ModePlan, line), func(Change) bool { tries++; return false })
	if got != "" || tries != 50 {
		t.Errorf("nearest %q after %d evaluations, want none after 50", got, tries)
	}
}

func TestExplainIsTheDecision(t *testing.T) {
	e := newEngine(t, Options{Rules: permission.Rules{Allow: []string{"Bash"}}})
	c := bash(t, tool.ModeAuto, "git push -f")
	_, x := explain(t, e, c)
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
	d := decide(t, newEngine(t, Options{}), bash(t, tool.ModeAuto, line))
	d.Obligations.NoNetwork, d.Obligations.ReadOnly, d.Obligations.WallSeconds = true, true, 5
	d.Args = json.RawMessage(`{"a":1}`)
	var b bytes.Buffer
	PrintDecision(&b, d, line)
	for _, want := range []string{
		"deny, decided by the rule core.nested_sandbox (policy revision ", "core.nested_sandbox: bwrap makes", "    " + line + "\n            ^^^^^^^^\n", "    hint: ",
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
}

func TestConditionsArePrintedWhereTheyAreSet(t *testing.T) {
	for want, o := range map[string]guard.Obligations{
		"": {}, "no network": {NoNetwork: true}, "nothing is written": {ReadOnly: true}, "ends within 7 s": {WallSeconds: 7},
	} {
		var out bytes.Buffer
		PrintDecision(&out, tool.Decision{Verdict: tool.Allow, Obligations: o}, "")
		_, got, _ := strings.Cut(out.String(), "on condition: ")
		if strings.TrimSpace(got) != want {
			t.Errorf("%+v: %q, want the condition %q alone", o, out.String(), want)
		}
	}
}

func TestTheFirstLineNamesWhatDecided(t *testing.T) {
	for _, tt := range []struct {
		by        tool.By
		id, first string
	}{
		{tool.ByRule, "acme.branches.main", "ask, decided by the rule acme.branches.main (policy revision r1)"},
		{tool.ByRule, "ask Bash(git push *)", "ask, decided by the rule ask Bash(git push *) (policy revision r1)"},
		{tool.ByMode, "mode:plan", "ask, decided by mode plan (policy revision r1)"},
		{tool.ByFloor, "floor:allowUnsandboxedCommands", "ask, decided by the sandbox settings: allowUnsandboxedCommands (policy revision r1)"},
		{tool.ByFloor, "network.unlisted: ask", "ask, decided by the sandbox settings: network.unlisted: ask (policy revision r1)"},
		{tool.ByTool, "tool:ask-once", "ask, decided by the permission of the tool: ask-once (policy revision r1)"},
		{tool.ByHook, "hook", "ask, decided by a hook (policy revision r1)"},
		{tool.ByCore, "core.timeout", "ask, decided by core.timeout (policy revision r1)"},
	} {
		var b bytes.Buffer
		PrintDecision(&b, tool.Decision{
			Verdict: tool.Ask, By: tt.by, Revision: "r1", Reasons: []tool.Reason{{Rule: tt.id}, {Rule: "another"}},
		}, "")
		if first, _, _ := strings.Cut(b.String(), "\n"); first != tt.first {
			t.Errorf("got  %s\nwant %s", first, tt.first)
		}
	}
	var b bytes.Buffer
	PrintDecision(&b, tool.Decision{}, "")
	if !strings.HasPrefix(b.String(), "deny, decided by nothing, which denies\n") {
		t.Errorf("the zero decision: %s", b.String())
	}
}
