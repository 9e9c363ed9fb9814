package tool_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/tool"
)

type job struct {
	id   int
	read bool
}

func isRead(j job) bool { return j.read }

func TestT57_ReadsTenAtATimeThenTheOthersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []job
		for i := range 30 {
			calls = append(calls, job{i, i%6 != 5}) // 25 reads, 5 others mixed in
		}
		var flying, most atomic.Int32
		var mu sync.Mutex
		var order []int
		results := tool.Batch(t.Context(), calls, isRead, func(_ context.Context, j job) int {
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
	results := tool.Batch(ctx, calls, isRead, func(ctx context.Context, j job) string {
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
		tool.Batch(t.Context(), calls, isRead, func(ctx context.Context, j job) bool {
			if j.id == 11 { // begins only because the ten before it gave up their places
				close(answer)
				return true
			}
			resume := tool.Park(ctx)
			<-answer
			resume()
			return true
		})
	})
	tool.Park(t.Context())() // outside a batch: nothing
}
