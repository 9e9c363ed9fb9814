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
// after the first of them, at once with Sync "always".
func (l *Log) syncLoop() {
	defer close(l.done)
	for {
		select {
		case <-l.stop:
			return
		case <-l.wake:
		}
		if !l.always && !l.pause() {
			return
		}
		for l.flush() != nil {
			if !l.pause() {
				return
			}
		}
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

// flush syncs the file, then mirrors its newest line. In this order the mirror
// never names a line that a loss of power could take away.
func (l *Log) flush() error {
	l.mu.Lock()
	tail, points, broken := l.tail, l.unsaved, l.broken
	l.mu.Unlock()
	if tail.seq == 0 || broken != nil {
		return broken
	}
	err := l.file.Sync()
	if err != nil {
		// The kernel may have dropped the pages; a later fsync that succeeds
		// proves nothing about them.
		l.settle(tail, 0, fmt.Errorf("sync %s: %w", l.path, err), nil)
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), syncTimeout)
	defer cancel()
	head := Head{tail.seq, tail.hash, sign(l.key, forHead, tail.seq, tail.hash)}
	if err = l.mirror.Save(ctx, head, points); err != nil {
		err = fmt.Errorf("mirror the audit log: %w", err)
	}
	l.settle(tail, len(points), nil, err)
	return err
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
