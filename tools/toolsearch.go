package tools

import (
	"context"
	"encoding/json"
	"sort"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// maxToolHits is how many tools one search returns (T-50).
const maxToolHits = 5

// ToolSearch finds enabled tools that the model was not told about.
type ToolSearch struct {
	sessions Sessions
	tools    Lister
}

type toolSearchArgs struct {
	Query string `json:"query"`
	Max   int    `json:"max_results"`
}

// Spec implements [tool.Tool].
func (ToolSearch) Spec() tool.Spec {
	return tool.Spec{
		Name:        "ToolSearch",
		Description: "Finds tools of this session and returns their definitions: by words, or by name with select:Name,Name. At most 5.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"query":{"type":"string","minLength":1,"maxLength":500,"description":"words, or select: and names"},
"max_results":{"type":"integer","minimum":1,"maximum":5,"description":"default 5"}},
"required":["query"],"additionalProperties":false}`),
		Class: tool.ClassRead, ReadOnly: true,
		Annotations: &tool.Annotations{ReadOnly: true, Idempotent: true},
		OutputLimit: 30_000,
		Returns:     &tool.Returns{Type: "array", Note: "tool definitions"},
	}
}

// Uses implements [tool.Tool].
func (ToolSearch) Uses(context.Context, tool.In) (sandbox.Uses, error) { return sandbox.Uses{}, nil }

// Run implements [tool.Tool].
func (t ToolSearch) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := decode[toolSearchArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	s, err := t.sessions.Session(ctx, in.Account, in.Session)
	if err != nil {
		return tool.Output{}, err
	}
	limit := maxToolHits
	if args.Max > 0 {
		limit = min(args.Max, maxToolHits)
	}
	enabled := t.tools.Enabled(s)
	var hits []tool.Tool
	if names, ok := strings.CutPrefix(args.Query, "select:"); ok {
		wanted := strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' })
		if len(wanted) > 0 {
			hits = tool.Filter(enabled, wanted, nil)
		}
	} else {
		hits = rank(enabled, strings.Fields(strings.ToLower(args.Query)))
	}
	if len(hits) == 0 {
		return tool.Output{Data: []any{}, Text: "no tool found; try other words"}, nil
	}
	defs, err := tool.Definitions(hits[:min(len(hits), limit)], "anthropic")
	return tool.Output{Data: defs}, err
}

// rank orders tools by how many of the words they hold; a word in the name counts
// most.
func rank(tools []tool.Tool, words []string) []tool.Tool {
	type scored struct {
		tool  tool.Tool
		score int
	}
	var found []scored
	for _, t := range tools {
		s := t.Spec()
		name, text := strings.ToLower(s.Name), strings.ToLower(s.Description)
		score := 0
		for _, w := range words {
			switch {
			case name == w:
				score += 10
			case strings.Contains(name, w):
				score += 5
			case strings.Contains(text, w):
				score++
			}
		}
		if score > 0 {
			found = append(found, scored{t, score})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].score > found[j].score })
	hits := make([]tool.Tool, len(found))
	for i, f := range found {
		hits[i] = f.tool
	}
	return hits
}
