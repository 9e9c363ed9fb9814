package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// manyRules are n permission rules of all kinds, none of which matches the calls
// of the benchmarks.
func manyRules(n int) permission.Rules {
	var r permission.Rules
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
		bash(b, tool.ModeAuto, "git status"),
		bash(b, tool.ModeAuto, "go test ./... | tail -5"),
		fileCall(b, tool.ModeAuto, "Read", "/src/a/b/c.go"),
		fileCall(b, tool.ModeAuto, "Edit", "/src/a/b/c.go"),
	}
}

// each runs f over the calls, one at a time.
func each(calls []*tool.Call, f func(*tool.Call)) func() {
	i := 0
	return func() { f(calls[i%len(calls)]); i++ }
}

// trivial is the floor of the engine: one rule, prepared inputs.
func trivial(b *testing.B, calls []*tool.Call) func() {
	q, err := rego.New(rego.Query("data.x.findings"),
		rego.Module("x.rego", "package x\n\nfindings contains 1 if input.tool.name == \"none\""),
		rego.StrictBuiltinErrors(true)).PrepareForEval(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	inputs := map[*tool.Call]ast.Value{}
	for _, c := range calls {
		in, err := input.New(c)
		if err != nil {
			b.Fatal(err)
		}
		inputs[c] = in.Value(nil)
	}
	return each(calls, func(c *tool.Call) {
		if _, err := q.Eval(context.Background(), rego.EvalParsedInput(inputs[c])); err != nil {
			b.Fatal(err)
		}
	})
}

func deciding(b *testing.B, opts Options, calls []*tool.Call) func() {
	opts.Deadline = 10 * time.Second // a busy machine must not turn a time into a deny
	e := newEngine(b, opts)
	return each(calls, func(c *tool.Call) {
		if d := decide(b, e, c); d.By == tool.ByCore {
			b.Fatal(d)
		}
	})
}

// BenchmarkDecide is a whole decision: facts, full library, combination. The
// case "matching" has rules of several kinds that hold.
func BenchmarkDecide(b *testing.B) {
	calls := benchCalls(b)
	matching := manyRules(200)
	matching.Allow = append(matching.Allow, "Bash(git *)", "Bash(go test *)", "Bash(tail *)", "Edit(*.go)", "Read(//src/**)")
	bench.Compare(b, []bench.Case{
		{Name: "trivial query", Run: trivial(b, calls)},
		{Name: "10 rules", Run: deciding(b, Options{Rules: manyRules(10)}, calls)},
		{Name: "200 rules", Run: deciding(b, Options{Rules: manyRules(200)}, calls)},
		{Name: "10000 rules", Run: deciding(b, Options{Rules: manyRules(10000)}, calls)},
		{Name: "200 rules, matching", Run: deciding(b, Options{Rules: matching}, calls)},
	},
		bench.Limit{Case: "200 rules", Over: "trivial query", AtMost: 4},
		bench.Limit{Case: "10000 rules", Over: "10 rules", AtMost: 1.2})
}

// BenchmarkInput is the part of a decision that makes the document.
func BenchmarkInput(b *testing.B) {
	calls := benchCalls(b)
	bench.Compare(b, []bench.Case{
		{Name: "trivial query", Run: trivial(b, calls)},
		{Name: "facts", Run: each(calls, func(c *tool.Call) {
			if _, err := input.New(c); err != nil {
				b.Fatal(err)
			}
		})},
		{Name: "facts and document", Run: each(calls, func(c *tool.Call) {
			in, err := input.New(c)
			if err != nil {
				b.Fatal(err)
			}
			in.Value(nil)
		})},
	})
}

// BenchmarkLongInput shows that the facts of a command cost no more in a long line.
func BenchmarkLongInput(b *testing.B) {
	facts := func(command string, n int) func() {
		return each([]*tool.Call{bash(b, tool.ModeAuto, strings.Repeat(command, n))}, func(c *tool.Call) {
			if _, err := input.New(c); err != nil {
				b.Fatal(err)
			}
		})
	}
	bench.Compare(b, []bench.Case{
		{Name: "500 commands", Run: facts("a;", 500)},
		{Name: "8000 commands", Run: facts("a;", 8000)},
		{Name: "250 downloads", Run: facts("$(curl a.b);", 250)},
		{Name: "4000 downloads", Run: facts("$(curl a.b);", 4000)},
	},
		bench.Limit{Case: "8000 commands", Over: "500 commands", AtMost: 48},
		bench.Limit{Case: "4000 downloads", Over: "250 downloads", AtMost: 48})
}

// BenchmarkExplain is an explanation without the nearest change.
func BenchmarkExplain(b *testing.B) {
	calls := benchCalls(b)
	opts := Options{Rules: manyRules(200)}
	e := newEngine(b, opts)
	bench.Compare(b, []bench.Case{
		{Name: "decision", Run: deciding(b, opts, calls)},
		{Name: "explanation", Run: each(calls, func(c *tool.Call) {
			explain(b, e, c)
		})},
	}, bench.Limit{Case: "explanation", Over: "decision", AtMost: 10})
}

// BenchmarkReload reads, compiles and swaps a revision, at rest. Files that stay are not compiled.
func BenchmarkReload(b *testing.B) {
	reloading := func(n int, changed bool) func() {
		e := newEngine(b, Options{Rules: manyRules(n)})
		return func() {
			if changed {
				lastCompiled.Store(nil)
			}
			if err := e.Reload(context.Background(), false); err != nil {
				b.Fatal(err)
			}
		}
	}
	bench.Compare(b, []bench.Case{
		{Name: "1000 rules", Run: reloading(1000, true)},
		{Name: "10000 rules", Run: reloading(10000, true)},
		{Name: "1000 rules, the same files", Run: reloading(1000, false)},
	}, bench.Limit{Case: "10000 rules", Over: "1000 rules", AtMost: 2, Plus: 40 * time.Millisecond},
		bench.Limit{Case: "1000 rules, the same files", Over: "1000 rules", AtMost: 0.6})
}
