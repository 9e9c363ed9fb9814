package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
)

// NotebookEdit changes one cell of a Jupyter notebook and leaves every other byte
// of the file as it is.
type NotebookEdit struct{ seen *seen }

type notebookArgs struct {
	Path   string  `json:"notebook_path"`
	CellID string  `json:"cell_id"`
	Source *string `json:"new_source"`
	Type   string  `json:"cell_type"`
	Mode   string  `json:"edit_mode"`
}

// Spec implements [tool.Tool].
func (NotebookEdit) Spec() tool.Spec {
	return tool.Spec{
		Name: "NotebookEdit",
		Description: "Replaces, inserts or deletes one cell of a Jupyter notebook. " +
			"Cells are named by their id, or as cell-N counted from 0, as Read shows them. " +
			"A code cell that is changed loses its outputs.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"notebook_path":{"type":"string","description":"the .ipynb file"},
"cell_id":{"type":"string",
	"description":
	"the cell to replace or delete; for insert the cell after which the new one goes (without it: at the start)"},
"new_source":{"type":"string","description":"the new text of the cell (replace, insert)"},
"cell_type":{"type":"string","enum":["code","markdown"],
	"description":"type of an inserted cell, or a new type for a replaced one"},
"edit_mode":{"type":"string","enum":["replace","insert","delete"],"description":"default replace"}},
"required":["notebook_path"],"additionalProperties":false}`),
		Class:       tool.ClassWrite,
		Annotations: &tool.Annotations{},
		Returns:     &tool.Returns{Type: "string", Note: "unified diff of the cell"},
	}
}

// Uses implements [tool.Tool].
func (NotebookEdit) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[notebookArgs](in)
	if err != nil {
		return guard.Uses{}, err
	}
	return readWrite(in, args.Path)
}

// Run implements [tool.Tool].
func (n NotebookEdit) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[notebookArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	if args.Mode == "" {
		args.Mode = "replace"
	}
	if err := args.check(); err != nil {
		return tool.Output{}, err
	}
	doc, err := openDocument(ctx, in, box, args.Path)
	if err != nil {
		return tool.Output{}, err
	}
	changed := n.seen.changed(in.Session, doc.read.Path, doc.info)
	if err := errors.Join(toolkit.Need(ctx, 2*doc.info.Size()), toolkit.NeedForValues(ctx, doc.content)); err != nil {
		return tool.Output{}, err
	}
	next, before, err := editNotebook(doc.content, args)
	if err != nil {
		return tool.Output{}, err
	}
	if err := doc.save(ctx, box, next); err != nil {
		return tool.Output{}, err
	}
	if after := look(ctx, box, doc.read); after != nil {
		n.seen.record(in.Session, doc.read.Path, after)
	}
	after := ""
	if args.Source != nil {
		after = *args.Source
	}
	name := toolkit.Shown(in.Dir, doc.read.Path)
	diff := udiff.Unified("a/"+name, "b/"+name, withFinalNewline(before), withFinalNewline(after))
	text := map[string]string{"replace": "replaced", "insert": "inserted", "delete": "deleted"}[args.Mode] +
		" a cell of " + args.Path + "\n" + diff
	if changed {
		text += "[note: the file had been changed since this session read it]\n"
	}
	return tool.Output{
		Data: map[string]any{
			"notebook_path": doc.read.Path, "edit_mode": args.Mode, "cell_id": args.CellID, "diff": diff,
		},
		Text: text,
	}, nil
}

func (a notebookArgs) check() error {
	switch {
	case !strings.HasSuffix(a.Path, ".ipynb"):
		return &tool.Error{
			Code: "not_a_notebook", Msg: a.Path + " is not named .ipynb", Hint: "use Edit for other files",
		}
	case a.Mode != "delete" && a.Source == nil:
		return &tool.Error{
			Code: "invalid_arguments", Msg: `field "new_source" is missing`, Hint: "give the text of the cell",
		}
	case a.Mode != "insert" && a.CellID == "":
		return &tool.Error{Code: "invalid_arguments", Msg: `field "cell_id" is missing`, Hint: "Read shows the ids"}
	case a.Mode == "insert" && a.Type == "":
		return &tool.Error{Code: "invalid_arguments", Msg: `field "cell_type" is missing`, Hint: "use code or markdown"}
	}
	return nil
}

func withFinalNewline(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// cellSpan holds the offsets at which a cell begins and ends in the file.
type cellSpan struct {
	id         string
	start, end int
}

// editNotebook returns the changed file and the text that the cell had before.
func editNotebook(content []byte, args notebookArgs) (next []byte, before string, err error) {
	cells, open, err := findCells(content)
	if err != nil {
		return nil, "", &tool.Error{
			Code: "not_a_notebook", Msg: args.Path + " cannot be read as a notebook: " + err.Error(),
			Hint: "Read shows the file as it is",
		}
	}
	at := -1
	for i, c := range cells {
		if c.id == args.CellID || c.id == "" && args.CellID == fmt.Sprintf("cell-%d", i) {
			at = i
			break
		}
	}
	if at < 0 && args.CellID != "" {
		return nil, "", &tool.Error{
			Code: "cell_not_found", Msg: fmt.Sprintf("there is no cell %q among %d", args.CellID, len(cells)),
			Hint: "Read shows the ids",
		}
	}
	indent := cellIndent(content, cells, open)
	switch args.Mode {
	case "replace":
		old := content[cells[at].start:cells[at].end]
		before, cell, err := changedCell(old, args, indent)
		if err != nil {
			return nil, "", err
		}
		return splice(content, cells[at].start, cells[at].end, cell), before, nil
	case "delete":
		before, _, err := changedCell(content[cells[at].start:cells[at].end], notebookArgs{Source: new(string)}, indent)
		if err != nil {
			return nil, "", err
		}
		start, end := cells[at].start, cells[at].end
		switch {
		case at+1 < len(cells):
			end = cells[at+1].start // removes the comma and the space after the cell
		case at > 0:
			start = cells[at-1].end // removes the comma before the cell
		}
		return splice(content, start, end, nil), before, nil
	}
	cell := newCell(cells, args, indent)
	switch {
	case len(cells) == 0:
		return splice(content, open, open, cell), "", nil
	case at < 0:
		return splice(content, cells[0].start, cells[0].start, append(cell, ",\n"+indent...)), "", nil
	}
	return splice(content, cells[at].end, cells[at].end, append([]byte(",\n"+indent), cell...)), "", nil
}

func splice(content []byte, start, end int, text []byte) []byte {
	next := make([]byte, 0, len(content)+len(text))
	next = append(next, content[:start]...)
	next = append(next, text...)
	return append(next, content[end:]...)
}

// findCells finds the cells of the top-level field "cells" and returns their offsets. open is the offset after the
// opening bracket.
func findCells(content []byte) (cells []cellSpan, open int, err error) {
	if err := json.Unmarshal(content, new(struct{})); err != nil {
		return nil, 0, err // the whole file must be JSON, not only the part before the cells
	}
	dec := json.NewDecoder(bytes.NewReader(content))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, 0, fmt.Errorf("it is not a JSON object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, 0, err
		}
		if key != "cells" {
			if err := dec.Decode(new(json.RawMessage)); err != nil {
				return nil, 0, err
			}
			continue
		}
		if t, err := dec.Token(); err != nil || t != json.Delim('[') {
			return nil, 0, fmt.Errorf("its cells are not a list")
		}
		open = int(dec.InputOffset())
		for dec.More() {
			var raw json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				return nil, 0, err
			}
			var c struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(raw, &c); err != nil {
				return nil, 0, err
			}
			end := int(dec.InputOffset())
			cells = append(cells, cellSpan{c.ID, end - len(raw), end})
		}
		return cells, open, nil
	}
	return nil, 0, fmt.Errorf("it has no cells")
}

// cellIndent returns the indentation of the first cell, which new cells get too. It is "" if that cell stands on the
// line of the bracket, and two spaces if there are no cells. open is the offset after the bracket.
func cellIndent(content []byte, cells []cellSpan, open int) string {
	if len(cells) == 0 {
		return "  "
	}
	space := content[open:cells[0].start]
	if i := bytes.LastIndexByte(space, '\n'); i >= 0 {
		return string(space[i+1:])
	}
	return ""
}

// changedCell gives a cell new text and, if asked, a new type.
func changedCell(raw []byte, args notebookArgs, indent string) (before string, cell []byte, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	fields := map[string]any{}
	if err := dec.Decode(&fields); err != nil {
		return "", nil, &tool.Error{
			Code: "not_a_notebook", Msg: "the cell is not an object", Hint: "Read shows the file as it is",
		}
	}
	source, err := json.Marshal(fields["source"])
	if err != nil {
		return "", nil, err
	}
	if args.Type != "" {
		fields["cell_type"] = args.Type
	}
	fields["source"] = sourceLines(*args.Source)
	if fields["cell_type"] == "code" {
		fields["outputs"], fields["execution_count"] = []any{}, nil
	} else {
		delete(fields, "outputs")
		delete(fields, "execution_count")
	}
	cell, err = encodeCell(fields, indent)
	return multiline(source), cell, err
}

// newCell encodes a new cell. It gets an id only if the other cells have one, because older formats forbid ids.
func newCell(cells []cellSpan, args notebookArgs, indent string) []byte {
	fields := map[string]any{"cell_type": args.Type, "metadata": map[string]any{}, "source": sourceLines(*args.Source)}
	if args.Type == "code" {
		fields["outputs"], fields["execution_count"] = []any{}, nil
	}
	if len(cells) > 0 && cells[0].id != "" {
		taken := map[string]bool{}
		for _, c := range cells {
			taken[c.id] = true
		}
		n := len(cells)
		for taken[fmt.Sprintf("cell-%d", n)] {
			n++
		}
		fields["id"] = fmt.Sprintf("cell-%d", n)
	}
	cell, err := encodeCell(fields, indent)
	if err != nil {
		panic("a cell of plain values cannot be encoded: " + err.Error())
	}
	return cell
}

// encodeCell writes a cell as Jupyter does: sorted fields, one space of indent.
func encodeCell(fields map[string]any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(indent, " ")
	if err := enc.Encode(fields); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func sourceLines(s string) []string {
	if s == "" {
		return []string{}
	}
	return strings.SplitAfter(strings.TrimSuffix(s, "\n"), "\n")
}
