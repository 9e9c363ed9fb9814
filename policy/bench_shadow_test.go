package policy

import (
	"context"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkShadow is the processor time of a decision with a shadow, with everything that the
// shadow does later, over that of a decision alone. A shadow costs one more decision, and a little to hand it over.
func BenchmarkShadow(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(300)) // as the daemon sets it
	db, err := store.Open(context.Background(), store.Options{Path: ":memory:"}, Schema())
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	s := NewShadow(ShadowOptions{DB: db, Counts: &noCounts{}})
	defer s.Close()
	opts := Options{Rules: manyRules(200), Deadline: 10 * time.Second}
	alone, beside := newEngine(b, opts), newEngine(b, opts)
	opts.Shadow = s
	shadowed := newEngine(b, opts)
	s.Use(beside, nil)
	calls := benchCalls(b)
	const n, rounds = 3000, 9 // many collections of garbage in each half, so that each pays for its own
	cost := func(e *Engine) float64 {
		start := processorTime(b)
		for i := range n {
			c := calls[i%len(calls)]
			c.ID = "call"
			c.Decision = decide(b, e, c)
			s.Ended(c)
			if e == shadowed && (i+1)%(maxShadowed/2) == 0 { // no daemon gets calls this fast: the queue would overflow
				s.Flush()
			}
		}
		if e == shadowed {
			s.Flush()
		}
		return float64(processorTime(b) - start)
	}
	var ratios []float64
	for range rounds {
		s.engine.Store(nil)
		before := cost(alone)
		s.engine.Store(beside)
		ratios = append(ratios, cost(shadowed)/before)
	}
	slices.Sort(ratios)
	if r := s.totals(); r.Missed > 0 || r.Same != rounds*n {
		b.Fatalf("the shadow has judged %+v", r)
	}
	bench.Value(b, "processor time with a shadow over that without", ratios[len(ratios)/2], "times", 2.3)
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
