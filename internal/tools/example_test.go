package tools_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools"
)

func Example() {
	registry := catalog.NewRegistry(tools.Groups()...)
	registry.SetDefaults(catalog.Defaults{AllGroups: true})
	for _, t := range registry.Enabled(tool.Session{}) {
		fmt.Println(t.Spec().Name)
	}
	// Output:
	// Bash
	// Edit
	// Glob
	// Grep
	// NotebookEdit
	// Read
	// WebFetch
	// WebSearch
	// Write
	// exec_command
}
