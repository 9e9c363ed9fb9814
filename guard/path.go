package guard

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// PathError says why a path cannot be judged at all. It always denies.
type PathError struct {
	// Code is one of "path_control_character", "path_invalid_utf8", "path_too_long",
	// "path_proc", "path_loop", "path_tilde_user", "path_no_directory", "path_empty",
	// "path_unreadable", "path_closed".
	Code string
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
// A component that does not exist is kept as it is written, below the deepest
// parent that exists. So the answer for a new file is the same before and after it
// is made. Paths that mean something else to every process (/proc/self,
// /proc/PID), loops, other users' homes and text that cannot be a path are errors.
func Resolve(path, dir, home string) (string, error) {
	path, err := withHome(path, home)
	if err != nil {
		return "", err
	}
	return resolve(path, dir, newNames(pathSet{}))
}

// withHome is path with ~ as the home directory.
func withHome(path, home string) (string, error) {
	switch {
	case path == "~" || strings.HasPrefix(path, "~/"):
		if !filepath.IsAbs(home) {
			return "", &PathError{
				"path_no_directory", path,
				fmt.Sprintf("path '%s' needs a home directory and none is known", path), "give an absolute path",
			}
		}
		return home + path[1:], nil
	case strings.HasPrefix(path, "~"):
		return "", &PathError{
			"path_tilde_user", path, fmt.Sprintf("path '%s' names another user's home", path),
			"give the path itself, or ./~… for a file of that name",
		}
	}
	return path, nil
}

// resolve is Resolve for a path in which the shell has expanded ~ already.
func resolve(path, dir string, seen *names) (string, error) {
	if err := checkText(path); err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) {
		if !filepath.IsAbs(dir) {
			return "", &PathError{
				"path_no_directory", path,
				fmt.Sprintf("path '%s' is relative and the working directory is not known", path),
				"give an absolute path",
			}
		}
		path = dir + "/" + path
	}
	return walk(path, seen)
}

func checkText(path string) error {
	if path == "" {
		return &PathError{"path_empty", path, "the path is empty", "give a path"}
	}
	if len(path) > maxPath {
		return &PathError{
			"path_too_long", path[:64] + "…",
			fmt.Sprintf("path of %d bytes is longer than %d", len(path), maxPath), "use a shorter path",
		}
	}
	if isPrintable(path) {
		return nil
	}
	if !utf8.ValidString(path) {
		return &PathError{
			"path_invalid_utf8", fmt.Sprintf("%q", path), fmt.Sprintf("path %q is not valid UTF-8", path),
			"rename the file",
		}
	}
	for _, r := range path {
		// Cf holds the characters that hide or reorder what a person reads.
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return &PathError{
				"path_control_character", fmt.Sprintf("%q", path),
				fmt.Sprintf("path %q holds the control character %U", path, r), "leave the character out",
			}
		}
	}
	return nil
}

// isPrintable reports whether a path is of ASCII, without control characters. Nearly all are.
func isPrintable(path string) bool {
	for i := range len(path) {
		if path[i] < ' ' || path[i] > '~' {
			return false
		}
	}
	return true
}

// walk follows path one component at a time, as the kernel does, except that a
// missing or plain component in front of ".." is stepped over: what is reached
// then is what a shell or an editor that cleans paths would reach.
func walk(path string, seen *names) (string, error) {
	at, rest := "/", path
	links, absent := 0, false // absent: nothing below here exists
	original := true          // at is the beginning of path
	for rest != "" {
		var seg string
		seg, rest, _ = strings.Cut(rest, "/")
		switch {
		case seg == "" && at == "/" && len(rest) == len(path)-1:
			continue // the first one
		case seg == "" || seg == ".":
			original = false
			continue
		case seg == "..":
			at, absent, original = filepath.Dir(at), false, false
			continue
		case len(seg) > maxSegment:
			return "", &PathError{
				"path_too_long", seg[:64] + "…",
				fmt.Sprintf("name of %d bytes is longer than %d", len(seg), maxSegment), "use a shorter name",
			}
		case at == "/proc" && perProcess(seg):
			return "", &PathError{
				"path_proc", path,
				fmt.Sprintf("path '%s' goes through /proc/%s, which means something else in every process", path, seg),
				"name the file itself",
			}
		}
		if end, stopped := seen.stop(at, seg+"/"+rest); stopped {
			at = end
			break
		}
		next := ""
		if same := len(path) - len(rest); original && rest != "" {
			next = path[:same-1] // so far the path is clean, and no link was in it
		} else if original {
			next = strings.TrimSuffix(path, "/")
		} else {
			next = below(at, seg)
		}
		if absent {
			at = next
			continue
		}
		found := seen.lookup(next)
		if found.kind != link {
			at, absent = next, found.kind == missing
			continue
		}
		if links++; links > maxLinks {
			return "", &PathError{
				"path_loop", path,
				fmt.Sprintf("path '%s' follows more than %d symbolic links", path, maxLinks), "name the file itself",
			}
		}
		if found.err != nil {
			return "", &PathError{
				"path_unreadable", path,
				fmt.Sprintf("path '%s': cannot read the link %s", path, next), "name the file itself",
			}
		}
		if strings.HasPrefix(found.target, "/") {
			at = "/"
		}
		rest, original = found.target+"/"+rest, false
	}
	if len(at) > maxPath {
		return "", &PathError{
			"path_too_long", at[:64] + "…",
			fmt.Sprintf("path of %d bytes is longer than %d", len(at), maxPath), "use a shorter path",
		}
	}
	return at, nil
}

// below returns the path of seg in the directory at, both clean.
func below(at, seg string) string {
	if at == "/" {
		return at + seg
	}
	return at + "/" + seg
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

// Within reports whether path is root or lies below it, by whole segments
// . Both are physical; a trailing slash on root does not matter.
func Within(path, root string) bool {
	if len(root) > 1 && root[len(root)-1] == '/' {
		root = strings.TrimRight(root, "/")
	}
	if root == "" || root == "/" {
		return strings.HasPrefix(path, "/")
	}
	return strings.HasPrefix(path, root) && (len(path) == len(root) || path[len(root)] == '/')
}

// sameOnAnyVolume makes two spellings of one name equal that some file systems
// keep as one file (composed and decomposed accents).
func sameOnAnyVolume(path string) string {
	for i := 0; i < len(path); i++ {
		if path[i] >= utf8.RuneSelf {
			return norm.NFC.String(path)
		}
	}
	return path
}

// touches reports whether a use reaches something at or below denied.
func (u PathUse) touches(denied string) bool {
	path, composed := sameOnAnyVolume(u.Path), sameOnAnyVolume(denied)
	if u.Glob {
		// A pattern is held against the names as they may be stored: e* matches the
		// decomposed é alone.
		return globTouches(path, composed, u.Recursive) ||
			globTouches(norm.NFD.String(u.Path), norm.NFD.String(denied), u.Recursive)
	}
	denied = composed
	return Within(path, denied) || u.Recursive && Within(denied, path)
}

// globDir returns the directory in front of the first segment of a pattern that is one.
func globDir(pattern string) string {
	dir, _ := splitGlob(pattern)
	return dir
}

// globTouches compares segment by segment: a pattern segment never matches "/",
// so a name at or below denied needs a match of all of denied's segments.
func globTouches(pattern, denied string, recursive bool) bool {
	p, d := segments(pattern), segments(denied)
	for i := 0; i < len(p) && i < len(d); i++ {
		ok, err := filepath.Match(p[i], d[i])
		if err == nil && !ok {
			return false
		}
	}
	return len(p) >= len(d) || recursive
}

func segments(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}
