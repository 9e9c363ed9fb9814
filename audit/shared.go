package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandboxd/sandboxd/tool"
)

// lockPatience is how long an append waits for other processes that append.
const lockPatience = 2 * time.Second

// Shared is a record for programs that are not the daemon, such as a single
// exec: every line takes the state lock, opens the log, is written, synced and
// mirrored, and lets go again, so that several of them can run side by side.
// While a daemon runs its errors are [*Held]; hand the record to the daemon then.
type Shared struct {
	Options Options
	// OpenMirror opens the database; the Closer is closed after the line.
	OpenMirror func(context.Context) (Mirror, io.Closer, error)
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
func (s Shared) Append(ctx context.Context, e Event) error {
	return s.with(ctx, func(l *Log) error { return l.Append(ctx, e) })
}

func (s Shared) with(ctx context.Context, do func(*Log) error) (err error) {
	lock, err := waitState(ctx, s.Options.Dir, lockPatience)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	mirror, db, err := s.OpenMirror(ctx)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := Open(ctx, s.Options, mirror)
	if err != nil {
		return err
	}
	// No checkpoint per line: the head in the mirror is signed and covers it.
	defer func() { err = errors.Join(err, l.close(false)) }()
	return do(l)
}
