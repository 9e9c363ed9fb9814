package lsp

import (
	"fmt"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
)

// The operations.
const (
	goToDefinition     = "goToDefinition"
	goToImplementation = "goToImplementation"
	findReferences     = "findReferences"
	hover              = "hover"
	documentSymbol     = "documentSymbol"
	workspaceSymbol    = "workspaceSymbol"
)

type arguments struct {
	Operation string `json:"operation"`
	File      string `json:"file_path"`
	Line      *int   `json:"line"`
	Character int    `json:"character"`
	Query     string `json:"query"`
}

// decode decodes the arguments. It refuses them if one is missing that the operation needs.
func decode(in tool.In) (arguments, error) {
	a, err := tool.Decode[arguments](in)
	if err != nil {
		return a, err
	}
	switch {
	case a.Operation == workspaceSymbol && !oneLine(a.Query):
		return a, bad("query is required for workspaceSymbol: a part of a name, of 200 bytes at most", "")
	case a.Operation != workspaceSymbol && a.File == "":
		return a, bad(fmt.Sprintf("file_path is required for %s", a.Operation), "")
	case a.at() && a.Line == nil:
		return a, bad(fmt.Sprintf("line is required for %s", a.Operation), "lines count from 0")
	}
	return a, nil
}

// at reports whether the operation needs a position.
func (a arguments) at() bool { return a.Operation != workspaceSymbol && a.Operation != documentSymbol }

func bad(msg, hint string) error { return &tool.Error{Code: "invalid_arguments", Msg: msg, Hint: hint} }

// uses returns the file of the call. If a language server or a search reads all files, it also returns the working
// directory. Files there that the settings deny are left out of the answer.
func uses(in tool.In, a arguments, served bool) (guard.Uses, error) {
	var raw []string
	if a.File != "" {
		raw = append(raw, a.File)
	}
	if served || a.Operation != documentSymbol && a.Operation != hover {
		raw = append(raw, here)
	}
	var all guard.Uses
	for _, r := range raw {
		u, err := toolkit.Path(in, r, guard.Read)
		if err != nil {
			return guard.Uses{}, err
		}
		all.Paths = append(all.Paths, u)
	}
	return all, nil
}

// here is the working directory as an argument.
const here = "."
