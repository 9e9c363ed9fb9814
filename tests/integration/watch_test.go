package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// screen is approvals watch in tmux.
type screen struct {
	t      *testing.T
	d      *running
	socket string
}

func newScreen(t *testing.T, d *running, columns, lines int) *screen {
	t.Helper()
	needs.Program(t, "tmux")
	s := &screen{t, d, filepath.Join(d.work, "tmux")}
	s.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(lines),
		filepath.Join(bin, "sandboxd")+" approvals watch")
	t.Cleanup(func() { exec.Command("tmux", "-S", s.socket, "kill-server").Run() })
	return s
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...)
	cmd.Env = append(s.d.env, "TERM=screen", "LANG=C.UTF-8", "SHELL=/bin/sh")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// until waits for a text on the screen, pressing a key each second meanwhile:
// keys are ignored while a question is new.
func (s *screen) until(text, key string) string {
	s.t.Helper()
	var got string
	var pressed time.Time
	ok := waitFor(func() bool {
		if got = s.tmux("capture-pane", "-p"); strings.Contains(got, text) {
			return true
		}
		if key != "" && time.Since(pressed) > time.Second {
			pressed = time.Now()
			s.tmux("send-keys", key)
		}
		return false
	})
	if !ok {
		s.t.Fatalf("%q never came on the screen:\n%s", text, got)
	}
	return got
}

// call runs a command of an agent that asks, in a directory of its own.
func (s *screen) call(command string) <-chan string {
	done := make(chan string, 1)
	go func() {
		out, _ := s.d.exec("sandboxd", "call", "Bash", `{"command": "`+command+`"}`) // a refusal is told in the text
		done <- out
	}()
	return done
}

// TestWatchInTmux is a person who lives in approvals watch: a question comes, is
// refused with a reason; another is approved, a third edited.
func TestWatchInTmux(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	s := newScreen(t, d, 80, 40)
	s.until("nothing waits", "")

	refused := s.call("git push --force origin main")
	got := s.until("y once · n refuse · e edit", "")
	for _, want := range []string{
		"== Bash: may this call run?", "git push --force origin main", "^^^^ ^^^^^^^",
		"developer.git.force_push", "stops writes outside", "then it is refused", "[1/1]",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the screen lacks %q:\n%s", want, got)
		}
	}
	s.until("reason for the model", "n")
	s.tmux("send-keys", "-l", "use a branch")
	s.until("use a branch", "")
	s.tmux("send-keys", "Enter")
	if out := <-refused; !strings.Contains(out, "use a branch") {
		t.Errorf("the agent reads %s", out)
	}

	approved := s.call("git push --force origin other; echo after the yes")
	s.until("origin other", "")
	s.until(" approved", "y")
	if out := <-approved; !strings.Contains(out, "after the yes") {
		t.Errorf("the agent reads %s", out)
	}

	edited := s.call("git push --force origin third")
	s.until("origin third", "")
	s.until("edit command", "e")
	s.tmux("send-keys", "C-u")
	s.tmux("send-keys", "-l", `echo "edited in tmux" &&`)
	s.tmux("send-keys", "Enter")
	s.tmux("send-keys", "-l", `echo <over two lines>`)
	s.tmux("send-keys", "Up", "End", "Left", "Left", "Left", "Left")
	s.tmux("send-keys", "-l", `!`)
	if got := s.until(`echo "edited in tmux!" &&`, ""); !strings.Contains(got, "\necho <over two lines>\n") {
		t.Errorf("the text is not shown as it is:\n%s", got)
	}
	s.tmux("send-keys", "Down", "C-u")
	s.tmux("send-keys", "-l", `echo over two lines`)
	s.tmux("send-keys", "C-d")
	s.until("run with this?", "")
	s.tmux("send-keys", "y")
	if out := <-edited; !strings.Contains(out, "edited in tmux!\nover two lines\n") {
		t.Errorf("the agent reads %s", out)
	}
	s.until("nothing waits", "")
}

// TestWatchOnASmallTerminal: at 40 columns and 12 lines all is shown, nothing is drawn
// twice, and a text that is longer than the screen can be edited.
func TestWatchOnASmallTerminal(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	s := newScreen(t, d, 40, 12)
	s.until("nothing waits", "")
	long := strings.Repeat(`true one two three four\n`, 20)
	edited := s.call("git push --force; " + long + "echo end")
	s.until("y once", "")
	s.until("previous question", "?")
	s.until("edit command", "e")
	got := s.until("[15-22 of 22] edit command", "")
	if n := strings.Count(got, "edit command"); n != 1 {
		t.Errorf("the heading is there %d times:\n%s", n, got)
	}
	for range 25 {
		s.tmux("send-keys", "Up")
	}
	got = s.until("git push --force; true one two", "")
	if n := strings.Count(got, "edit command"); n != 1 {
		t.Errorf("the heading is there %d times:\n%s", n, got)
	}
	s.tmux("send-keys", "C-u")
	s.tmux("send-keys", "-l", `echo short`)
	s.until("echo short", "")
	s.tmux("send-keys", "C-d")
	s.until("run with this?", "")
	s.tmux("send-keys", "y")
	if out := <-edited; !strings.Contains(out, "short\nend\n") {
		t.Errorf("the agent reads %s", out)
	}
}
