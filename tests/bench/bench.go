// Package bench compares what things cost.
//
// A benchmark names its cases and the ratios that must hold between them. The
// cases run interleaved, sample by sample, over seven rounds, so that a busy
// machine slows all of them alike:
//
//	func BenchmarkCall(b *testing.B) {
//		plain, strict := func() { … }, func() { … } // one call each; they fail b themselves
//		bench.Compare(b, []bench.Case{
//			{Name: "plain", Run: plain},
//			{Name: "strict", Run: strict, N: 200},
//		}, bench.Limit{Case: "strict", Over: "plain", AtMost: 2.2})
//	}
//
// A ratio is the median over the rounds of the ratio of the two medians within a
// round. Ratios are judged, after Limit.Plus was taken off; times are only printed. What is
// counted and not timed (bytes, descriptors) is reported with Value, which may have a limit too.
// A ratio or a value over its limit fails the benchmark. With SANDBOXD_BENCH_OUT set, every
// Compare and Value appends one JSON line, a Result, to that file; the command in report turns the
// file into a table.
//
// Compare decides itself how often it calls, so benchmarks run with -benchtime 1x:
//
//	go test -run '^$' -bench BenchmarkCall -benchtime 1x ./sandbox
//	make bench BENCH=BenchmarkCall // of that name in all packages, with a table beside the baseline
//
// A benchmark stands in a _test.go file of the package that it measures. Its limit comes from several runs, because
// other programs run beside it. Compare and Value are for the goroutine of the benchmark. A
// limit that names no case, and a file that cannot be written, end it. baseline.json has the ratios and values of an
// earlier run by the name of their benchmark, to compare with; no limit is read from it. The command in report writes
// it with -save.
package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	rounds    = 7
	roundTime = 160 * time.Millisecond // of one case in one round, unless N or a slow call makes it longer
	batchTime = 8 * time.Millisecond   // calls shorter than this are timed together: several collections of garbage
)

// Case is one thing that is timed.
type Case struct {
	Name string
	Run  func()
	// Before runs ahead of every call, untimed.
	Before func()
	// N is the least number of calls in all, each timed alone. Without it, quick
	// calls are timed in batches.
	N int
}

// Limit is a gate: the time of Case is at most AtMost times that of Over, plus
// Plus. AtMost 0 only prints the ratio.
type Limit struct {
	Case, Over string
	AtMost     float64
	Plus       time.Duration
}

// Compare times the cases and fails b where a limit does not hold.
func Compare(b *testing.B, cases []Case, limits ...Limit) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	timers := make([]*timer, len(cases))
	for i, c := range cases {
		timers[i] = newTimer(c)
	}
	for r := range rounds {
		runRound(timers, r)
	}
	res := Result{Name: name(b)}
	byName := map[string]*timer{}
	for _, t := range timers {
		byName[t.c.Name] = t
		all := slices.Concat(t.samples[:]...)
		res.Cases = append(res.Cases, CaseResult{
			Name: t.c.Name, Median: at(all, 0.5), P99: at(all, 0.99), Samples: len(all), Batch: t.batch,
		})
	}
	for _, l := range limits {
		if byName[l.Case] == nil || byName[l.Over] == nil {
			b.Fatalf("limit %+v names no case", l)
		}
		res.Limits = append(res.Limits, judge(l, byName[l.Case], byName[l.Over]))
	}
	report(b, res)
}

// Value reports something counted, such as bytes of memory; atMost 0 only prints
// it.
func Value(b *testing.B, what string, value float64, unit string, atMost float64) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	report(b, Result{
		Name: name(b),
		Values: []ValueResult{
			{Name: what, Value: value, Unit: unit, AtMost: atMost, OK: atMost == 0 || value <= atMost},
		},
	})
}

type timer struct {
	c       Case
	batch   int // calls a sample
	n       int // samples a round
	samples [rounds][]time.Duration
}

func newTimer(c Case) *timer {
	t := &timer{c: c, batch: 1}
	t.sample() // what the first call pays is not measured
	once := t.quickest()
	// One call alone says little of a quick one: batches grow until they last, so
	// that each holds its share of collected garbage.
	for c.N == 0 && c.Before == nil && once*time.Duration(t.batch) < batchTime {
		t.batch *= 2
		once = t.quickest()
	}
	t.n = max(int(roundTime/(once*time.Duration(t.batch))), 1, (c.N+rounds-1)/rounds)
	return t
}

// quickest is the time of one call where the machine let it be.
func (t *timer) quickest() time.Duration {
	return max(min(t.sample(), t.sample(), t.sample()), 1)
}

// sample is the time of one call.
func (t *timer) sample() time.Duration {
	if t.c.Before != nil {
		t.c.Before()
	}
	start := time.Now()
	for range t.batch {
		t.c.Run()
	}
	return time.Since(start) / time.Duration(t.batch)
}

// runRound spreads the samples of each case evenly over the round, in an order that is
// another each time: what one case leaves the kernel to do is paid by the one after it.
// Every run has the same orders.
func runRound(timers []*timer, round int) {
	most := 0
	for _, t := range timers {
		most = max(most, t.n)
	}
	orders := rand.New(rand.NewPCG(uint64(round), 0))
	for i := range most {
		for _, j := range orders.Perm(len(timers)) {
			t := timers[j]
			if (i+1)*t.n/most > i*t.n/most {
				t.samples[round] = append(t.samples[round], t.sample())
			}
		}
	}
}

func judge(l Limit, c, over *timer) LimitResult {
	var ratios, excess []float64
	for r := range rounds {
		a, b := at(c.samples[r], 0.5), at(over.samples[r], 0.5)
		ratios = append(ratios, float64(a)/float64(b))
		excess = append(excess, float64(a-l.Plus)/float64(b))
	}
	res := LimitResult{Case: l.Case, Over: l.Over, Ratio: at(ratios, 0.5), AtMost: l.AtMost, Plus: l.Plus}
	res.OK = l.AtMost == 0 || at(excess, 0.5) <= l.AtMost
	return res
}

// at is the quantile q of values.
func at[T ~int64 | ~float64](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(float64(len(sorted)-1)*q)]
}
