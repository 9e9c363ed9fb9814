package integration

import (
	"fmt"
	"testing"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkLists compares a page of ten out of 10,000 with one out of few: the first page, a later
// one, and what a search finds. Each is a whole call, or a request over the socket.
func BenchmarkLists(b *testing.B) {
	d := newDaemon(b, "vars: {capacity: 20000}\n")
	few, many := d.session(), d.session()
	for range 8 {
		d.session()
	}
	fill := func(session string, n int) {
		for i := range n {
			err := d.agent.Do(b.Context(), "PUT", fmt.Sprintf("/sessions/%s/vars/v%05d", session, i),
				map[string]any{"value": "x", "desc": fmt.Sprintf("about %d", i%1000)}, nil)
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	fill(few, 20)
	fill(many, 10_000)
	crowded := newDaemon(b, "")
	for range 10_000 {
		crowded.session()
	}
	sessions := func(d *running) func() {
		return func() {
			if err := d.agent.Do(b.Context(), "GET", "/sessions?limit=10", nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	get := func(path string) func() {
		return func() {
			if err := d.agent.Do(b.Context(), "GET", path, nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	tool := func(session string) func() {
		return func() { d.call(session, "ListVars", `{"pageSize": 10}`) }
	}
	page := func(session, query string) func() { return get("/sessions/" + session + "/vars?limit=10" + query) }
	bench.Compare(b, []bench.Case{
		{Name: "ListVars, few", N: 100, Run: tool(few)},
		{Name: "ListVars, 10,000", N: 100, Run: tool(many)},
		{Name: "page, few", N: 100, Run: page(few, "")},
		{Name: "page, 10,000", N: 100, Run: page(many, "")},
		{Name: "page 500, 10,000", N: 100, Run: page(many, "&offset=5000")},
		{Name: "search, few", N: 100, Run: page(few, "&search=about")},
		{Name: "search, 10,000", N: 100, Run: page(many, "&search=about")},
		{Name: "rare search, 10,000", N: 100, Run: page(many, "&search=about+777")},
		{Name: "sessions, few", N: 100, Run: sessions(d)},
		{Name: "sessions, 10,000", N: 100, Run: sessions(crowded)},
	},
		bench.Limit{Case: "ListVars, 10,000", Over: "ListVars, few", AtMost: 1.3},
		bench.Limit{Case: "page, 10,000", Over: "page, few", AtMost: 1.3},
		bench.Limit{Case: "sessions, 10,000", Over: "sessions, few"},
		bench.Limit{Case: "page 500, 10,000", Over: "page, few"},
		bench.Limit{Case: "search, 10,000", Over: "search, few"},
		bench.Limit{Case: "rare search, 10,000", Over: "search, few"})
}
