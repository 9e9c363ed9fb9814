package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// cage is a sandbox that confines nothing, and notes what is started in it.
type cage struct {
	started []sandbox.Spec
	open    int
	exit    sandbox.Exit // of every program, where it says anything
}

func (c *cage) box(context.Context) (sandbox.Box, error) {
	c.open++
	return cageBox{c}, nil
}

type cageBox struct{ c *cage }

func (cageBox) Open(context.Context, guard.PathUse, int) (*os.File, error) {
	return nil, errors.New("no files here")
}

func (b cageBox) Judged(egress.Judge) sandbox.Box { return b }
func (cageBox) Ledger() egress.Ledger             { return egress.Ledger{} }
func (cageBox) Dial(context.Context, egress.Connection) (net.Conn, error) {
	return nil, errors.New("no network here")
}
func (b cageBox) As(sandbox.User) sandbox.Box            { return b }
func (cageBox) Do(_ guard.PathUse, f func() error) error { return f() }
func (cageBox) LookPath(string) (string, []string)       { return "", nil }
func (cageBox) Report() sandbox.Report                   { return sandbox.Report{} }
func (b cageBox) Close() error                           { b.c.open--; return nil }

func (b cageBox) Start(ctx context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	b.c.started = append(b.c.started, s)
	cmd := exec.CommandContext(ctx, s.Argv[0], s.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Dir, s.Env, s.Stdin, s.Stdout, s.Stderr
	cmd.WaitDelay = pipeGrace
	return cageProc{cmd, b.c.exit}, cmd.Start()
}

type cageProc struct {
	cmd  *exec.Cmd
	exit sandbox.Exit
}

func (p cageProc) Apart() bool             { return false }
func (cageProc) Sweep() []sandbox.Denial   { return nil }
func (p cageProc) Terminate(time.Duration) {}

func (p cageProc) Dial(context.Context, uint16) (net.Conn, error) { return nil, net.ErrClosed }

func (p cageProc) Wait() (sandbox.Exit, error) {
	err := p.cmd.Wait()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		return sandbox.Exit{}, err
	}
	e := p.exit
	e.Code = p.cmd.ProcessState.ExitCode()
	return e, nil
}

// TestH31_CommandsRunInTheSandboxIfConfiguredSo shows where a command hook runs:
// outside with a clean environment (TestH06), or inside where its definition says
// so. That agents cannot register hooks is TestH31 of package api.
func TestH31_CommandsRunInTheSandboxIfConfiguredSo(t *testing.T) {
	big := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	for _, tt := range []struct {
		name string
		def  Definition
		exit sandbox.Exit
		want tool.Advice
	}{
		{"what it says counts", Definition{Command: `test "$HOOK_TOOL_NAME" = Bash && grep -q '"toolName":"Bash"' && echo '{"block": true, "reason": "no"}'`}, sandbox.Exit{}, tool.Advice{Block: true, Reason: "no"}},
		{
			"exit 2 blocks",
			Definition{Command: "echo never >&2; exit 2"},
			sandbox.Exit{},
			tool.Advice{Block: true, Reason: "never"},
		},
		{"it need not read its input", Definition{Command: "exit 0"}, sandbox.Exit{}, tool.Advice{}},
		{"a failure fails closed", Definition{Command: "exit 1", Name: "h"}, sandbox.Exit{}, tool.Advice{
			Block: true, Reason: `hook "h" failed, and blocks when it fails`,
		}},
		{"a limit is a failure", Definition{Command: "exit 0", Name: "h"}, sandbox.Exit{Limit: "memory"}, tool.Advice{
			Block: true, Reason: `hook "h" failed, and blocks when it fails`,
		}},
		{"too much output is a failure", Definition{Command: "head -c 3000000 /dev/zero", Name: "h"}, sandbox.Exit{}, tool.Advice{Block: true, Reason: `hook "h" failed, and blocks when it fails`}},
		{"so is its time-out", Definition{Command: "exec sleep 1000", Name: "h", TimeoutMS: 50}, sandbox.Exit{}, tool.Advice{Block: true, Reason: `hook "h" failed (timed out after 50ms), and blocks when it fails`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &cage{exit: tt.exit}
			tt.def.Sandbox = true
			r, err := New(Options{Hooks: map[string][]Definition{"preToolUse": {tt.def}}, Box: c.box})
			if err != nil {
				t.Fatal(err)
			}
			a, err := r.Fire(t.Context(), PreToolUse, Input{
				ToolName: "Bash", SessionID: "s1", Cwd: "/src", ToolInput: big,
			})
			if err != nil || a.Advice.Block != tt.want.Block || a.Advice.Reason != tt.want.Reason {
				t.Errorf("got %+v, %v, want %+v", a.Advice, err, tt.want)
			}
			if len(c.started) != 1 || c.open != 0 {
				t.Fatalf("started %d programs, left %d boxes open", len(c.started), c.open)
			}
			s := c.started[0]
			if s.Limits.OutputAction != guard.OutputKill {
				t.Error("a part of its answer would count")
			}
			if s.Dir != "/" || !slices.Equal(s.Env,
				[]string{"HOOK_EVENT=preToolUse", "HOOK_TOOL_NAME=Bash", "HOOK_SESSION_ID=s1", "HOOK_CWD=/src"}) {
				t.Errorf("it ran in %s with %q", s.Dir, s.Env)
			}
		})
	}
	c := &cage{}
	r, err := New(Options{Hooks: map[string][]Definition{"preToolUse": {{Command: "true"}}}, Box: c.box})
	if err != nil {
		t.Fatal(err)
	}
	if before(t, r, bash("ls")); len(c.started) != 0 {
		t.Error("a hook runs in the sandbox without being told to")
	}
	r = newRegistry(t, PreToolUse, Definition{Command: "true", Sandbox: true})
	if a := before(t, r, bash("ls")); !a.Block {
		t.Error("without a sandbox it ran outside of one")
	}
}

