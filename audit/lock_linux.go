package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Lock is the right to write in a state directory. The kernel drops it when the
// process ends, however it ends.
type Lock struct{ file *os.File }

// Held is the error of [LockState] when somebody else has the lock.
type Held struct {
	Dir string
	PID int // 0 if it is not known
}

func (e *Held) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("state directory %q is in use by another process", e.Dir)
	}
	return fmt.Sprintf("state directory %q is in use by process %d", e.Dir, e.PID)
}

// LockState takes the lock of a state directory, or says with [*Held] who has
// it. The daemon keeps it for its lifetime. The file stays when the lock goes:
// removing it would let two processes lock two files of one name.
func LockState(dir string) (*Lock, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state directory %q: %w", dir, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = &Held{dir, readPID(f)}
	} else if err == nil {
		err = writePID(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	return &Lock{f}, nil
}

// waitState waits for others that hold the lock for moments, as every exec does.
func waitState(ctx context.Context, dir string, patience time.Duration) (*Lock, error) {
	deadline := time.Now().Add(patience)
	for {
		lock, err := LockState(dir)
		var held *Held
		if err == nil || !errors.As(err, &held) || time.Now().After(deadline) {
			return lock, err
		}
		t := time.NewTimer(5 * time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		case <-t.C:
		}
	}
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.file.Close() }

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func readPID(f *os.File) int {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil {
		return 0
	}
	return pid
}
