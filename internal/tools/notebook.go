package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
)

// maxNotebook bounds a notebook that is read as one.
const maxNotebook = 20 << 20

// cell holds the fields of a notebook's cell that are shown.
type cell struct {
	ID      string          `json:"id"`
	Type    string          `json:"cell_type"`
	Source  json.RawMessage `json:"source"`
	Outputs []struct {
		Text   json.RawMessage            `json:"text"`
		Data   map[string]json.RawMessage `json:"data"`
		EName  string                     `json:"ename"`
		EValue string                     `json:"evalue"`
	} `json:"outputs"`
}

// multiline decodes text in either form that notebooks allow: a string or a list of strings.
func multiline(raw json.RawMessage) string {
	var parts []string
	if json.Unmarshal(raw, &parts) == nil {
		return strings.Join(parts, "")
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return ""
}

// readNotebook shows the cells of a notebook. If the file is no valid notebook, ok is false and the caller shows the
// file as text.
func readNotebook(ctx context.Context, f *os.File, u guard.PathUse) (out tool.Output, ok bool, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() > maxNotebook {
		return tool.Output{}, false, nil
	}
	raw := make([]byte, info.Size())
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, info.Size()), raw); err != nil {
		return tool.Output{}, false, nil
	}
	if err := toolkit.NeedForValues(ctx, raw); err != nil {
		return tool.Output{}, false, err
	}
	var book struct {
		Cells []cell `json:"cells"`
	}
	if json.Unmarshal(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), &book) != nil || book.Cells == nil {
		return tool.Output{}, false, nil
	}
	var b strings.Builder
	for i, c := range book.Cells {
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("cell-%d", i)
		}
		fmt.Fprintf(&b, "<cell id=%q type=%q>\n%s\n", id, c.Type, multiline(c.Source))
		for _, o := range c.Outputs {
			switch {
			case o.EName != "":
				fmt.Fprintf(&b, "[error] %s: %s\n", o.EName, o.EValue)
			case len(o.Text) > 0:
				fmt.Fprintf(&b, "[output]\n%s\n", multiline(o.Text))
			default:
				fmt.Fprintf(&b, "[output]\n%s\n", multiline(o.Data["text/plain"]))
			}
		}
		b.WriteString("</cell>\n")
	}
	return tool.Output{
		Data: map[string]any{"file_path": u.Path, "cells": len(book.Cells)},
		Text: strings.TrimSuffix(b.String(), "\n") +
			fmt.Sprintf("\n[note: notebook with %d cells; change one with NotebookEdit]", len(book.Cells)),
	}, true, nil
}
