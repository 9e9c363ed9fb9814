package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// openFile opens the file, checks its end against the mirror and cuts off a torn
// last line, of which it returns the length.
func (l *Log) openFile(ctx context.Context) (torn int64, err error) {
	seen, err := l.mirror.Load(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the mirror: %w", err)
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return 0, fmt.Errorf("mode is %v, want a regular file with mode 0600", info.Mode())
	}
	v := verifier{seen: seen, public: public(l.key)}
	v.skipToCheckpoint(f, info.Size())
	if _, err := f.Seek(v.at.size, io.SeekStart); err != nil {
		return 0, err
	}
	rep, err := v.run(ctx, f)
	if err != nil {
		return 0, err
	}
	if rep.Bad != nil {
		return 0, fmt.Errorf("%w: line %d: %s", ErrTampered, rep.Bad.Line, rep.Bad.Reason)
	}
	if rep.TornBytes > 0 {
		if err := errors.Join(f.Truncate(v.at.size), f.Sync()); err != nil {
			return 0, fmt.Errorf("cut off a torn line: %w", err)
		}
	}
	l.file, l.tail, l.synced = f, v.at, seen.Head.Seq
	for _, c := range v.newer {
		c.Signature = sign(l.key, forCheckpoint, c.Seq, c.Hash)
		l.unsaved = append(l.unsaved, c)
	}
	return rep.TornBytes, nil
}

// checkFile notices a log that was removed, replaced, cut or written to by
// somebody else: what follows would be no record.
func (l *Log) checkFile() error {
	var open, named syscall.Stat_t
	if err := syscall.Fstat(int(l.file.Fd()), &open); err != nil {
		return err
	}
	if err := syscall.Stat(l.path, &named); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrTampered, l.path, err)
	}
	if open.Dev != named.Dev || open.Ino != named.Ino {
		return fmt.Errorf("%w: %s is another file now", ErrTampered, l.path)
	}
	if open.Size != l.tail.size {
		return fmt.Errorf("%w: it has %d bytes, %d were written", ErrTampered, open.Size, l.tail.size)
	}
	return nil
}

// writeLine adds one line. After a failure the file ends where it did before.
func (l *Log) writeLine(e Entry) error {
	e.Seq, e.Prev, e.Time = l.tail.seq+1, l.tail.hash, time.Now().UTC()
	line, hash, err := e.encode()
	if err != nil {
		return err
	}
	if _, err := l.file.Write(line); err != nil {
		if cut := l.file.Truncate(l.tail.size); cut != nil {
			l.broken = fmt.Errorf("write %s: %w, then cut the torn line: %w", l.path, err, cut)
		}
		return err
	}
	l.tail = position{e.Seq, hash, l.tail.size + int64(len(line))}
	return nil
}

func (l *Log) writeCheckpoint() error {
	signature := sign(l.key, forCheckpoint, l.tail.seq, l.tail.hash)
	if err := l.writeLine(Entry{Event: eventCheckpoint, Signature: signature}); err != nil {
		return err
	}
	// The line in the file signs what is before it; the mirror signs the line.
	signature = sign(l.key, forCheckpoint, l.tail.seq, l.tail.hash)
	l.unsaved = append(l.unsaved, Checkpoint{l.tail.seq, l.tail.hash, l.tail.size, signature})
	return nil
}
