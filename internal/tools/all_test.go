package tools

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
)

// TestAll is what every tool must do.
func TestAll(t *testing.T) {
	name := regexp.MustCompile(`^[A-Z][A-Za-z]+$|^exec_command$`) // which is the name of another agent
	seenNames := map[string]bool{}
	for _, g := range append(Groups(), SessionGroup(&memorySessions{}, catalog.NewRegistry())) {
		for _, tl := range g.Tools {
			s := tl.Spec()
			t.Run("T35 "+s.Name, func(t *testing.T) {
				if !name.MatchString(s.Name) || seenNames[s.Name] {
					t.Errorf("name %q is not PascalCase or not unique", s.Name)
				}
				seenNames[s.Name] = true
				if s.Description == "" || s.Class == "" || s.Annotations == nil {
					t.Error("description, class and annotations are required")
				}
				if s.Annotations != nil && s.Annotations.ReadOnly != s.ReadOnly {
					t.Error("the hint and the tool disagree on read-only")
				}
				if !strings.Contains(string(s.Schema), `"additionalProperties":false`) {
					t.Error("the schema takes unknown fields")
				}
			})
			t.Run("T08 bad arguments for "+s.Name, func(t *testing.T) {
				var v catalog.Validator
				for _, args := range []string{
					``, `null`, `[]`, `"x"`, `{"nope":1}`,
					`{"file_path":1,"pattern":1,"command":1,"action":1,"query":1}`, `{`,
				} {
					var te *tool.Error
					if err := v.Validate(s, json.RawMessage(args)); !errors.As(err, &te) ||
						te.Code != "invalid_arguments" || te.Hint == "" {
						t.Errorf("%s: got %v, want invalid_arguments with a hint", args, err)
					}
				}
			})
			t.Run("no crash without a schema check: "+s.Name, func(t *testing.T) {
				e := toolstest.New(t)
				for _, args := range []string{``, `null`, `[]`, `{}`, `{"file_path":1,"command":1,"pattern":1}`} {
					in := e.In(args)
					_, _ = tl.Uses(t.Context(), in)
					if s.Class != tool.ClassExec && s.Class != tool.ClassState {
						if _, err := tl.Run(t.Context(), in, e.Box); err == nil && args != `{}` && args != "null" {
							t.Errorf("%q runs", args)
						}
					}
				}
			})
		}
	}
}

// TestCX58_WhatOfAResultReachesTheModel: each tool has a bound, which docs/tools.md names.
func TestCX58_WhatOfAResultReachesTheModel(t *testing.T) {
	want := map[string]int{"Bash": 30_000, "exec_command": 30_000, "ToolSearch": 30_000, "Read": 100_000, "Edit": 8000}
	for _, g := range append(Groups(), SessionGroup(&memorySessions{}, catalog.NewRegistry())) {
		for _, tl := range g.Tools {
			s := tl.Spec()
			most, is := want[s.Name]
			if !is {
				continue
			}
			delete(want, s.Name)
			for n, cut := range map[int]bool{most: false, most + 1: true} {
				if _, got := tool.Truncate(tl, s, strings.Repeat("x", n), nil); got != cut {
					t.Errorf("%d characters of %s are cut: %v, want %v", n, s.Name, got, cut)
				}
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("there is no tool for %v", want)
	}
}
