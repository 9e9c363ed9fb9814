package search

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Bounds of one search.
const (
	defaultHeadLimit = 250
	maxHits          = 50_000   // lines kept; then the answer is cut
	maxHitBytes      = 16 << 20 // and their bytes
	searchers        = 4        // files searched at once

	// The memory that a search takes before it finds anything: one chunk for each searcher.
	searchBytes = searchers * searchChunk
	// Each byte of a match takes this many bytes: in the hit, in the line of the answer, and in its text.
	hitFactor = 3
)

// Grep searches the contents of files.
type Grep struct{}

type grepArgs struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	Type       string `json:"type"`
	Mode       string `json:"output_mode"`
	After      *int   `json:"-A"`
	Before     *int   `json:"-B"`
	Around     *int   `json:"-C"`
	Numbers    *bool  `json:"-n"`
	IgnoreCase bool   `json:"-i"`
	Only       bool   `json:"-o"`
	HeadLimit  *int   `json:"head_limit"`
	Offset     int    `json:"offset"`
	Multiline  bool   `json:"multiline"`
}

// Spec implements [tool.Tool].
func (Grep) Spec() tool.Spec {
	return tool.Spec{
		Name: "Grep",
		Description: "Searches file contents by a regular expression " +
			"(RE2 syntax, as ripgrep's: literal braces and dots need a backslash). " +
			"Files that git ignores, hidden ones, binary ones and node_modules are left out. " +
			"Results are sorted by path.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"pattern":{"type":"string","minLength":1,"description":"the regular expression"},
"path":{"type":"string","description":"file or directory to search (default: the working directory)"},
"glob":{"type":"string","description":"only files that match, such as *.js or src/**/*.{ts,tsx}"},
"type":{"type":"string","description":"only files of this type, such as go, py, js, rust"},
"output_mode":{"type":"string","enum":["files_with_matches","content","count"],
	"description":"default files_with_matches"},
"-A":{"type":"integer","minimum":0,"maximum":1000,"description":"lines to show after each match (content)"},
"-B":{"type":"integer","minimum":0,"maximum":1000,"description":"lines to show before each match (content)"},
"-C":{"type":"integer","minimum":0,"maximum":1000,"description":"lines to show before and after each match (content)"},
"-n":{"type":"boolean","description":"show line numbers (content, default true)"},
"-i":{"type":"boolean","description":"ignore case"},
"-o":{"type":"boolean","description":"show only the matching parts (content)"},
"head_limit":{"type":"integer","minimum":0,
	"description":"at most so many lines or files (default 250, 0 is unlimited)"},
"offset":{"type":"integer","minimum":0,"description":"leave out so many lines or files at the start"},
"multiline":{"type":"boolean","description":"the pattern may span lines and . matches newlines"}},
"required":["pattern"],"additionalProperties":false}`),
		Class: tool.ClassRead, ReadOnly: true, Origin: tool.OriginRepository,
		Annotations: &tool.Annotations{ReadOnly: true, Idempotent: true},
		OutputLimit: 50_000,
		Returns:     &tool.Returns{Type: "string", Note: "paths, or path:line:text, or path:count"},
	}
}

// Uses implements [tool.Tool]. Files below the path that the settings deny are left out of the answer.
func (Grep) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[grepArgs](in)
	if err != nil {
		return guard.Uses{}, err
	}
	if in.Theirs {
		return searched(in, args.root(), args.Glob)
	}
	u, err := toolkit.Path(in, args.root(), guard.Read)
	return guard.Uses{Paths: []guard.PathUse{u}}, err
}

func (a grepArgs) root() string {
	if a.Path == "" {
		return "."
	}
	return a.Path
}

// query is a search with its patterns compiled.
type query struct {
	re            *regexp.Regexp
	hint          func([]byte) int // returns where a match may be, see [hint]; nil: no hint
	before, after int
	only          bool
	multiline     bool
	listOnly      bool // one match per file is enough
	content       bool // keep the lines
	glob          *pathPattern
	types         *pathPattern
}

func newQuery(args grepArgs) (*query, error) {
	flags := "m"
	if args.IgnoreCase {
		flags += "i"
	}
	if args.Multiline {
		flags += "s"
	}
	if len(args.Pattern) > maxPattern*10 {
		return nil, badRegexp(fmt.Errorf("longer than %d characters", maxPattern*10))
	}
	re, err := regexp.Compile("(?" + flags + ")" + args.Pattern)
	if err != nil {
		return nil, badRegexp(err)
	}
	q := &query{re: re, hint: hint(re.String()), only: args.Only, multiline: args.Multiline}
	switch args.Mode {
	case "content":
		q.content = true
		if args.Around != nil {
			q.before, q.after = *args.Around, *args.Around
		}
		if args.Before != nil {
			q.before = *args.Before
		}
		if args.After != nil {
			q.after = *args.After
		}
		if q.only {
			q.before, q.after = 0, 0
		}
	case "", "files_with_matches":
		q.listOnly = true
	}
	if args.Glob != "" {
		if q.glob, err = newPathPattern(args.Glob); err != nil {
			return nil, err
		}
	}
	if args.Type != "" {
		globs, known := fileTypes[args.Type]
		if !known {
			return nil, &tool.Error{
				Code: "unknown_type", Msg: fmt.Sprintf("unknown file type %q", args.Type),
				Hint: "known types: " + typeNames() + "; or use glob",
			}
		}
		if q.types, err = newPathPattern(globs); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func badRegexp(err error) error {
	return &tool.Error{
		Code: "invalid_pattern", Msg: "the pattern cannot be read: " +
			strings.TrimPrefix(err.Error(), "error parsing regexp: "),
		Hint: `quote literal ( ) [ ] { } . * + ? with a backslash; there are no look-arounds and no back references`,
	}
}

// bytes returns how much memory the search takes for the files that it reads.
func (q *query) bytes() int64 {
	if q.multiline {
		return maxMultiline
	}
	return searchBytes
}

// workers returns how many files are searched at the same time.
func (q *query) workers() int {
	if q.multiline { // each is in memory as a whole
		return 1
	}
	return searchers
}

// hits holds the matches of one file.
type hits struct {
	path  string
	count int // matching lines
	lines []hitLine

	partial bool // the file is too large and was not searched to its end
}

type hitLine struct {
	number int64
	text   string
	match  bool // false: context
	gap    bool // lines before this one are left out
}

// Run implements [tool.Tool].
func (Grep) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[grepArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	q, err := newQuery(args)
	if err != nil {
		return tool.Output{}, err
	}
	root, err := toolkit.Judged(in, args.root(), guard.Read)
	if err != nil {
		return tool.Output{}, err
	}
	if err := toolkit.Need(ctx, q.bytes()); err != nil {
		return tool.Output{}, err
	}
	res, err := search(ctx, in, box, root, q)
	if err != nil {
		return tool.Output{}, err
	}
	slices.SortFunc(res.hits, func(a, b hits) int { return strings.Compare(a.path, b.path) })
	return res.output(in.Dir, args), nil
}

// results is shared by the searchers.
type results struct {
	hold    *budget.Hold
	mu      sync.Mutex // guards what follows
	hits    []hits
	lines   int
	bytes   int
	full    bool // a bound was reached
	refused int
	partial int

	withheld int // files with matches that policies withhold from the call
}

// add adds the matches of one file. full reports that a bound was reached.
func (r *results) add(h hits) (full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.partial {
		r.partial++
	}
	if r.full || h.count == 0 {
		return r.full
	}
	size := len(h.path) + 100
	for _, l := range h.lines {
		size += len(l.text) + len(h.path) + 32
	}
	if r.hold.Take(int64(hitFactor*size)) != nil { // the same as too many matches: the answer says that it is cut
		r.full = true
		return true
	}
	r.hits = append(r.hits, h)
	r.lines += max(len(h.lines), 1)
	r.bytes += size
	r.full = r.lines > maxHits || r.bytes > maxHitBytes
	return r.full
}

// withhold removes the matches that policies withhold from the call.
func (r *results) withhold(ctx context.Context, in tool.In) error {
	if in.Withheld == nil || len(r.hits) == 0 {
		return nil
	}
	paths := make([]string, len(r.hits))
	for i, h := range r.hits {
		paths[i] = h.path
	}
	withheld, err := in.Withheld(ctx, paths)
	if err != nil {
		return err
	}
	r.withheld = len(withheld)
	r.hits = slices.DeleteFunc(r.hits, func(h hits) bool { return withheld[h.path] })
	return nil
}

// search searches a file, or the files below a directory, a few at the same time, and leaves out matches that
// policies withhold from the call.
func search(ctx context.Context, in tool.In, box sandbox.Box, root guard.PathUse, q *query) (*results, error) {
	res := &results{hold: budget.Of(ctx)}
	if f, _, err := toolkit.Open(ctx, box, root); err == nil {
		defer f.Close()
		h, err := q.file(ctx, f, newBuffer())
		if err != nil {
			return nil, toolkit.FileError("search", root, err)
		}
		h.path = root.Path
		res.add(h)
		return res, nil
	} else if e, ok := err.(*tool.Error); !ok || e.Code != "is_directory" {
		return nil, err
	}
	judging := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	files := make(chan string, 64)
	var wg sync.WaitGroup
	for range q.workers() {
		wg.Go(func() {
			buf := newBuffer()
			for path := range files {
				h, ok := q.open(ctx, box, path, buf)
				if ok && res.add(h) {
					stop()
				}
			}
		})
	}
	t := &tree{
		box: box, hidden: q.glob.wantsHidden(),
		modules: strings.Contains(root.Path, "node_modules") || q.glob != nil && q.glob.modules,
	}
	err := t.walk(ctx, root, func(e entry) error {
		if !q.glob.match(e.rel) || !q.types.match(e.rel) {
			return nil
		}
		select {
		case files <- e.path:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(files)
	wg.Wait()
	if err != nil && !res.full {
		return nil, err
	}
	res.refused = t.refused
	if err := res.withhold(judging, in); err != nil {
		return nil, err
	}
	return res, nil
}

func (p *pathPattern) wantsHidden() bool { return p != nil && p.hidden }

// open searches one file of a walk. A file that cannot be opened is skipped.
func (q *query) open(ctx context.Context, box sandbox.Box, path string, buf *buffer) (hits, bool) {
	f, err := box.Open(ctx, guard.PathUse{Raw: path, Path: path, Op: guard.Read}, os.O_RDONLY)
	if err != nil {
		return hits{}, false
	}
	defer f.Close()
	h, err := q.file(ctx, f, buf)
	h.path = path
	return h, err == nil
}

type grepData struct {
	Mode      string   `json:"mode"`
	Lines     []string `json:"lines"` // the lines of the answer
	Files     int      `json:"files"` // number of files that match
	Matches   int      `json:"matches"`
	Truncated bool     `json:"truncated"`
	Refused   int      `json:"refused,omitempty"`
	Withheld  int      `json:"withheld,omitempty"` // files with matches that policies withhold from the call
}

func (r *results) output(dir string, args grepArgs) tool.Output {
	data := grepData{Mode: args.Mode, Files: len(r.hits), Refused: r.refused, Withheld: r.withheld}
	if data.Mode == "" {
		data.Mode = "files_with_matches"
	}
	var lines []string
	for i, h := range r.hits {
		data.Matches += h.count
		name := toolkit.Shown(dir, h.path)
		switch data.Mode {
		case "content":
			lines = append(lines, h.render(name, args, i > 0)...)
		case "count":
			lines = append(lines, fmt.Sprintf("%s:%d", name, h.count))
		default:
			lines = append(lines, name)
		}
	}
	total := len(lines)
	limit := defaultHeadLimit
	if args.HeadLimit != nil {
		limit = *args.HeadLimit
	}
	lines = lines[min(args.Offset, total):]
	if limit > 0 && len(lines) > limit {
		lines = lines[:limit]
	}
	data.Lines, data.Truncated = lines, r.full || len(lines)+min(args.Offset, total) < total
	text := strings.Join(lines, "\n")
	var notes []string
	switch {
	case total == 0:
		notes = append(notes, "no matches found in "+filepath.Clean(args.root()))
	case len(lines) == 0:
		notes = append(notes, fmt.Sprintf("[note: offset %d is past the end: there are %d lines]", args.Offset, total))
	case data.Truncated:
		notes = append(notes, fmt.Sprintf("[note: lines %d to %d of %d; go on with offset %d or narrow the search]",
			args.Offset+1, args.Offset+len(lines), total, args.Offset+len(lines)))
	}
	if r.full {
		notes = append(notes, "[note: the search stopped early, there are too many matches; narrow it]")
	}
	if data.Mode == "count" && total > 0 {
		notes = append(notes, fmt.Sprintf("[%d matching lines in %d files]", data.Matches, data.Files))
	}
	if r.partial > 0 {
		notes = append(notes, fmt.Sprintf("[note: %d files were not searched to their end: "+
			"the limit is %d MB for a line, and for a file with multiline]", r.partial, maxMultiline>>20))
	}
	if r.refused > 0 {
		const note = "[note: %d directories were not searched, or ignore files not read]"
		notes = append(notes, fmt.Sprintf(note, r.refused))
	}
	if r.withheld > 0 {
		notes = append(notes,
			fmt.Sprintf("[note: left out are files with matches that policies deny or ask to read: %d]", r.withheld))
	}
	if text != "" && len(notes) > 0 {
		text += "\n"
	}
	return tool.Output{Data: data, Text: text + strings.Join(notes, "\n")}
}

// render writes lines as grep does: path:number:text for a match, path-number-text for context, and "--" between
// lines that are not adjacent.
func (h hits) render(name string, args grepArgs, separate bool) []string {
	numbers := args.Numbers == nil || *args.Numbers
	around := args.Around != nil || args.Before != nil || args.After != nil
	var lines []string
	for i, l := range h.lines {
		if around && !args.Only && (l.gap || i == 0 && separate) {
			lines = append(lines, "--")
		}
		sep := ":"
		if !l.match {
			sep = "-"
		}
		if numbers {
			lines = append(lines, fmt.Sprintf("%s%s%d%s%s", name, sep, l.number, sep, l.text))
		} else {
			lines = append(lines, name+sep+l.text)
		}
	}
	return lines
}
