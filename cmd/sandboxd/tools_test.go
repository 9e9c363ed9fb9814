package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/golden"
)

func runTools(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := toolsCmd()
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.Execute()
	return out.String(), err
}

func TestTools_ListAndShow(t *testing.T) {
	got, err := runTools(t, "ls")
	if err != nil || !strings.Contains(got, "\nRead ") || !strings.Contains(got, "\nBash ") {
		t.Errorf("got %q, %v, want a table of the tools", got, err)
	}
	got, err = runTools(t, "show", "read")
	if err != nil || !strings.Contains(got, "### Read") || !strings.Contains(got, "`file_path`") {
		t.Errorf("got %q, %v, want the arguments of Read", got, err)
	}
	for _, format := range []string{"openai", "anthropic", "mcp"} {
		got, err = runTools(t, "show", "Edit", "--format", format)
		var defs []map[string]any
		if err != nil || json.Unmarshal([]byte(got), &defs) != nil || len(defs) != 1 {
			t.Errorf("%s: got %q, %v, want one definition", format, got, err)
		}
	}
	for _, bad := range [][]string{{"show", "Nope"}, {"show"}, {"ls", "--format", "xml"}, {"ls", "x"}} {
		if got, err := runTools(t, bad...); err == nil {
			t.Errorf("%v: got %q, want an error", bad, got)
		}
	}
}

// The man pages of one source are the same bytes on every day: packages that are built again can be compared.
func TestManPagesHaveNoDateOfTheirBuild(t *testing.T) {
	dir := t.TempDir()
	root := rootCmd()
	root.SetArgs([]string{"docs", "man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "sandboxd.1"))
	if err != nil || !strings.Contains(string(page), `"Jan 1970"`) {
		t.Errorf("got %.200s (%v), want the first month of the epoch", page, err)
	}
}

func TestDocs_ToolsPageIsGenerated(t *testing.T) {
	golden.Check(t, "../../docs/tools.md", toolsPage())
}

// The command lists every tool of the page.
func TestTools_ListsEveryToolOfThePage(t *testing.T) {
	listed, err := runTools(t, "ls")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(toolsPage(), -1)
	for _, h := range headings {
		if !strings.Contains(listed, "\n"+h[1]+" ") {
			t.Errorf("sandboxd tools ls lacks %s", h[1])
		}
	}
	if len(headings) < 17 {
		t.Errorf("the page has %d tools", len(headings))
	}
}
