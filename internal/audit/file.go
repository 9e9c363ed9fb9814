package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// file is what the log does with its open file.
type file interface {
	io.ReadWriteSeeker
	io.ReaderAt
	io.Closer
	Stat() (os.FileInfo, error)
	Truncate(size int64) error
	Sync() error
	Fd() uintptr
}

// openFile opens the file, checks its end against everything that knows it and cuts off a
// torn last line, of which it returns the length.
func (l *Log) openFile(ctx context.Context, o Options) (torn int64, err error) {
	seen, err := look(ctx, o, l.mirror, l.key)
	if err != nil {
		return 0, err
	}
	v := verifier{known: seen}
	l.file, err = openLog(o, 0)
	if errors.Is(err, os.ErrNotExist) {
		// Only if nobody knows of lines in it: a file that is made here would blur what happened.
		rep, failed := v.run(ctx, strings.NewReader(""))
		if failed != nil {
			return 0, failed
		}
		if rep.Bad != nil {
			return 0, fmt.Errorf("%w: %v", ErrTampered, rep.Bad)
		}
		l.file, err = openLog(o, os.O_CREATE)
	}
	if err != nil {
		return 0, err
	}
	info, err := l.file.Stat()
	if err != nil {
		return 0, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return 0, fmt.Errorf("mode is %v, want 0600", info.Mode())
	}
	v.skipToCheckpoint(l.file, info.Size())
	if _, err := l.file.Seek(v.at.size, io.SeekStart); err != nil {
		return 0, err
	}
	rep, err := v.run(ctx, l.file)
	if err != nil {
		return 0, err
	}
	if rep.Bad != nil {
		return 0, fmt.Errorf("%w: %v", ErrTampered, rep.Bad)
	}
	if rep.TornBytes > 0 {
		if err := errors.Join(l.file.Truncate(v.at.size), l.file.Sync()); err != nil {
			return 0, fmt.Errorf("cut off a torn line: %w", err)
		}
	}
	l.tail, l.synced, l.mirrored = v.at, seen.mirror.Head.Seq, len(seen.mirror.Checkpoints)
	for _, c := range v.newer {
		c.Signature = sign(l.key, forCheckpoint, c.Seq, c.Hash)
		l.unsaved = append(l.unsaved, c)
	}
	if l.keeper, err = openKeeper(o, l.key, seen.kept); err != nil {
		return 0, err
	}
	return rep.TornBytes, l.begin(o)
}

// begin makes the file one that lines may follow in: its name is durable, and the head beside
// the key no longer says that the log is closed.
func (l *Log) begin(o Options) error {
	if err := syncDir(o.Dir); err != nil {
		return err
	}
	last := l.keeper.last
	last.Closed = false
	if place := placeDigest(o.Anchor.File); place != last.Anchor {
		last.Anchor, last.Anchored = place, 0
	}
	if last == l.keeper.last {
		return nil
	}
	if err := l.keeper.keep(last); err != nil {
		return fmt.Errorf("write the head beside the key: %w", err)
	}
	return nil
}

func openLog(o Options, flag int) (file, error) {
	f, err := openRegular(o.Path(), flag|os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil, err
	}
	if o.testOnlyDisk != nil {
		return o.testOnlyDisk(f), nil
	}
	return f, nil
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
