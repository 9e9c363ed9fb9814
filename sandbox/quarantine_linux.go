package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What does not exist cannot be masked without a stub on the host, so a denied
// path inside a writable tree that was absent is looked for when the call is over.

// absentDenied are those paths. Only what a program could create counts.
func (b *box) absentDenied() []string {
	var out []string
	for _, d := range b.settings.DeniedPaths {
		writable := len(b.settings.AllowedWritePaths) == 0 ||
			slices.ContainsFunc(b.settings.AllowedWritePaths, func(w string) bool { return w != d && Within(d, w) })
		if writable && !exists(b.host(d)) {
			out = append(out, d)
		}
	}
	return out
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}

// quarantine moves what appeared out of the workspace, into the private directory
// of the session, and says so.
func (b *box) quarantine(absent []string) []Denial {
	var out []Denial
	for _, d := range absent {
		if !exists(b.host(d)) {
			continue
		}
		act := "create " + d
		if err := b.moveAway(b.host(d)); err != nil && exists(b.host(d)) {
			act = fmt.Sprintf("create %s (it is still there: %v)", d, err)
		}
		out = append(out, Denial{Act: act, Layer: "denied_path_created", Setting: "deniedPaths: " + d})
	}
	return out
}

// moveAway never follows a link that a program put into the path: it moves the link
// away instead. Where the private directory lies in another file system, what is to
// be moved stays where it is, under a name that means nothing.
func (b *box) moveAway(path string) error {
	path = firstLink(path)
	from, err := openAt(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer from.Close()
	dir := filepath.Join(b.cage.sessionDir(b.session), "quarantine")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	to, err := openAt(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer to.Close()
	name, unique := filepath.Base(path), rand.Text()
	err = unix.Renameat(int(from.Fd()), name, int(to.Fd()), unique+"-"+name)
	if errors.Is(err, unix.EXDEV) {
		err = unix.Renameat(int(from.Fd()), name, int(from.Fd()), ".quarantined-"+unique+"-"+strings.TrimPrefix(name, "."))
	}
	return err
}

// firstLink is the shortest part of a path that is a link, or all of it. The paths of
// the settings have none.
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
