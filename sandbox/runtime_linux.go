package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox/limit"
	"golang.org/x/sys/unix"
)

const (
	runtimePrefix = "sandboxd-run-"
	rootName      = "root" // every launcher builds its root on it, in its own namespace
	sessionPrefix = "s-"   // private directories of sessions
)

// makeRuntime makes a directory for a backend that was given none. It holds a lock on it
// until the file is closed, if only by the kernel. So the next backend sees which ones a
// killed process has left, and removes them.
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

// lockRuntime locks a directory of this user. It fails if somebody else holds the lock.
func lockRuntime(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	var named, locked unix.Stat_t
	err = errors.Join(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.Fstat(fd, &locked), unix.Lstat(dir, &named))
	same := named.Ino == locked.Ino && named.Dev == locked.Dev
	if err == nil && (!same || int(locked.Uid) != os.Geteuid() || locked.Mode&0o7777 != 0o700) {
		err = fmt.Errorf("%s is not a directory of this process", dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweepRuntimes removes what killed processes have left. Errors are ignored: a later
// backend tries again.
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

// isRuntime reports whether a directory holds what a backend makes there and nothing else.
// A backend makes the directory for roots after it has the lock, so a directory with that
// and without a lock was left.
func isRuntime(dir string) bool {
	entries, _ := os.ReadDir(dir)
	other := func(e os.DirEntry) bool { return e.Name() != rootName && !strings.HasPrefix(e.Name(), sessionPrefix) }
	return !slices.ContainsFunc(entries, other) && exists(filepath.Join(dir, rootName))
}

// sessionDir returns the private directory of a user in a session, with its /tmp and its caches. Each user of a
// session has another one, because no user should work among files that another one can make.
func (c *cage) sessionDir(session string, u User) string {
	name := privateName(session)
	if !u.own {
		name += fmt.Sprintf("-%d", u.id.UID)
	}
	return filepath.Join(c.runtime, name)
}

func privateName(session string) string {
	sum := sha256.Sum256([]byte(session))
	return sessionPrefix + hex.EncodeToString(sum[:8])
}

// Kept returns how many bytes the private files of these sessions take on the disk. runtime is the directory of a
// backend.
func Kept(runtime string, sessions []string) (map[string]int64, error) {
	dirs, err := limit.Kept(runtime)
	if err != nil {
		return nil, err
	}
	byName := map[string]int64{}
	for name, n := range dirs {
		if id, found := strings.CutPrefix(name, sessionPrefix); found {
			id, _, _ = strings.Cut(id, "-") // a session has a directory for each user
			byName[sessionPrefix+id] += n
		}
	}
	kept := make(map[string]int64, len(sessions))
	for _, s := range sessions {
		kept[s] = byName[privateName(s)]
	}
	return kept, nil
}

// removeSessionDirs removes the private directories of all users in a session.
func (c *cage) removeSessionDirs(session string) error {
	own := filepath.Base(c.sessionDir(session, Daemon()))
	entries, err := os.ReadDir(c.runtime)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the backend is closed
	}
	for _, e := range entries {
		if name := e.Name(); name == own || strings.HasPrefix(name, own+"-") {
			err = errors.Join(err, removeTree(filepath.Join(c.runtime, name)))
		}
	}
	return err
}

// makeSessionDir makes a private directory.
func makeSessionDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the private directory of a session: %w", err)
	}
	for _, name := range []string{"tmp", "vartmp", "cache"} {
		p := filepath.Join(dir, name)
		if err := os.Mkdir(p, 0o700); err == nil {
			err = os.Chmod(p, 0o777|os.ModeSticky) // the usual mode of /tmp; the parent keeps others out
			if err != nil {
				return err
			}
		} else if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// removeTree removes what programs have made, also below directories that they made
// unreadable. Nothing may run there any more.
func removeTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) // WalkDir calls this before it reads the directory
		}
		return nil
	})
	return os.RemoveAll(dir)
}
