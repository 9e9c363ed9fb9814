package diskspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	heldPart = 8       // which part of the reserve each of the files has
	heldMost = 8 << 20 // bytes of each at most
)

// heldBytes returns how much each of the files of the record has beyond its end.
func (g *Guard) heldBytes() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int64(min(g.reserve.Keep(g.space.state)/heldPart, heldMost))
}

// held gives files blocks beyond their end, so that they can grow when nothing is free. Their
// size and content stay as they are.
type held struct {
	paths []string
	open  map[string]*os.File
}

// fill gives each file n bytes beyond its end, if less than half of that is left. A full disk is
// no error: there was more before.
func (h *held) fill(n int64) error {
	var all error
	for _, path := range h.paths {
		err := h.hold(path, n)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOSPC) {
			all = errors.Join(all, fmt.Errorf("%s: %w", filepath.Base(path), err))
		}
	}
	return all
}

func (h *held) hold(path string, n int64) error {
	f, err := h.file(path)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Blocks*512-st.Size >= n/2 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, st.Size+n)
}

// file returns the open file. SQLite's locks are those of the process, and closing any of its
// descriptors of a file takes them away; so what is open stays so, unless the file is another
// one now: the log of a database that was closed.
func (h *held) file(path string) (*os.File, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if f := h.open[path]; f != nil {
		if now, err := f.Stat(); err == nil && os.SameFile(named, now) {
			return f, nil
		}
		_ = f.Close()
		delete(h.open, path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if h.open == nil {
		h.open = map[string]*os.File{}
	}
	h.open[path] = f
	return f, nil
}

// close closes the files. The database must be closed.
func (h *held) close() {
	for _, f := range h.open {
		_ = f.Close()
	}
	h.open = nil
}
