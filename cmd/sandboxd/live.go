package main

import (
	"io"
	"strings"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// printer shows what a call prints while it runs.
type printer struct {
	out, err io.Writer // where only what is visible comes out
	shown    bool
	ends     byte // the last byte that was shown
}

// hear shows one event.
func (p *printer) hear(e client.Progress) {
	if e.Output == nil {
		sayWaiting(p.err)(e)
		return
	}
	to := p.out
	if e.Output.Stream == "stderr" {
		to = p.err
	}
	if text := e.Output.Text; text != "" {
		p.shown, p.ends = true, text[len(text)-1]
		_, _ = io.WriteString(to, text)
	}
}

// end leaves in a result what was not shown yet; it reports whether that is anything.
func (p *printer) end(r *tool.Result) bool {
	if !p.shown {
		return true
	}
	if p.ends != '\n' {
		_, _ = io.WriteString(p.out, "\n")
	}
	if r.Error != nil {
		r.Error.Msg, _, _ = strings.Cut(r.Error.Msg, "; until then it wrote\n")
		return true
	}
	data, _ := r.Data.(map[string]any)
	notes, _ := data["notes"].([]any)
	var lines []string
	for _, n := range notes {
		if s, ok := n.(string); ok {
			lines = append(lines, s)
		}
	}
	r.FinalText = strings.Join(lines, "\n")
	return r.FinalText != "" || len(r.SystemMessages) > 0
}
