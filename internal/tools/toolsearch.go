package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// maxToolHits bounds the tools that one search returns (T-50).
const maxToolHits = 5

// ToolSearch finds enabled tools, above all those whose definitions the model does not get. The session lists the
// definitions of the tools found from then on.
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
		Name: "ToolSearch",
		Description: "Finds tools of this session, deferred ones too, and returns their definitions: " +
			"by words, or by name with select:Name,Name. At most 5.",
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
func (ToolSearch) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// Run implements [tool.Tool].
func (t ToolSearch) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[toolSearchArgs](in)
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
			hits = catalog.Filter(enabled, wanted, nil)
		}
	} else {
		hits = rank(enabled, strings.Fields(strings.ToLower(args.Query)))
	}
	if len(hits) == 0 {
		return tool.Output{Data: []any{}, Text: "no tool found; try other words"}, nil
	}
	hits = hits[:min(len(hits), limit)]
	if err := t.bring(ctx, in, s, hits); err != nil {
		return tool.Output{}, err
	}
	defs, err := catalog.Definitions(hits, "anthropic")
	return tool.Output{Data: defs}, err
}

// bring adds the deferred tools that were found to the session's list of definitions.
func (t ToolSearch) bring(ctx context.Context, in tool.In, s tool.Session, hits []tool.Tool) error {
	var found []string
	for _, h := range hits {
		if name := h.Spec().Name; t.tools.Deferred(s, name) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	_, err := t.sessions.Patch(ctx, in.Account, in.Session, func(s *tool.Session) error {
		all := append(slices.Clone(s.Found), found...)
		slices.Sort(all)
		s.Found = slices.Compact(all)
		return nil
	})
	return err
}

// rank sorts tools by how many of the words they hold. A word in the name counts most.
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
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	hits := make([]tool.Tool, len(found))
	for i, f := range found {
		hits[i] = f.tool
	}
	return hits
}
