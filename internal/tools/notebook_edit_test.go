package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
)

const book = `{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "a1",
   "metadata": {"x": 1.50},
   "outputs": [{"text": "1"}],
   "source": ["x = 1\n", "x < 2"]
  },
  {
   "cell_type": "markdown",
   "id": "b2",
   "metadata": {},
   "source": "# Title"
  }
 ],
 "metadata": {"kernel":   "odd spacing"},
 "nbformat": 4
}
`

func TestNotebookEditByCell(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  m
		cells []string // "type:id:source"
		diff  string
	}{
		{"replace", m{"cell_id": "a1", "new_source": "y = 2\n"}, []string{"code:a1:y = 2", "markdown:b2:# Title"}, "-x = 1\n-x < 2\n+y = 2\n"},
		{"replace by position when there is no id", m{"cell_id": "a1", "new_source": "é <b> \"q\""}, []string{`code:a1:é <b> "q"`, "markdown:b2:# Title"}, "+é"},
		{"change the type", m{"cell_id": "a1", "new_source": "text", "cell_type": "markdown"}, []string{"markdown:a1:text", "markdown:b2:# Title"}, "+text"},
		{"insert after", m{"cell_id": "a1", "edit_mode": "insert", "cell_type": "code", "new_source": "z"}, []string{"code:a1:x = 1\nx < 2", "code:cell-2:z", "markdown:b2:# Title"}, "+z"},
		{"insert at the end", m{"cell_id": "b2", "edit_mode": "insert", "cell_type": "markdown", "new_source": ""}, []string{"code:a1:x = 1\nx < 2", "markdown:b2:# Title", "markdown:cell-2:"}, ""},
		{"insert at the start", m{"edit_mode": "insert", "cell_type": "markdown", "new_source": "z"}, []string{"markdown:cell-2:z", "code:a1:x = 1\nx < 2", "markdown:b2:# Title"}, "+z"},
		{"delete the first", m{"cell_id": "a1", "edit_mode": "delete"}, []string{"markdown:b2:# Title"}, "-x = 1"},
		{"delete the last", m{"cell_id": "b2", "edit_mode": "delete"}, []string{"code:a1:x = 1\nx < 2"}, "-# Title"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := toolstest.New(t)
			e.Write("n.ipynb", book)
			tt.args["notebook_path"] = "n.ipynb"
			if got := e.OK(NotebookEdit{}, tt.args); !strings.Contains(got, tt.diff) {
				t.Errorf("got %q, want %q in it", got, tt.diff)
			}
			after := e.Read("n.ipynb")
			var b struct{ Cells []cell }
			if err := json.Unmarshal([]byte(after), &b); err != nil {
				t.Fatalf("%v in\n%s", err, after)
			}
			var got []string
			for _, c := range b.Cells {
				got = append(got, c.Type+":"+c.ID+":"+multiline(c.Source))
			}
			if strings.Join(got, "|") != strings.Join(tt.cells, "|") {
				t.Errorf("got %q, want %q", got, tt.cells)
			}
			if !strings.HasSuffix(after, ` "metadata": {"kernel":   "odd spacing"},`+"\n \"nbformat\": 4\n}\n") {
				t.Errorf("the rest of the file changed:\n%s", after)
			}
		})
	}
}

