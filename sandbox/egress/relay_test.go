package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestX12_HTTPIsJudgedByRequest(t *testing.T) {
	w := newWorld(t)
	w.web("a.test", func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, "%s %s %s %s", r.Method, r.Host, r.RequestURI, r.Header.Get("X-Forwarded-For"))
	})
	w.deny = func(k Connection) bool { return k.Path == "/secret" }
	c := w.client(nil)
	if code, body := get(t, c, "http://a.test/a%2Fb?q=1;2"); code != 200 || body != "GET a.test /a%2Fb?q=1;2 " {
		t.Errorf("got %d, %q", code, body)
	}
	code, body := get(t, c, "http://a.test/secret?token")
	if code != 403 || !strings.Contains(body, "a.test is refused: the test refuses it (test.denies)\nhint: use another host") {
		t.Errorf("got %d, %q", code, body)
	}
	want := []Connection{
		{"a.test", 80, "http", "GET", "/a%2Fb", "transparent"}, {"a.test", 80, "http", "GET", "/secret", "transparent"},
	}
	if diff := cmp.Diff(want, w.requests()); diff != "" {
		t.Error(diff)
	}
	l := w.call.End()
	if len(l.Connections) != 2 {
		t.Fatalf("got %+v", l)
	}
	for _, r := range l.Connections {
		if r.Count != 1 || (r.Verdict == Allowed) != (r.BytesIn > 0 && r.BytesOut > 0 && r.Address != "") {
			t.Errorf("got %+v", r)
		}
	}
}

func TestX12_TLSIsJudgedByServerName(t *testing.T) {
	began := time.Now()
	w := newWorld(t)
	pool := w.secure("a.test", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "hello ", r.Host) })
	if code, body := get(t, w.client(pool), "https://a.test/"); code != 200 || body != "hello a.test" {
		t.Errorf("got %d, %q", code, body)
	}
	for name, want := range map[string]string{"b.test": "unrecognized name", "": "unrecognized name"} {
		err := tls.Client(w.connect("a.test", 443), &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", name, err, want)
		}
	}
	w.deny = func(Connection) bool { return true }
	err := tls.Client(w.connect("a.test", 443), &tls.Config{ServerName: "a.test"}).Handshake()
	if err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("got %v, want an alert", err)
	}
	if got := w.questions(); len(got) != 4 || got[0] != (Connection{"a.test", 443, "tls", "", "", "transparent"}) {
		t.Errorf("got %v, want one for each connection", got)
	}
	l := w.call.End()
	if len(l.Connections) != 2 || l.Connections[0].Count != 1 || l.Connections[1].Count != 3 {
		t.Errorf("got %+v", l)
	}
	for _, r := range l.Connections { // a connection is open for a part of the test
		if most := time.Since(began).Milliseconds(); r.DurationMS < 0 || r.DurationMS > most*int64(r.Count) {
			t.Errorf("got %+v after %d ms", r, most)
		}
	}
}

// A program that connects where it may not and says nothing is refused at once, and not when it gives up.
func TestASilentProgramIsRefusedWhenItConnects(t *testing.T) {
	for port, protocol := range map[int]string{80: ProtocolHTTP, 443: ProtocolTLS} {
		w := newWorld(t)
		w.deny = func(Connection) bool { return true }
		if n, err := w.connect("a.test", port).Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%d: got %d bytes, %v", port, n, err)
		}
		row := one(t, w.call.End())
		if row.Verdict != Denied || row.Rule != "test.denies" || row.Protocol != protocol || row.Count != 1 {
			t.Errorf("%d: got %+v", port, row)
		}
	}
	w := newWorld(t) // where it may connect, the answer says what was missing
	if patience != 30*time.Second {
		t.Errorf("a client that says nothing has %v, want 30s", patience)
	}
	w.call.testOnlyPatience = 10 * time.Millisecond
	if _, err := w.connect("a.test", 443).Read(make([]byte, 1)); err == nil {
		t.Error("it was told nothing")
	}
	if row := one(t, w.call.End()); !strings.Contains(row.Reason, "nothing was sent") {
		t.Errorf("got %+v", row)
	}
}

