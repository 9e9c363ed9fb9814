package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// codex is a call of Bash by the name and the fields of Codex.
func codex(args string) *tool.Call {
	c := bash("")
	c.Spec.Name, c.Request.Tool, c.In.Home = "exec_command", "exec_command", "/home/u"
	c.Request.Args, c.In.Args = json.RawMessage(args), json.RawMessage(args)
	return c
}

// A hook that knows Bash sees each event of exec_command as one of Bash, and finds the other name beside it.
func TestAHookSeesExecCommandAsBash(t *testing.T) {
	var heard []string
	hear := []Definition{{Matcher: "^Bash$", Handler: func(_ context.Context, in Input) (*Output, error) {
		heard = append(heard, fmt.Sprint(in.Event, in.ToolName, in.CalledAs, string(in.ToolInput), in.Cwd))
		return nil, nil
	}}}
	all := map[string][]Definition{}
	for _, e := range []Event{PreToolUse, PermissionRequest, PostToolUse, PermissionDenied, Stop} {
		all[string(e)] = hear
	}
	r, err := New(Options{Hooks: all})
	if err != nil {
		t.Fatal(err)
	}
	c := codex(`{"cmd":"make deploy","workdir":"sub","tty":true}`)
	before(t, r, c)
	c.Result.Status = tool.StatusSuccess
	if _, err := r.After(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	r.Refused(t.Context(), c)
	// A client tells of a call that was made without the daemon, and cannot say itself what it is.
	told := Input{ToolName: "exec_command", CalledAs: "Read", ToolInput: c.In.Args, Cwd: "/src"}
	if _, err := r.Fire(t.Context(), Stop, told); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fire(t.Context(), Stop, Input{ToolName: "Bash", CalledAs: "exec_command"}); err != nil {
		t.Fatal(err)
	}
	const seen = `Bashexec_command{"command":"make deploy","tty":true,"workdir":"sub"}/src`
	want := []string{
		"preToolUse" + seen + "/sub", "permissionRequest" + seen + "/sub", "postToolUse" + seen + "/sub",
		"permissionDenied" + seen + "/sub", "stop" + seen, "stopBash",
	}
	if !slices.Equal(heard, want) {
		t.Errorf("heard\n%s\nwant\n%s", strings.Join(heard, "\n"), strings.Join(want, "\n"))
	}
}

// What a hook puts in place of the arguments it saw runs, in the fields of the tool; the next hook sees it as Bash.
func TestOtherArgumentsForExecCommand(t *testing.T) {
	for _, tt := range []struct{ name, updated, want, next string }{
		{"the command", `{"command":"ls"}`, `{"cmd":"ls","workdir":"/b"}`, `{"command":"ls","workdir":"/b"}`},
		{"its own fields", `{"cmd":"ls","workdir":"/c"}`, `{"cmd":"ls","workdir":"/c"}`, `{"command":"ls","workdir":"/c"}`},
		{"both commands", `{"cmd":"ls","command":"rm"}`, "", `{"command":"a","workdir":"/b"}`},
	} {
		var next string
		r := newRegistry(t, PreToolUse, says(Output{UpdatedInput: json.RawMessage(tt.updated)}),
			Definition{Handler: func(_ context.Context, in Input) (*Output, error) {
				next = string(in.ToolInput)
				return nil, nil
			}})
		a := before(t, r, codex(`{"cmd":"a","workdir":"/b"}`))
		if string(a.Args) != tt.want || a.Block != (tt.want == "") || next != tt.next {
			t.Errorf("%s: got %+v with %s, and the next hook saw %s", tt.name, a, a.Args, next)
		}
	}
}

// A program sees one spelling of an input, whatever the model wrote: a guard that looks for a text finds it.
func TestAHookReadsOneSpellingOfTheInput(t *testing.T) {
	for _, tt := range []struct{ name, args, want string }{
		{"an escape", `{"command":"\u006d\u0061ke deploy"}`, `{"command":"make deploy"}`},
		{"an escape in a name", `{"c\u006fmmand":"make deploy"}`, `{"command":"make deploy"}`},
		{"a slash", `{"command":"cat \/etc\/passwd"}`, `{"command":"cat /etc/passwd"}`},
		{"blanks and order", "{ \"b\" : [ 1.0 ,\n{} ], \"a\" : \"x\" }", `{"a":"x","b":[1.0,{}]}`},
		{"what HTML escapes", `{"command":"a <b >c && d\u003e\u0026"}`, `{"command":"a <b >c && d>&"}`},
		{"a character beyond the first plane", `{"command":"\ud83d\ude00"}`, `{"command":"😀"}`},
	} {
		args := json.RawMessage(tt.args)
		text, err := Input{Event: PreToolUse, ToolInput: args, PermissionSuggestions: args}.encode()
		if n := strings.Count(string(text), tt.want); err != nil || n != 3 {
			t.Errorf("%s: %s, %v has %s %d times, want 3", tt.name, text, err, tt.want, n)
		}
	}
	if text, err := (Input{Event: Stop, Prompt: "a <b> & c"}).encode(); err != nil ||
		string(text) != `{"event":"stop","prompt":"a <b> & c","hook_event_name":"Stop"}` {
		t.Errorf("got %s, %v", text, err)
	}
	for _, bad := range []string{`{"a":1,"a":2}`, `{"a":"\ud800"}`, `{`} {
		if _, err := (Input{Event: PreToolUse, ToolInput: json.RawMessage(bad)}).encode(); err == nil {
			t.Errorf("%s is told", bad)
		}
	}
}

// The guard of docs/hooks.md stops exec_command as it stops Bash, whatever its matcher names.
func TestACommandForBashStopsExecCommand(t *testing.T) {
	out := t.TempDir() + "/env"
	guard := Definition{Command: `env > ` + out +
		`; if grep -q '"command":"make deploy'; then echo 'deploy by hand' >&2; exit 2; fi`}
	for _, matcher := range []string{"", "^Bash$", "^exec_command$"} {
		guard.Matcher = matcher
		a := before(t, newRegistry(t, PreToolUse, guard), codex(`{"cmd":"make deploy","workdir":"/b"}`))
		if !a.Block || a.Reason != "deploy by hand" {
			t.Errorf("matcher %q: got %+v", matcher, a)
		}
	}
	env, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(env), "HOOK_TOOL_NAME=Bash\n") ||
		!strings.Contains(string(env), "HOOK_CWD=/b\n") {
		t.Errorf("the environment is %s, %v", env, err)
	}
}

