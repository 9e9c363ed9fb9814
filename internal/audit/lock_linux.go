package audit

import (
	"bytes"
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

// turnPatience is how long a process waits while the same line of another is written.
const turnPatience = 10 * time.Second

// Lock is the right to write in a state directory. The kernel drops it when the
// process ends, however it ends.
type Lock struct{ files []*os.File }

// Held is the error of [LockState] when somebody else has the lock.
type Held struct {
	Dir string
	PID int // 0 if it is not known

	since time.Time // when the holder took it, by the file system's clock
}

func (e *Held) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("state directory %q is in use by another process", e.Dir)
	}
	return fmt.Sprintf("state directory %q is in use by process %d", e.Dir, e.PID)
}

// LockState takes the lock of a state directory, or says with [*Held] who has it.
// The daemon keeps it for its lifetime.
func LockState(ctx context.Context, dir string) (*Lock, error) {
	l, err := lockForLine(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &Lock{l.files[:1]}, l.files[1].Close()
}

// lockForLine takes the lock for as long as one line takes. Programs that write
// single lines take turns, so who has the turn and finds the lock taken meets a
// daemon, and need not wait for it.
func lockForLine(ctx context.Context, dir string) (*Lock, error) {
	turn, err := waitFile(ctx, dir, "turn", func(*Held) bool { return true })
	if held, ok := errors.AsType[*Held](err); ok { // not by a daemon, which could write the line
		return nil, fmt.Errorf("process %d is writing to the record in %q and does not end", held.PID, dir)
	}
	if err != nil {
		return nil, err
	}
	lock, err := waitFile(ctx, dir, "lock", gone)
	if err != nil {
		return nil, errors.Join(err, turn.Close())
	}
	return &Lock{[]*os.File{lock, turn}}, nil
}

// gone reports whether who held a lock has ended. A child that it had just forked has its
// files until it executes its own program, and its threads until the last one has ended, and the
// lock with them.
func gone(h *Held) bool {
	if h.PID == 0 {
		return false
	}
	if syscall.Kill(h.PID, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.PID))
	name := bytes.LastIndexByte(stat, ')') // which may hold anything
	return err == nil && name > 0 && bytes.HasPrefix(stat[name:], []byte(") Z"))
}

// waitFile takes a lock, and waits for one that is held while wait says so. Whoever takes it
// writes to the file: the patience is for one holder, however many others come first.
func waitFile(ctx context.Context, dir, name string, wait func(*Held) bool) (*os.File, error) {
	var since, deadline time.Time
	for {
		f, err := lockFile(dir, name)
		var held *Held
		if err == nil || !errors.As(err, &held) || !wait(held) {
			return f, err
		}
		if !held.since.Equal(since) {
			since, deadline = held.since, time.Now().Add(turnPatience)
		} else if time.Now().After(deadline) {
			return nil, err
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

// lockFile locks a file that stays when the lock goes: removing it would let two
// processes lock two files of one name.
func lockFile(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name)
	f, err := openRegular(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("lock state directory %q: %w", dir, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		held := &Held{Dir: dir, PID: readPID(f)}
		if i, err := f.Stat(); err == nil {
			held.since = i.ModTime()
		}
		err = held
	} else if err == nil {
		err = writePID(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	return f, nil
}

// Release gives the lock back.
func (l *Lock) Release() error {
	var errs []error
	for _, f := range l.files { // the turn last: the next one must find the lock free
		errs = append(errs, syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
	}
	return errors.Join(errs...)
}

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

// User returns the process that has the lock of a state directory, for as long as it looks; 0 without one, and -1 if
// it is not known. It makes no files.
func User(ctx context.Context, dir string) (pid int, err error) {
	for _, name := range []string{"lock", "turn"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); errors.Is(err, os.ErrNotExist) {
			return 0, nil // no daemon has been here
		}
	}
	lock, err := lockForLine(ctx, dir)
	if held, ok := errors.AsType[*Held](err); ok {
		if held.PID == 0 {
			return -1, nil
		}
		return held.PID, nil
	}
	if err != nil {
		return 0, err
	}
	return 0, lock.Release()
}
