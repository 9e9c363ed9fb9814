package limit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// isHidden reports whether an error means that a directory exists and cannot be looked at: it may not be read,
// or lies too deep for a path.
func isHidden(err error) bool { return err != nil && !errors.Is(err, fs.ErrNotExist) }

// removeChanged removes the files below private places of a session that have changed since
// then, on one file system, and returns how many bytes they had. Other calls of the session
// may run: no link that they make leads out of the place.
func removeChanged(places []string, since time.Time, device uint64) (removed int64) {
	for _, place := range places {
		root, err := os.OpenRoot(place)
		if err != nil {
			continue
		}
		removed += removeBelow(root, since, device)
		_ = root.Close()
	}
	return removed
}

func removeBelow(root *os.Root, since time.Time, device uint64) (removed int64) {
	_ = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if e == nil {
			return nil
		}
		if e.IsDir() {
			if err == nil { // WalkDir calls this before it reads the directory
				if info, err := e.Info(); err == nil && info.Mode().Perm()&0o700 != 0o700 {
					_ = root.Chmod(path, info.Mode().Perm()|0o700)
				}
			}
			return nil
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		st := info.Sys().(*syscall.Stat_t)
		if st.Dev != device || !changedSince(st, since) {
			return nil
		}
		// What another call holds open, or has another name, would keep its room.
		f, err := root.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err == nil {
			_ = f.Truncate(0)
			_ = f.Close()
		}
		if root.Remove(path) == nil || err == nil {
			removed += st.Blocks * 512
		}
		return nil
	})
	return removed
}

// What the count of a directory cannot see from the blocks of its files.
const (
	inodeBytes = 512     // a file without content takes room too
	tooDeep    = 1 << 50 // a tree that no path leads into: nobody makes one but to hide something
)

// Kept returns what each directory below dir holds, by name, in bytes on the disk. A file with several names counts
// once in each directory. What this process may not read does not count.
func Kept(dir string) (map[string]int64, error) {
	entries, err := os.ReadDir(dir)
	kept := map[string]int64{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		kept[e.Name()] = heldBelow(filepath.Join(dir, e.Name()))
	}
	return kept, err
}

func heldBelow(dir string) (sum int64) {
	seen := map[uint64]bool{}
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, syscall.ENAMETOOLONG) {
			sum = tooDeep
			return fs.SkipAll
		}
		if e == nil {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		st := info.Sys().(*syscall.Stat_t)
		if st.Nlink > 1 && !e.IsDir() {
			if seen[st.Ino] {
				return nil
			}
			seen[st.Ino] = true
		}
		sum += st.Blocks*512 + inodeBytes
		return nil
	})
	return sum
}
