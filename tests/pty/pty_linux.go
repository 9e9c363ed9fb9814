// Package pty gives tests a terminal to run programs on.
//
//	person, program := pty.Open(t, 80)
//	cmd := exec.Command("bash", "-c", "read -p 'run it? ' answer")
//	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
//	cmd.SysProcAttr = pty.Session()
//	err := cmd.Start()
//	screen := pty.Until(t, person, "run it?") // fails the test after a minute without output
//	person.WriteString("n\n")
//
// Where the host has no terminals, package needs skips or fails the test. When the test ends, both
// ends are closed. The test itself must end the program. Until consumes what it reads: text after the match is in
// its result, and the next Until does not see it.
//
// This package has no tests of its own. Tests that use it test it.
package pty

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	terminal "github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// Open returns both ends of a new terminal with this number of columns. The person types and reads at one,
// the program at the other.
func Open(t testing.TB, columns uint16) (person, program *os.File) {
	t.Helper()
	person, program, err := terminal.Open()
	if err != nil {
		needs.Missing(t, "no terminals here: %v", err)
	}
	t.Cleanup(func() {
		person.Close()
		program.Close()
	})
	if err := terminal.Setsize(person, &terminal.Winsize{Rows: 24, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	return person, program
}

// Session returns attributes that make the stdin of a command its controlling terminal, so that
// Ctrl-C is a signal to it.
func Session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true, Setctty: true} }

// Until reads what the program shows until text is in it. A minute without output fails the test; so does the end of
// the terminal, at once.
func Until(t testing.TB, person *os.File, text string) string {
	t.Helper()
	var screen strings.Builder
	b := make([]byte, 4096)
	for !strings.Contains(screen.String(), text) {
		fds := []unix.PollFd{{Fd: int32(person.Fd()), Events: unix.POLLIN}}
		shown, err := unix.Poll(fds, int(time.Minute/time.Millisecond))
		if shown == 0 && err == nil {
			t.Fatalf("%q never came, the screen until then:\n%s", text, screen.String())
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		n, err := person.Read(b)
		if err != nil {
			t.Fatalf("%v; %q never came, the screen until then:\n%s", err, text, screen.String())
		}
		screen.Write(b[:n])
	}
	return screen.String()
}
