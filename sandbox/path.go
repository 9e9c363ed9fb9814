package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PathError says why a path cannot be judged at all. It always denies.
type PathError struct {
	Code string // "path_control_character", "path_invalid_utf8", "path_too_long", "path_proc", "path_loop", "path_tilde_user", "path_no_directory", "path_empty", "path_unreadable"
	Path string
	Msg  string
	Hint string
}

func (e *PathError) Error() string { return e.Msg }

const (
	maxPath    = 4096 // PATH_MAX
	maxSegment = 255  // NAME_MAX
	maxLinks   = 40   // the kernel's own limit
)

// Resolve gives the physical path that the kernel would reach: absolute, without
// ".", ".." and symbolic links. ~ is home, a relative path starts at dir.
//
// A component that does not exist is kept as written below the deepest parent
// that does, so that a file which will be created has the same answer before and
// after. Paths that mean something else to every process (/proc/self,
// /proc/PID), loops, other users' homes and text that cannot be a path are errors.
func Resolve(path, dir, home string) (string, error) {
	switch {
	case path == "~" || strings.HasPrefix(path, "~/"):
		if !filepath.IsAbs(home) {
			return "", &PathError{"path_no_directory", path, fmt.Sprintf("path '%s' needs a home directory and none is known", path), "give an absolute path"}
		}
		path = home + path[1:]
	case strings.HasPrefix(path, "~"):
		return "", &PathError{"path_tilde_user", path, fmt.Sprintf("path '%s' names another user's home", path), "give the path itself, or ./~… for a file of that name"}
	}
	return resolve(path, dir)
}

// resolve is Resolve for a path in which the shell has expanded ~ already.
func resolve(path, dir string) (string, error) {
	if err := checkText(path); err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) {
		if !filepath.IsAbs(dir) {
			return "", &PathError{"path_no_directory", path, fmt.Sprintf("path '%s' is relative and the working directory is not known", path), "give an absolute path"}
		}
		path = dir + "/" + path
	}
	return walk(path)
}

func checkText(path string) error {
	if path == "" {
		return &PathError{"path_empty", path, "the path is empty", "give a path"}
	}
	if len(path) > maxPath {
		return &PathError{"path_too_long", path[:64] + "…", fmt.Sprintf("path of %d bytes is longer than %d", len(path), maxPath), "use a shorter path"}
	}
	if !utf8.ValidString(path) {
		return &PathError{"path_invalid_utf8", fmt.Sprintf("%q", path), fmt.Sprintf("path %q is not valid UTF-8", path), "rename the file"}
	}
	for _, r := range path {
		// Cf holds the characters that hide or reorder what a person reads.
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return &PathError{"path_control_character", fmt.Sprintf("%q", path), fmt.Sprintf("path %q holds the control character %U", path, r), "leave the character out"}
		}
	}
	return nil
}

// walk follows path one component at a time, as the kernel does, except that a
// missing or plain component in front of ".." is stepped over: what is reached
// then is what a shell or an editor that cleans paths would reach.
func walk(path string) (string, error) {
	todo := strings.Split(path, "/")
	at, links, missing := "/", 0, false
	for len(todo) > 0 {
		seg := todo[0]
		todo = todo[1:]
		switch {
		case seg == "" || seg == ".":
			continue
		case seg == "..":
			at, missing = filepath.Dir(at), false
			continue
		case len(seg) > maxSegment:
			return "", &PathError{"path_too_long", seg[:64] + "…", fmt.Sprintf("name of %d bytes is longer than %d", len(seg), maxSegment), "use a shorter name"}
		case at == "/proc" && perProcess(seg):
			return "", &PathError{"path_proc", path, fmt.Sprintf("path '%s' goes through /proc/%s, which means something else in every process", path, seg), "name the file itself"}
		}
		next := filepath.Join(at, seg)
		if missing {
			at = next
			continue
		}
		info, err := os.Lstat(next)
		switch {
		case err != nil && os.IsPermission(err):
			// What cannot be looked at cannot be opened by this uid either; the
			// name is kept so that the rules still see it.
			at, missing = next, true
			continue
		case err != nil:
			at, missing = next, true
			continue
		case info.Mode()&os.ModeSymlink == 0:
			at = next
			continue
		}
		if keepDevice(next) {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &PathError{"path_loop", path, fmt.Sprintf("path '%s' follows more than %d symbolic links", path, maxLinks), "name the file itself"}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", &PathError{"path_unreadable", path, fmt.Sprintf("path '%s': cannot read the link %s", path, next), "name the file itself"}
		}
		if strings.HasPrefix(target, "/") {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
		if len(todo) > maxPath {
			return "", &PathError{"path_loop", path, fmt.Sprintf("path '%s' grows without end through symbolic links", path), "name the file itself"}
		}
	}
	if len(at) > maxPath {
		return "", &PathError{"path_too_long", at[:64] + "…", fmt.Sprintf("path of %d bytes is longer than %d", len(at), maxPath), "use a shorter path"}
	}
	return at, nil
}

// perProcess reports whether a name below /proc belongs to one process.
func perProcess(seg string) bool {
	if seg == "self" || seg == "thread-self" {
		return true
	}
	for i := 0; i < len(seg); i++ {
		if seg[i] < '0' || seg[i] > '9' {
			return false
		}
	}
	return true
}

// keepDevice names the standard streams, which are links into /proc/self; they
// are matched by their own names.
func keepDevice(path string) bool {
	return path == "/dev/stdin" || path == "/dev/stdout" || path == "/dev/stderr"
}
