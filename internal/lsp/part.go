package lsp

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Definition defines the tool as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name: "lsp", Deferred: []string{name},
		Config: func() part.Config { return Defaults() },
		Open: func(_ context.Context, h part.Host) (part.Part, error) {
			return newFeature(h, h.Config).part(), nil
		},
		Describe: func(c part.Config) part.Part { return newFeature(part.Host{}, c).part() },
	}
}

type feature struct {
	host   part.Host
	config atomic.Pointer[Config]

	mu     sync.Mutex // guards what follows
	slots  []*slot
	closed bool
}

func newFeature(h part.Host, c part.Config) *feature {
	f := &feature{host: h}
	f.config.Store(c.(*Config))
	return f
}

func (f *feature) part() part.Part {
	return part.Part{
		Groups: []catalog.Group{{Name: "lsp", Tools: []tool.Tool{lsp{f}}}},
		Own:    true, // the servers of its sessions
		Forget: func(_ context.Context, s tool.Session) error {
			f.drop(func(x *slot) bool { return x.session == s.ID })
			return nil
		},
		Reload: func(_ context.Context, c part.Config) {
			next := c.(*Config)
			f.config.Store(next)
			f.drop(func(x *slot) bool {
				_, still := next.Servers[x.name]
				return !still
			})
		},
		Metrics: []part.Gauge{{
			Name: "language_servers", Help: "Language servers that run, of all sessions.",
			Value: func() float64 { return float64(f.running()) },
		}},
		Status: func() any { return map[string]int{"running": f.running()} },
		Close: func() error {
			f.mu.Lock()
			f.closed = true
			f.mu.Unlock()
			f.drop(func(*slot) bool { return true })
			return nil
		},
	}
}

const name = "LSP"

// lsp is the tool.
type lsp struct{ f *feature }

// Spec implements [tool.Tool].
func (lsp) Spec() tool.Spec {
	return tool.Spec{
		Name: name,
		Description: "Finds where a symbol of source code is defined and used, and the symbols of a file or of the " +
			"working directory. Lines and characters of the arguments count from 0; the answer is lines of the form " +
			"path:line:text, where lines count from 1. A language server answers where the operator has named one " +
			"for the file. Without one it is a search: definitions are found by the keywords func, class, struct, " +
			"enum, protocol, typealias, let, var, export, type and const, and hover is an error.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"operation":{"type":"string","enum":["goToDefinition","goToImplementation","findReferences","hover","documentSymbol",
	"workspaceSymbol"]},
"file_path":{"type":"string","description":"the file; of workspaceSymbol, one in the language that is asked about"},
"line":{"type":"integer","minimum":0,"maximum":2147483646,
	"description":"line of the symbol, from 0 (definition, implementation, references, hover)"},
"character":{"type":"integer","minimum":0,"maximum":2147483646,
	"description":"character in the line, from 0, in UTF-16 code units (default 0)"},
"query":{"type":"string","description":"a part of the name (workspaceSymbol)"}},
"required":["operation"],"additionalProperties":false}`),
		Class: tool.ClassRead, ReadOnly: true, Origin: tool.OriginRepository,
		Annotations: &tool.Annotations{ReadOnly: true, Idempotent: true},
		OutputLimit: 50_000,
		Returns:     &tool.Returns{Type: "string", Note: "path:line:text"},
	}
}

// Uses implements [tool.Tool].
func (l lsp) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	a, err := decode(in)
	if err != nil {
		return guard.Uses{}, err
	}
	_, _, served := l.f.config.Load().server(a.File)
	return uses(in, a, served)
}

// Run implements [tool.Tool].
func (l lsp) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	a, err := decode(in)
	if err != nil {
		return tool.Output{}, err
	}
	if server, _, ok := l.f.config.Load().server(a.File); ok {
		return l.f.asked(ctx, in, box, a, server)
	}
	return searched(ctx, in, box, a)
}
