package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/tests/pty"
)

// on starts a command of sandboxd on a terminal of its own.
func (d *running) on(columns uint16, args ...string) *person {
	d.t.Helper()
	here, there := pty.Open(d.t, columns)
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), args...)
	cmd.Dir, cmd.Env = d.ws, d.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = there, there, there
	cmd.SysProcAttr = pty.Session()
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	there.Close() // reading ends with the command
	return &person{t: d.t, cmd: cmd, read: func(text string) string { return pty.Until(d.t, here, text) }, typed: func(keys string) {
		if _, err := here.WriteString(keys); err != nil {
			d.t.Fatal(err)
		}
	}}
}

// person is who sits before a command.
type person struct {
	t     testing.TB
	cmd   *exec.Cmd
	read  func(text string) string
	typed func(keys string)
}

// status is the exit status of the command, -1 if a signal ended it.
func (p *person) status() int {
	p.cmd.Wait() // the status says it
	return p.cmd.ProcessState.ExitCode()
}

// A call whose client is ended by a signal said "terminated signal received", and nothing of the call.
func TestACallThatASignalEndsSaysSo(t *testing.T) {
	d := newDaemon(t, "")
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "call", "Bash", `{"command":"mkfifo p; echo begun > p; sleep 1000"}`)
	cmd.Dir, cmd.Env = d.ws, d.env
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	if !waitFor(func() bool { _, err := os.Stat(filepath.Join(d.ws, "p")); return err == nil }) {
		t.Fatal("the command does not begin")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	err := cmd.Wait()
	if err == nil || !strings.Contains(said.String(), "the call is cancelled: terminated signal received") ||
		!strings.Contains(said.String(), "run_in_background") {
		t.Errorf("%v: %s", err, said.String())
	}
}

// TestWhatReadsATerminalSaysSoAndCtrlCEndsIt: these took Ctrl-C for nothing, and said
// nothing.
func TestWhatReadsATerminalSaysSoAndCtrlCEndsIt(t *testing.T) {
	d := newDaemon(t, "")
	for _, tt := range []struct {
		args   string
		status int
	}{
		{"policy bench", 1},
		{"policy explain", 1},
		{"policy eval", 1},
		{"hook", 2}, // which blocks
		{"call Bash -", 1},
		{"check command --jsonl", 1},
		{"vars set name -", 1},
		{"approvals watch --json", 0},
	} {
		p := d.on(80, strings.Fields(tt.args)...)
		p.read("waiting for input on the terminal: Ctrl-D ends it, Ctrl-C leaves")
		p.typed("\x03")
		if got := p.status(); got != tt.status {
			t.Errorf("%s ended with %d, want %d", tt.args, got, tt.status)
		}
	}
	p := d.on(80, "call", "Bash", "-")
	p.read("waiting for input")
	p.typed(`{"command": "echo $((6 * 7))"}` + "\n\x04")
	p.read("42")
}

// TestCtrlCIsNoYes: the question of exec ends with it.
func TestCtrlCIsNoYes(t *testing.T) {
	d := newDaemon(t, "")
	p := d.on(40, "exec", "--", "git", "push", "--force")
	screen := p.read("run it? [y/N]")
	for _, line := range strings.Split(screen, "\n") {
		if line = strings.TrimRight(line, "\r"); !strings.HasPrefix(line, "waiting") && len(plainText(line)) > 40 {
			t.Errorf("a line is wider than the terminal: %q", line)
		}
	}
	p.typed("\x03")
	if got := p.status(); got != 125 {
		t.Errorf("ended with %d, want 125", got)
	}
}

// TestLogOnTerminals: colours where there are some, two rows where it is narrow.
func TestLogOnTerminals(t *testing.T) {
	d := newDaemon(t, "")
	if out, err := d.exec("sandboxd", "call", "Bash", `{"command": "cat ~/.ssh/id_rsa; `+strings.Repeat("echo long; ", 30)+`"}`); err == nil {
		t.Fatalf("it was allowed: %s", out)
	}
	for _, tt := range []struct {
		columns uint16
		env     string
		want    string // in its beginning, as it is sent
	}{
		{80, "X=", "\x1b[1;31mdeny    \x1b[0m \x1b[33mpath_denied\x1b[0m"},
		{80, "NO_COLOR=1", " deny     path_denied  "},
		{80, "TERM=dumb", " deny     path_denied  "},
		{40, "NO_COLOR=1", "\r\n  Bash   cat ~/.ssh/id_rsa; echo long"},
	} {
		env := d.env
		d.env = append(slices.Clone(env), "TERM=xterm", tt.env)
		p := d.on(tt.columns, "log", "-n", "1")
		screen := p.read("…")
		if got := p.status(); got != 0 {
			t.Errorf("ended with %d", got)
		}
		if !strings.Contains(screen, tt.want) {
			t.Errorf("%d columns, %s: got %q, want %q in it", tt.columns, tt.env, screen, tt.want)
		}
		for _, row := range strings.Split(plainText(screen), "\r\n") {
			if n := len([]rune(row)); n > int(tt.columns) {
				t.Errorf("a row has %d columns of %d: %q", n, tt.columns, row)
			}
		}
		d.env = env
	}
}

// plainText is a line of the screen without colours.
func plainText(line string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(line, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, line, _ = strings.Cut(after, "m")
	}
}
