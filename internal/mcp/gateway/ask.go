package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// question is a question about a tool that is withheld.
type question struct {
	tool kept.Tool
	why  string
	was  string // the definition that was let in before
}

// maxAsked bounds the questions about one server that wait at the same time.
const maxAsked = 8

// ask asks a person about tools, once for each definition while the server is connected. The question is a call of
// its own and takes the whole request path, so it is in the queue with the definition, and in the record. If the
// server no longer gives a definition, ask takes its question back.
func (v *server) ask(ctx context.Context, all []question) {
	v.mu.Lock()
	given := map[string]bool{}
	for _, q := range all {
		given[q.tool.Pin()] = true
	}
	for pin, waits := range v.asking {
		if !given[pin] {
			delete(v.asking, pin)
			delete(v.asked, pin)
			waits.back()
		}
	}
	var fresh []*waits
	for _, q := range all {
		pin := q.tool.Pin()
		if v.asked[pin] || len(v.asking) >= maxAsked {
			continue
		}
		w := &waits{question: q}
		w.ctx, w.back = context.WithCancel(ctx)
		v.asked[pin], v.asking[pin] = true, w
		fresh = append(fresh, w)
	}
	v.mu.Unlock()
	for _, w := range fresh {
		go func() {
			defer v.answered(w)
			defer func() {
				if p := recover(); p != nil {
					v.x.g.log.Error("panic in a question about an MCP tool", "server", v.name, "panic", fmt.Sprint(p))
				}
			}()
			v.askAbout(w.ctx, w.question)
		}()
	}
}

// waits is a question that waits for a person.
type waits struct {
	question
	ctx  context.Context
	back context.CancelFunc
}

// answered offers the tool after a yes, and lets the next question be asked.
func (v *server) answered(w *waits) {
	v.mu.Lock()
	if pin := w.tool.Pin(); v.asking[pin] == w {
		delete(v.asking, pin)
	}
	v.mu.Unlock()
	w.back()
	v.again()
}

func (v *server) askAbout(ctx context.Context, q question) {
	args, err := json.Marshal(map[string]string{
		"server": v.name, "tool": q.tool.Name, "why": q.why, "definition": diff(q.was, string(q.tool.Text)),
	})
	if err != nil {
		return
	}
	r := v.x.g.host.Do(ctx, tool.Request{
		Account: v.x.owner, Role: tool.RoleAgent, Session: v.x.id, Tool: pinName, Args: args,
		Own: pinTool{v: v, tool: q.tool},
	})
	if ctx.Err() != nil {
		return
	}
	if r.Status != tool.StatusSuccess {
		msg := "nobody let it in"
		if r.Error != nil {
			msg = r.Error.Msg
		}
		v.x.g.log.Info("an MCP tool stays withheld", "session", v.x.id, "server", v.name, "tool", q.tool.Name,
			"why", msg)
	}
}

// pinName is the name of the question in the queue and in the record.
const pinName = "McpPin"

// pinTool lets a definition in after a person has allowed it.
type pinTool struct {
	v    *server
	tool kept.Tool
}

// Spec implements [tool.Tool].
func (p pinTool) Spec() tool.Spec {
	return tool.Spec{
		Name: pinName, Class: tool.ClassState, Execution: tool.ExecAskAlways, NoCache: true, Origin: tool.OriginMCP,
		Description: "Lets a tool of an MCP server be offered to models, as its definition reads now.",
		Schema: json.RawMessage(`{"type":"object","properties":{"server":{"type":"string"},"tool":{"type":"string"},
"why":{"type":"string"},"definition":{"type":"string"}},"required":["server","tool","why","definition"],
"additionalProperties":false}`),
	}
}

// Uses implements [tool.Tool].
func (pinTool) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// Run implements [tool.Tool].
func (p pinTool) Run(ctx context.Context, _ tool.In, _ sandbox.Box) (tool.Output, error) {
	if err := p.v.x.g.kept.Accept(ctx, p.v.pinned(), p.tool); err != nil {
		return tool.Output{}, err
	}
	return tool.Output{Text: "The tool is offered as it was shown."}, nil
}

// diff shows a definition, or how it differs from the earlier one: lines of indented JSON with - and +.
func diff(was, is string) string {
	if was == "" {
		return strings.Join(lines(is), "\n")
	}
	a, b := lines(was), lines(is)
	// This finds the longest common subsequence. A definition has at most some thousand lines.
	common := make([][]uint16, len(a)+1)
	for i := range common {
		common[i] = make([]uint16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, "  "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "- "+a[i])
			i++
		default:
			out = append(out, "+ "+b[j])
			j++
		}
	}
	return strings.Join(out, "\n")
}

// maxLines bounds the lines that are compared one by one. A longer text is compared as one line.
const maxLines = 2000

func lines(text string) []string {
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return []string{text}
	}
	pretty, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return []string{text}
	}
	all := strings.Split(string(pretty), "\n")
	if len(all) > maxLines {
		return []string{text}
	}
	return all
}
