package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Data that is on its way arrives, whichever side ends its direction first.
func TestHalfClosed(t *testing.T) {
	const large = 5 << 20
	for _, port := range []int{5432, 443} {
		w := newWorld(t)
		got := make(chan int64, 1)
		w.server("a.test", func(conn *net.TCPConn) {
			defer conn.Close()
			conn.Write(make([]byte, large))
			conn.CloseWrite()
			n, _ := io.Copy(io.Discard, conn)
			got <- n
		})
		conn := w.connect("a.test", port)
		sent := int64(0)
		if port == 443 {
			n, _ := conn.Write(clientHello(t, "a.test"))
			sent += int64(n)
		}
		if n, err := io.Copy(io.Discard, conn); n != large || err != nil {
			t.Errorf("port %d: got %d, %v", port, n, err)
		}
		n, err := conn.Write(make([]byte, large))
		if err != nil {
			t.Error(err)
		}
		conn.CloseWrite()
		if n := <-got; n != large+sent {
			t.Errorf("port %d: the host got %d, want %d", port, n, large+sent)
		}
		sent += int64(n)
		if row := one(t, w.call.End()); row.BytesIn != large || row.BytesOut != sent {
			t.Errorf("port %d: got %+v", port, row)
		}
	}
}

// TestWhoAsksForNothingIsGone: a program that leaves the proxy before it has asked for anything
// does not count among the connections of its call.
func TestWhoAsksForNothingIsGone(t *testing.T) {
	for _, said := range []string{"", "\x05", "\x05\x01\x00\x05\x01\x00\x03"} {
		w := newWorld(t)
		w.call.testOnlyHalfClosed = time.Hour
		at := w.proxy()
		conn := w.dial(at)
		io.WriteString(conn, said)
		if len(said) > 1 {
			io.ReadFull(conn, make([]byte, 2))
		}
		conn.CloseWrite()
		if _, err := io.ReadAll(conn); err != nil { // until the proxy has closed it
			t.Errorf("after %q: %v", said, err)
		}
		eventually(t, "nothing is open", func() bool {
			w.call.mu.Lock()
			defer w.call.mu.Unlock()
			return len(w.call.clients) == 0
		})
	}
}

// A reset goes through: it is not made an end.
func TestResetsPass(t *testing.T) {
	w := newWorld(t)
	host := make(chan error, 1)
	w.server("a.test", func(conn *net.TCPConn) {
		conn.Read(make([]byte, 1))
		reset(conn)
	})
	w.server("b.test", func(conn *net.TCPConn) {
		io.WriteString(conn, "x")
		_, err := conn.Read(make([]byte, 1))
		host <- err
	})
	if got, err := w.exchange("a.test", 5432, []byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the program got %q, %v", got, err)
	}
	conn := w.connect("b.test", 5432)
	io.ReadFull(conn, make([]byte, 1))
	reset(conn)
	if err := <-host; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the host got %v", err)
	}
}

// A program that ends its direction after the request waits for the answer, but not for ever:
// one that is gone looks the same.
func TestHalfClosedRequest(t *testing.T) {
	for name, patience := range map[string]time.Duration{"answered in time": time.Hour, "late": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.call.testOnlyHalfClosed = patience
			arrived, goOn, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
			w.web("a.test", func(rw http.ResponseWriter, r *http.Request) {
				close(arrived)
				select {
				case <-goOn:
					fmt.Fprint(rw, "late")
				case <-r.Context().Done():
					close(gone)
				}
			})
			conn := w.connect("a.test", 80)
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
			<-arrived
			conn.CloseWrite()
			if patience < time.Second {
				<-gone // the host sees that nobody waits
			} else {
				goOn <- struct{}{}
			}
			got, err := io.ReadAll(conn)
			if answered := err == nil && strings.HasSuffix(string(got), "late"); answered != (patience > time.Second) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
