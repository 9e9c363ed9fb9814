package review

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/tests/pty"
)

// TestWatchOnARealTerminal runs watch in a process of its own on a terminal: raw
// keys, line ends, and the terminal as it was afterwards.
func TestWatchOnARealTerminal(t *testing.T) {
	if os.Getenv("SANDBOXD_TEST_WATCH") != "" {
		watchOneQuestion(t)
		return
	}
	person, program := pty.Open(t, 80)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWatchOnARealTerminal$")
	cmd.Env = append(os.Environ(), "SANDBOXD_TEST_WATCH=1", "NO_COLOR=1")
	var result bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, &result
	cmd.SysProcAttr = pty.Session()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	screen := pty.Until(t, person, "y once")
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
	if err := Watch(ctx, NewQueue(queueAPI{q}), os.Stdin, os.Stdout); err != nil {
		t.Fatal(err)
	}
}
