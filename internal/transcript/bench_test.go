package transcript_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkTail is how much is read for the last 50 messages of 100,000, and for 50 elsewhere; and
// how long it takes to add one.
func BenchmarkTail(b *testing.B) {
	const count, wanted = 100_000, 50
	d := open(b, b.TempDir())
	all := make([]json.RawMessage, count)
	for i := range all {
		all[i] = fmt.Appendf(nil, `{"role":"user","content":"%d %s"}`, i, strings.Repeat("a word ", 140))
	}
	save(b, d, "s", nil, 0, all...)
	for _, from := range []int{count - wanted, count - 1000, 0} {
		before := readBytes(b)
		f, err := d.Read("s")
		if err != nil {
			b.Fatal(err)
		}
		p, err := f.Page(from, wanted)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for m, err := range p.All() {
			if err != nil || !strings.Contains(string(m), fmt.Sprintf(`"%d a word`, from+n)) {
				b.Fatal(err, string(m[:40]))
			}
			n++
		}
		most := 0.0
		if from == count-wanted {
			most = 1
		}
		bench.Value(b, fmt.Sprintf("read for %d messages from %d of %d MiB", wanted, from, f.Size>>20),
			(readBytes(b)-before)/(1<<20), "MiB", most)
		if f.Close(); n != wanted {
			b.Fatalf("%d messages", n)
		}
	}
	for _, n := range []int{100, 10_000, count} {
		save(b, d, "s", nil, 0, all[:n]...)
		began := time.Now()
		old := read(b, d, "s")
		save(b, d, "s", old, n, all[0])
		bench.Value(b, fmt.Sprintf("to add one to %d messages", n), float64(time.Since(began).Microseconds())/1000, "ms", 0)
	}
}

// readBytes is what this process has read, from files and others.
func readBytes(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatal(err)
	}
	var n float64
	if _, err := fmt.Sscanf(string(text), "rchar: %g", &n); err != nil {
		b.Fatal(err)
	}
	return n
}
