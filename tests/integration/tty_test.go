package integration

import (
	"strings"
	"testing"
)

// TestExecT: a program of exec -t has a terminal of its own, which it controls, with the size
// of the person's; what is typed goes there, Ctrl-C too, and what it draws only draws.
func TestExecT(t *testing.T) {
	d := newDaemon(t, "")
	p := d.on(91, "exec", "-t", "--", "bash", "--norc", "--noprofile")
	p.read("bash-") // the prompt
	p.typed("stty size; tty; echo $((40+2)) end\r")
	screen := p.read("42 end")
	if !strings.Contains(screen, "24 91") {
		t.Errorf("the size: %q", screen)
	}
	// It has no descriptor of the person's terminal, and /dev/tty is its own.
	p.typed("exec 9<>/dev/tty && echo opened $((1+1)); stat -L -c %t:%T /proc/self/fd/0 /dev/fd/9; echo $((40+3)) end\r")
	screen = p.read("43 end")
	if !strings.Contains(screen, "opened 2") {
		t.Errorf("its own terminal: %q", screen)
	}
	// Ctrl-C ends what runs in it, and not exec. What prints has the terminal by then: of bash
	// itself, a moment before it waits, Ctrl-C ends nothing.
	p.typed("sh -c \"echo wai''ting; exec sleep 1000\"; echo after $((40+4))\r")
	p.read("waiting")
	p.typed("\x03")
	p.typed("echo $((40+5)) end\r")
	p.read("45 end")
	// What would do more than draw does not come out.
	p.typed(`printf '\033]0;own''ed\007\033[6n\033]52;c;eA==\033\\\033[31mred\033[0m\n'; echo $((40+6)) end` + "\r")
	screen = p.read("46 end")
	drawn := screen[strings.LastIndex(screen, "\r\n\x1b[31m")+1:]
	if !strings.Contains(screen, "\x1b[31mred\x1b[0m") || strings.Contains(screen, "owned") || strings.Contains(screen, "\x1b[6n") ||
		strings.Contains(screen, "\x1b]") {
		t.Errorf("got %q", drawn)
	}
	// It cannot type for the person.
	p.typed(`python3 -c 'import fcntl,termios; fcntl.ioctl(0, termios.TIOCSTI, b"x")' 2>&1 | tail -1; echo $((40+7)) end` + "\r")
	if screen = p.read("47 end"); !strings.Contains(screen, "PermissionError") && !strings.Contains(screen, "not found") {
		t.Errorf("TIOCSTI: %q", screen)
	}
	p.typed("exit 9\r")
	if got := p.status(); got != 9 {
		t.Errorf("ended with %d, want 9", got)
	}
	if out, err := d.exec("sandboxd", "exec", "-t", "--", "true"); err == nil || !strings.Contains(out, "no terminal") {
		t.Errorf("without a terminal: %v, %s", err, out)
	}
}

// TestAJobOnATerminal: an interpreter that is typed into, resized and ended.
func TestAJobOnATerminal(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	id := d.begin(s, `{"command":"stty size; trap 'stty size' WINCH; while read -r x; do echo \"<$x>\"; done","run_in_background":true,"tty":true,"rows":30,"columns":100}`)
	until := func(text string) string {
		t.Helper()
		var out string
		if !waitFor(func() bool {
			o, err := d.agent.ReadJob(t.Context(), id, 0)
			out = o.Output
			return err == nil && strings.Contains(out, text)
		}) {
			t.Fatalf("%q never came: %q", text, out)
		}
		return out
	}
	until("30 100\r\n")
	if err := d.agent.TypeIntoJob(t.Context(), id, "typed\n", false); err != nil {
		t.Fatal(err)
	}
	until("<typed>\r\n")
	if out, err := d.exec("sandboxd", "jobs", "resize", id, "--rows", "40", "--columns", "120"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := d.agent.TypeIntoJob(t.Context(), id, "again\n", false); err != nil {
		t.Fatal(err)
	}
	until("40 120\r\n")
	if err := d.agent.TypeIntoJob(t.Context(), id, "", true); err != nil { // Ctrl-D
		t.Fatal(err)
	}
	if j := d.ended(id); j.State != "exited" || !j.Terminal {
		t.Errorf("got %+v", j)
	}
	if out, err := d.exec("sandboxd", "jobs", "resize", id); err == nil || !strings.Contains(out, "no terminal") {
		t.Errorf("after the end: %v, %s", err, out)
	}
}
