package integration

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/bench"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// BenchmarkSoak is 64 busy connections beside 1,000 idle ones: no call fails, memory
// stays flat, and nobody is starved.
func BenchmarkSoak(b *testing.B) {
	length := time.Duration(tier.Rounds(b, 5, 600)) * time.Second
	d := newDaemon(b, "")
	socket := filepath.Join(d.work, "run/a.sock")
	for range 1000 {
		c, err := net.Dial("unix", socket)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
	}
	const busy = 64
	counts := make([]int, busy)
	slowest := make([]time.Duration, busy)
	half := make(chan float64, 1)
	start := time.Now()
	time.AfterFunc(length/2, func() { half <- d.resident() })
	var g sync.WaitGroup
	for i := range busy {
		session, line := d.session(), client.New(socket)
		g.Go(func() {
			for time.Since(start) < length {
				begun := time.Now()
				r, err := line.Call(context.Background(), session, "Config", []byte(`{"action":"get","key":"mode"}`))
				if err != nil || r.Status != client.StatusSuccess {
					b.Errorf("call %d of connection %d: %+v, %v", counts[i], i, r.Error, err)
					return
				}
				counts[i]++
				slowest[i] = max(slowest[i], time.Since(begun))
			}
		})
	}
	g.Wait()
	least, all, worst := counts[0], 0, time.Duration(0)
	for i, n := range counts {
		least, all, worst = min(least, n), all+n, max(worst, slowest[i])
	}
	bench.Value(b, "calls a second", float64(all)/length.Seconds(), "", 0)
	bench.Value(b, "slowest call", worst.Seconds(), "s", 0)
	bench.Value(b, "mean of the connections over the least", float64(all)/busy/float64(max(least, 1)), "times", 2)
	bench.Value(b, "growth over the second half", (d.resident()-<-half)/(1<<20), "MiB", 16)
}
