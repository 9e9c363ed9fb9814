package daemon

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// benchStack is the whole request path over a database in a file; it needs
// b.Setenv, like the tests.
func benchStack(b *testing.B) *attack {
	b.Helper()
	a := newAttack(b, "developer")
	a.restart()
	return a
}

func randomText(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 7))
	var s strings.Builder
	for s.Len() < n {
		fmt.Fprintf(&s, "%x ", r.Uint64()>>uint(r.IntN(60)))
	}
	return s.String()[:n]
}

// run makes one call, which must pass.
func (a *attack) run(name string, args any) func() {
	req := a.request(name, args)
	return func() {
		if r := a.line.Do(a.t.Context(), req); r.Status != tool.StatusSuccess {
			a.t.Fatalf("%s: %s", name, r.FinalText)
		}
	}
}

// BenchmarkResolveBesideACall: what looking for references and copies costs, in
// units of a whole call with the same arguments. The call itself includes it.
func BenchmarkResolveBesideACall(b *testing.B) {
	a := benchStack(b)
	args := map[string]string{"command": "true # " + randomText(1, 200)}
	raw, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	bench.Compare(b, []bench.Case{
		{Name: "call of Bash", Run: a.run("Bash", args)},
		{Name: "resolve", Run: func() {
			if _, _, err := a.parts.vars.Resolve(b.Context(), a.session, raw); err != nil {
				b.Fatal(err)
			}
		}},
	}, bench.Limit{Case: "resolve", Over: "call of Bash", AtMost: 0.02})
}

// BenchmarkShingles compares the same call in a session that has read 5 MB from
// outside and in one that has read nothing.
func BenchmarkShingles(b *testing.B) {
	for _, tt := range []struct {
		tool string
		args map[string]string
	}{
		{"Bash", map[string]string{"command": "true # " + randomText(1, 8<<10)}},
		{"Write", map[string]string{"content": randomText(1, 8<<10)}},
	} {
		b.Run(tt.tool, func(b *testing.B) {
			plain := benchStack(b)
			read := &attack{t: b, dir: plain.dir, line: plain.line, parts: plain.parts}
			read.restart()
			for i := range uint64(50) {
				c := tool.NewCall(tool.Request{Session: read.session, Tool: "Page", Args: json.RawMessage(`{}`)})
				c.Spec.Origin, c.Result.FormattedText = tool.OriginWeb, randomText(100+i, 100_000)
				if err := read.parts.vars.Remember(b.Context(), c, false); err != nil {
					b.Fatal(err)
				}
			}
			var cases []bench.Case
			for _, side := range []struct {
				name string
				a    *attack
			}{{"nothing read", plain}, {"5 MB read", read}} {
				if tt.tool == "Write" {
					tt.args["file_path"] = filepath.Join(plain.dir, "x")
				}
				cases = append(cases, bench.Case{Name: side.name, Run: side.a.run(tt.tool, tt.args), N: 350})
			}
			bench.Compare(b, cases, bench.Limit{Case: "5 MB read", Over: "nothing read", AtMost: 1.1})
		})
	}
}
