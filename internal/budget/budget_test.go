package budget_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
)

const mib = 1 << 20

func request(t testing.TB, b *budget.Budget, account string) *budget.Hold {
	t.Helper()
	h, err := b.Request(account)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func code(err error) string {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Code
	}
	return ""
}

// One account gets half, the next one half of the rest, and so on: nobody can take what
// the next one needs.
func TestEachAccountLeavesRoomForTheNext(t *testing.T) {
	b := budget.New(budget.Limits{Bytes: 64 * mib})
	for i, want := range []int64{31, 16, 8, 4, 2} {
		h := request(t, b, fmt.Sprint("account ", i))
		var got int64
		for h.Take(mib) == nil {
			got++
		}
		if got != want {
			t.Errorf("account %d gets %d MiB, want %d", i, got, want)
		}
	}
}

func TestWhyThereIsNoRoom(t *testing.T) {
	b := budget.New(budget.Limits{Bytes: 64 * mib, Concurrent: 3, PerSecond: 5})
	h := request(t, b, "a")
	if err := h.Take(33 * mib); code(err) != "too_large" || !strings.Contains(err.Error(), "33554432") {
		t.Errorf("more than half: got %v", err)
	}
	if err := h.Take(20 * mib); err != nil {
		t.Fatal(err)
	}
	second := request(t, b, "a")
	if err := second.Take(20 * mib); code(err) != "account_busy" || !strings.Contains(err.Error(), "account a") {
		t.Errorf("more than the account has: got %v", err)
	}
	other := request(t, b, "b")
	if err := other.Take(25 * mib); code(err) != "agents_busy" {
		t.Errorf("more than the others leave: got %v", err)
	}
	request(t, b, "a")
	if _, err := b.Request("a"); code(err) != "too_many_requests" {
		t.Errorf("a fourth request: got %v", err)
	}
	for range 6 {
		h, err := b.Request("c")
		if err != nil {
			if code(err) != "rate_limited" {
				t.Errorf("a sixth request in the same second: got %v", err)
			}
			break
		}
		h.Release()
	}
	want := map[string]uint64{"bytes": 3, "requests": 1, "rate": 1}
	for i, n := range b.Use().Refused {
		if n != want[budget.Reasons[i]] {
			t.Errorf("%s: %d refused, want %d", budget.Reasons[i], n, want[budget.Reasons[i]])
		}
	}
}

