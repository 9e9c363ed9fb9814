package obeyed

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
)

// Name is one line of names.txt.
type Name struct {
	Name    string // the last segments of a path
	Where   Where
	Program string // what obeys it
	Source  string // where that is documented
}

// Where says in which directories a name is obeyed.
type Where string

// The places; names.txt explains them.
const (
	Enter Where = "enter"
	Open  Where = "open"
	Repo  Where = "repo"
	Home  Where = "home"
	Tool  Where = "tool"
	Run   Where = "run"
)

// Kept reports whether the sandbox keeps files of this name as they are. Those of tools are
// only asked about, and those that run with the project only told.
func (n *Name) Kept() bool { return n.Where != Tool && n.Where != Run }

// Segments returns how many segments of a path the name has.
func (n *Name) Segments() int { return strings.Count(n.Name, "/") + 1 }

//go:embed names.txt
var namesText string

// Names returns names.txt, in its order.
var Names = sync.OnceValue(func() []Name {
	var out []Name
	for _, f := range rows(namesText, 4) {
		out = append(out, Name{f[0], Where(f[1]), f[2], f[3]})
	}
	return out
})

// table has the names of some places, for looking up by the last segment.
type table struct {
	names    []*Name
	plain    map[string][]*Name // by the last segment
	patterns []pattern
}

// pattern is a name whose last segment has a *.
type pattern struct {
	name           *Name
	prefix, suffix string // of the segment
}

func (p pattern) fits(segment string) bool {
	return len(segment) >= len(p.prefix)+len(p.suffix) &&
		strings.HasPrefix(segment, p.prefix) && strings.HasSuffix(segment, p.suffix)
}

// host has what programs of the host obey, project what runs with the project. They are two, so that
// no name of a project can hide one of the host.
var (
	host    = sync.OnceValue(func() *table { return newTable(func(w Where) bool { return w != Run }) })
	project = sync.OnceValue(func() *table { return newTable(func(w Where) bool { return w == Run }) })
)

func newTable(has func(Where) bool) *table {
	t := &table{plain: map[string][]*Name{}}
	all := Names()
	for i := range all {
		n := &all[i]
		if !has(n.Where) {
			continue
		}
		t.names = append(t.names, n)
		last := fold(path.Base(n.Name))
		if prefix, suffix, ok := strings.Cut(last, "*"); ok {
			t.patterns = append(t.patterns, pattern{n, prefix, suffix})
		} else {
			t.plain[last] = append(t.plain[last], n)
		}
	}
	return t
}

// rows returns the lines of an embedded table, in columns. The tests hold its form.
func rows(text string, columns int) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line == "#" || strings.HasPrefix(line, "# ") {
			continue
		}
		var f []string
		for len(f) < columns-1 {
			cell, rest, ok := strings.Cut(line, "  ")
			if !ok {
				panic(fmt.Sprintf("a table of package obeyed: %q has not %d columns", line, columns))
			}
			f, line = append(f, cell), strings.TrimLeft(rest, " ")
		}
		out = append(out, append(f, line))
	}
	return out
}

// At returns the name that the end of a path has, or nil. Only whole segments count. Only [Plants]
// looks at names of class run.
func At(p string) *Name { return host().at(p) }

func (t *table) at(p string) *Name {
	last := fold(p[strings.LastIndexByte(p, '/')+1:])
	for _, n := range t.plain[last] {
		if endsWith(p, n.Name) {
			return n
		}
	}
	for _, x := range t.patterns {
		if x.fits(last) && endsWith(p, x.name.Name) {
			return x.name
		}
	}
	return nil
}

// Last reports whether a name of the table can end in this segment. It is quick, for
// those who look at many files.
func Last(segment string) bool {
	t := host()
	segment = fold(segment)
	return t.plain[segment] != nil || slices.ContainsFunc(t.patterns, func(x pattern) bool { return x.fits(segment) })
}

// Find returns the name that a path, or a directory above it, has below root; the first
// segments of a name may lie above. What lies in a git directory is found as [Git] says; its
// name is ".git". It returns nil for a path that no program obeys. An empty root means that
// all of the path counts.
func Find(p, root string) *Name { return host().find(p, root) }

// Plants returns the name of what starts, by itself, something that a file of this path says: a
// program of the host, or a tool with which the project is built, tested or run.
func Plants(p, root string) *Name {
	if n := host().find(p, root); n != nil {
		return n
	}
	return project().find(p, root)
}

func (t *table) find(p, root string) *Name {
	at := len(strings.TrimSuffix(root, "/"))
	if len(p) <= at || p[at] != '/' || p[:at] != root[:at] {
		return nil
	}
	for at < len(p) {
		end := len(p)
		if i := strings.IndexByte(p[at+1:], '/'); i >= 0 {
			end = at + 1 + i
		}
		if n := t.at(p[:end]); n != nil {
			return n
		}
		if fold(p[at:end]) == "/.git" && gitKeeps(strings.TrimPrefix(p[end:], "/")) {
			return &gitName
		}
		at = end
	}
	return nil
}

var gitName = Name{".git", Enter, "git", "gitrepository-layout(5)"}

// FindPattern is Find for a path whose segments may be patterns of a shell. It returns a
// name that a match of the pattern can have and that the pattern hints at: as for a shell,
// * is no hint of a name with a dot, and nobody means opencode.json by *.
func FindPattern(p, root string) *Name {
	if n := Find(p, root); n != nil {
		return n
	}
	rel := strings.TrimPrefix(p, strings.TrimSuffix(root, "/"))
	segs := strings.Split(strings.Trim(rel, "/"), "/")
	for i := range segs {
		if hints(segs[i], ".git") {
			return &gitName
		}
		for _, n := range host().names {
			if matches(segs[i:], strings.Split(n.Name, "/")) {
				return n
			}
		}
	}
	return nil
}

// matches reports whether patterns can begin with a name.
func matches(patterns, name []string) bool {
	if len(patterns) < len(name) {
		return false
	}
	for i, seg := range name {
		if !like(seg, fold(patterns[i])) && !hints(patterns[i], seg) {
			return false
		}
	}
	return true
}

// hints reports whether the pattern of a segment fits a name and begins as it does.
func hints(pattern, name string) bool {
	most := 2
	if strings.HasPrefix(name, ".") {
		most = 1
	}
	begin := min(strings.IndexAny(pattern+"*", `*?[\`), most, len(name))
	return begin == min(most, len(name)) && strings.EqualFold(pattern[:begin], name[:begin]) &&
		like(pattern, fold(name))
}

// endsWith reports whether the last segments of a path are those of a name.
func endsWith(p, name string) bool {
	for {
		i, j := strings.LastIndexByte(p, '/'), strings.LastIndexByte(name, '/')
		if !like(name[j+1:], fold(p[i+1:])) {
			return false
		}
		if j < 0 {
			return true
		}
		if i < 0 {
			return false
		}
		p, name = p[:i], name[:j]
	}
}

// like reports whether a segment, in lower case, fits a pattern of one segment. A pattern
// that means nothing fits everything.
func like(pattern, segment string) bool {
	ok, err := path.Match(fold(pattern), segment)
	return ok || err != nil
}

// fold makes names equal that a file system without case keeps as one.
func fold(s string) string { return strings.ToLower(s) }
