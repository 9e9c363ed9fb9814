package integration

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkHostSockets is a call of Bash while 5,000 sockets of the host listen, over one while none
// of them does. Any user of the host can make them.
func BenchmarkHostSockets(b *testing.B) {
	d := newDaemon(b, "")
	session, dir := d.session(), b.TempDir()
	median := func() time.Duration {
		var took []time.Duration
		for i := range 60 {
			start := time.Now()
			d.call(session, "Bash", `{"command": "true"}`)
			if i >= 20 { // the first ones after a change look at every socket
				took = append(took, time.Since(start))
			}
			time.Sleep(5 * time.Millisecond)
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	var ratios []float64
	for round := range 5 {
		without := median()
		var all []net.Listener
		for i := range 5000 {
			l, err := net.Listen("unix", filepath.Join(dir, fmt.Sprintf("%d-%d", round, i)))
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, l)
		}
		with := median()
		for _, l := range all {
			l.Close()
		}
		ratios = append(ratios, float64(with)/float64(without))
		fmt.Printf("    round %d: %v without, %v with\n", round, without, with)
	}
	slices.Sort(ratios)
	bench.Value(b, "with 5,000 sockets over without", ratios[len(ratios)/2], "times", 1.2)
}
