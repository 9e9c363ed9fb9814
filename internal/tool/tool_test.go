package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// full says everything itself.
type full struct{ fake }

func (full) Format(any, json.RawMessage) (string, error) { return "formatted", nil }
func (full) Truncate(string, json.RawMessage) string     { return "cut" }
func (full) CompressArgs(json.RawMessage) string         { return "args" }
func (full) CompressResult(string) string                { return "result" }

// TestT01_WhatAToolMayLeaveOut holds a tool that says everything beside one that
// leaves all of it to the defaults.
func TestT01_WhatAToolMayLeaveOut(t *testing.T) {
	long := strings.Repeat("x", 2*tool.DefaultOutputLimit)
	for _, tt := range []struct {
		name                    string
		tool                    tool.Tool
		formatted, cut, logLine string
		atMost                  int
	}{
		{"all left out", fake{}, "{\n  \"a\": 1\n}", "", "", tool.DefaultOutputLimit + 100},
		{"a limit of its own", fake{tool.Spec{OutputLimit: 100}}, "{\n  \"a\": 1\n}", "", "", 300},
		{"never cut", fake{tool.Spec{NoTruncate: true}}, "{\n  \"a\": 1\n}", long, "", len(long)},
		{"all its own", full{}, "formatted", "cut", "args", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := tt.tool.Spec()
			if got := tool.Format(tt.tool, tool.Output{Data: map[string]int{"a": 1}}, nil); got != tt.formatted {
				t.Errorf("formatted %q, want %q", got, tt.formatted)
			}
			got, truncated := tool.Truncate(tt.tool, spec, long, nil)
			if len(got) > tt.atMost || truncated == (got == long) || tt.cut != "" && got != tt.cut {
				t.Errorf("%d characters, truncated %v, want at most %d", len(got), truncated, tt.atMost)
			}
			if got := tool.CompressArgs(tt.tool, json.RawMessage(`{"command": "ls"}`)); tt.logLine != "" &&
				got != tt.logLine || got == "" {
				t.Errorf("the arguments become %q, want %q", got, tt.logLine)
			}
			if !spec.Destructive() {
				t.Error("a tool without annotations is not taken as destructive")
			}
		})
	}
}
