package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/bench"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// BenchmarkFlood is how long bob waits for a call while alice floods the daemon, beside how
// long he waits at rest. Alice's clients are processes of this host too: the processor time
// that they take is part of what he waits. Most floods that send one large thing after another
// miss the limit where two processors do all of it.
func BenchmarkFlood(b *testing.B) {
	needs.Root(b, "to call as other users")
	for _, f := range append(floods(), moreFloods()...) {
		b.Run(f.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			d := newFlooded(b)
			if f.before != nil {
				f.before(d)
			}
			bobs := d.as(bob)
			session := bobs.session("")
			one := func() time.Duration {
				start := time.Now()
				r := bobs.call(session, "Config", map[string]any{"action": "get", "key": "mode"})
				if r.Status != client.StatusSuccess {
					b.Fatalf("bob's call: %s %s", r.Status, r.FinalText)
				}
				return time.Since(start)
			}
			var rest, busy []time.Duration
			for range 400 {
				rest = append(rest, one())
				time.Sleep(time.Millisecond) // a caller does not only call
			}
			over := make(chan struct{})
			go func() { defer close(over); f.run(d) }()
			for going := true; going || len(busy) < 400; {
				busy = append(busy, one())
				select {
				case <-over:
					going = false
				case <-time.After(time.Millisecond):
				}
			}
			r, x := p99(rest), p99(busy)
			b.Logf("p99 at rest %v, under the flood %v, %d calls", r, x, len(busy))
			bench.Value(b, "p99 of another account over its rest", float64(x)/float64(r), "times", 3)
		})
	}
}

func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100]
}
