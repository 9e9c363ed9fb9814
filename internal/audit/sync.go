package audit

import (
	"context"
	"fmt"
	"time"
)

// syncTimeout bounds one write of the mirror; a stuck database must not keep a
// caller waiting for ever.
const syncTimeout = 10 * time.Second

// syncLoop makes lines durable: many with one fsync, at most [Options.SyncEvery]
// after the first of them, at once with Sync "always". At most every [Options.KeepEvery]
// it writes the head beside the key as well.
func (l *Log) syncLoop() {
	defer close(l.done)
	var due <-chan time.Time
	for {
		select {
		case <-l.stop:
			return
		case <-due:
		case <-l.wake:
			if !l.always && !l.pause() {
				return
			}
		}
		for l.flush() != nil {
			if !l.pause() {
				return
			}
		}
		due = l.due()
	}
}

// due returns when the head beside the key must be written, if no line follows; nil is never.
func (l *Log) due() <-chan time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept.Seq >= l.synced && l.kept.Anchored >= l.anchoring.line(l.kept.Anchored) {
		return nil
	}
	return time.After(l.keepEvery - time.Since(l.keptAt))
}

// kick makes the sync loop look whether something is to be done.
func (l *Log) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// pause waits one interval; false means that the log is closing, which flushes
// by itself.
func (l *Log) pause() bool {
	t := time.NewTimer(l.every)
	defer t.Stop()
	select {
	case <-l.stop:
		return false
	case <-t.C:
		return true
	}
}

// flush saves the newest line, and keeps it if that is due. In this order the head never names
// a line that a loss of power could take away from the log or from the database.
func (l *Log) flush() error {
	keep := time.Since(l.keptAt) >= l.keepEvery
	tail, err := l.save(keep)
	if err != nil || !keep {
		return err
	}
	return l.keep(tail, false)
}

// save syncs the file, then mirrors its newest line. In this order the mirror never names a
// line that a loss of power could take away. With synced, the mirror survives one too.
func (l *Log) save(synced bool) (position, error) {
	l.mu.Lock()
	tail, points, broken := l.tail, l.unsaved, l.broken
	l.mu.Unlock()
	if tail.seq == 0 || broken != nil {
		return tail, broken
	}
	err := l.file.Sync()
	if err != nil {
		// The kernel may have dropped the pages; a later fsync that succeeds
		// proves nothing about them.
		l.settle(tail, 0, fmt.Errorf("sync %s: %w", l.path, err), nil)
		return tail, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), syncTimeout)
	defer cancel()
	head := Head{tail.seq, tail.hash, sign(l.key, forHead, tail.seq, tail.hash)}
	if err = l.mirror.Save(ctx, head, points, synced); err != nil {
		err = fmt.Errorf("mirror the audit log: %w", err)
	}
	l.settle(tail, len(points), nil, err)
	return tail, err
}

// keep writes the head beside the key. While that fails no line is taken.
func (l *Log) keep(tail position, closed bool) error {
	h := Kept{Seq: tail.seq, Hash: tail.hash, Closed: closed, Anchor: l.keeper.last.Anchor}
	h.Anchored = l.anchoring.line(l.keeper.last.Anchored)
	l.mu.Lock()
	h.Checkpoints = l.mirrored
	l.mu.Unlock()
	err := l.keeper.keep(h)
	if err != nil {
		err = fmt.Errorf("write the head beside the key: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unkept = err; err == nil {
		l.kept, l.keptAt = l.keeper.last, time.Now()
	}
	return err
}

// newest returns the head beside the key.
func (l *Log) newest() Kept {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept
}

// settle publishes what a flush came to and wakes those who wait for it.
func (l *Log) settle(tail position, saved int, broken, unsynced error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsynced = unsynced
	if broken != nil {
		l.broken = broken
	}
	if broken == nil && unsynced == nil {
		l.synced = max(l.synced, tail.seq)
		l.unsaved = l.unsaved[saved:]
		l.mirrored += saved
	}
	close(l.round)
	l.round = make(chan struct{})
}

func (l *Log) waitSynced(ctx context.Context, seq uint64) error {
	for {
		l.mu.Lock()
		synced, broken, unsynced, round := l.synced, l.broken, l.unsynced, l.round
		l.mu.Unlock()
		switch {
		case synced >= seq:
			return nil
		case broken != nil:
			return broken
		case unsynced != nil:
			return unsynced
		}
		select {
		case <-round:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
