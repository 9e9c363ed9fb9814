package policy

import (
	"context"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkReloadUnderLoad makes 300 reloads, which switch a rule on and off,
// while two callers decide. A decision is wrong when it is not what the revision
// that it names says.
func BenchmarkReloadUnderLoad(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(300)) // as the daemon sets it
	dir := b.TempDir()
	file := filepath.Join(dir, "a.rego")
	texts := []string{
		acme(`findings contains {"id": "acme.x", "effect": "deny", "message": "m"}`),
		acme(`findings contains {"id": "acme.x", "effect": "allow", "message": "m"}`),
	}
	writePolicy(b, file, texts[0])
	e := newEngine(b, Options{Dirs: []string{dir}, Rules: manyRules(200), Deadline: 10 * time.Second})
	deny := e.Status().Revision

	var p99s, rests []float64
	wrong := 0
	for range 3 {
		rest, w := timedDecisions(b, e, deny, 2*time.Second, nil)
		wrong += w
		busy, w := timedDecisions(b, e, deny, 0, func() {
			for i := range 100 {
				writePolicy(b, file, texts[(i+1)%2])
				if err := e.Reload(context.Background(), false); err != nil {
					b.Error(err)
				}
			}
		})
		wrong += w
		p99s, rests = append(p99s, float64(busy)), append(rests, float64(rest))
	}
	slices.Sort(p99s)
	slices.Sort(rests)
	b.Logf("p99 at rest %v, under reloads %v", time.Duration(rests[1]), time.Duration(p99s[1]))
	bench.Value(b, "wrong decisions of 300 reloads", float64(wrong), "decisions", 0)
	bench.Value(b, "p99 under reloads over p99 at rest", p99s[1]/rests[1], "times", 2)
	if wrong > 0 {
		b.Errorf("%d decisions were wrong", wrong)
	}
}

// timedDecisions decides with two callers, for d or while work runs, and gives the
// 99th percentile and the number of wrong decisions.
func timedDecisions(b *testing.B, e *Engine, deny string, d time.Duration, work func()) (p99 time.Duration, wrong int) {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var wg sync.WaitGroup
	var took []time.Duration
	call := newCall(b, tool.ModeBypassPermissions, "Todo", map[string]any{})
	for range 2 {
		wg.Go(func() {
			var mine []time.Duration
			bad := 0
			for ctx.Err() == nil {
				start := time.Now()
				v, err := e.Decide(context.Background(), call)
				mine = append(mine, time.Since(start))
				if err != nil || (v.Verdict == tool.Deny) != (v.Revision == deny) {
					bad++
				}
				time.Sleep(200 * time.Microsecond) // a caller does not only decide
			}
			mu.Lock()
			defer mu.Unlock()
			took, wrong = append(took, mine...), wrong+bad
		})
	}
	if work != nil {
		work()
	} else {
		time.Sleep(d)
	}
	cancel()
	wg.Wait()
	slices.Sort(took)
	return took[len(took)*99/100], wrong
}
