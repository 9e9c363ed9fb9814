package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
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
