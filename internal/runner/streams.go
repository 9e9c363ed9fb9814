package runner

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sandboxd/sandboxd/guard"
)

// streams returns where a program's output goes. A terminal is handed on as it is,
// so that it stays one; anything else passes through here and is counted, for
// outputBytes. When both streams are one file, they stay one, which keeps the order.
func streams(stdout, stderr *os.File) (out, errs io.Writer) {
	// This process catches SIGPIPE, so it goes on when a reader has gone, and records
	// how the program ended.
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

// passing hides the file behind a writer.
type passing struct{ w io.Writer }

func (p *passing) Write(b []byte) (int, error) { return p.w.Write(b) }

// RaiseOutputLimit lets a program whose output goes to whoever started it print
// more than a program whose output becomes a result. A limit that somebody set
// stays as it is.
func RaiseOutputLimit(s *guard.Settings) {
	if s.Limits.OutputBytes == guard.DefaultLimits.OutputBytes || s.Limits.OutputBytes == 0 {
		s.Limits.OutputBytes = outputBytes
	}
}

// RaiseWallLimit lets a program that a person sits before run for a month. A limit that
// somebody set stays as it is.
func RaiseWallLimit(s *guard.Settings) {
	if s.Limits.WallSeconds == guard.DefaultLimits.WallSeconds || s.Limits.WallSeconds == 0 {
		s.Limits.WallSeconds = month
	}
}

const month = 30 * 24 * 60 * 60

// outputBytes bounds what one program may print in all, unless the settings have a limit.
const outputBytes = 16 << 20
