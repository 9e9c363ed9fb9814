package lsp

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/search"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Bounds of the lines that are shown (T-52).
const (
	maxReferences = 50
	maxSymbols    = 30
	maxDeclared   = 1000 // declarations of one file
)

// most returns the number of lines that an operation shows at most.
func most(operation string) int {
	switch operation {
	case workspaceSymbol:
		return maxSymbols
	case documentSymbol:
		return maxDeclared
	}
	return maxReferences
}

// searched answers the call by a search of lines.
func searched(ctx context.Context, in tool.In, box sandbox.Box, a arguments) (tool.Output, error) {
	d := data{Operation: a.Operation, By: bySearch, Lines: []string{}}
	var pattern, where, none string
	switch a.Operation {
	case hover:
		return tool.Output{}, &tool.Error{
			Code: "no_language_server",
			Msg:  "hover needs a language server, and the configuration names none for this file",
			Hint: "Read shows the file; an operator can name a server in lsp.servers",
		}
	case documentSymbol:
		pattern, where, none = declarations(""), a.File, "No symbols found"
	case workspaceSymbol:
		pattern, where, none = declarations(a.Query), here, fmt.Sprintf("No symbols found for %q", a.Query)
	default:
		symbol, err := symbolOf(ctx, in, box, a)
		if err != nil {
			return tool.Output{}, err
		}
		what := "definition"
		pattern = definitionOf(symbol)
		if a.Operation == findReferences {
			what, pattern = "references", referencesTo(symbol)
		}
		where, none = here, fmt.Sprintf("No %s found for %q", what, symbol)
		if d.Symbol = symbol; symbol == "" {
			return d.output(fmt.Sprintf("No %s found for symbol at position", what)), nil
		}
	}
	root, err := toolkit.Judged(in, where, guard.Read)
	if err != nil {
		return tool.Output{}, err
	}
	found, err := search.FindLines(ctx, in, box, root, pattern)
	if err != nil {
		return tool.Output{}, err
	}
	if len(found.Lines) > 0 {
		none = ""
	}
	d.Total = len(found.Lines)
	for _, l := range found.Lines[:min(d.Total, most(a.Operation))] {
		d.add(in.Dir, l)
	}
	if found.Full {
		d.note("the search stopped early, there are too many lines; narrow it")
	}
	if found.Partial > 0 {
		d.note("%d files were not searched to their end", found.Partial)
	}
	if found.Withheld > 0 {
		d.note("left out are files with such lines that policies deny or ask to read: %d", found.Withheld)
	}
	if found.Refused > 0 {
		d.note("%d directories were not searched, or ignore files not read", found.Refused)
	}
	return d.output(none), nil
}

// symbolOf returns the word at the position of the call, or "".
func symbolOf(ctx context.Context, in tool.In, box sandbox.Box, a arguments) (string, error) {
	file, err := toolkit.Judged(in, a.File, guard.Read)
	if err != nil {
		return "", err
	}
	number := int64(*a.Line) + 1
	lines, err := search.ReadLines(ctx, box, file, number)
	if err != nil {
		return "", err
	}
	return symbolAt(lines[number], a.Character), nil
}

// bySearch names the search as the author of an answer.
const bySearch = "search"

// data is the part of the result that only clients get.
type data struct {
	Operation string   `json:"operation"`
	By        string   `json:"by"` // name of the language server, or "search"
	Symbol    string   `json:"symbol,omitempty"`
	Lines     []string `json:"lines"`
	Text      string   `json:"text,omitempty"` // text of hover
	Total     int      `json:"total"`          // number of results, also of those not shown
	Truncated bool     `json:"truncated"`
	LeftOut   int      `json:"left_out,omitempty"` // places of a language server that may not be shown
	notes     []string
}

func (d *data) add(dir string, l search.Line) {
	d.Lines = append(d.Lines, fmt.Sprintf("%s:%d:%s", toolkit.Shown(dir, l.Path), l.Number, l.Text))
}

func (d *data) note(format string, args ...any) {
	d.notes = append(d.notes, "[note: "+fmt.Sprintf(format, args...)+"]")
}

// output returns the answer. If there are no lines, its text is none.
func (d *data) output(none string) tool.Output {
	text := d.Lines
	if len(text) == 0 && none != "" {
		text = []string{none}
	}
	if d.Truncated = len(d.Lines) < d.Total-d.LeftOut; d.Truncated {
		d.notes = append([]string{fmt.Sprintf("[note: %d of %d]", len(d.Lines), d.Total-d.LeftOut)}, d.notes...)
	}
	return tool.Output{Data: *d, Text: strings.Join(append(text[:len(text):len(text)], d.notes...), "\n")}
}