func TestNotebookEdit_EmptyAndOldNotebooks(t *testing.T) {
	e := toolstest.New(t)
	e.Write("empty.ipynb", `{"cells":[],"nbformat":4}`)
	e.OK(NotebookEdit{}, m{
		"notebook_path": "empty.ipynb", "edit_mode": "insert", "cell_type": "code", "new_source": "1",
	})
	e.Write("old.ipynb",
		`{"cells":[{"cell_type":"code","metadata":{},"source":"a","outputs":[{"text":"x"}],"execution_count":1}],"nbformat":4}`)
	e.OK(NotebookEdit{}, m{"notebook_path": "old.ipynb", "cell_id": "cell-0", "new_source": "b"})
	for file, want := range map[string]string{"empty.ipynb": "1", "old.ipynb": "b"} {
		var b struct{ Cells []cell }
		if err := json.Unmarshal([]byte(e.Read(file)), &b); err != nil || len(b.Cells) != 1 ||
			multiline(b.Cells[0].Source) != want || len(b.Cells[0].Outputs) != 0 || b.Cells[0].ID != "" {
			t.Errorf("%s: got %s, %v", file, e.Read(file), err)
		}
	}
	e.OK(NotebookEdit{}, m{"notebook_path": "old.ipynb", "cell_id": "cell-0", "edit_mode": "delete"})
	if got := e.Read("old.ipynb"); got != `{"cells":[],"nbformat":4}` {
		t.Errorf("got %s", got)
	}
	e.Write("taken.ipynb", `{"nbformat":4,"cells":[{"cell_type":"markdown","id":"cell-1","source":"a"}]}`)
	e.OK(NotebookEdit{}, m{
		"notebook_path": "taken.ipynb", "edit_mode": "insert", "cell_type": "markdown", "new_source": "b",
	})
	if got := e.Read("taken.ipynb"); !strings.Contains(got, `"id": "cell-2"`) {
		t.Errorf("a new cell has an id of another one: %s", got)
	}
}

func TestNotebookEdit_Refuses(t *testing.T) {
	e := toolstest.New(t)
	e.Write("n.ipynb", book)
	e.Write("bad.ipynb", `{"cells":[{}`)
	e.Write("list.ipynb", `{"cells":{}}`)
	e.Write("odd.ipynb", `{"cells":[1]}`)
	e.Write("nocells.ipynb", `{"metadata":{"cells":[{}]},"nbformat":4}`)
	e.Write("f.txt", "x")
	for _, tt := range []struct {
		args m
		code string
	}{
		{m{"notebook_path": "n.ipynb", "cell_id": "zz", "new_source": "x"}, "cell_not_found"},
		{m{"notebook_path": "n.ipynb", "cell_id": "a1"}, "invalid_arguments"},
		{m{"notebook_path": "n.ipynb", "new_source": "x"}, "invalid_arguments"},
		{m{"notebook_path": "n.ipynb", "edit_mode": "insert", "new_source": "x"}, "invalid_arguments"},
		{m{"notebook_path": "bad.ipynb", "cell_id": "a", "new_source": "x"}, "not_a_notebook"},
		{m{"notebook_path": "list.ipynb", "cell_id": "a", "new_source": "x"}, "not_a_notebook"},
		{m{"notebook_path": "odd.ipynb", "cell_id": "cell-0", "new_source": "x"}, "not_a_notebook"},
		{m{"notebook_path": "nocells.ipynb", "cell_id": "cell-0", "new_source": "x"}, "not_a_notebook"},
		{m{"notebook_path": "f.txt", "cell_id": "a", "new_source": "x"}, "not_a_notebook"},
		{m{"notebook_path": "none.ipynb", "cell_id": "a", "new_source": "x"}, "file_not_found"},
	} {
		e.Fails(NotebookEdit{}, tt.args, tt.code)
	}
	if e.Read("n.ipynb") != book {
		t.Error("a refused edit changed the file")
	}
}

// A program reads what was changed without the text for the model.
func TestNotebookEdit_TheAnswerHasWhatWasChanged(t *testing.T) {
	e := toolstest.New(t)
	path := e.Write("n.ipynb", book)
	_, out, err := e.Call(NotebookEdit{}, m{"notebook_path": "n.ipynb", "cell_id": "a1", "edit_mode": "delete"})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := out.Data.(map[string]any)
	diff, _ := d["diff"].(string)
	if d["notebook_path"] != path || d["edit_mode"] != "delete" || d["cell_id"] != "a1" ||
		!strings.Contains(diff, "-x = 1\n") {
		t.Errorf("got %v", out.Data)
	}
}
