package policy

import (
	"context"
	"encoding/json"
	"fmt"
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

// The callback is asked about exec_command as about Bash, and what it puts in place of the arguments runs.
func TestTheCallbackSeesExecCommandAsBash(t *testing.T) {
	for _, tt := range []struct {
		name  string
		input string // of the answer
		want  tool.Verdict
		args  string
	}{
		{"no other arguments", ``, tool.Allow, ``},
		{"another command", `{"command":"true"}`, tool.Allow, `{"cmd":"true","workdir":"/w/sub"}`},
		{"two commands", `{"command":"true","cmd":"id"}`, tool.Deny, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCall(t, tool.ModeDefault, "exec_command", map[string]string{"cmd": "id", "workdir": "/w/sub"})
			var asked string
			e := newEngine(t, Options{CanUseTool: func(
				_ context.Context, name string, input json.RawMessage, about callback.Context,
			) (*callback.Opinion, error) {
				asked = fmt.Sprintln(name, about.CalledAs, about.Dir, string(input))
				return allowWith(tt.input), nil
			}})
			d := decide(t, e, c)
			if d.Verdict != tt.want || string(d.Args) != tt.args {
				t.Errorf("got %+v with %s, want %s with %s", d, d.Args, tt.want, tt.args)
			}
			if want := "Bash exec_command /w/sub {\"command\":\"id\",\"workdir\":\"/w/sub\"}\n"; asked != want {
				t.Errorf("it was asked about %s, want %s", asked, want)
			}
		})
	}
}

// allowWith allows a call with other arguments, or with its own if there are none.
func allowWith(input string) *callback.Opinion {
	if input == "" {
		return callback.Allow()
	}
	return callback.AllowWithInput(json.RawMessage(input))
}
