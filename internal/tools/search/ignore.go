package search

import (
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/internal/budget"
)

// ignores holds the ignore files of one directory, and a link to those of its parent. The rules are git's: the last
// rule of the deepest file that matches decides, and a repository inside another one does not obey the outer one.
type ignores struct {
	parent  *ignores
	dir     string // physical path that the rules are relative to
	git     bool   // a repository begins here
	rules   []ignoreRule
	exclude []ignoreRule // .git/info/exclude: weaker than any .gitignore
	own     []ignoreRule // .ignore: stronger than any .gitignore, also without git
	hold    *budget.Hold // memory of the rules
}

type ignoreRule struct {
	match    func(string) bool
	nameOnly bool
	dirOnly  bool
	negate   bool
}

// parseIgnore reads an ignore file. As git does, it skips a line that is not valid.
func parseIgnore(text string) []ignoreRule {
	var rules []ignoreRule
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
			line = line[:len(line)-1]
		}
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		if line[0] == '!' {
			r.negate, line = true, line[1:]
		}
		if strings.HasSuffix(line, "/") {
			r.dirOnly, line = true, strings.TrimSuffix(line, "/")
		}
		r.nameOnly = !strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if r.match = ignoreMatcher(line); line != "" && r.match != nil {
			rules = append(rules, r)
		}
	}
	return rules
}

// ignoreMatcher returns a function that matches a glob. Names and suffixes, which most rules are, need no regular
// expression.
func ignoreMatcher(glob string) func(string) bool {
	if !strings.ContainsAny(glob, `*?[\`) {
		return func(s string) bool { return s == glob }
	}
	if suffix := strings.TrimPrefix(glob, "*"); suffix != glob && !strings.ContainsAny(suffix, `*?[\/`) {
		return func(s string) bool {
			return strings.HasSuffix(s, suffix) && !strings.Contains(s[:len(s)-len(suffix)], "/")
		}
	}
	re, err := compileGlob(glob, false)
	if err != nil {
		return nil
	}
	return re.MatchString
}

// ignored reports whether an entry is ignored by a rule for itself. A rule for a directory above it does not count,
// because the walk does not enter such a directory.
func (s *ignores) ignored(path string, isDir bool) bool {
	if v := s.verdict(path, isDir, func(n *ignores) []ignoreRule { return n.own }, false); v != 0 {
		return v > 0
	}
	if !s.inGit() {
		return false
	}
	if v := s.verdict(path, isDir, func(n *ignores) []ignoreRule { return n.rules }, true); v != 0 {
		return v > 0
	}
	return s.verdict(path, isDir, func(n *ignores) []ignoreRule { return n.exclude }, true) > 0
}

func (s *ignores) inGit() bool {
	for ; s != nil; s = s.parent {
		if s.git {
			return true
		}
	}
	return false
}

// verdict returns 1 for ignored, -1 for not ignored, and 0 if no rule matches.
func (s *ignores) verdict(path string, isDir bool, rules func(*ignores) []ignoreRule, stopAtGit bool) int {
	name := path[strings.LastIndexByte(path, '/')+1:]
	for ; s != nil; s = s.parent {
		list := rules(s)
		for i := len(list) - 1; i >= 0; i-- {
			r := &list[i]
			if r.dirOnly && !isDir {
				continue
			}
			subject := name
			if !r.nameOnly {
				subject = strings.TrimPrefix(strings.TrimPrefix(path, s.dir), "/")
			}
			if r.match(subject) {
				if r.negate {
					return -1
				}
				return 1
			}
		}
		if s.git && stopAtGit {
			break
		}
	}
	return 0
}

// Ignores tells which paths of repositories git ignores.
type Ignores struct {
	read func(path string) []byte // returns the content of an ignore file; nil: there is no such file
	dirs map[string]*ignores
	out  map[string]bool // whether directories are ignored
}

// NewIgnores returns an Ignores that reads ignore files with read.
func NewIgnores(read func(path string) []byte) *Ignores {
	return &Ignores{read: read, dirs: map[string]*ignores{}, out: map[string]bool{}}
}

// Ignored reports whether a file in the repository at top is ignored, or is in a directory that is.
func (x *Ignores) Ignored(top, path string) bool {
	dir := filepath.Dir(path)
	return x.IgnoredDir(top, dir) || x.dir(top, dir).ignored(path, false)
}

// IgnoredDir reports whether a directory is ignored, or is in one that is.
func (x *Ignores) IgnoredDir(top, dir string) bool {
	if !strings.HasPrefix(dir, top+"/") {
		return false
	}
	out, known := x.out[dir]
	if !known {
		above := filepath.Dir(dir)
		out = x.IgnoredDir(top, above) || x.dir(top, above).ignored(dir, true)
		x.out[dir] = out
	}
	return out
}

func (x *Ignores) dir(top, dir string) *ignores {
	n := x.dirs[dir]
	if n != nil {
		return n
	}
	n = &ignores{dir: dir, git: dir == top, rules: parseIgnore(string(x.read(dir + "/.gitignore")))}
	if n.git {
		n.exclude = parseIgnore(string(x.read(dir + "/.git/info/exclude")))
	} else if strings.HasPrefix(dir, top+"/") {
		n.parent = x.dir(top, filepath.Dir(dir))
	}
	x.dirs[dir] = n
	return n
}