// What connects and asks for nothing is in the ledger, by what was decided of the connection.
func TestAConnectionWithoutARequestIsWrittenDown(t *testing.T) {
	for name, open := range map[string]func(*world) net.Conn{
		"transparent": func(w *world) net.Conn { return w.connect("a.test", 80) },
		"CONNECT": func(w *world) net.Conn {
			conn := w.dial(w.proxy())
			io.WriteString(conn, "CONNECT a.test:80 HTTP/1.1\r\n\r\n")
			if got := make([]byte, 39); !strings.Contains(string(got[:must(io.ReadFull(conn, got))]), " 200 ") {
				t.Errorf("got %q", got)
			}
			return conn
		},
		"SOCKS": func(w *world) net.Conn {
			conn := w.dial(w.proxy())
			io.WriteString(conn, "\x05\x01\x00\x05\x01\x00\x03\x06a.test\x00\x50")
			if got := make([]byte, 12); must(io.ReadFull(conn, got)) != 12 || got[3] != socksOK {
				t.Errorf("got %q", got)
			}
			return conn
		},
		"no HTTP": func(w *world) net.Conn {
			conn := w.connect("a.test", 80)
			io.WriteString(conn, "SSH-2.0-x\r\n")
			return conn
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.web("a.test", func(http.ResponseWriter, *http.Request) { t.Error("the host got a request") })
			conn := open(w)
			conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, conn)
			row := one(t, w.call.End())
			if row.Verdict != Allowed || row.Count != 1 || row.Address != "" || row.Rule != "test.allows" ||
				!strings.Contains(row.Reason, "sent no request") {
				t.Errorf("got %+v", row)
			}
		})
	}
	w := newWorld(t)
	w.deny = func(Connection) bool { return true }
	if got, _ := w.exchange("a.test", 80, []byte("SSH-2.0-x\r\n")); !strings.Contains(got, "400") {
		t.Errorf("got %q", got)
	}
	if row := one(t, w.call.End()); row.Verdict != Denied || row.Rule != "test.denies" {
		t.Errorf("got %+v", row)
	}
}

