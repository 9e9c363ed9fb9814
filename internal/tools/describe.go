package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Describe describes a tool in Markdown for people. docs/tools.md is generated with it.
func Describe(s tool.Spec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s\n\n", s.Name, s.Description)
	facts := []string{"class " + string(s.Class)}
	switch {
	case s.ReadOnly:
		facts = append(facts, "read-only")
	case s.Destructive():
		facts = append(facts, "destructive")
	}
	if a := s.Annotations; a != nil && a.Idempotent {
		facts = append(facts, "idempotent")
	}
	if a := s.Annotations; a == nil || a.OpenWorld {
		facts = append(facts, "reaches other systems")
	}
	if s.Origin != "" {
		facts = append(facts, "origin "+string(s.Origin))
	}
	if s.NoCache {
		facts = append(facts, "its result becomes no variable")
	}
	if s.Returns != nil {
		facts = append(facts, "returns "+s.Returns.Type+" ("+s.Returns.Note+")")
	}
	limit := s.OutputLimit
	if limit == 0 {
		limit = tool.DefaultOutputLimit
	}
	if !s.NoTruncate {
		facts = append(facts, fmt.Sprintf("at most %d characters reach the model", limit))
	}
	fmt.Fprintf(&b, "%s.\n", strings.Join(facts, "; "))
	var schema struct {
		Properties map[string]struct {
			Type        any      `json:"type"`
			Enum        []string `json:"enum"`
			Description string   `json:"description"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if json.Unmarshal(s.Schema, &schema) != nil || len(schema.Properties) == 0 {
		b.WriteString("\nIt takes no arguments.\n")
		return b.String()
	}
	required := map[string]bool{}
	for _, r := range schema.Required {
		required[r] = true
	}
	names := slices.SortedFunc(maps.Keys(schema.Properties), func(a, b string) int {
		if required[a] != required[b] {
			if required[a] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	b.WriteString("\n| argument | type | |\n| --- | --- | --- |\n")
	for _, n := range names {
		p := schema.Properties[n]
		kind := fmt.Sprint(p.Type)
		if p.Type == nil {
			kind = "any"
		}
		if len(p.Enum) > 0 {
			kind = strings.Join(p.Enum, ", ")
		}
		if required[n] {
			kind += ", required"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", n, kind, strings.ReplaceAll(p.Description, "|", `\|`))
	}
	return b.String()
}
