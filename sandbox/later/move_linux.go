package later

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Move moves a file of the host into the directory dir, which it makes. It follows no link:
// if a program put one into the path, the link is moved. Where dir lies in another file
// system, the file stays in its directory under a name that means nothing.
func Move(path, dir string) error {
	path = firstLink(path)
	from, err := openWithoutLinks(filepath.Dir(path), unix.O_PATH) // a program can make it unreadable
	if err != nil {
		return err
	}
	defer unix.Close(from)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	to, err := openDir(dir)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	name, unique := filepath.Base(path), rand.Text()
	err = unix.Renameat(from, name, to, unique+"-"+name)
	if errors.Is(err, unix.EXDEV) {
		err = unix.Renameat(from, name, from, ".quarantined-"+unique+"-"+strings.TrimPrefix(name, "."))
	}
	return err
}

// openDir opens a directory to list it, and refuses links anywhere in its path.
func openDir(path string) (int, error) {
	return openWithoutLinks(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
}

func openWithoutLinks(path string, how uint64) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   how | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// firstLink returns the shortest part of a path that is a link, or the whole path. The
// paths of the settings have none.
func firstLink(path string) string {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if info, err := os.Lstat(path[:i]); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return path[:i]
		}
	}
	return path
}