// A tunnel is refused before it is said to be open.
func TestATunnelForRequestsIsJudgedWhenItIsOpened(t *testing.T) {
	w := newWorld(t)
	w.deny = func(k Connection) bool { return k.Method == "" }
	proxy := w.proxy()
	conn := w.dial(proxy)
	io.WriteString(conn, "CONNECT a.test:80 HTTP/1.1\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("got %v, %v", res, err)
	}
	conn = w.dial(proxy)
	io.WriteString(conn, "\x05\x01\x00\x05\x01\x00\x03\x06a.test\x00\x50")
	if got := make([]byte, 12); must(io.ReadFull(conn, got)) != 12 || got[3] != socksNotAllowed {
		t.Errorf("got %q", got)
	}
	if row := one(t, w.call.End()); row.Verdict != Denied || row.Count != 2 {
		t.Errorf("got %+v", row)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The hello arrives byte by byte, each in a record of its own.
func TestTLSOfManyRecords(t *testing.T) {
	w := newWorld(t)
	got := make(chan []byte, 1)
	w.server("a.test", func(conn *net.TCPConn) {
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		got <- all
	})
	sent := fragmented(clientHello(t, "a.test"), 1)
	conn := w.connect("a.test", 443)
	for i := 0; i < len(sent); i += 100 {
		if _, err := conn.Write(sent[i:min(i+100, len(sent))]); err != nil {
			t.Fatal(err)
		}
	}
	conn.CloseWrite()
	if all := <-got; !bytes.Equal(all, sent) {
		t.Errorf("got %d bytes, want the %d that were sent", len(all), len(sent))
	}
}

// clientHello is what a client sends first.
func clientHello(tb testing.TB, name string) []byte {
	tb.Helper()
	a, b := net.Pipe()
	go tls.Client(a, &tls.Config{ServerName: name, InsecureSkipVerify: name == ""}).Handshake()
	defer a.Close()
	head := make([]byte, 5)
	if _, err := io.ReadFull(b, head); err != nil {
		tb.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(b, body); err != nil {
		tb.Fatal(err)
	}
	return append(head, body...)
}

// fragmented is one record as records of n bytes.
func fragmented(record []byte, n int) []byte {
	var out []byte
	for body := record[5:]; len(body) > 0; body = body[min(n, len(body)):] {
		m := min(n, len(body))
		out = append(out, record[0], record[1], record[2], byte(m>>8), byte(m))
		out = append(out, body[:m]...)
	}
	return out
}

func TestOtherPortsPassBytesBothWays(t *testing.T) {
	w := newWorld(t)
	const large = 3 << 20
	w.server("db.test", func(conn *net.TCPConn) { // the server speaks first
		defer conn.Close()
		io.WriteString(conn, "ready\n")
		n, _ := io.Copy(io.Discard, conn) // until the program has ended its direction
		fmt.Fprintf(conn, "%d\n", n)
	})
	conn := w.connect("db.test", 5432)
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := conn.Write(make([]byte, large)); err != nil {
		t.Fatal(err)
	}
	conn.CloseWrite()
	if line, err := r.ReadString('\n'); line != fmt.Sprintf("%d\n", large) {
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
	row := one(t, w.call.End())
	if row.BytesOut != large || row.BytesIn != int64(len("ready\n3145728\n")) || row.Protocol != "tcp" || row.Port != 5432 {
		t.Errorf("got %+v", row)
	}
}

// A program sees "connected" before the host is: one that refuses must be an error.
func TestRefusedUpstreamIsAReset(t *testing.T) {
	w := newWorld(t)
	l := listen(t)
	w.host("a.test", l.Addr().String())
	l.Close()
	for _, tt := range []struct {
		port int
		send []byte
	}{{5432, nil}, {443, clientHello(t, "a.test")}, {80, []byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")}} {
		if got, err := w.exchange("a.test", tt.port, tt.send); !errors.Is(err, syscall.ECONNRESET) || got != "" {
			t.Errorf("port %d: got %q, %v, want a reset", tt.port, got, err)
		}
	}
	for _, r := range w.call.End().Connections {
		if r.Verdict != Allowed || !strings.Contains(r.Reason, "connection refused") {
			t.Errorf("got %+v", r)
		}
	}
}

func TestProxyByConnectAndByAddress(t *testing.T) {
	w := newWorld(t)
	pool := w.secure("a.test", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "secure") })
	w.web("b.test", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "clear ", r.Host) })
	at := &url.URL{Scheme: "http", Host: w.proxy()}
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyURL(at), DialContext: from(w.source).DialContext, TLSClientConfig: &tls.Config{RootCAs: pool},
	}}
	defer c.CloseIdleConnections()
	if _, body := get(t, c, "https://a.test/"); body != "secure" {
		t.Errorf("got %q", body)
	}
	if _, body := get(t, c, "http://b.test/"); body != "clear b.test" {
		t.Errorf("got %q", body)
	}
	if _, body := get(t, c, "http://b.test:8080/"); body != "clear b.test:8080" {
		t.Errorf("got %q", body)
	}
	if code, body := get(t, c, "http://127.0.0.1/"); code != 400 || !strings.Contains(body, "127.0.0.1 is an address") {
		t.Errorf("got %d, %q", code, body)
	}
	if _, err := c.Get("https://127.0.0.1/"); err == nil || !strings.Contains(err.Error(), "Bad Request") {
		t.Errorf("got %v", err)
	}
	w.deny = func(Connection) bool { return true }
	if _, err := c.Get("https://c.test/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("got %v", err)
	}
	want := []Connection{
		{"a.test", 443, "tls", "", "", "connect"},
		{"b.test", 80, "http", "GET", "/", "proxy"},
		{"b.test", 8080, "http", "GET", "/", "proxy"},
		{"c.test", 443, "tls", "", "", "connect"},
	}
	if diff := cmp.Diff(want, w.questions()); diff != "" {
		t.Error(diff)
	}
}

