package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/store"
)

// openTerminal gives both ends of a new terminal of 80 by 24.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { program.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	return person, program
}

// TestWatchOnARealTerminal runs watch in a process of its own on a terminal: raw
// keys, line ends, and the terminal as it was afterwards.
func TestWatchOnARealTerminal(t *testing.T) {
	if os.Getenv("SANDBOXD_TEST_WATCH") != "" {
		watchOneQuestion(t)
		return
	}
	person, program := openTerminal(t)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWatchOnARealTerminal$")
	cmd.Env = append(os.Environ(), "SANDBOXD_TEST_WATCH=1", "NO_COLOR=1")
	var result bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, &result
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	screen := readUntil(t, person, "y once")
	for _, want := range []string{"git push --force\r\n", "^^^^ ^^^^^^^\r\n", "may this call run?\r\n"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen lacks %q:\n%s", want, screen)
		}
	}
	// Keys are ignored while the question is new, so it is pressed until it counts.
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for tick := time.Tick(100 * time.Millisecond); ; {
		select {
		case <-tick:
			if _, err := person.WriteString("y"); err != nil {
				t.Fatal(err)
			}
			continue
		case err := <-done:
			if err != nil {
				t.Fatalf("%v: %s", err, result.String())
			}
		}
		break
	}
	if got := result.String(); !strings.Contains(got, "answer: true tester") {
		t.Errorf("got %q, want the approval", got)
	}
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if *after != *before {
		t.Errorf("the terminal is left as %+v, was %+v", after, before)
	}
}

// readUntil reads the screen until text is on it.
func readUntil(t *testing.T, person *os.File, text string) string {
	t.Helper()
	var screen strings.Builder
	b := make([]byte, 4096)
	for !strings.Contains(screen.String(), text) {
		n, err := person.Read(b)
		if err != nil {
			t.Fatalf("%v; the screen until then:\n%s", err, screen.String())
		}
		screen.Write(b[:n])
	}
	return screen.String()
}

// watchOneQuestion is the process under test: it ends when its question is
// answered.
func watchOneQuestion(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, approvals.Schema())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	q, err := approvals.New(t.Context(), db, approvals.Options{Approver: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		a, err := q.Execution(context.Background(), askedCall("git push --force"))
		fmt.Fprintln(os.Stderr, "answer:", a.Approved, a.By, err)
		cancel()
	}()
	if err := watchTerminal(ctx, approvalsAPI{queueAPI{q}}); err != nil {
		t.Fatal(err)
	}
}
