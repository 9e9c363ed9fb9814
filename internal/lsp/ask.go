package lsp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/search"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
)

// methods maps operations to the methods of LSP.
var methods = map[string]string{
	goToDefinition:     "textDocument/definition",
	goToImplementation: "textDocument/implementation",
	findReferences:     "textDocument/references",
	hover:              "textDocument/hover",
	documentSymbol:     "textDocument/documentSymbol",
	workspaceSymbol:    "workspace/symbol",
}

// maxOpened bounds the size of a file that a server is asked about.
const maxOpened = 4 << 20

// asked has a language server answer the call.
func (f *feature) asked(ctx context.Context, in tool.In, box sandbox.Box, a arguments, server string) (
	tool.Output, error,
) {
	if _, err := toolkit.Judged(in, here, guard.Read); err != nil { // the server was configured after Uses
		return tool.Output{}, err
	}
	var file guard.PathUse
	var text string
	if a.Operation != workspaceSymbol { // for that operation the file only selects the server
		var err error
		if file, err = toolkit.Judged(in, a.File, guard.Read); err != nil {
			return tool.Output{}, err
		}
		if text, err = search.ReadWhole(ctx, box, file, maxOpened); err != nil {
			return tool.Output{}, err
		}
	}
	d := data{Operation: a.Operation, By: server, Lines: []string{}}
	var raw json.RawMessage
	err := f.with(ctx, in, server, func(ctx context.Context, r *running) error {
		unseen, err := r.follow(ctx, box, in)
		if err != nil {
			return err
		}
		if unseen {
			d.note("the directory has more than %d files; the server is not told of changes in the rest", maxFollowed)
		}
		raw, err = r.ask(ctx, a, server, file.Path, text)
		return err
	})
	if err != nil {
		return tool.Output{}, err
	}
	const factor = 3 // times the text of the answer, for everything that is made from it
	if err := budget.Of(ctx).Take(factor * int64(len(raw))); err != nil {
		return tool.Output{}, err
	}
	if a.Operation == hover {
		if d.Text, err = hoverText(raw); err != nil {
			return tool.Output{}, failed(server, err)
		}
		if d.Text == "" {
			return d.output("Nothing is known of the symbol at this position"), nil
		}
		return d.output(d.Text), nil
	}
	all, elsewhere, err := places(raw, uriOf(file.Path))
	if err != nil {
		return tool.Output{}, failed(server, err)
	}
	if err := d.show(ctx, in, box, all, elsewhere); err != nil {
		return tool.Output{}, err
	}
	none := ""
	if len(d.Lines) == 0 {
		none = "The language server found nothing"
	}
	return d.output(none), nil
}

// ask asks about a file with its current content. The server forgets the content afterwards.
func (r *running) ask(ctx context.Context, a arguments, server, file, text string) (json.RawMessage, error) {
	if a.Operation == workspaceSymbol {
		return r.call(ctx, methods[a.Operation], map[string]string{"query": a.Query})
	}
	uri := uriOf(file)
	if err := r.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": uri, "languageId": r.conf.language(server), "version": 1, "text": text,
	}}); err != nil {
		return nil, err
	}
	params := map[string]any{"textDocument": map[string]string{"uri": uri}}
	if a.at() {
		params["position"] = map[string]int{"line": *a.Line, "character": a.Character}
	}
	if a.Operation == findReferences {
		params["context"] = map[string]bool{"includeDeclaration": true}
	}
	raw, err := r.call(ctx, methods[a.Operation], params)
	closed := r.notify("textDocument/didClose", map[string]any{"textDocument": map[string]string{"uri": uri}})
	return raw, errors.Join(err, closed)
}