// TestAFailureSaysNothingOfThisMachine: not which resolver it has.
func TestAFailureSaysNothingOfThisMachine(t *testing.T) {
	w := newWorld(t)
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent.Close()
	w.dialer.Resolver.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", silent.LocalAddr().String())
	}
	conn := w.dial(w.proxy())
	io.WriteString(conn, "CONNECT gone.test:443 HTTP/1.1\r\nHost: gone.test:443\r\n\r\n")
	said, _ := io.ReadAll(conn)
	if !strings.Contains(string(said), "gone.test:443 cannot be reached: look-up: ") || strings.Contains(string(said), "127.0.0.1") {
		t.Errorf("the program reads %s", said)
	}
}

// What a tunnel carries is judged as if there were none.
func TestTunnelsAreJudgedInside(t *testing.T) {
	w := newWorld(t)
	w.secure("a.test", func(http.ResponseWriter, *http.Request) {})
	w.web("b.test", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "clear") })
	proxy := w.proxy()
	open := map[string]func(host string, port int) net.Conn{
		"connect": func(host string, port int) net.Conn {
			conn := w.dial(proxy)
			fmt.Fprintf(conn, "CONNECT %s:%d HTTP/1.1\r\nHost: x\r\n\r\n", host, port)
			line := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
			if _, err := io.ReadFull(conn, line); err != nil || !strings.Contains(string(line), " 200 ") {
				t.Fatalf("got %q, %v", line, err)
			}
			return conn
		},
		"socks5": func(host string, port int) net.Conn {
			conn := w.dial(proxy)
			if code := socksConnect(t, conn, 3, append([]byte{byte(len(host))}, host...), port); code != 0 {
				t.Fatalf("got %d", code)
			}
			return conn
		},
	}
	for via, open := range open {
		t.Run(via, func(t *testing.T) {
			err := tls.Client(open("a.test", 443), &tls.Config{ServerName: "a.test", InsecureSkipVerify: true}).Handshake()
			if err != nil {
				t.Errorf("got %v", err)
			}
			err = tls.Client(open("a.test", 443), &tls.Config{ServerName: "b.test", InsecureSkipVerify: true}).Handshake()
			if err == nil || !strings.Contains(err.Error(), "unrecognized name") {
				t.Errorf("got %v", err)
			}
			for host, want := range map[string]string{"b.test": "200 OK", "a.test": "403 Forbidden"} {
				conn := open("b.test", 80)
				fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
				if got, _ := io.ReadAll(conn); !strings.Contains(string(got), want) {
					t.Errorf("%s: got %q", host, got)
				}
			}
		})
	}
	for _, k := range w.questions() {
		if k.Via != "connect" && k.Via != "socks5" {
			t.Errorf("got %+v", k)
		}
	}
}

// socksConnect asks for an address and returns the answer's code.
func socksConnect(tb testing.TB, conn net.Conn, kind byte, address []byte, port int) byte {
	tb.Helper()
	conn.Write([]byte{5, 1, 0})
	conn.Write(append(append([]byte{5, 1, 0, kind}, address...), byte(port>>8), byte(port)))
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conn, answer); err != nil {
		tb.Fatal(err)
	}
	return answer[3]
}

// A connection that is of no call is of nobody: nothing may be done in its name.
func TestOtherSourcesAreReset(t *testing.T) {
	w := newWorld(t)
	w.server("db.test", echo)
	at := w.listenAt("db.test", 5432)
	for _, address := range []string{at, w.proxy()} {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			_, err = conn.Read(make([]byte, 1))
		}
		if !errors.Is(err, syscall.ECONNRESET) { // it may come before the kernel says that it is connected
			t.Errorf("got %v, want a reset", err)
		}
	}
	if l := w.call.End(); len(l.Connections) != 0 {
		t.Errorf("got %+v", l)
	}
}

