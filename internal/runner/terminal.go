package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/sandbox"
)

// NewTerminal returns the tool for a program on a new terminal of its own. What is typed at in
// goes there, and what the program draws comes out at out as far as it only draws: the program
// has no descriptor of the terminal of this process, and cannot make it do anything else.
func NewTerminal(in, out *os.File) (*Program, error) {
	if !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, &tool.Error{
			Code: "not_a_terminal", Msg: "standard input and output are no terminal, and -t needs one",
			Hint: "leave -t out: the program gets the streams as they are",
		}
	}
	return &Program{terminal: &terminal{in: in, out: out}}, nil
}

// terminal is the person's.
type terminal struct{ in, out *os.File }

// start runs a program on a terminal of its own to its end.
func (t *terminal) start(ctx context.Context, s sandbox.Spec, box sandbox.Box) (exit sandbox.Exit, err error) {
	here, there, err := pty.Open()
	if err != nil {
		return exit, fmt.Errorf("open a terminal for the program: %w", err)
	}
	defer here.Close()
	t.resize(here)
	s.Stdin, s.Stdout, s.Stderr, s.Terminal = there, there, there, true
	if name := os.Getenv("TERM"); name != "" {
		s.Env = append(s.Env, "TERM="+name)
	}
	proc, err := box.Start(ctx, s)
	there.Close()
	if err != nil {
		return exit, err
	}
	// From here on keys go to the program, Ctrl-C too.
	old, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		proc.Terminate(0)
		_, _ = proc.Wait() // the error that is returned says why it was ended
		return exit, fmt.Errorf("prepare the terminal: %w", err)
	}
	defer func() { err = errors.Join(err, term.Restore(int(t.in.Fd()), old)) }()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer func() { signal.Stop(resized); close(resized) }()
	go func() {
		for range resized {
			t.resize(here)
		}
	}()
	go func() { _, _ = io.Copy(here, onlyReader{t.in}) }() // until this process ends
	var drawn sync.WaitGroup
	drawn.Go(func() { // ends with an error, when the last program is gone
		_, _ = io.Copy(visible.NewScreen(t.out), onlyReader{here})
	})
	exit, err = proc.Wait()
	drawn.Wait()
	return exit, err
}

// resize gives a terminal the size of the person's terminal. After a failure the next change of size tries again.
func (t *terminal) resize(here *os.File) { _ = pty.InheritSize(t.out, here) }

// onlyReader hides the method WriteTo of a file, so that a copy uses the buffer that it is given.
type onlyReader struct{ io.Reader }