// A setting that does nothing is an error.
func TestOnlyCommandsAreSandboxed(t *testing.T) {
	for _, d := range []Definition{
		{URL: "http://127.0.0.1:1/hook", Sandbox: true},
		{Handler: func(context.Context, Input) (*Output, error) { return nil, nil }, Sandbox: true},
	} {
		_, err := New(Options{Hooks: map[string][]Definition{"preToolUse": {d}}})
		if err == nil || !strings.Contains(err.Error(), "sandbox is for commands") {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

func TestTryChangesNothing(t *testing.T) {
	told := 0
	notification := &Notification{Title: "t"}
	r, err := New(Options{
		Hooks: map[string][]Definition{
			"preToolUse": {
				says(Output{
					PermissionUpdate: &PermissionUpdate{Tool: "Bash", Behavior: "deny"},
					Notification:     notification,
				}),
				{Command: "echo no >&2; exit 2", Matcher: "Bash"},
				{Command: "true", Matcher: "Read"},
			},
			"notification": {{Handler: func(context.Context, Input) (*Output, error) { told++; return nil, nil }}},
		},
		Notify:  func(string, Notification) { told++ },
		Observe: func(Run) { told++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.Try(t.Context(), PreToolUse, Input{ToolName: "Bash", SessionID: "s1"})
	if err != nil || len(a.Runs) != 3 || !a.Advice.Block || a.Advice.Reason != "no" || !a.Runs[2].Skipped ||
		a.Runs[1].Duration <= 0 {
		t.Errorf("got %+v, %v", a, err)
	}
	if told != 0 {
		t.Errorf("somebody was told %d times", told)
	}
	if err := r.Replace(nil); err != nil {
		t.Fatal(err)
	}
	if before(t, r, bash("ls")).Block {
		t.Error("the permission of a trial is kept")
	}
}

func TestTimeOverBeforeTheSandboxIsMade(t *testing.T) {
	slow := func(ctx context.Context) (sandbox.Box, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r, err := New(Options{Box: slow, Hooks: map[string][]Definition{
		"preToolUse": {{Command: "true", Name: "h", TimeoutMS: 1, Sandbox: true}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `hook "h" failed (timed out after 1ms), and blocks when it fails`
	if a := before(t, r, bash("ls")); !a.Block || a.Reason != want {
		t.Errorf("got %+v, want %s", a, want)
	}
}