// Whatever is taken and given back in whatever order, nobody has more than the rules say,
// and at the end nothing is left.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 64 * mib
		b := budget.New(budget.Limits{Bytes: limit, Connections: 20})
		accounts := rapid.SampledFrom([]string{"a", "b", "c"})
		var holds []*budget.Hold
		var conns []*budget.Conn
		closed := map[*budget.Conn]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				if h, err := b.Request(accounts.Draw(t, "account")); err == nil {
					holds = append(holds, h)
				}
			},
			"part": func(t *rapid.T) {
				if len(holds) > 0 {
					holds = append(holds, rapid.SampledFrom(holds).Draw(t, "of").Part())
				}
			},
			"take": func(t *rapid.T) {
				if len(holds) > 0 {
					_ = rapid.SampledFrom(holds).Draw(t, "hold").Take(rapid.Int64Range(0, 20*mib).Draw(t, "bytes"))
				}
			},
			"give": func(t *rapid.T) {
				if len(holds) > 0 {
					rapid.SampledFrom(holds).Draw(t, "hold").Give(rapid.Int64Range(0, 20*mib).Draw(t, "bytes"))
				}
			},
			"shrink": func(t *rapid.T) {
				if len(holds) > 0 {
					rapid.SampledFrom(holds).Draw(t, "hold").Shrink(rapid.Int64Range(0, mib).Draw(t, "bytes"))
				}
			},
			"release": func(t *rapid.T) {
				if len(holds) > 0 {
					rapid.SampledFrom(holds).Draw(t, "hold").Release()
				}
			},
			"connect": func(t *rapid.T) {
				var c *budget.Conn
				c, ok := b.Connect(accounts.Draw(t, "account"), func() { closed[c] = true })
				if ok {
					conns = append(conns, c)
				}
			},
			"begin": func(t *rapid.T) {
				if len(conns) > 0 {
					c := rapid.SampledFrom(conns).Draw(t, "conn")
					if c.Begin() {
						_ = c.Hold().Take(1000)
					}
				}
			},
			"end": func(t *rapid.T) {
				if len(conns) > 0 {
					rapid.SampledFrom(conns).Draw(t, "conn").End()
				}
			},
			"close": func(t *rapid.T) {
				if len(conns) > 0 {
					rapid.SampledFrom(conns).Draw(t, "conn").Close()
				}
			},
			"": func(t *rapid.T) {
				if u := b.Use(); u.Bytes < 0 || u.Bytes >= limit || u.Connections < 0 || u.Connections >= 20 || u.Requests < 0 {
					t.Fatalf("in use: %+v", u)
				}
			},
		})
		for _, h := range holds {
			h.Release()
		}
		for _, c := range conns {
			c.Close()
		}
		if u := b.Use(); u.Bytes != 0 || u.Connections != 0 || u.Requests != 0 {
			t.Fatalf("left: %+v", u)
		}
	})
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Limits{Bytes: 64 * mib})
		first := request(t, b, "a")
		if err := first.Wait(t.Context(), 30*mib); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int
		holds := make([]*budget.Hold, 3)
		for i := range holds {
			holds[i] = request(t, b, "a")
			go func() {
				if err := holds[i].Wait(t.Context(), 20*mib); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := request(t, b, "a").Wait(ctx, 5*mib); code(err) != "account_busy" {
			t.Errorf("after a second: got %v", err)
		}
		if err := request(t, b, "a").Wait(t.Context(), 40*mib); code(err) != "too_large" {
			t.Errorf("what can never be: got %v", err)
		}
		if err := request(t, b, "b").Wait(t.Context(), 10*mib); err != nil {
			t.Errorf("another account: %v", err)
		}
		first.Release()
		for _, h := range holds {
			synctest.Wait()
			h.Release()
		}
		synctest.Wait()
		if want := []int{0, 1, 2}; !slices.Equal(order, want) {
			t.Errorf("got the order %v, want %v", order, want)
		}
	})
}

// The connection that is idle for longest goes, of the account that has most.
func TestConnections(t *testing.T) {
	b := budget.New(budget.Limits{Connections: 16})
	var closed []string
	connect := func(account string, i int) *budget.Conn {
		c, ok := b.Connect(account, func() { closed = append(closed, fmt.Sprint(account, i)) })
		if !ok {
			return nil
		}
		return c
	}
	many := make([]*budget.Conn, 8)
	for i := range many {
		many[i] = connect("a", i)
	}
	if !many[0].Begin() {
		t.Fatal("a request on an open connection is refused")
	}
	if c := connect("a", 8); c == nil || !slices.Equal(closed, []string{"a1"}) {
		t.Errorf("one too many of a: got %v, closed %v; want the oldest idle one", c, closed)
	}
	if many[1].Begin() {
		t.Error("a request on a closed connection is served")
	}
	for i := range 5 { // half of what a leaves, then what a has more than b
		if connect("b", i) == nil {
			t.Errorf("connection %d of b is refused", i)
		}
	}
	if want := []string{"a1", "a2", "a3"}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
	closed = nil
	for i := range 20 {
		if connect("c", i) == nil {
			t.Errorf("connection %d of c is refused", i)
		}
	}
	if n := b.Use().Connections; n >= 16 {
		t.Errorf("%d connections", n)
	}
	many[0].End()
	many[0].Close()
	many[0].Close()
}

// Where all connections of an account are busy, one more is refused, and others are not.
func TestBusyConnectionsAreNotClosed(t *testing.T) {
	b := budget.New(budget.Limits{Connections: 8})
	connect := func(account string) bool {
		c, ok := b.Connect(account, func() { t.Error("a busy connection is closed") })
		return ok && c.Begin()
	}
	for range 4 {
		if !connect("a") {
			t.Fatal("refused")
		}
	}
	before := b.Use().Bytes
	if connect("a") {
		t.Error("a fifth connection of a is admitted")
	}
	if after := b.Use().Bytes; after != before {
		t.Errorf("a connection that is refused holds %d bytes", after-before)
	}
	if !connect("b") || b.Use().Refused[slices.Index(budget.Reasons[:], "connections")] != 1 {
		t.Errorf("b is refused: %+v", b.Use())
	}
}

