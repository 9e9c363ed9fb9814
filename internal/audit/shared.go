package audit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Shared is a record for programs that are not the daemon, such as a single
// exec: every line takes the state lock, opens the log, is written, synced and
// mirrored, and lets go again, so that several of them can run side by side.
// While a daemon runs its errors are [*Held]; hand the record to the daemon then.
type Shared struct {
	Options Options
	// OpenMirror opens the database; the Closer is closed after the line.
	OpenMirror func(context.Context) (Mirror, io.Closer, error)
	Locked     bool // whoever writes holds the lock of [LockState] already
}

// Begin is [Log.Begin].
func (s Shared) Begin(ctx context.Context, c *tool.Call) error {
	return s.with(ctx, func(l *Log) error { return l.Begin(ctx, c) })
}

// End is [Log.End].
func (s Shared) End(ctx context.Context, c *tool.Call) error {
	return s.with(ctx, func(l *Log) error { return l.End(ctx, c) })
}

// Append is [Log.Append].
func (s Shared) Append(ctx context.Context, e tool.Note) error {
	return s.with(ctx, func(l *Log) error { return l.Append(ctx, e) })
}

func (s Shared) with(ctx context.Context, do func(*Log) error) (err error) {
	if !s.Locked {
		lock, locked := lockForLine(ctx, s.Options.Dir)
		if locked != nil {
			return fmt.Errorf("audit: %w", locked)
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
	}
	mirror, db, err := s.OpenMirror(ctx)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := open(ctx, s.Options, mirror)
	if err != nil {
		return fmt.Errorf("open audit log %q: %w", s.Options.Path(), err)
	}
	// No checkpoint per line: the head in the mirror is signed and covers it. The anchor is
	// left to the daemon.
	defer func() { err = errors.Join(err, l.close(false)) }()
	return do(l)
}
