package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Ten thousand connections: never more at once than the limit, and each one is accounted for.
func TestTenThousandConnections(t *testing.T) {
	const limit, all, programs = 16, 10000, 64
	w := newWorld(t, func(o *CallOptions) { o.Limits.Connections = limit })
	var most atomic.Int64
	w.call.o.Judge = func(context.Context, Connection) Verdict {
		w.call.mu.Lock()
		defer w.call.mu.Unlock()
		most.Store(max(most.Load(), int64(len(w.call.clients))))
		return Verdict{Allow: true}
	}
	w.server("a.test", echo)
	at := w.listenAt("a.test", 5432)
	var served, reset atomic.Int64
	var wg sync.WaitGroup
	for range programs {
		wg.Go(func() {
			for range all / programs {
				conn, err := from(w.source).Dial("tcp", at)
				if err == nil {
					conn.SetDeadline(time.Now().Add(time.Minute))
					// The kernel tells a reset once, to the write or to the read.
					if _, err = conn.Write([]byte{1}); err == nil {
						_, err = io.ReadFull(conn, make([]byte, 1))
					}
					conn.(*net.TCPConn).SetLinger(0) // the ports are used again
					conn.Close()
				}
				switch {
				case err == nil:
					served.Add(1)
				case errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
					reset.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	l := w.call.End()
	var allowed, denied int
	for _, r := range l.Connections {
		switch {
		case r.Verdict == Allowed:
			allowed += r.Count
		case r.Rule == "limits.networkConnections":
			denied += r.Count
		default:
			t.Errorf("got %+v", r)
		}
	}
	if most.Load() > limit || int64(allowed) < served.Load() || allowed+denied != all/programs*programs {
		t.Errorf("served %d, reset %d, most at once %d; allowed %d, denied %d", served.Load(), reset.Load(), most.Load(),
			allowed, denied)
	}
}

func TestBytesAreLimited(t *testing.T) {
	const limit = 1 << 20
	w := newWorld(t, func(o *CallOptions) { o.Limits.Bytes = limit })
	w.server("a.test", func(conn *net.TCPConn) {
		defer conn.Close()
		conn.Read(make([]byte, 1))
		io.Copy(conn, zeros{})
	})
	conn, idle := w.connect("a.test", 5432), w.connect("a.test", 5432)
	io.WriteString(conn, "x")
	got, err := io.Copy(io.Discard, conn)
	if !errors.Is(err, syscall.ECONNRESET) || got > limit+bufferSize {
		t.Errorf("got %d bytes, %v", got, err)
	}
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the other one got %v", err)
	}
	if text, err := w.exchange("a.test", 5432, nil); err == nil || text != "" {
		t.Errorf("afterwards: got %q, %v", text, err)
	}
	if _, err := w.call.Dial(t.Context(), Connection{Host: "a.test", Port: 5432, Protocol: ProtocolTCP}); err == nil {
		t.Error("afterwards a tool of the daemon connects")
	}
	l := w.call.End()
	rules := map[string]int{}
	for _, r := range l.Connections {
		rules[r.Rule] += r.Count
		if r.BytesIn > limit+bufferSize {
			t.Errorf("got %+v", r)
		}
	}
	if rules["limits.networkBytes"] < 2 {
		t.Errorf("got %+v", l)
	}
}

type zeros struct{}

func TestBytesOfRequestsAreLimited(t *testing.T) {
	w := newWorld(t, func(o *CallOptions) { o.Limits.Bytes = 1 << 20 })
	w.web("a.test", func(rw http.ResponseWriter, _ *http.Request) { io.Copy(rw, zeros{}) })
	got, err := w.exchange("a.test", 80, []byte("GET / HTTP/1.0\r\n\r\n"))
	if err == nil || len(got) > 1<<20+4*bufferSize {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestDialCountsAsAConnection(t *testing.T) {
	w := newWorld(t, func(o *CallOptions) { o.Limits.Connections = 1 })
	w.server("a.test", echo)
	k := Connection{Host: "a.test", Port: 5432, Protocol: ProtocolTCP, Via: ViaFetch}
	first, err := w.call.Dial(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if _, err := w.call.Dial(t.Context(), k); !errors.As(err, &refused) || refused.Verdict.Rule != "limits.networkConnections" {
		t.Errorf("got %v", err)
	}
	if got, err := w.exchange("a.test", 5432, nil); err == nil {
		t.Errorf("a program got %q", got)
	}
	first.Close()
	first.Close()
	second, err := w.call.Dial(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if c := w.call; c.direct != 1 {
		t.Errorf("got %d", c.direct)
	}
	w.call.End()
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("it is open after the end")
	}
}

// TestWhatALedgerLeavesOutIsCountedOnce: when it is tried, and not again when it ends. Two ledgers are added.
func TestWhatALedgerLeavesOutIsCountedOnce(t *testing.T) {
	var l Ledger
	for i := range 66 {
		l.Add(Row{Host: fmt.Sprint("h", i), Count: 1})
	}
	l.Add(Row{Host: "h65", BytesIn: 7})
	l.Add(Row{Host: "h0", BytesIn: 7})
	if len(l.Connections) != 64 || l.Omitted != 2 || l.Connections[0].BytesIn != 7 {
		t.Errorf("%d rows, %d omitted, the first is %+v", len(l.Connections), l.Omitted, l.Connections[0])
	}
	l.Merge(Ledger{Connections: []Row{{Host: "h0", Count: 1}, {Host: "new", Count: 1}}, Omitted: 3, WaitedMS: 40})
	l.Merge(Ledger{WaitedMS: 2})
	if l.Connections[0].Count != 2 || l.Omitted != 6 || l.WaitedMS != 42 {
		t.Errorf("the first counts %d, %d omitted, waited %d ms", l.Connections[0].Count, l.Omitted, l.WaitedMS)
	}
}

// More hosts than a ledger has rows are counted.
func TestLedgerIsBounded(t *testing.T) {
	w := newWorld(t)
	w.call.o.Judge = nil
	for i := range MaxRows + 10 {
		w.call.Dial(t.Context(), Connection{Host: fmt.Sprintf("h%d.test", i), Port: 22})
	}
	l := w.call.End()
	if len(l.Connections) != 64 || l.Omitted != 10 {
		t.Errorf("got %d rows, %d omitted", len(l.Connections), l.Omitted)
	}
	if again := w.call.End(); again.Omitted != l.Omitted {
		t.Errorf("the second time it is %+v", again)
	}
}
