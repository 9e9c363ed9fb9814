package budget

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// One account computes on half of the processors while others are there, else on all.
func TestAnAccountLeavesProcessorsToOthers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	synctest.Test(t, func(t *testing.T) {
		b := New(Limits{})
		alice := request(t, b, "alice")
		var done []func()
		most := func(h *Hold, want int) {
			t.Helper()
			for range want {
				done = append(done, h.Compute(t.Context()))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			began := time.Now()
			h.Compute(ctx)() // has no turn: it neither waits for ever nor ends one of another
			if time.Since(began) == 0 {
				t.Errorf("one more than %d computes", want)
			}
			for _, d := range done {
				d()
			}
			done = nil
		}
		most(alice, 4) // alone
		bob := request(t, b, "bob")
		most(alice, 2)
		most(bob, 2)
		bob.Release()
		most(alice, 2) // he will come again
		time.Sleep(aloneAfter)
		most(alice, 4)
	})
}

// Whoever waits is served when a turn ends, in order, and other accounts do not wait for it.
func TestATurnGoesToWhoWaits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	synctest.Test(t, func(t *testing.T) {
		b := New(Limits{})
		alice, bob := request(t, b, "alice"), request(t, b, "bob")
		first := alice.Compute(t.Context())
		var order []int
		for i := range 3 {
			go func() {
				d := alice.Compute(t.Context())
				order = append(order, i) // one at a time
				d()
			}()
			synctest.Wait()
		}
		bob.Compute(t.Context())()
		if len(order) != 0 {
			t.Errorf("%v compute beside the first", order)
		}
		first()
		synctest.Wait()
		if len(order) != 3 || order[0] != 0 || order[2] != 2 {
			t.Errorf("the order is %v", order)
		}
		alice.Release()
		bob.Release()
	})
}

func request(t *testing.T, b *Budget, account string) *Hold {
	t.Helper()
	h, err := b.Request(account)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
