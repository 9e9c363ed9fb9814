package policy

import (
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// What is said of Bash by its name holds for the name that Codex has for it. What allows is the exception: who allows
// Bash need not know that there is another name.
func TestWhatIsSaidOfBashHoldsForExecCommand(t *testing.T) {
	for _, tt := range []struct {
		name  string
		allow string // the tool that a rule allows
		opts  Options
		want  tool.Verdict
	}{
		{"nothing", "exec_command", Options{}, tool.Allow},
		{"denied by a rule", "exec_command", Options{Rules: permission.Rules{Deny: []string{"Bash"}}}, tool.Deny},
		{"asked about by a rule", "exec_command", Options{Rules: permission.Rules{Ask: []string{"Bash"}}}, tool.Ask},
		{"denied by a list", "exec_command", Options{Policies: []callback.ListPolicy{
			{Kind: "denylist", Tools: []string{"Bash"}},
		}}, tool.Deny},
		{"allowed by a rule", "Bash", Options{}, tool.Ask},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCall(t, tool.ModeDefault, "exec_command", map[string]string{"cmd": "id"})
			c.Request.Tool = "exec_command"
			if err := testFacts(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			tt.opts.Rules.Allow = []string{tt.allow}
			if d := decide(t, newEngine(t, tt.opts), c); d.Verdict != tt.want {
				t.Errorf("got %+v, want %s", d, tt.want)
			}
		})
	}
}
