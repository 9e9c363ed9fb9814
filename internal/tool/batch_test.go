package tool_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

type job struct {
	id   int
	read bool
}

func isRead(j job) bool { return j.read }

// batch is all results of a batch.
func batch[R any](ctx context.Context, calls []job, run func(context.Context, job) R) []R {
	return slices.Collect(tool.Batch(ctx, calls, isRead, run, func(r R) R { return r }))
}

func TestT57_ReadsTenAtATimeThenTheOthersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []job
		for i := range 30 {
			calls = append(calls, job{i, i%6 != 5}) // 25 reads, 5 others mixed in
		}
		var flying, most atomic.Int32
		var mu sync.Mutex
		var order []int
		results := batch(t.Context(), calls, func(_ context.Context, j job) int {
			n := flying.Add(1)
			defer flying.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if !j.read {
				if n != 1 {
					t.Errorf("call %d runs beside %d others", j.id, n-1)
				}
				mu.Lock()
				order = append(order, j.id)
				mu.Unlock()
			}
			time.Sleep(time.Second)
			return j.id
		})
		if most.Load() != 10 {
			t.Errorf("got %d at once, want 10", most.Load())
		}
		if want := []int{5, 11, 17, 23, 29}; !slices.Equal(order, want) {
			t.Errorf("got order %v, want %v", order, want)
		}
		for i, r := range results {
			if r != i {
				t.Errorf("T-58: result %d is of call %d", i, r)
			}
		}
	})
}

func TestT59_T58_CancelDuringReadsStartsNoWrite(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := []job{{0, true}, {1, false}, {2, true}}
	var wrote atomic.Bool
	results := batch(ctx, calls, func(ctx context.Context, j job) string {
		if ctx.Err() != nil && !j.read {
			return "cancelled"
		}
		if !j.read {
			wrote.Store(true)
		}
		cancel()
		return "read"
	})
	if want := []string{"read", "cancelled", "read"}; !slices.Equal(results, want) {
		t.Errorf("got %v, want %v: one result per call", results, want)
	}
	if wrote.Load() {
		t.Error("a write began after the cancellation")
	}
}

func TestCX73_WaitingForAPersonTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		calls := make([]job, 12)
		for i := range calls {
			calls[i] = job{i, true}
		}
		batch(t.Context(), calls, func(ctx context.Context, j job) bool {
			if j.id == 11 { // begins only because the ten before it gave up their places
				close(answer)
				return true
			}
			resume := tool.YieldSlot(ctx)
			<-answer
			resume()
			return true
		})
	})
	tool.YieldSlot(t.Context())() // outside a batch: nothing
}

// A result is passed on when those before it were, and no later; one that comes before its
// turn may be made smaller.
func TestResultsComeAsTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := []job{{0, true}, {1, false}, {2, true}, {3, true}}
		start := time.Now()
		run := func(_ context.Context, j job) string {
			time.Sleep(time.Duration(j.id+1) * time.Second)
			return string(rune('a' + j.id))
		}
		keep := func(r string) string { return "kept " + r }
		var got []string
		for r := range tool.Batch(t.Context(), calls, isRead, run, keep) {
			got = append(got, fmt.Sprintf("%s %v", r, time.Since(start)))
		}
		want := []string{"a 1s", "b 6s", "kept c 6s", "kept d 6s"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A reader that goes leaves nothing running: what has not begun is answered as cancelled.
func TestAReaderThatGoesCancelsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began, cancelled atomic.Int32
		run := func(ctx context.Context, j job) int {
			if ctx.Err() != nil {
				cancelled.Add(1)
				return j.id
			}
			began.Add(1)
			return j.id
		}
		calls := make([]job, 30)
		for range tool.Batch(t.Context(), calls, isRead, run, func(r int) int { return r }) {
			break
		}
		if b, c := began.Load(), cancelled.Load(); b > 2 || b+c != 30 {
			t.Errorf("%d calls began and %d were cancelled, want no more than 2 and the rest of 30", b, c)
		}
	})
}

// A reader that is slow slows the calls: one has ended and waits to be taken, no more.
func TestASlowReaderSlowsTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int32
		run := func(context.Context, job) bool { ended.Add(1); return true }
		taken := int32(0)
		for range tool.Batch(t.Context(), make([]job, 100), isRead, run, func(r bool) bool { return r }) {
			taken++
			synctest.Wait()
			if ahead := ended.Load() - taken; ahead > 1 {
				t.Fatalf("%d results wait", ahead)
			}
		}
	})
}
