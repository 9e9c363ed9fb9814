package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A backend without a runtime directory makes one that ends with it. It is locked, so
// that the next backend sees which ones a killed process has left, and removes them
// with all that programs have put there.

const (
	runtimePrefix = "sandboxd-run-"
	rootName      = "root" // the place of the roots
	sessionPrefix = "s-"   // private directories of sessions
)

// makeRuntime gives a new directory. The lock is held until the file is closed, by the
// kernel if not earlier.
func makeRuntime(parent string) (dir string, lock *os.File, err error) {
	sweepRuntimes(parent)
	if dir, err = os.MkdirTemp(parent, runtimePrefix); err == nil {
		lock, err = lockRuntime(dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("make a runtime directory: %w", err)
	}
	return dir, lock, nil
}

// lockRuntime locks a directory of this user that nobody has locked.
func lockRuntime(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	var there, locked unix.Stat_t
	err = errors.Join(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.Fstat(fd, &locked), unix.Lstat(dir, &there))
	if err == nil && (there.Ino != locked.Ino || there.Dev != locked.Dev || int(locked.Uid) != os.Geteuid() || locked.Mode&0o7777 != 0o700) {
		err = fmt.Errorf("%s is not a directory of this process", dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweepRuntimes removes what killed processes have left. What cannot be removed now
// can be later.
func sweepRuntimes(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if !e.IsDir() || !strings.HasPrefix(e.Name(), runtimePrefix) || !isRuntime(dir) {
			continue
		}
		if lock, err := lockRuntime(dir); err == nil {
			_ = removeTree(dir)
			lock.Close()
		}
	}
}

// isRuntime is true for a directory that holds what a backend makes there and nothing
// else. The place of the roots is made after the lock, so what has it and no lock was
// left.
func isRuntime(dir string) bool {
	entries, _ := os.ReadDir(dir)
	other := func(e os.DirEntry) bool { return e.Name() != rootName && !strings.HasPrefix(e.Name(), sessionPrefix) }
	return !slices.ContainsFunc(entries, other) && exists(filepath.Join(dir, rootName))
}
