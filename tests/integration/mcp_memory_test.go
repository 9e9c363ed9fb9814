package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// mcpMost is what the daemon may take beside what it has, whatever a server sends.
const mcpMost = 512 << 20

// One answer, list or error of a server is bounded, as text and as what it becomes in memory.
func TestM14_AServerDoesNotFillTheMemory(t *testing.T) {
	t.Parallel()
	d := newMCP(t, allowMCP, map[string]string{
		"bad":     mcpConfig(t, mcpScript{Tools: plainTools("values")}),
		"refuses": mcpConfig(t, mcpScript{Start: "refuses"}), "pages": mcpConfig(t, mcpScript{Start: "pages"}),
		"good": mcpConfig(t, mcpScript{Tools: plainTools("echo")}),
	})
	before := d.peak()
	small := func(after string) {
		t.Helper()
		if got := d.peak() - before; got > mcpMost {
			t.Errorf("after %s the daemon has taken %d MiB more, want at most %d", after, got>>20, mcpMost>>20)
		}
	}
	s := d.session()
	d.mcpIs(s, "good", "connected")
	if got := d.mcpIs(s, "refuses", "failed"); len(got.Error) > 3000 {
		t.Errorf("the error of a server has %d bytes", len(got.Error))
	}
	small("an error of 15 MB")
	if got := d.mcpIs(s, "pages", "failed"); !strings.Contains(got.Error, "its list has more than") {
		t.Errorf("a list without end: %.300s", got.Error)
	}
	small("a list of pages of 15 MB")
	d.mcpIs(s, "bad", "connected")
	if e := d.bad(s, "mcp__bad__values", `{}`); !strings.Contains(e.Msg, "values") {
		t.Errorf("five million values: %+v", e)
	}
	small("five million values")
	d.good(s, "mcp__good__echo", `{}`)
}

// A server that asks and reads no answers is not read either. One that reads nothing is ended: what is written to it
// is held until then.
func TestM14_AServerThatDoesNotReadIsNotRead(t *testing.T) {
	t.Parallel()
	d := newMCP(t, allowMCP, map[string]string{
		"bad":   mcpConfig(t, mcpScript{Tools: plainTools("pings")}, `"callTimeout":"2s"`),
		"later": mcpConfig(t, mcpScript{Tools: plainTools("deaf", "echo")}, `"callTimeout":"1s","limits":{"callsPerMinute":1000000}`),
		"good":  mcpConfig(t, mcpScript{Tools: plainTools("echo")}),
	})
	s := d.session()
	for _, name := range []string{"bad", "later", "good"} {
		d.mcpIs(s, name, "connected")
	}
	before := d.peak()
	var wg sync.WaitGroup
	wg.Go(func() {
		if e := d.bad(s, "mcp__bad__pings", `{}`); !strings.Contains(e.Msg, "no answer within 2s") {
			t.Errorf("pings: %+v", e)
		}
	})
	d.good(s, "mcp__good__echo", `{}`)
	wg.Wait()
	if got := d.peak() - before; got > mcpMost {
		t.Errorf("60,000 pings: the daemon has taken %d MiB more", got>>20)
	}
	large, err := json.Marshal(map[string]string{"a": strings.Repeat("x", 256<<10)}) // a pipe holds less
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // more is held, unless it is ended before that
		d.bad(s, "mcp__later__deaf", string(large))
	}
	if !waitFor(func() bool { return d.call(s, "mcp__later__echo", `{}`).Error == nil }) {
		t.Errorf("a server that reads nothing is not started again: %+v\n%s", d.mcp(s)["later"], d.log)
	}
	d.good(s, "mcp__good__echo", `{}`)
}

// A server that changes its tools all the time asks a person about few, and about none that it no longer gives.
func TestM15_AServerThatKeepsChangingAsksLittle(t *testing.T) {
	t.Parallel()
	d := newMCP(t, allowMCP, map[string]string{
		"one":  mcpConfig(t, mcpScript{Start: "flips"}),
		"good": mcpConfig(t, mcpScript{Tools: plainTools("echo")}),
	})
	s := d.session()
	d.mcpIs(s, "good", "connected")
	last := func() (n int, all []pinQuestion) {
		d.does(d.operator, http.MethodGet, "/approvals?status=pending", nil, &all)
		for _, q := range all {
			var v int
			_, rest, _ := strings.Cut(q.Args.Definition, `"Is version `)
			for _, line := range strings.Split(q.Args.Definition, "\n") {
				if strings.HasPrefix(line, "+") && strings.Contains(line, "Is version ") {
					_, rest, _ = strings.Cut(line, `"Is version `)
				}
			}
			if _, err := fmt.Sscanf(rest, "%d", &v); err != nil {
				t.Fatalf("%q: %v", q.Args.Definition, err)
			}
			n = max(n, v)
		}
		return n, all
	}
	for _, version := range []int{2, 3, 4} {
		var all []pinQuestion
		if !waitFor(func() (ok bool) {
			var n int
			n, all = last()
			return n >= version
		}) {
			t.Fatalf("no question about version %d: %+v", version, all)
		}
		if len(all) > 16 { // 8 wait; those before may be on their way out
			t.Errorf("%d questions wait", len(all))
		}
	}
	d.good(s, "mcp__good__echo", `{}`)
	d.does(d.operator, http.MethodPost, "/sessions/"+s+"/mcp/one/toggle", map[string]bool{"enabled": false}, nil)
	if !waitFor(func() bool { _, all := last(); return len(all) == 0 }) {
		_, all := last()
		t.Errorf("%d questions of a server that is gone wait", len(all))
	}
}
