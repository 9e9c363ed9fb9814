package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
)

// eventually waits until a condition holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			tb.Fatalf("%s: not after 20 s\n%s", what, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// A call ends in each state of its connections: nothing is left, and both sides see a reset.
func TestCallEndsInEachState(t *testing.T) {
	type state struct {
		w       *world
		reached chan struct{}
	}
	hangs := func(s state) func(*net.TCPConn) {
		return func(conn *net.TCPConn) {
			close(s.reached)
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	}
	proxied := func(s state, send string) *net.TCPConn {
		conn := s.w.dial(s.w.proxy())
		io.WriteString(conn, send)
		return conn
	}
	for name, open := range map[string]func(state) *net.TCPConn{
		"before the hello": func(s state) *net.TCPConn {
			close(s.reached)
			return s.w.connect("a.test", 443)
		},
		"before a request": func(s state) *net.TCPConn {
			close(s.reached)
			return s.w.connect("a.test", 80)
		},
		"before the first byte to the proxy": func(s state) *net.TCPConn {
			close(s.reached)
			return s.w.dial(s.w.proxy())
		},
		"in the greeting of SOCKS5": func(s state) *net.TCPConn {
			close(s.reached)
			return proxied(s, "\x05\x02")
		},
		"while a person is asked": func(s state) *net.TCPConn {
			s.w.wait(s.reached)
			return s.w.connect("a.test", 5432)
		},
		"while a person is asked about a request": func(s state) *net.TCPConn {
			s.w.wait(s.reached)
			conn := s.w.connect("a.test", 80)
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
			return conn
		},
		"while a person is asked about CONNECT": func(s state) *net.TCPConn {
			s.w.wait(s.reached)
			return proxied(s, "CONNECT a.test:443 HTTP/1.1\r\n\r\n")
		},
		"while the name is looked up": func(s state) *net.TCPConn {
			s.w.dialer.Resolver = resolverAt(s.w.tb, func(string, int) []string {
				close(s.reached)
				return nil
			})
			return s.w.connect("looked-up.test", 5432)
		},
		"while the name of a request is looked up": func(s state) *net.TCPConn {
			s.w.dialer.Resolver = resolverAt(s.w.tb, func(string, int) []string {
				close(s.reached)
				return nil
			})
			conn := s.w.connect("looked-up.test", 80)
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: looked-up.test\r\n\r\n")
			return conn
		},
		"idle": func(s state) *net.TCPConn {
			s.w.server("a.test", hangs(s))
			return s.w.connect("a.test", 5432)
		},
		"half-closed by the program": func(s state) *net.TCPConn {
			s.w.server("a.test", func(conn *net.TCPConn) {
				io.Copy(io.Discard, conn)
				close(s.reached)
			})
			conn := s.w.connect("a.test", 5432)
			conn.CloseWrite()
			return conn
		},
		"a host that sends without end": func(s state) *net.TCPConn {
			s.w.server("a.test", func(conn *net.TCPConn) {
				close(s.reached)
				for chunk := make([]byte, 1<<20); ; {
					if _, err := conn.Write(chunk); err != nil {
						return
					}
				}
			})
			return s.w.connect("a.test", 5432) // and does not read
		},
		"a request without an answer": func(s state) *net.TCPConn {
			s.w.server("a.test", hangs(s))
			conn := s.w.connect("a.test", 80)
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
			return conn
		},
		"an answer without end": func(s state) *net.TCPConn {
			s.w.web("a.test", func(rw http.ResponseWriter, r *http.Request) {
				rw.WriteHeader(200)
				http.NewResponseController(rw).Flush()
				close(s.reached)
				<-r.Context().Done()
			})
			conn := s.w.connect("a.test", 80)
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
			return conn
		},
		"in a tunnel": func(s state) *net.TCPConn {
			s.w.server("a.test", hangs(s))
			return proxied(s, "CONNECT a.test:5432 HTTP/1.1\r\n\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := state{newWorld(t), make(chan struct{})}
			conn := open(s)
			<-s.reached
			eventually(t, "the connection is served", func() bool {
				s.w.call.mu.Lock()
				defer s.w.call.mu.Unlock()
				return len(s.w.call.clients) == 1
			})
			s.w.call.End()
			if _, err := io.Copy(io.Discard, conn); err == nil && name != "in the greeting of SOCKS5" {
				t.Error("the program took the end of the call for the end of the data")
			}
			s.w.call.mu.Lock()
			defer s.w.call.mu.Unlock()
			if len(s.w.call.clients)+len(s.w.call.flows)+len(s.w.call.watches) > 0 {
				t.Errorf("left are %d, %d and %d", len(s.w.call.clients), len(s.w.call.flows), len(s.w.call.watches))
			}
		})
	}
}

// wait makes the judge wait as for a person, until the call ends.
func (w *world) wait(reached chan struct{}) {
	w.call.o.Judge = func(ctx context.Context, _ Connection) Verdict {
		close(reached)
		<-ctx.Done()
		return Verdict{Allow: true} // who is late allows nothing any more
	}
}

// What was used is given back: descriptors and goroutines, also of what was cut.
func TestNothingIsLeft(t *testing.T) {
	once := func() {
		w := newWorld(t)
		w.server("a.test", echo)
		w.web("b.test", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "hello") })
		c := w.client(nil)
		get(t, c, "http://b.test/")
		conn := w.connect("a.test", 5432)
		io.WriteString(conn, "x")
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		w.call.End()
		w.net.Close()
		c.CloseIdleConnections()
		conn.Close()
	}
	t.Run("first", func(*testing.T) { once() })
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	t.Run("sixty", func(sub *testing.T) {
		old := t
		t = sub // servers end with the subtest
		defer func() { t = old }()
		for range 60 {
			once()
		}
	})
	eventually(t, "goroutines and descriptors are back", func() bool {
		return runtime.NumGoroutine() <= goroutines && descriptors(t) <= files
	})
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// One that was accepted while the call ended is reset like those that were there.
func TestNobodyEntersAfterTheEnd(t *testing.T) {
	w := newWorld(t)
	w.call.End()
	l := listen(t)
	conn := w.dial(l.Addr().String())
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w.call.enter(accepted.(*net.TCPConn), "a.test", 443, ViaTransparent); ok {
		t.Error("it is served")
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
	if l := w.call.End(); len(l.Connections) > 0 {
		t.Errorf("got %+v", l)
	}
}

func TestSlowHelloIsRefused(t *testing.T) {
	w := newWorld(t)
	w.call.testOnlyPatience = 10 * time.Millisecond
	if got, err := w.exchange("a.test", 443, []byte{22, 3, 1}); err == nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := w.exchange("a.test", 443, nil); err == nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestContextEndsTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, func(o *CallOptions) { o.Context = ctx })
	w.server("a.test", echo)
	conn := w.connect("a.test", 5432)
	io.WriteString(conn, "x")
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
	}
	if got, err := w.exchange("a.test", 5432, nil); err == nil {
		t.Errorf("afterwards: got %q", got)
	}
}

