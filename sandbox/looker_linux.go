package sandbox

import (
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// looker looks at files and remembers where, so that what it saw holds while nothing
// changes there. The zero value remembers nothing.
type looker struct{ at *child.Places }

func (l looker) note(paths ...string) {
	for _, p := range paths {
		if l.at != nil {
			l.at.Add(p)
		}
	}
}

func (l looker) exists(path string) bool {
	l.note(filepath.Dir(path))
	return exists(path)
}

func (l looker) readlink(path string) (string, error) {
	l.note(filepath.Dir(path))
	return os.Readlink(path)
}

func (l looker) readDir(path string) ([]os.DirEntry, error) {
	l.note(path)
	return os.ReadDir(path)
}

// stat follows a link.
func (l looker) stat(path string) (os.FileInfo, error) {
	if to, err := l.readlink(path); err == nil && to != "" && l.at != nil {
		l.at.Never()
	}
	return os.Stat(path)
}

func (l looker) firstLine(path string) string {
	l.note(filepath.Dir(path), path)
	return firstLine(path)
}
