package egress

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// TestPaceOfAnAccount: what comes too fast waits, in the order in which it came.
func TestPaceOfAnAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPaces(2, 1000).Of("a")
		var all time.Duration
		for range 6 {
			all += p.connect(t.Context())
		}
		if all != 2*time.Second {
			t.Errorf("6 connections waited for %v", all)
		}
		if waited := p.pass(t.Context(), 3500); waited != 2500*time.Millisecond {
			t.Errorf("3500 bytes waited for %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if waited := p.pass(ctx, 1<<40); waited != time.Second {
			t.Errorf("a call that ended waited for %v", waited)
		}
	})
}

func TestEachAccountHasItsPace(t *testing.T) {
	p := NewPaces(1, 0)
	if a := p.Of("a"); a != p.Of("a") || a == p.Of("b") {
		t.Error("an account has two paces, or two have one")
	}
	if waited := p.Of("a").pass(t.Context(), 1<<40); waited != 0 {
		t.Errorf("bytes without a bound waited for %v", waited)
	}
	var none *Paces
	if none.Of("a") != nil || NewPaces(0, 0).Of("a") != nil {
		t.Error("a pace of no bounds")
	}
}

// TestConnectionsKeepThePace: those of Dial, of a relay and of HTTP, and their bytes.
func TestConnectionsKeepThePace(t *testing.T) {
	paced := func(t *testing.T, connections int, bytes int64) (*world, *Pace) {
		pace := NewPaces(connections, bytes).Of("a")
		return newWorld(t, func(o *CallOptions) {
			o.Judge = func(context.Context, Connection) Verdict { return Verdict{Allow: true, Pace: pace} }
		}), pace
	}
	to := Connection{Host: "a.test", Port: 5432, Protocol: ProtocolTCP, Via: ViaFetch}
	t.Run("connections", func(t *testing.T) {
		w, pace := paced(t, 1, 0)
		pace.connections = rate.NewLimiter(rate.Every(time.Hour), 1)
		w.server("a.test", echo)
		if _, err := w.call.Dial(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		w.call.dialer.Timeout = time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		second := make(chan error, 1)
		go func() {
			_, err := w.call.Dial(ctx, to)
			second <- err
		}()
		eventually(t, "a second connection waits", func() bool { return pace.connections.Tokens() < 0 })
		time.Sleep(5 * time.Millisecond) // the ledger counts whole ones
		cancel()
		if err := <-second; err == nil {
			t.Error("a second connection within an hour")
		}
		waited := time.Duration(w.call.waited.Load())
		if l := w.call.End(); waited <= 0 || l.WaitedMS != waited.Milliseconds() {
			t.Errorf("it waited for %v, and the ledger has %+v", waited, l)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		w, pace := paced(t, 0, 1)
		w.server("a.test", echo)
		conn, err := w.call.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			conn.Write(make([]byte, 64))
		}()
		eventually(t, "bytes wait", func() bool { return pace.bytes.Tokens() < 0 })
		w.call.End()
		<-wrote
		if w.call.waited.Load() == 0 {
			t.Error("64 bytes waited for nothing, at one a second")
		}
	})
}
