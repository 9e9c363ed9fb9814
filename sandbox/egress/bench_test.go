package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// directly is an HTTP client without a relay between.
func directly(tb testing.TB, at string, roots *x509.CertPool) *http.Client {
	t := &http.Transport{
		MaxIdleConnsPerHost: 100, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "a.test"},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at)
		},
	}
	tb.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func fetch(tb testing.TB, c *http.Client, url string) func() {
	return func() {
		res, err := c.Get(url)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
			tb.Fatal(res.Status, err)
		}
		res.Body.Close()
	}
}

// A small request on a connection that is kept.
func BenchmarkEgressKeptRequest(b *testing.B) {
	w := newWorld(b)
	w.web("a.test", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "hello") })
	w.call.o.Seen = nil
	relayed := w.client(nil)
	bench.Compare(b, []bench.Case{
		{Name: "direct", Run: fetch(b, directly(b, w.hosts["a.test"], nil), "http://a.test/")},
		{Name: "relayed", Run: fetch(b, relayed, "http://a.test:8080/")},
		{Name: "judged", Run: fetch(b, relayed, "http://a.test/")},
	},
		bench.Limit{Case: "relayed", Over: "direct", AtMost: 2.5},
		bench.Limit{Case: "judged", Over: "direct", AtMost: 3.5})
}

// A new connection for one byte, with the look-up of the name before it.
func BenchmarkEgressNewConnection(b *testing.B) {
	w := newWorld(b)
	server := w.server("a.test", echo)
	w.call.o.Seen = nil
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	w.net.ServeResolver(packets, listen(b))
	at := w.listenAt("a.test", 5432)
	resolver, err := net.Dial("udp", packets.LocalAddr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer resolver.Close()
	ask := func(query []byte) []byte {
		answer := make([]byte, 512)
		resolver.Write(query)
		n, err := resolver.Read(answer)
		if err != nil {
			b.Fatal(err)
		}
		return answer[:n]
	}
	once := func(from *net.Dialer, at string) {
		conn, err := from.Dial("tcp", at)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		one := []byte{1}
		conn.Write(one)
		if _, err := io.ReadFull(conn, one); err != nil {
			b.Fatal(err)
		}
	}
	program := from(w.source)
	bench.Compare(b, []bench.Case{
		{Name: "direct", Run: func() { once(new(net.Dialer), server.Addr().String()) }, N: 500},
		{Name: "relayed", N: 500, Run: func() {
			answerTo(b, ask, "a.test.", dnsmessage.TypeA, dnsmessage.ClassINET)
			if !w.net.Wants(idOf(w.source), netip.AddrPortFrom(w.net.names.byName["a.test"], 5432)) {
				b.Fatal("it is not wanted")
			}
			once(program, at)
		}},
	}, bench.Limit{Case: "relayed", Over: "direct", AtMost: 4})
}

const streamed = 1 << 30

func BenchmarkEgressStream(b *testing.B) {
	w := newWorld(b)
	chunk := make([]byte, 256<<10)
	body := func(rw io.Writer) {
		for range streamed / len(chunk) {
			if _, err := rw.Write(chunk); err != nil {
				return
			}
		}
	}
	server := w.server("a.test", func(conn *net.TCPConn) {
		defer conn.Close()
		body(conn)
	})
	w.web("b.test", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", fmt.Sprint(streamed))
		body(rw)
	})
	read := func(from *net.Dialer, at string) {
		conn, err := from.Dial("tcp", at)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		into := make([]byte, 256<<10)
		total := 0
		for {
			n, err := conn.Read(into)
			total += n
			if err != nil {
				break
			}
		}
		if total != streamed {
			b.Fatalf("got %d bytes", total)
		}
	}
	at := w.listenAt("a.test", 5432)
	bench.Compare(b, []bench.Case{
		{Name: "direct", Run: func() { read(new(net.Dialer), server.Addr().String()) }, N: 7},
		{Name: "relayed", Run: func() { read(from(w.source), at) }, N: 7},
		{Name: "judged", Run: fetch(b, w.client(nil), "http://b.test/"), N: 7},
	}, bench.Limit{Case: "relayed", Over: "direct", AtMost: 2}) // half the speed
}

func BenchmarkEgressTLSStream(b *testing.B) {
	w := newWorld(b)
	chunk := make([]byte, 256<<10)
	roots := w.secure("a.test", func(rw http.ResponseWriter, _ *http.Request) {
		for range 256 << 20 / len(chunk) {
			if _, err := rw.Write(chunk); err != nil {
				return
			}
		}
	})
	bench.Compare(b, []bench.Case{
		{Name: "direct", Run: fetch(b, directly(b, w.hosts["a.test"], roots), "https://a.test/"), N: 14},
		{Name: "relayed", Run: fetch(b, w.client(roots), "https://a.test/"), N: 14},
	}, bench.Limit{Case: "relayed", Over: "direct", AtMost: 1 / 0.9})
}

// A thousand connections at once that have passed something and are idle.
func BenchmarkEgressThousandConnections(b *testing.B) {
	const n = 1000
	w := newWorld(b)
	server := w.server("a.test", echo)
	held := func(from *net.Dialer, at string) float64 {
		before := memory()
		conns := make([]net.Conn, n)
		var all sync.WaitGroup
		for i := range conns {
			all.Go(func() {
				conn, err := from.Dial("tcp", at)
				if err != nil {
					b.Error(err)
					return
				}
				conns[i] = conn
				conn.Write(make([]byte, 1000))
				if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		after := memory()
		for _, conn := range conns {
			if conn != nil {
				conn.Close()
			}
		}
		return after - before
	}
	direct := held(new(net.Dialer), server.Addr().String())
	relayed := held(from(w.source), w.listenAt("a.test", 5432))
	bench.Value(b, "more than direct", (relayed-direct)/(1<<20), "MiB", 64)
}

// memory is what the heap and the stacks use.
func memory() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}
