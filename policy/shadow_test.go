package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// noCounts counts nothing, and knows which calls have ended.
type noCounts struct {
	mu     sync.Mutex
	judged int
	ended  []string
}

func (n *noCounts) Judge(c *tool.Call, judge func(func() *input.Recent) []string) {
	n.mu.Lock()
	n.judged++
	n.mu.Unlock()
	fixedCounts{}.Judge(c, judge)
}

func (n *noCounts) End(c *tool.Call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = append(n.ended, c.ID)
}

// shadowWorld is an engine with a shadow and the decisions that are kept.
type shadowWorld struct {
	live   *Engine
	shadow *Shadow
	kept   *Decisions
	counts *noCounts
	told   map[string]int
	mu     sync.Mutex // guards told
	n      int
}

func newShadowWorld(t *testing.T, live, beside Options) *shadowWorld {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: ":memory:"}, Schema())
	if err != nil {
		t.Fatal(err)
	}
	w := &shadowWorld{counts: &noCounts{}, told: map[string]int{}}
	w.kept = NewDecisions(db, DecisionOptions{Keep: time.Hour})
	w.shadow = NewShadow(ShadowOptions{
		DB: db, Counts: w.counts, Failed: func(err error) { t.Error(err) },
		Count: func(result string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told[result]++
		},
	})
	t.Cleanup(func() { w.shadow.Close(); w.kept.Close(); db.Close() })
	live.Shadow = w.shadow
	w.live = newEngine(t, live)
	w.shadow.Use(newEngine(t, beside), nil)
	return w
}

