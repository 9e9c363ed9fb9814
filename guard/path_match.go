package guard

import (
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

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

// globDir is the directory in front of the first segment of a pattern that is one.
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
