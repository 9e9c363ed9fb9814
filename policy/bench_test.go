package policy

import (
	"context"
	"fmt"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/sandboxd/sandboxd/tool"
)

// manyRules are n permission rules of all kinds, none of which matches the calls
// of the benchmarks.
func manyRules(n int) Rules {
	var r Rules
	for i := range n {
		switch i % 5 {
		case 0:
			r.Deny = append(r.Deny, fmt.Sprintf("Bash(tool%d sub *)", i))
		case 1:
			r.Allow = append(r.Allow, fmt.Sprintf("Bash(make target%d)", i))
		case 2:
			r.Deny = append(r.Deny, fmt.Sprintf("Read(//srv/data%d/**)", i))
		case 3:
			r.Ask = append(r.Ask, fmt.Sprintf("WebFetch(domain:host%d.example)", i))
		case 4:
			r.Deny = append(r.Deny, fmt.Sprintf("mcp__server%d__tool", i))
		}
	}
	return r
}

func benchCalls(b *testing.B) []*tool.Call {
	return []*tool.Call{
		bash(b, ModeAuto, "git status"),
		bash(b, ModeAuto, "go test ./... | tail -5"),
		fileCall(b, ModeAuto, "Read", "/src/a/b/c.go"),
		fileCall(b, ModeAuto, "Edit", "/src/a/b/c.go"),
	}
}

// BenchmarkTrivialQuery is the floor of the engine: one rule, the same inputs.
func BenchmarkTrivialQuery(b *testing.B) {
	q, err := rego.New(rego.Query("data.x.findings"),
		rego.Module("x.rego", "package x\n\nfindings contains 1 if input.tool.name == \"none\""),
		rego.StrictBuiltinErrors(true)).PrepareForEval(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	var inputs []ast.Value
	for _, c := range benchCalls(b) {
		in, err := NewInput(c)
		if err != nil {
			b.Fatal(err)
		}
		v, err := in.value()
		if err != nil {
			b.Fatal(err)
		}
		inputs = append(inputs, v)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := q.Eval(context.Background(), rego.EvalParsedInput(inputs[i%len(inputs)])); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecide is a whole decision: facts, full library, combination.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 200, 1000, 10000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			e := newEngine(b, Options{Rules: manyRules(n)})
			calls := benchCalls(b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if d := decide(b, e, calls[i%len(calls)]); d.By == tool.ByCore {
					b.Fatal(d)
				}
			}
		})
	}
}

// BenchmarkInput is the part of a decision that makes the document.
func BenchmarkInput(b *testing.B) {
	calls := benchCalls(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in, err := NewInput(calls[i%len(calls)])
		if err != nil {
			b.Fatal(err)
		}
		if _, err := in.value(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExplain is an explanation without the nearest change.
func BenchmarkExplain(b *testing.B) {
	e := newEngine(b, Options{Rules: manyRules(200)})
	calls := benchCalls(b)
	for i := 0; b.Loop(); i++ {
		if _, err := e.Explain(context.Background(), calls[i%len(calls)], false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReload compiles and swaps a revision.
func BenchmarkReload(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			e := newEngine(b, Options{Rules: manyRules(n)})
			for b.Loop() {
				if err := e.Reload(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