// run judges a call by the live policies and ends it.
func (w *shadowWorld) run(t *testing.T, c *tool.Call) tool.Decision {
	t.Helper()
	w.n++
	c.ID = fmt.Sprintf("call_%d", w.n)
	ctx := w.kept.Follow(t.Context())
	d, err := w.live.Decide(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	c.Decision = d.Beside(c.Beside, c.Spec.Name, c.Session.Mode)
	w.shadow.Ended(c)
	w.kept.Judged(ctx, c)
	return c.Decision
}

// waits is how many bytes wait for the shadow.
func (w *shadowWorld) waits() int64 {
	w.shadow.queue.mu.Lock()
	defer w.shadow.queue.mu.Unlock()
	return w.shadow.queue.bytes
}

func (w *shadowWorld) report(t *testing.T) ShadowReport {
	t.Helper()
	w.kept.Flush()
	r, err := w.shadow.Report(t.Context(), 50, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAShadowKeepsWhereItDiffers(t *testing.T) {
	w := newShadowWorld(t, Options{}, Options{
		Rules: permission.Rules{Deny: []string{"Bash(make)"}}, Disable: []string{"developer.git.force_push"},
	})
	for _, line := range []string{"ls", "make", "git push -f", "make"} {
		c := bash(t, tool.ModeAuto, line)
		c.Beside.Confined = true
		w.run(t, c)
	}
	r := w.report(t)
	if r.Calls != 4 || r.Same != 1 || r.Tighter != 2 || r.Looser != 1 || r.Missed != 0 || len(r.Errors) != 0 || r.Total != 3 {
		t.Errorf("%+v", r)
	}
	want := []ShadowRule{
		{Rule: "deny Bash(make)", Live: tool.Allow, Shadow: tool.Deny, Calls: 2},
		{Rule: "developer.git.force_push", Live: tool.Ask, Shadow: tool.Allow, Calls: 1},
	}
	if !slices.Equal(r.Rules, want) {
		t.Errorf("rules %+v, want %+v", r.Rules, want)
	}
	var found []string
	for _, d := range r.Differences {
		found = append(found, fmt.Sprintf("%s %s %s %s", d.What, d.Live.Rule, d.Shadow.Rule, d.Shadow.Verdict))
		if d.Live.Revision != w.live.Status().Revision || d.Shadow.Revision != r.Revision || r.Revision == "" {
			t.Errorf("revisions of %+v", d)
		}
	}
	slices.Sort(found)
	if got := strings.Join(found, "; "); got != "git push -f developer.git.force_push floor:autoAllowBashIfSandboxed allow; "+
		"make floor:autoAllowBashIfSandboxed deny Bash(make) deny; make floor:autoAllowBashIfSandboxed deny Bash(make) deny" {
		t.Errorf("differences %s", got)
	}
	if w.told["same"] != 1 || w.told["tighter"] != 2 || w.told["looser"] != 1 {
		t.Errorf("told %v", w.told)
	}
}

// Whatever the shadow says or does, the decisions are those of the policies in force.
func TestAShadowDecidesNothing(t *testing.T) {
	plain := newEngine(t, Options{})
	for name, body := range map[string]string{
		"it denies":    `findings contains {"id": "acme.s", "effect": "deny", "message": "m", "obligations": {"read_only": true}}`,
		"it allows":    `findings contains {"id": "acme.s", "effect": "allow", "message": "m"}`,
		"it rewrites":  `findings contains {"id": "acme.s", "effect": "rewrite", "message": "m", "patch": {"command": "true"}}`,
		"it fails":     `findings contains {"id": "acme.s", "effect": "deny", "message": "m"} if to_number(input.tool.name) == 1`,
		"wrong result": made(`{"id": "acme.s"}`),
		"it counts":    `findings contains {"id": "acme.s", "effect": "deny", "message": "m"} if input.recent.account.day.calls > 1`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newShadowWorld(t, Options{}, Options{Dirs: []string{policyDir(t, acme(body))}})
			for _, c := range callsOfAllKinds(t) {
				want := decide(t, plain, c)
				if got := w.run(t, c); !sameDecision(got, want.Beside(c.Beside, c.Spec.Name, c.Session.Mode)) {
					t.Fatalf("%s: %+v, want %+v", c.In.Args, got, want)
				}
			}
			if r := w.report(t); r.Same == r.Calls {
				t.Errorf("the shadow differs nowhere: %+v", r)
			}
		})
	}
}

// What it cannot judge is counted with the reason.
func TestWhatAShadowCannotJudgeIsNamed(t *testing.T) {
	says := func(context.Context, string, json.RawMessage, callback.Context) (*callback.Opinion, error) {
		return callback.Deny("no"), nil
	}
	for _, tt := range []struct {
		name, body, want string
		live, beside     Options
	}{
		{
			name: "a rule that fails", want: "core.evaluation",
			body: `findings contains {"id": "acme.s", "effect": "deny", "message": "m"} if to_number(input.tool.name) == 1`,
		},
		{
			name: "a condition", want: "under other conditions",
			body: `findings contains {"id": "acme.s", "effect": "allow", "message": "m", "obligations": {"read_only": true}}`,
		},
		{
			name: "a rewrite", want: "change its arguments",
			body: `findings contains {"id": "acme.s", "effect": "rewrite", "message": "m", "patch": {"x": 1}}`,
		},
		{
			name: "a callback that nobody asked", want: "was not asked about it", beside: Options{CanUseTool: says},
			body: `findings contains {"id": "acme.s", "effect": "count", "message": "m"}`,
		},
		{
			name: "a callback that was asked", live: Options{CanUseTool: says}, beside: Options{CanUseTool: says},
			body: `findings contains {"id": "acme.s", "effect": "count", "message": "m"}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.beside.Dirs = []string{policyDir(t, acme(tt.body))}
			w := newShadowWorld(t, tt.live, tt.beside)
			w.run(t, newCall(t, tool.ModeAuto, "Todo", noArgs))
			r := w.report(t)
			switch {
			case tt.want == "" && (len(r.Errors) != 0 || r.Same != 1):
				t.Errorf("%+v", r)
			case tt.want != "" && (len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Why, tt.want) || w.told["error"] != 1):
				t.Errorf("%+v, told %v, want %q", r, w.told, tt.want)
			}
		})
	}
}

// Nobody waits for a shadow that is stuck; what it misses is counted, and calls end for it too.
func TestNobodyWaitsForAShadow(t *testing.T) {
	w := newShadowWorld(t, Options{}, Options{})
	stuck, seen := make(chan struct{}), make(chan struct{})
	w.shadow.o.Counts = stuckCounts{w.counts, sync.OnceFunc(func() { close(seen) }), stuck}
	w.shadow.queue.mostCalls = 30
	c := newCall(t, tool.ModeAuto, "Todo", noArgs)
	w.run(t, c)
	<-seen
	const calls = 100
	for range calls {
		w.run(t, c)
	}
	close(stuck)
	w.shadow.Flush()
	w.shadow.Flush()
	r := w.report(t)
	if r.Missed == 0 || r.Same == 0 || r.Missed+r.Same != calls+1 || w.told["missed"] != r.Missed {
		t.Errorf("%d same and %d missed of %d", r.Same, r.Missed, calls+1)
	}
	if n := len(w.counts.ended); n != r.Same {
		t.Errorf("%d calls have ended, want the %d that were judged: the others are counted for ever", n, r.Same)
	}
}

// Calls are judged 20 ms after the first of them, together, unless somebody waits for them.
func TestAShadowJudgesTheCallsOf20msTogether(t *testing.T) {
	const first, second = shadowGather - time.Nanosecond, time.Nanosecond

	synctest.Test(t, func(t *testing.T) {
		w := newShadowWorld(t, Options{}, Options{})
		judged := func() int {
			synctest.Wait()
			w.counts.mu.Lock()
			defer w.counts.mu.Unlock()
			return w.counts.judged
		}
		c := newCall(t, tool.ModeAuto, "Todo", noArgs)
		w.run(t, c)
		time.Sleep(first)
		w.run(t, c)
		if n := judged(); n != 0 {
			t.Fatalf("%d calls are judged at once", n)
		}
		time.Sleep(second)
		if n := judged(); n != 2 {
			t.Errorf("%d calls are judged after %v, want both", n, shadowGather)
		}
		w.run(t, c)
		w.shadow.Flush()
		if n := judged(); n != 3 {
			t.Errorf("%d calls are judged when somebody waits for them, want 3", n)
		}
	})
}

// stuckCounts judge nothing until somebody lets them.
type stuckCounts struct {
	*noCounts
	seen  func()
	stuck chan struct{}
}

func (s stuckCounts) Judge(c *tool.Call, judge func(func() *input.Recent) []string) {
	s.seen()
	<-s.stuck
	s.noCounts.Judge(c, judge)
}

// Large arguments do not pile up.
func TestWhatWaitsForAShadowIsBounded(t *testing.T) {
	w := newShadowWorld(t, Options{}, Options{})
	stuck, seen := make(chan struct{}), make(chan struct{})
	w.shadow.o.Counts = stuckCounts{w.counts, sync.OnceFunc(func() { close(seen) }), stuck}
	w.shadow.queue.mostBytes = 16 << 10
	c := newCall(t, tool.ModeAuto, "Todo", map[string]string{"x": strings.Repeat("x", 1<<10)})
	w.run(t, c)
	<-seen
	for range 40 {
		w.run(t, c)
		if n := w.waits(); n > 16<<10 {
			t.Fatalf("%d bytes wait", n)
		}
	}
	close(stuck)
	if r := w.report(t); r.Missed < 20 || r.Same < 5 {
		t.Errorf("%+v", r)
	}
	if n := w.waits(); n != 0 {
		t.Errorf("%d bytes wait when nothing does", n)
	}
}

// Numbers are of one revision; differences stay as long as the decisions.
func TestAnotherShadowBeginsAtZero(t *testing.T) {
	w := newShadowWorld(t, Options{}, Options{Rules: permission.Rules{Deny: []string{"Todo"}}})
	w.run(t, newCall(t, tool.ModeAuto, "Todo", noArgs))
	if r := w.report(t); r.Calls != 1 || r.Total != 1 {
		t.Errorf("%+v", r)
	}
	w.shadow.Use(w.shadow.engine.Load(), nil) // the same: after a reload of the configuration
	if r := w.report(t); r.Calls != 1 {
		t.Errorf("after the same again: %+v", r)
	}
	w.shadow.Use(newEngine(t, Options{}), nil)
	if r := w.report(t); r.Calls != 0 || r.Total != 1 {
		t.Errorf("after another: %+v", r)
	}
	w.shadow.Use(nil, fmt.Errorf("it does not load"))
	if r := w.report(t); r.Revision != "" || r.Failure != "it does not load" {
		t.Errorf("without: %+v", r)
	}
	w.run(t, newCall(t, tool.ModeAuto, "Todo", noArgs))
	if r := w.report(t); r.Calls != 0 {
		t.Errorf("nothing judges, and it counts: %+v", r)
	}
	w.kept.Keep(-time.Hour)
	w.kept.prune()
	w.shadow.prune()
	if r := w.report(t); r.Total != 1 {
		t.Errorf("a difference of this minute is dropped: its decision may not be written yet")
	}
}

// Questions are no calls.
func TestAShadowJudgesNoQuestions(t *testing.T) {
	w := newShadowWorld(t, Options{}, Options{})
	c := newCall(t, tool.ModeAuto, "Todo", noArgs)
	c.Request.Hypothetical = true
	w.run(t, c)
	if r := w.report(t); r.Calls != 0 || w.counts.judged != 0 {
		t.Errorf("%+v, and %d are judged", r, w.counts.judged)
	}
}
