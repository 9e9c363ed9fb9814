//go:build !race

// What is tried here happens in other programs, which the race detector does not see.

package hooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// held is a FIFO that a program holds open with all that it starts, as descriptor 9.
type held struct {
	path string
	text chan string // what was written into it, when nobody holds it any more
}

func newHeld(t *testing.T) held {
	t.Helper()
	h := held{filepath.Join(t.TempDir(), "held"), make(chan string, 1)}
	if err := syscall.Mkfifo(h.path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		f, err := os.Open(h.path)
		if err != nil {
			return
		}
		defer f.Close()
		text, _ := io.ReadAll(f)
		h.text <- string(text)
	}()
	return h
}

// released waits until nobody holds it. It says what was written into it.
func (h held) released(t *testing.T) string {
	t.Helper()
	select {
	case text := <-h.text:
		return text
	case <-time.After(2 * time.Minute):
		t.Error("something lives on")
		return ""
	}
}

// escapes are ways to leave the parents, the process group, the session and the environment of a program.
var escapes = []struct{ name, do string }{
	{"a child", `(sleep 600 &)`},
	{"twice forked, with an empty environment", `(setsid env -i /bin/sh -c 'echo x >&9; exec /bin/sleep 600' &)`},
	{"stopped", `(setsid env -i /bin/sh -c 'kill -STOP $$; /bin/sleep 600' &)`},
	{"deaf, a session each", `for i in 1 2 3 4; do (trap '' TERM HUP INT; setsid env -i /bin/sleep 600 &); done`},
	{"forks for ever and never runs another program", `f() { f & }; f`},
	{"runs itself for ever in new sessions", `cat > $0.again <<'!'
#!/bin/sh
setsid env -i "$0" &
!
chmod +x $0.again; $0.again`},
}

// TestNothingLivesAfterAHook holds it by what the processes hold open themselves, not by what /proc says.
func TestNothingLivesAfterAHook(t *testing.T) {
	for _, end := range []struct{ name, how, fails string }{
		{"that ends", "", ""},
		{"that is killed", "; kill -9 $$", "signal: killed"},
		{"that hangs", "; echo > $0.on; sleep 600", "context canceled"},
	} {
		for _, tt := range escapes {
			t.Run(tt.name+" of one "+end.name, func(t *testing.T) {
				h := newHeld(t)
				ctx := whenItHangs(t, h, "exec 9>"+h.path+" >/dev/null 2>&1\n"+tt.do+end.how)
				r := newRegistry(t, PreToolUse, Definition{Command: "exec /bin/bash " + h.path + ".sh", TimeoutMS: 600_000})
				a, err := r.Fire(ctx, PreToolUse, Input{})
				got := ""
				if err != nil {
					got = err.Error()
				} else {
					got = a.Runs[0].Err
				}
				if (got == "") != (end.fails == "") || !strings.Contains(got, end.fails) {
					t.Errorf("the hook says %q, want %q", got, end.fails)
				}
				h.released(t)
			})
		}
	}
}

// whenItHangs writes a script beside h. The context is cancelled when the script says that it hangs.
func whenItHangs(t *testing.T, h held, script string) context.Context {
	t.Helper()
	if err := os.WriteFile(h.path+".sh", []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(h.path+".sh.on", 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		_, _ = os.ReadFile(h.path + ".sh.on")
		cancel(errors.Join(tool.ErrAtOnce, context.Canceled))
	}()
	return ctx
}

// TestAHookThatStopsWhatEndsIt: its parent kills what is left of it, and a hook has the rights to stop its parent.
func TestAHookThatStopsWhatEndsIt(t *testing.T) {
	h := newHeld(t)
	parent := h.path + ".parent"
	ctx := whenItHangs(t, h, "exec 9>"+h.path+"\necho $PPID > "+parent+"; kill -STOP $PPID; echo > $0.on; sleep 600")
	r := newRegistry(t, PreToolUse, Definition{Command: "exec /bin/bash " + h.path + ".sh", TimeoutMS: 600_000})
	done := make(chan error, 1)
	go func() {
		_, err := r.Fire(ctx, PreToolUse, Input{})
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the hook ends with %v, want that it was cancelled", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the call still waits")
		text, _ := os.ReadFile(parent)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		<-done
	}
	h.released(t)
}

// TestNothingLivesAfterTheDaemon: also where it is killed.
func TestNothingLivesAfterTheDaemon(t *testing.T) {
	h, running := newHeld(t), newHeld(t)
	daemon := exec.Command("/proc/self/exe", "-fire", "exec 9>"+h.path+"; "+escapes[1].do+
		"; sleep 600 & echo x > "+running.path+"; wait")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Wait()
	defer daemon.Process.Kill()
	running.released(t)
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	h.released(t)
}

