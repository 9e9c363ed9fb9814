package search

import (
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// maxFound bounds the files that Glob returns (T-47).
const maxFound = 500

// Glob finds files by name, newest first.
type Glob struct{}

type globArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
}

// Spec implements [tool.Tool].
func (Glob) Spec() tool.Spec {
	return tool.Spec{
		Name: "Glob",
		Description: "Finds files by a pattern, newest first, at most 500. " +
			"* stays within a name, ** crosses directories, {a,b} lists alternatives; " +
			"a pattern without a slash matches names at any depth. " +
			"Files that git ignores, hidden ones (unless the pattern names a dot) and node_modules are left out.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"pattern":{"type":"string","minLength":1,"description":"such as *.go, src/**/*.ts or **/{a,b}.md"},
"path":{"type":"string","description":"the directory to search in (default: the working directory)"}},
"required":["pattern"],"additionalProperties":false}`),
		Class: tool.ClassRead, ReadOnly: true, Origin: tool.OriginRepository,
		Annotations: &tool.Annotations{ReadOnly: true, Idempotent: true},
		OutputLimit: 50_000,
		Returns:     &tool.Returns{Type: "string", Note: "one path per line"},
	}
}

// split separates the directory from an absolute pattern.
func (a globArgs) split() globArgs {
	if a.Path == "" && (strings.HasPrefix(a.Pattern, "/") || strings.HasPrefix(a.Pattern, "~/")) {
		fixed := a.Pattern
		if i := strings.IndexAny(fixed, `*?[{\`); i >= 0 {
			fixed = fixed[:i]
		}
		at := strings.LastIndexByte(fixed, '/')
		a.Path, a.Pattern = a.Pattern[:at+1], "./"+a.Pattern[at+1:]
	}
	if a.Path == "" {
		a.Path = "."
	}
	return a
}

// Uses implements [tool.Tool]. It does not name the directory as used with everything below it: files that the
// settings deny are left out of the answer instead.
func (Glob) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[globArgs](in)
	if err != nil {
		return guard.Uses{}, err
	}
	if in.Theirs {
		return searched(in, args.Path, args.Pattern)
	}
	u, err := toolkit.Path(in, args.split().Path, guard.Read)
	return guard.Uses{Paths: []guard.PathUse{u}}, err
}

type found struct {
	path     string
	modified int64 // nanoseconds
}

// oldest is a heap with the oldest file on top. When it is full, that one is dropped.
type oldest []found

func (h oldest) Len() int { return len(h) }
func (h oldest) Less(i, j int) bool {
	if h[i].modified != h[j].modified {
		return h[i].modified < h[j].modified
	}
	return h[i].path > h[j].path
}
func (h oldest) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *oldest) Push(x any)   { *h = append(*h, x.(found)) }
func (h *oldest) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

type globData struct {
	Files     []string `json:"files"`
	Count     int      `json:"count"` // of all matches, also those not listed
	Truncated bool     `json:"truncated"`
	Refused   int      `json:"refused,omitempty"` // directories that were not searched
}

// Run implements [tool.Tool].
func (Glob) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[globArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	args = args.split()
	pattern, err := newPathPattern(args.Pattern)
	if err != nil {
		return tool.Output{}, err
	}
	root, err := toolkit.Judged(in, args.Path, guard.Read)
	if err != nil {
		return tool.Output{}, err
	}
	t := &tree{
		box: box, hidden: pattern.hidden,
		modules: pattern.modules || strings.Contains(root.Path, "node_modules"),
	}
	data := globData{Files: []string{}}
	var newest oldest
	err = t.walk(ctx, root, func(e entry) error {
		if !pattern.match(e.rel) {
			return nil
		}
		var st unix.Stat_t
		if unix.Fstatat(int(e.dir.Fd()), e.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !mayOpen(ctx, box, e.path) {
			return nil
		}
		data.Count++
		heap.Push(&newest, found{e.path, st.Mtim.Nano()})
		if len(newest) > maxFound {
			heap.Pop(&newest)
		}
		return nil
	})
	if err != nil {
		return tool.Output{}, err
	}
	sort.Slice(newest, func(i, j int) bool { return newest.Less(j, i) })
	for _, f := range newest {
		data.Files = append(data.Files, f.path)
	}
	data.Truncated, data.Refused = data.Count > maxFound, t.refused
	return tool.Output{Data: data, Text: data.text(in.Dir, root.Raw)}, nil
}

// mayOpen reports whether the box allows a file to be opened. If it does not, the answer leaves out the name.
func mayOpen(ctx context.Context, box sandbox.Box, path string) bool {
	f, err := box.Open(ctx, guard.PathUse{Raw: path, Path: path, Op: guard.Read}, os.O_RDONLY)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

func (d globData) text(dir, root string) string {
	var b strings.Builder
	for _, f := range d.Files {
		b.WriteString(toolkit.Shown(dir, f) + "\n")
	}
	if d.Count == 0 {
		fmt.Fprintf(&b, "no files found in %s\n", filepath.Clean(root))
	}
	if d.Truncated {
		fmt.Fprintf(&b, "[note: the newest %d of %d files; narrow the pattern or the path]\n", len(d.Files), d.Count)
	}
	if d.Refused > 0 {
		fmt.Fprintf(&b, "[note: %d directories were not searched]\n", d.Refused)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