// Without a judge, with an id that is taken or none, and after Close nothing connects.
func TestNothingByDefault(t *testing.T) {
	w := newWorld(t)
	w.server("a.test", echo)
	w.call.o.Judge = nil
	if got, err := w.exchange("a.test", 5432, nil); err == nil {
		t.Errorf("no judge: got %q", got)
	}
	o := CallOptions{Judge: w.judge, Network: w.call.o.Network, Limits: w.call.o.Limits}
	refuses := func(name string, c *Call) {
		t.Helper()
		if _, err := c.Dial(t.Context(), Connection{Host: "a.test", Port: 5432}); err == nil {
			t.Errorf("%s: it connects", name)
		}
		c.End()
	}
	refuses("taken", w.net.Begin(idOf(w.source), o))
	refuses("no id", w.net.Begin(0, o))
	if w.net.call(idOf(w.source)) != w.call || w.net.call(0) != nil {
		t.Error("another call is there")
	}
	w.net.Close()
	w.net.Close()
	refuses("closed", w.net.Begin(4321, o))
	if l := listen(t); true {
		w.net.ServeProxy(l)
		if _, err := l.Accept(); err == nil {
			t.Error("a closed network listens")
		}
	}
}

func TestWants(t *testing.T) {
	w := newWorld(t)
	id := idOf(w.source)
	a, _ := w.net.names.address("a.test")
	for _, tt := range []struct {
		name string
		call uint32
		to   string
		want bool
	}{
		{"web", id, a.String() + ":443", true},
		{"a port that is named", id, a.String() + ":5432", true},
		{"a port that is not", id, a.String() + ":22", false},
		{"no port", id, a.String() + ":0", false},
		{"no name", id, "198.18.1.1:443", false},
		{"no call", id + 1, a.String() + ":443", false},
		{"nobody", 0, a.String() + ":443", false},
	} {
		if got := w.net.Wants(tt.call, netip.MustParseAddrPort(tt.to)); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
	for i := range maxListeners {
		w.net.at[netip.AddrPortFrom(netip.AddrFrom4([4]byte{9, 9, byte(i >> 8), byte(i)}), 1)] = listen(t)
	}
	if w.net.Wants(id, netip.MustParseAddrPort(a.String()+":443")) {
		t.Error("there is no end of listeners")
	}
	rules := ""
	for _, r := range w.call.End().Connections {
		rules += fmt.Sprintf("%s:%d %s %s; ", r.Host, r.Port, r.Verdict, r.Rule)
	}
	for _, want := range []string{"a.test:22 deny network.allowedDomains", "a.test:443 deny network"} {
		if !strings.Contains(rules, want) {
			t.Errorf("got %q, want %q", rules, want)
		}
	}
}

// A listener that the launcher closes is forgotten, and may come again.
func TestListenersComeAndGo(t *testing.T) {
	w := newWorld(t)
	w.server("a.test", echo)
	a, _ := w.net.names.address("a.test")
	to := netip.AddrPortFrom(a, 5432)
	for range 3 {
		l := listen(t)
		w.net.Serve(to, l)
		conn := w.dial(l.Addr().String())
		io.WriteString(conn, "x")
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		l.Close()
		eventually(t, "it is forgotten", func() bool {
			w.net.mu.Lock()
			defer w.net.mu.Unlock()
			return w.net.at[to] == nil
		})
		io.WriteString(conn, "x") // what is open stays
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Error(err)
		}
	}
}