// TestNothingLivesAfterTheProgramOfAnAgent: after its answer, and after it was told to end.
func TestNothingLivesAfterTheProgramOfAnAgent(t *testing.T) {
	for _, tt := range escapes {
		t.Run(tt.name, func(t *testing.T) {
			for _, end := range []string{"; echo done", "; trap '' TERM; echo > $0.on; sleep 600"} {
				h := newHeld(t)
				ctx := whenItHangs(t, h, "exec 9>"+h.path+"\n("+tt.do+") >/dev/null 2>&1"+end)
				out, _, err := newRegistry(t, PreToolUse).RunAgent(ctx, tool.AgentProgram{
					Argv: []string{"/bin/bash", h.path + ".sh"}, Started: func() {},
					As: tool.Actor{Identity: tool.Identity{UID: os.Geteuid(), GID: os.Getegid()}},
				})
				if answered := err == nil && string(out) == "done\n"; answered != strings.HasPrefix(end, "; echo") {
					t.Errorf("it ended with %q, %v", out, err)
				}
				h.released(t)
			}
		})
	}
}

// TestTheAnswerOfAnAgentIsBounded: one byte more ends the program, which is told by the error.
func TestTheAnswerOfAnAgentIsBounded(t *testing.T) {
	for more, want := range map[int]string{0: "", 1: "its answer is larger than 16777216 bytes"} {
		out, _, err := newRegistry(t, PreToolUse).RunAgent(t.Context(), tool.AgentProgram{
			Argv:    []string{"/bin/sh", "-c", fmt.Sprintf("head -c %d /dev/zero; [ %d = 0 ] || sleep 600", 16<<20+more, more)},
			Started: func() {}, As: tool.Actor{Identity: tool.Identity{UID: os.Geteuid(), GID: os.Getegid()}},
		})
		if want == "" && (err != nil || len(out) != 16<<20) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: got %d, %v, want %q", 16<<20+more, len(out), err, want)
		}
	}
}

// TestAParentThatIsStoppedBeforeItSaysAnything: a hook can be faster than its parent, which has not said yet that the hook
// runs. A script stands for the parent: it stops itself until it is let go on.
func TestAParentThatIsStoppedBeforeItSaysAnything(t *testing.T) {
	child := filepath.Join(t.TempDir(), "child")
	if err := os.WriteFile(child, []byte("#!/bin/sh\necho > $0.on\nkill -STOP $$\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(child+".on", 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRegistry(t, PreToolUse, Definition{Command: "true", TimeoutMS: 600_000})
	r.opts.Child = child
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.Fire(ctx, PreToolUse, Input{})
		done <- err
	}()
	if _, err := os.ReadFile(child + ".on"); err != nil {
		t.Error(err)
	}
	cancel()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("the call still waits")
	}
}

// TestAProgramIsAskedToEnd before it is killed, where it gets a grace.
func TestAProgramIsAskedToEnd(t *testing.T) {
	h := newHeld(t)
	ctx := whenItHangs(t, h, "trap 'echo asked; exit' TERM\n(echo > $0.on) &\nsleep 600 & wait")
	out := &capped{max: 100}
	p := program{argv: []string{"/bin/bash", h.path + ".sh"}, env: os.Environ(), stdout: out}
	x, err := newRegistry(t, PreToolUse).start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.wait(ctx, func() time.Duration { return time.Hour })
	if !errors.Is(err, context.Canceled) || out.buf.String() != "asked\n" {
		t.Errorf("it printed %q: %v", out.buf.String(), err)
	}
}

// TestAHookIsInASessionOfItsOwn: so it has no terminal, and no ^C that is typed for the daemon ends what ends it.
func TestAHookIsInASessionOfItsOwn(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	r := newRegistry(t, PreToolUse, Definition{Command: `while read name value; do case $name in PPid:) cat /proc/$value/stat; esac; done < /proc/$$/status > ` + out})
	if a, err := r.Fire(t.Context(), PreToolUse, Input{}); err != nil || a.Runs[0].Err != "" {
		t.Fatalf("%+v, %v", a, err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	_, stat, _ := strings.Cut(string(text), ") ") // state, parent, group, session
	ours, err := unix.Getsid(0)
	if f := strings.Fields(stat); err != nil || len(f) < 4 || f[3] == strconv.Itoa(ours) {
		t.Errorf("the parent of the hook has %q, and the session of the daemon is %d (%v)", text, ours, err)
	}
}

// TestWhoLeftItsParentsIsStillOfTheHook: such a process has the uid of the daemon.
func TestWhoLeftItsParentsIsStillOfTheHook(t *testing.T) {
	h := newHeld(t)
	pids := filepath.Join(t.TempDir(), "pids")
	if err := syscall.Mkfifo(pids, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRegistry(t, PreToolUse, Definition{Command: "exec 9>" + h.path +
		"; (setsid env -i /bin/sh -c 'echo $$ > " + pids + "; exec /bin/sleep 600' &); sleep 600", TimeoutMS: 600_000})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = r.Before(ctx, bash("ls")) // it is cancelled
	}()
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Descends(pid); !ok {
		t.Error("it is taken for somebody else")
	}
	gone := exec.Command("/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Descends(gone.Process.Pid); !ok {
		t.Error("a process that is gone is taken for one that no hook started")
	}
	cancel()
	<-done
	h.released(t)
}
