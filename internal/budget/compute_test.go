package budget

import (
	"context"
	"runtime"
	"strings"
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
			h.Compute(ctx) // has no turn, not even later: it is over, and nobody ends it
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
		time.Sleep(2 * aloneAfter)
		most(alice, 2) // bob's request is under way, however long
		request(t, b, "bob").Release()
		bob.Release()
		most(alice, 2) // he will come again
		time.Sleep(aloneAfter)
		most(alice, 4)
		alice.Release()
		bob = request(t, b, "bob")
		most(bob, 4) // alice ended long ago, whenever she ended
		bob.Release()
		request(t, b, "bob").Release()
		most(request(t, b, "alice"), 2) // bob came just before
	})
}

// Where there is one processor, everybody has it.
func TestOneProcessorIsForEverybody(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		b := New(Limits{})
		for _, name := range []string{"alice", "bob"} {
			h := request(t, b, name)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			h.Compute(ctx)()
			if ctx.Err() != nil {
				t.Errorf("%s has no turn", name)
			}
			cancel()
		}
	})
}

// There are as many accounts as uids: one that has nothing any more is forgotten.
func TestAnAccountIsForgotten(t *testing.T) {
	b := New(Limits{Connections: 2})
	c, ok := b.Connect("a", func() {})
	if !ok || !c.Begin() {
		t.Fatal("the first connection is refused")
	}
	if _, ok := b.Connect("b", func() {}); ok {
		t.Fatal("a second connection is admitted")
	}
	h := request(t, b, "c")
	h.Part().Release()
	if len(b.accounts) != 2 || len(h.parts) != 0 {
		t.Errorf("accounts: %d, want 2; parts: %d, want none", len(b.accounts), len(h.parts))
	}
	h.Release()
	c.Close()
	if len(b.accounts) != 0 {
		t.Errorf("%d accounts are left", len(b.accounts))
	}
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

// What gives memory back comes before all else of its account.
func TestComputeNextComesFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	synctest.Test(t, func(t *testing.T) {
		b := New(Limits{})
		alice, bob := request(t, b, "alice"), request(t, b, "bob") // so that alice has a half
		running := alice.Compute(t.Context())
		var order []string
		wait := func(name string, compute func(context.Context) func()) {
			go func() {
				done := compute(t.Context())
				order = append(order, name)
				done()
			}()
			synctest.Wait()
		}
		wait("second", alice.Compute)
		wait("third", alice.Compute)
		wait("first", alice.ComputeNext)
		running()
		synctest.Wait()
		if got := strings.Join(order, " "); got != "first second third" {
			t.Errorf("got %s", got)
		}
		bob.Release()
	})
}

// How many processors there are can be said, for a process with more threads.
func TestProcessorsAreCountedAsTold(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	b := New(Limits{Processors: 4})
	alice, bob := request(t, b, "alice"), request(t, b, "bob")
	defer alice.Release()
	defer bob.Release()
	if n := b.processors(alice.a); n != 2 {
		t.Errorf("one of two accounts has %d of 4 processors", n)
	}
}
