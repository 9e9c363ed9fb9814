package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// input is stdin for commands that read it. On a terminal it says that it waits. It
// ends with ctx: a blocked read would keep a command alive that was interrupted.
type input struct {
	ctx  context.Context
	file *os.File
	err  io.Writer
	once sync.Once
}

// Read implements [io.Reader].
func (i *input) Read(p []byte) (int, error) {
	i.once.Do(func() {
		if term.IsTerminal(int(i.file.Fd())) {
			fmt.Fprintln(i.err, "waiting for input on the terminal: Ctrl-D ends it, Ctrl-C leaves")
		}
	})
	type result struct {
		n   int
		err error
	}
	// Not into p: the caller has it back when ctx ends before the read does.
	own := make([]byte, len(p))
	done := make(chan result, 1)
	go func() {
		n, err := i.file.Read(own)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return copy(p, own[:max(r.n, 0)]), r.err
	case <-i.ctx.Done():
		return 0, context.Cause(i.ctx)
	}
}