// Who wants bytes for a connection closes none of another account.
func TestMemoryClosesNoConnectionOfOthers(t *testing.T) {
	b := budget.New(budget.Limits{Bytes: 64 * mib, Connections: 1000})
	for range 10 {
		b.Connect("b", func() { t.Error("a connection of b is closed") })
	}
	h := request(t, b, "a")
	for h.Take(1000) == nil {
	}
	if _, ok := b.Connect("a", func() {}); ok {
		t.Error("a has no byte left, and gets a connection")
	}
	b.Limit(budget.Limits{Bytes: 64 * mib, Connections: 10}) // and nothing is left of those either
	if _, ok := b.Connect("a", func() {}); ok {
		t.Error("a has no byte and no connection left, and gets one")
	}
}

// Operators have no hold: nothing refuses them anything.
func TestWithoutAHoldEverythingIsPermitted(t *testing.T) {
	h := budget.Of(t.Context())
	if err := errors.Join(h.Take(1<<60), h.Wait(t.Context(), 1<<60), h.Part().Take(1)); err != nil {
		t.Error(err)
	}
	h.Give(1)
	h.Shrink(0)
	h.Release()
	var c *budget.Conn
	if !c.Begin() || c.Hold() != nil {
		t.Error("a connection that is not counted is refused")
	}
	c.End()
	c.Close()
	b := budget.New(budget.Limits{})
	own := request(t, b, "a")
	if err := own.Take(1 << 60); err != nil {
		t.Errorf("no limit: %v", err)
	}
	if budget.Of(budget.With(t.Context(), own)) != own {
		t.Error("the context does not carry the hold")
	}
}

// What is taken after the request has ended would never be given back: it is not taken.
func TestNothingIsTakenAfterTheEnd(t *testing.T) {
	b := budget.New(budget.Limits{Bytes: 64 * mib})
	h := request(t, b, "a")
	h.Release()
	if err := h.Take(mib); err != nil || b.Use().Bytes != 0 {
		t.Errorf("got %v, %+v", err, b.Use())
	}
}

// A part goes with what it is a part of; what is kept stays.
func TestPartsAndWhatIsKept(t *testing.T) {
	b := budget.New(budget.Limits{Bytes: 64 * mib})
	h := request(t, b, "a")
	part := h.Part()
	below := part.Part()
	kept, err := h.Keep(2 * mib)
	if err := errors.Join(err, part.Take(mib), below.Take(3*mib)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Keep(30 * mib); code(err) != "account_busy" && code(err) != "too_large" {
		t.Errorf("more than there is: %v", err)
	}
	part.Release()
	if n := b.Use().Bytes; n < 2*mib || n >= 3*mib {
		t.Errorf("after a part: %d bytes", n)
	}
	other := h.Part()
	if err := other.Take(mib); err != nil {
		t.Fatal(err)
	}
	h.Release()
	if n := b.Use().Bytes; n != 2*mib {
		t.Errorf("after the request: %d bytes", n)
	}
	if err := errors.Join(other.Take(mib), h.Part().Take(mib)); err != nil || b.Use().Bytes != 2*mib {
		t.Errorf("a part outlives the request: %v, %+v", err, b.Use())
	}
	kept.Release()
	if n := b.Use().Bytes; n != 0 {
		t.Errorf("at the end: %d bytes", n)
	}
}

// Other limits hold at once, and what is held stays.
func TestLimitsCanChange(t *testing.T) {
	b := budget.New(budget.Limits{Bytes: 64 * mib})
	h := request(t, b, "a")
	if err := h.Take(30 * mib); err != nil {
		t.Fatal(err)
	}
	b.Limit(budget.Limits{Bytes: 40 * mib, Concurrent: 1})
	if err := h.Take(1); err == nil || b.Use().Bytes < 30*mib {
		t.Errorf("got %v with %+v", err, b.Use())
	}
	if _, err := b.Request("a"); code(err) != "too_many_requests" {
		t.Errorf("got %v", err)
	}
}