func TestEndResetsWhatIsOpen(t *testing.T) {
	w := newWorld(t)
	gone := make(chan error, 1)
	w.server("db.test", func(conn *net.TCPConn) {
		io.WriteString(conn, "x")
		_, err := conn.Read(make([]byte, 1))
		gone <- err
	})
	conn := w.connect("db.test", 5432)
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	row := one(t, w.call.End())
	if row.BytesIn != 1 || row.BytesOut != 0 || row.Count != 1 {
		t.Errorf("got %+v", row)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the program got %v, want a reset", err)
	}
	if err := <-gone; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the host got %v, want a reset", err)
	}
}

// A verdict that ends takes the connections with it that it let pass, and no others.
func TestReloadEndsWhatItForbids(t *testing.T) {
	ended := make(chan struct{})
	w := newWorld(t, func(o *CallOptions) {
		o.Judge = func(_ context.Context, k Connection) Verdict {
			v := Verdict{Allow: true}
			if k.Host == "a.test" {
				v.Ended = ended
			}
			return v
		}
	})
	w.server("a.test", echo)
	w.server("b.test", echo)
	a, b := w.connect("a.test", 5432), w.connect("b.test", 5432)
	for _, conn := range []net.Conn{a, b} {
		io.WriteString(conn, "x")
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	close(ended)
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
	io.WriteString(b, "y")
	if _, err := io.ReadFull(b, make([]byte, 1)); err != nil {
		t.Errorf("the other one got %v", err)
	}
}

func TestReloadEndsRequests(t *testing.T) {
	ended, arrived := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(o *CallOptions) {
		o.Judge = func(context.Context, Connection) Verdict { return Verdict{Allow: true, Ended: ended} }
	})
	w.web("a.test", func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	conn := w.connect("a.test", 80)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	<-arrived
	close(ended)
	if got, err := io.ReadAll(conn); err == nil {
		t.Errorf("got %q", got)
	}
}

// A watch that is taken back leaves nothing, however often its verdict is used.
func TestWatchesAreTakenBack(t *testing.T) {
	c := NewCall(&Dialer{}, CallOptions{})
	defer c.End()
	ended := make(chan struct{})
	before := runtime.NumGoroutine()
	for range 100 {
		one, two := c.watch(ended, func() { t.Error("it has not ended") }), c.watch(ended, func() {})
		one()
		one()
		two()
	}
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
	if len(c.watches) > 0 {
		t.Errorf("left are %v", c.watches)
	}
	close(ended)
}

// TestTwoHostsOnOneConnection: each request has its row; one that names another host than its
// connection is refused with the reason, also if that host may be reached.
func TestTwoHostsOnOneConnection(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a.test", "b.test"} {
		w.web(name, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "it is ", name) })
	}
	w.deny = func(k Connection) bool { return k.Host == "c.test" }
	kept := func(conn net.Conn, requests ...string) (out string) {
		in := bufio.NewReader(conn)
		for _, r := range requests {
			io.WriteString(conn, r+"\r\n\r\n")
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s: %v", r, err)
			}
			body, _ := io.ReadAll(res.Body)
			out += fmt.Sprintf("%d %.13s; ", res.StatusCode, body)
		}
		return out
	}
	get := func(where, host string) string { return "GET " + where + " HTTP/1.1\r\nHost: " + host }
	if got := kept(w.connect("a.test", 80), get("/", "a.test"), get("/", "b.test")); got != "200 it is a.test; 403 sandboxd: b.t; " {
		t.Errorf("got %s", got)
	}
	got := kept(w.dial(w.proxy()), get("http://a.test/", "a.test"), get("http://b.test/", "b.test"), get("http://c.test/", "c.test"))
	if got != "200 it is a.test; 200 it is b.test; 403 sandboxd: c.t; " {
		t.Errorf("got %s", got)
	}
	rows := ""
	for _, r := range w.call.End().Connections {
		rows += fmt.Sprintf("%s %s %s %d; ", r.Host, r.Verdict, r.Reason, r.Count)
	}
	want := "a.test allow  2; b.test deny the connection is to a.test, and a request names another host 1; " +
		"b.test allow  1; c.test deny the test refuses it 1; "
	if rows != want {
		t.Errorf("got  %s\nwant %s", rows, want)
	}
}