// show adds the lines of places to the answer. It reads them through the box of the call, so a server can neither
// show what the agent may not read nor invent text. A place outside the working directory, which was not judged, is
// named without its text.
func (d *data) show(ctx context.Context, in tool.In, box sandbox.Box, all []place, elsewhere int) error {
	d.Total, d.LeftOut = len(all)+elsewhere, elsewhere
	within := func(path string) bool {
		return slices.ContainsFunc(in.Judged.Paths, func(u guard.PathUse) bool { return guard.Within(path, u.Path) })
	}
	slices.SortStableFunc(all, func(a, b place) int { // places outside come last
		return cmp.Compare(order(within(a.path)), order(within(b.path)))
	})
	withheld, err := keptBack(ctx, in, all, within)
	if err != nil {
		return err
	}
	beside := 0
	for len(all) > 0 && len(d.Lines) < most(d.Operation) {
		path := all[0].path
		n := slices.IndexFunc(all, func(p place) bool { return p.path != path })
		if n < 0 {
			n = len(all)
		}
		of := all[:min(n, most(d.Operation)-len(d.Lines))]
		all = all[n:]
		judged := within(path)
		numbers := make([]int64, 0, len(of))
		for _, p := range of {
			if judged {
				numbers = append(numbers, p.line)
			}
		}
		texts, err := search.ReadLines(ctx, box, guard.PathUse{Raw: path, Path: path, Op: guard.Read}, numbers...)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || withheld[path] {
			d.LeftOut += n
			continue
		}
		for _, p := range of {
			text, there := texts[p.line]
			switch {
			case !judged:
				beside++
			case !there:
				d.LeftOut++
				continue
			}
			d.add(in.Dir, search.Line{Path: path, Number: p.line, Text: search.ShowLine(text)})
		}
	}
	if beside > 0 {
		d.note("the text of lines outside of the working directory is not shown; Read shows it")
	}
	if d.LeftOut > 0 {
		d.note("%d places are left out: their files may not be read, or do not have the lines", d.LeftOut)
	}
	return nil
}

// keptBack returns the files among those to be shown that policies withhold from the call.
func keptBack(ctx context.Context, in tool.In, all []place, shown func(string) bool) (map[string]bool, error) {
	var paths []string
	for _, p := range all {
		if shown(p.path) {
			paths = append(paths, p.path)
		}
	}
	slices.Sort(paths)
	if paths = slices.Compact(paths); in.Withheld == nil || len(paths) == 0 {
		return nil, nil
	}
	return in.Withheld(ctx, paths)
}

func order(first bool) int {
	if first {
		return 0
	}
	return 1
}

// maxFollowed bounds the files whose changes a server is told.
const maxFollowed = 20_000

// stamp changes when the file changes.
type stamp struct{ modified, size, inode int64 }

// The kinds of changes in LSP.
const (
	fileCreated = 1
	fileChanged = 2
	fileDeleted = 3
)

// follow tells the server which files have changed since the last question. unseen is true for a directory with too
// many files.
func (r *running) follow(ctx context.Context, box sandbox.Box, in tool.In) (unseen bool, err error) {
	now := make(map[string]stamp, len(r.seen))
	err = search.WalkFiles(ctx, box, in.Dir, func(path string, modified, size, inode int64) bool {
		if unseen = len(now) == maxFollowed; !unseen {
			now[path] = stamp{modified, size, inode}
		}
		return !unseen
	})
	if err != nil {
		return false, err
	}
	type change struct {
		URI  string `json:"uri"`
		Type int    `json:"type"`
	}
	var all []change
	if r.seen != nil { // a server reads at its start what is there
		for path, s := range now {
			if was, known := r.seen[path]; !known {
				all = append(all, change{uriOf(path), fileCreated})
			} else if was != s {
				all = append(all, change{uriOf(path), fileChanged})
			}
		}
		for path := range r.seen {
			if _, still := now[path]; !still {
				all = append(all, change{uriOf(path), fileDeleted})
			}
		}
	}
	if len(all) > 0 {
		slices.SortFunc(all, func(a, b change) int { return strings.Compare(a.URI, b.URI) })
		if err := r.notify("workspace/didChangeWatchedFiles", map[string]any{"changes": all}); err != nil {
			return false, fmt.Errorf("tell it of changes: %w", err)
		}
	}
	r.seen = now
	return unseen, nil
}
