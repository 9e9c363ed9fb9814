package budget_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
)

// Whatever gives bytes back, those who wait for them have them at once.
func TestWhatIsGivenBackGoesToWhoWaits(t *testing.T) {
	limits := budget.Limits{Bytes: 64 * mib}
	for name, back := range map[string]func(b *budget.Budget, h *budget.Hold, c *budget.Conn){
		"give":    func(_ *budget.Budget, h *budget.Hold, _ *budget.Conn) { h.Give(8 * mib) },
		"shrink":  func(_ *budget.Budget, h *budget.Hold, _ *budget.Conn) { h.Shrink(6 * mib) },
		"release": func(_ *budget.Budget, h *budget.Hold, _ *budget.Conn) { h.Release() },
		"a higher limit": func(b *budget.Budget, _ *budget.Hold, _ *budget.Conn) {
			b.Limit(budget.Limits{Bytes: 128 * mib})
		},
		"an answer":             func(_ *budget.Budget, _ *budget.Hold, c *budget.Conn) { c.End() },
		"a closed connection":   func(_ *budget.Budget, _ *budget.Hold, c *budget.Conn) { c.Close() },
		"one who waits no more": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := budget.New(limits)
				h := request(t, b, "a")
				c, ok := b.Connect("a", func() {})
				if !ok || !c.Begin() || h.Take(14*mib) != nil || c.Hold().Take(14*mib) != nil {
					t.Fatal("the first bytes are refused")
				}
				ctx, cancel := context.WithCancel(t.Context())
				first := request(t, b, "a")
				go func() { _ = first.Wait(ctx, 8*mib) }()
				synctest.Wait()
				n := int64(8 * mib)
				if back == nil {
					n = mib
				}
				got := false
				go func() { got = request(t, b, "a").Wait(t.Context(), n) == nil }()
				synctest.Wait()
				if got {
					t.Fatal("the second overtakes the first")
				}
				cancel()
				synctest.Wait()
				if back != nil {
					if got {
						t.Fatal("8 MiB are there before anything is given back")
					}
					back(b, h, c)
					synctest.Wait()
				}
				if !got {
					t.Errorf("who waits has nothing: %+v", b.Use())
				}
				// What ended before its turn has taken nothing.
				if held := b.Use().Bytes; back == nil && held >= 30*mib {
					t.Errorf("%d bytes are held", held)
				}
			})
		})
	}
}

// A request that can never fit does not stand in the way of the next.
func TestTooLargeBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Limits{Bytes: 64 * mib})
		h := request(t, b, "a")
		if err := h.Wait(t.Context(), 40*mib); code(err) != "too_large" {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Wait(ctx, mib); err != nil || ctx.Err() != nil {
			t.Errorf("the next waits: %v, %v", err, ctx.Err())
		}
	})
}

// A refused request costs nothing of the rate, and another rate holds at once.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Limits{PerSecond: 1})
		request(t, b, "a").Release()
		for range 5 {
			if _, err := b.Request("a"); code(err) != "rate_limited" {
				t.Fatalf("a second request, after the first has ended: got %v", err)
			}
		}
		time.Sleep(time.Second)
		request(t, b, "a").Release()
		b.Limit(budget.Limits{PerSecond: 3})
		for range 3 {
			request(t, b, "a").Release()
		}
	})
}

// What is kept counts when all requests of the account have ended.
func TestWhatIsKeptCountsAfterTheRequest(t *testing.T) {
	b := budget.New(budget.Limits{Bytes: 64 * mib})
	h := request(t, b, "a")
	if _, err := h.Keep(20 * mib); err != nil {
		t.Fatal(err)
	}
	h.Release()
	if err := request(t, b, "a").Take(20 * mib); code(err) != "account_busy" {
		t.Errorf("got %v", err)
	}
	if got := budget.Account(budget.With(t.Context(), h)); got != "a" || budget.Account(t.Context()) != "" {
		t.Errorf("the account is %q, without a request %q", got, budget.Account(t.Context()))
	}
	if kept, err := budget.Of(t.Context()).Keep(1 << 60); kept != nil || err != nil {
		t.Errorf("without a hold: %v, %v", kept, err)
	}
	budget.Of(t.Context()).Compute(t.Context())()
}

// Which connection goes where there is no room: who, with how many of which, asks for one more.
func TestWhichConnectionGoes(t *testing.T) {
	for _, c := range []struct {
		name   string
		a, b   int
		busy   bool // those of a
		closed string
		ok     bool
	}{
		{"its own, of accounts that have as many", 3, 3, false, "a0", true},
		{"of the other, when all its own are busy", 3, 3, true, "b0", true},
		{"none of an account that has less", 4, 2, true, "", false},
	} {
		for range 20 { // accounts are in no order
			b := budget.New(budget.Limits{Connections: 10})
			closed := ""
			for i := range max(c.a, c.b) {
				if i < c.a {
					x, ok := b.Connect("a", func() { closed += fmt.Sprint("a", i) })
					if !ok || !x.Begin() {
						t.Fatalf("%s: connection %d of a is refused", c.name, i)
					}
					if !c.busy {
						x.End()
					}
				}
				if i < c.b {
					if _, ok := b.Connect("b", func() { closed += fmt.Sprint("b", i) }); !ok {
						t.Fatalf("%s: connection %d of b is refused", c.name, i)
					}
				}
			}
			if _, ok := b.Connect("a", func() {}); ok != c.ok || closed != c.closed {
				t.Fatalf("%s: admitted %v, closed %q, want %v, %q", c.name, ok, closed, c.ok, c.closed)
			}
		}
	}
}

// A connection serves one request at a time, takes nothing when it is closed, and without a limit there may be many.
func TestOneConnection(t *testing.T) {
	b := budget.New(budget.Limits{})
	conns := make([]*budget.Conn, 100)
	for i := range conns {
		c, ok := b.Connect("a", func() { t.Error("closed") })
		if !ok {
			t.Fatalf("connection %d is refused", i)
		}
		conns[i] = c
	}
	c := conns[0]
	if !c.Begin() || c.Begin() {
		t.Error("a second request begins before the first has ended")
	}
	if c.End(); !c.Begin() {
		t.Error("the next request is refused")
	}
	for _, c := range slices.Concat(conns, conns) {
		c.Close()
	}
	if err := c.Hold().Take(mib); err != nil || b.Use().Bytes != 0 || b.Use().Connections != 0 {
		t.Errorf("after all are closed: %v, %+v", err, b.Use())
	}
}