// TestTheBasisOfAnAdvice is another one where other hooks, or hooks of another environment, would be asked about a call,
// and where one said something of the tool meanwhile. It is the same after a reload that changes nothing of that.
func TestTheBasisOfAnAdvice(t *testing.T) {
	guard := Definition{Command: "/bin/true", Matcher: "^Bash$"}
	other := guard
	other.TimeoutMS = 7
	of := func(defs ...Definition) map[string][]Definition { return map[string][]Definition{"preToolUse": defs} }
	r, err := New(Options{Hooks: of(guard)})
	if err != nil {
		t.Fatal(err)
	}
	basis := func(r *Registry, c *tool.Call) string {
		t.Helper()
		text, err := r.Basis(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	child := bash("ls")
	child.Request.Session, child.Session.ID, child.Session.Above = "s2", "s2", []tool.Session{{ID: "s1"}}
	for _, tt := range []struct {
		name string
		next Options
		call *tool.Call
		same bool
	}{
		{"the same", Options{Hooks: of(guard)}, bash("ls"), true},
		{"one of another tool", Options{Hooks: of(guard, Definition{Command: "/bin/false", Matcher: "^Read$"})}, bash("ls"), true},
		{"one of another event", Options{Hooks: map[string][]Definition{"preToolUse": {guard}, "stop": {other}}}, bash("ls"), true},
		{"none", Options{}, bash("ls"), false},
		{"one more", Options{Hooks: of(guard, other)}, bash("ls"), false},
		{"another definition", Options{Hooks: of(other)}, bash("ls"), false},
		{"one more of the other event", Options{Hooks: map[string][]Definition{"preToolUse": {guard}, "permissionRequest": {guard}}}, bash("ls"), false},
		{"another environment", Options{Hooks: of(guard), Env: map[string]string{"A": "b"}}, bash("ls"), false},
		{"of Bash, by its other name", Options{Hooks: of(guard, other)}, codex(`{"cmd":"ls"}`), false},
	} {
		next, err := r.Next(tt.next)
		if err != nil {
			t.Fatal(err)
		}
		if got := basis(next, tt.call) == basis(r, tt.call); got != tt.same {
			t.Errorf("%s: the basis is the same: %v, want %v", tt.name, got, tt.same)
		}
	}
	was, below, read := basis(r, bash("ls")), basis(r, child), bash("ls")
	read.Spec.Name = "Read"
	ofRead := basis(r, read)
	if err := r.grants.set(t.Context(), "s1", PermissionUpdate{"Bash", "deny"}); err != nil {
		t.Fatal(err)
	}
	if basis(r, bash("ls")) == was || basis(r, child) == below || basis(r, read) != ofRead {
		t.Error("what a hook said of Bash is in no basis, or in that of Read")
	}
}