// TestAListenerThatClosesLate: the one that came after it stays known, and is counted.
func TestAListenerThatClosesLate(t *testing.T) {
	w := newWorld(t)
	a, _ := w.net.names.address("a.test")
	to := netip.AddrPortFrom(a, 5432)
	first, second := listen(t), listen(t)
	w.net.Serve(to, first)
	w.net.Serve(to, second)
	first.Close()
	eventually(t, "the first is closed", func() bool {
		w.net.mu.Lock()
		defer w.net.mu.Unlock()
		return len(w.net.listeners) == 1
	})
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if w.net.at[to] != second {
		t.Error("the second one is forgotten")
	}
}

// Seen tells each connection and request once, with what was decided.
func TestSeen(t *testing.T) {
	w := newWorld(t)
	w.server("a.test", echo)
	w.web("b.test", func(http.ResponseWriter, *http.Request) {})
	w.deny = func(k Connection) bool { return k.Path == "/no" }
	conn := w.connect("a.test", 5432)
	io.WriteString(conn, "x")
	io.ReadFull(conn, make([]byte, 1))
	c := w.client(nil)
	get(t, c, "http://b.test/")
	get(t, c, "http://b.test/")
	get(t, c, "http://b.test/no")
	w.call.End()
	got := ""
	for _, r := range w.seen {
		got += fmt.Sprintf("%s:%d %s %d %s; ", r.Host, r.Port, r.Verdict, r.Count, r.Rule)
	}
	want := "a.test:5432 allow 1 test.allows; b.test:80 allow 1 test.allows; b.test:80 allow 1 test.allows; " +
		"b.test:80 deny 1 test.denies; "
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Several calls of one network do not see or end each other.
func TestCallsAreApart(t *testing.T) {
	w := newWorld(t)
	w.server("a.test", echo)
	at := w.listenAt("a.test", 5432)
	second, source := w.begin(func(o *CallOptions) {
		o.Judge = func(context.Context, Connection) Verdict { return Verdict{Reason: "this call may not"} }
		o.Network = guard.Network{}
	})
	first := w.dial(at)
	io.WriteString(first, "x")
	if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	conn, err := from(source).Dial("tcp", at) // the listener is there, and it may not all the same
	if err == nil {
		_, err = bufio.NewReader(conn).ReadByte()
		conn.Close()
	}
	if err == nil {
		t.Error("it may")
	}
	if row := one(t, second.End()); row.Verdict != Denied || row.Reason != "this call may not" {
		t.Errorf("got %+v", row)
	}
	io.WriteString(first, "y")
	if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
		t.Errorf("the end of one call ended the other: %v", err)
	}
}
