package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"
)

// execStreams are where a command's output goes. A terminal is handed on as it is,
// so that it stays one; anything else passes through here and is counted, for
// outputBytes. When both streams are one file, they stay one, which keeps the order.
func execStreams(stdout, stderr *os.File) (out, errs io.Writer) {
	// Written to a reader that has gone, the end of the command is told and
	// recorded, and not only this process's own.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	out, errs = counted(stdout), counted(stderr)
	a, aerr := stdout.Stat()
	b, berr := stderr.Stat()
	if aerr == nil && berr == nil && os.SameFile(a, b) {
		errs = out
	}
	return out, errs
}

func counted(f *os.File) io.Writer {
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
		return f
	}
	return &passing{f}
}

// passing hides that there is a file behind it.
type passing struct{ w io.Writer }

func (p *passing) Write(b []byte) (int, error) { return p.w.Write(b) }
