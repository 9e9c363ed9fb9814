package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// typicalLines are what agents send.
var typicalLines = []struct{ name, line string }{
	{"status", "git status"},
	{"pipe", "go test ./... 2>&1 | grep -v ok | tail -20"},
	{
		"heredoc", "cat > main.go <<'EOF'\npackage main\n\nimport \"fmt\"\n\nfunc main() {\n" +
			"\tfmt.Println(1)\n\tfmt.Println(2)\n\tfmt.Println(3)\n\tfmt.Println(4)\n\tfmt.Println(5)\n" +
			"\tfmt.Println(6)\n\tfmt.Println(7)\n\tfmt.Println(8)\n\tfmt.Println(9)\n}\nEOF\n" +
			"go build ./... && go vet ./...\n",
	},
}

// bareParse is the syntax tree alone, by a parser that is used again.
func bareParse(b *testing.B) func(line []byte) {
	p := syntax.NewParser(syntax.Variant(syntax.LangBash))
	return func(line []byte) {
		if _, err := p.Parse(bytes.NewReader(line), ""); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFactsAndCheck is what a line costs the judge, the file system not
// included, over its bare parse.
func BenchmarkFactsAndCheck(b *testing.B) {
	r := NewRules(Settings{
		DeniedPaths:    []string{"/etc/shadow", "/home/dev/.ssh"},
		DeniedCommands: []string{"rm", "sudo"}, AllowedWritePaths: []string{"/home/dev/app", "/tmp"},
	})
	bare := bareParse(b)
	var cases []bench.Case
	var limits []bench.Limit
	for _, l := range typicalLines {
		text := []byte(l.line)
		cases = append(cases,
			bench.Case{Name: l.name + " bare", Run: func() { bare(text) }},
			bench.Case{Name: l.name, Run: func() {
				s, err := shellparse.Parse(l.line, shellparse.Options{Dir: "/home/dev/app", Home: "/home/dev"})
				if err != nil {
					b.Fatal(err)
				}
				r.Check((*Rules)(nil).ScriptUses(s, "/home/dev/app"))
			}})
		limits = append(limits, bench.Limit{Case: l.name, Over: l.name + " bare", AtMost: 4})
	}
	bench.Compare(b, cases, limits...)
}

// BenchmarkRules shows that a check does not get slower with more rules.
func BenchmarkRules(b *testing.B) {
	script, err := shellparse.Parse(typicalLines[1].line+" > /home/dev/app3/x",
		shellparse.Options{Dir: "/home/dev/app1"})
	if err != nil {
		b.Fatal(err)
	}
	u := (*Rules)(nil).ScriptUses(script, "/home/dev/app1")
	var cases []bench.Case
	for _, n := range []int{10, 10_000} {
		var s Settings
		for i := range n {
			s.DeniedPaths = append(s.DeniedPaths, fmt.Sprintf("/srv/d%d/x", i))
			s.AllowedWritePaths = append(s.AllowedWritePaths, fmt.Sprintf("/home/dev/app%d", i))
			s.DeniedCommands = append(s.DeniedCommands, fmt.Sprintf("cmd%d", i))
		}
		r := NewRules(s)
		cases = append(cases, bench.Case{Name: fmt.Sprint(n), Run: func() {
			if refs := r.Check(u); refs != nil {
				b.Fatal(refs)
			}
		}})
	}
	bench.Compare(b, cases, bench.Limit{Case: "10000", Over: "10", AtMost: 1.2})
}

// BenchmarkBulk is "check command --jsonl" over the bare parse of its lines.
func BenchmarkBulk(b *testing.B) {
	const copies = 100
	var in bytes.Buffer
	enc := json.NewEncoder(&in)
	for range copies {
		for _, l := range typicalLines {
			if err := enc.Encode(map[string]any{
				"id": "x", "command": l.line, "cwd": "/home/dev/app",
				"settings": map[string]any{"deniedCommands": []string{"rm"}, "deniedPaths": []string{"/etc"}},
			}); err != nil {
				b.Fatal(err)
			}
		}
	}
	bare := bareParse(b)
	bulk := func() {
		if err := CheckCommandLines(bytes.NewReader(in.Bytes()), io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	bench.Compare(b, []bench.Case{
		{Name: "bare", Run: func() {
			for range copies {
				for _, l := range typicalLines {
					bare([]byte(l.line))
				}
			}
		}},
		{Name: "bulk", Run: bulk},
	}, bench.Limit{Case: "bulk", Over: "bare", AtMost: 5})
	start := time.Now()
	bulk()
	bench.Value(b, "typical lines", copies*float64(len(typicalLines))/time.Since(start).Seconds(), "lines/s", 0)
}

// BenchmarkGrowth parses and checks 64 KiB, as one script and as many short ones.
// Growth is linear: one long script costs what the short ones cost together, but
// for the garbage collector, which has more to keep; a quadratic step would cost
// many times as much.
func BenchmarkGrowth(b *testing.B) {
	r := NewRules(Settings{DeniedCommands: []string{"rm"}})
	const all = 64
	var cases []bench.Case
	var limits []bench.Limit
	for _, kib := range []int{1, 4, 16, 64} {
		text := strings.Repeat("go test ./pkg | grep -v ok > out/log\n", kib<<10/37)
		cases = append(cases, bench.Case{Name: fmt.Sprintf("%d x %d KiB", all/kib, kib), Run: func() {
			for range all / kib {
				r.JudgeCommand(text, "/home/dev/app", "/home/dev")
			}
		}})
		if kib > 1 {
			limits = append(limits, bench.Limit{Case: cases[len(cases)-1].Name, Over: cases[0].Name, AtMost: 1.5})
		}
	}
	bench.Compare(b, cases, limits...)
}
