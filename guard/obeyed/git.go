package obeyed

import (
	_ "embed"
	"strings"
	"sync"
)

// Kind says what becomes of a file in a git directory. git.txt explains the kinds.
type Kind string

// The kinds.
const (
	Free    Kind = "free"
	Keep    Kind = "keep"
	Read    Kind = "read"
	More    Kind = "more"
	Inside  Kind = "inside"  // a directory, some of whose files have different kinds
	Unknown Kind = "unknown" // no line names it
)

//go:embed git.txt
var gitText string

// gitRow is one line of git.txt.
type gitRow struct {
	segments []string
	tree     bool // a directory, with everything below
	kind     Kind
	what     string
}

var gitRows = sync.OnceValue(func() []gitRow {
	var out []gitRow
	for _, f := range rows(gitText, 3) {
		name, tree := strings.CutSuffix(f[0], "/")
		out = append(out, gitRow{strings.Split(name, "/"), tree, Kind(f[1]), f[2]})
	}
	return out
})

// Git returns what becomes of a path in a git directory, relative to that directory.
func Git(rel string) Kind {
	segs := strings.Split(rel, "/")
	inside, kind := false, Unknown
	for _, r := range gitRows() {
		switch {
		case len(segs) < len(r.segments):
			inside = inside || begins(r.segments, segs)
		case kind == Unknown && (len(segs) == len(r.segments) || r.tree) && begins(r.segments, segs):
			kind = r.kind
		}
	}
	if inside {
		return Inside
	}
	return kind
}

// begins reports whether the shorter one of a line and a path is the beginning of the
// other one.
func begins(line, segs []string) bool {
	for i := range min(len(line), len(segs)) {
		if !like(line[i], fold(segs[i])) {
			return false
		}
	}
	return true
}

// gitKeeps reports whether a file tool must leave a path in a git directory alone. It
// sees only the path. It does not know where the git directory of a submodule begins.
func gitKeeps(rel string) bool {
	if rest, ok := strings.CutPrefix(rel, "worktrees/"); ok {
		_, rel, _ = strings.Cut(rest, "/")
	}
	return Git(rel) != Free
}
