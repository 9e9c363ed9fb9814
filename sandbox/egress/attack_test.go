package egress

import (
	"bufio"
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// attacks are requests on a connection to a.test, and what reaches the host: its requests
// with method, Host and path, and ! for a part that was refused.
var attacks = []struct{ name, request, want string }{
	{"honest", "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET a.test /"},
	{"the port is named", "GET / HTTP/1.1\r\nHost: A.Test:80\r\n\r\n", "GET a.test /"},
	{"a final dot", "GET / HTTP/1.1\r\nHost: a.test.\r\n\r\n", "GET a.test /"},
	{"the whole address", "GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET a.test /x"},
	{"HTTP/1.0 without a host", "GET / HTTP/1.0\r\n\r\n", "GET a.test /"},
	{
		"two on one connection", "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET a.test /1, GET a.test /2",
	},
	{"another host", "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n", "!"},
	{"another port", "GET / HTTP/1.1\r\nHost: a.test:81\r\n\r\n", "!"},
	{
		"another host on the second", "GET / HTTP/1.1\r\nHost: a.test\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
		"GET a.test /, !",
	},
	{"no host", "GET / HTTP/1.1\r\n\r\n", "!"},
	{"an empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "!"},
	{"two hosts", "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", "!"},
	{"a host in a folded line", "GET / HTTP/1.1\r\nHost: a.test\r\n b.test\r\n\r\n", "!"},
	{"a host after a space", "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n", "!"},
	{"the host of another request line", "GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"https", "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"a user", "GET http://a.test@b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"a host with a zero byte", "GET / HTTP/1.1\r\nHost: a.test\x00.b.test\r\n\r\n", "!"},
	{"a literal address", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "!"},
	{"CONNECT", "CONNECT b.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"CONNECT to the host itself", "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "!"},
	{
		"h2c", "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
		"GET a.test /",
	},
	{"a length and chunks", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"1c\r\nGET /x HTTP/1.1\r\nHost: b\r\n\r\n\r\n0\r\n\r\n", "POST a.test /"},
	{"two lengths", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "!"},
	{"a length with a sign", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +2\r\n\r\nab", "!"},
	{"an odd encoding", "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n", "!"},
	{"two encodings", "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: identity, chunked\r\n\r\n", "!"},
	{"a chunk that is too short", "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", ""},
	{"dots", "GET /a/../b HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"dots that are written otherwise", "GET /a/%2e%2E/b HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"dots with another slash", "GET /a/..%5cb HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"two slashes", "GET //b.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"two slashes later", "GET /a//b HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET a.test /a//b"},
	{"letters that are written otherwise", "GET /%61dm%69n%2d%7E%2a HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET a.test /admin-~%2A"},
	{"percents", "GET /%2561%c3%bc HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET a.test /%2561%C3%BC"},
	{"dots with a parameter", "GET /a/..;x=1/b HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"dots with a parameter that is written otherwise", "GET /a/.%3b/b HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"a backslash", "GET /a%5cb HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"a zero byte in the path", "GET /a%00b HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"a method in lower case", "delete /a HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"a method nobody knows", "purge /a HTTP/1.1\r\nHost: a.test\r\n\r\n", "purge a.test /a"},
	{
		"another method in a header", "POST /a HTTP/1.1\r\nHost: a.test\r\nX-HTTP-Method-Override: DELETE\r\n" +
			"X-Method-Override: DELETE\r\nx_http_method: DELETE\r\n\r\n", "POST a.test /a",
	},
	{
		"another path in a header", "POST /a HTTP/1.1\r\nHost: a.test\r\nX-Original-URL: /admin\r\n" +
			"X_Rewrite-Url: /admin\r\n\r\n", "POST a.test /a",
	},
	{"a slash that is written otherwise", "GET /a%2Fb HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET a.test /a%2Fb"},
	{"a line in the path", "GET /%0d%0aHost:b.test HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"no address", "GET a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"an opaque one", "GET http:b.test HTTP/1.1\r\nHost: a.test\r\n\r\n", "!"},
	{"everything", "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", "OPTIONS a.test *"},
	{"a bare line end", "GET / HTTP/1.1\nHost: a.test\n\n", "GET a.test /"},
	{"TLS", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03\r\n\r\n", "!"},
}

// The host reads what reaches it byte by byte; nothing arrives that was not judged.
func TestX12_WhatReachesTheHost(t *testing.T) {
	for _, tt := range attacks {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			got := make(chan string, 10)
			w.server("a.test", func(conn *net.TCPConn) {
				defer conn.Close()
				for r := bufio.NewReader(conn); ; {
					q, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, q.Body); err != nil {
						return
					}
					line := fmt.Sprintf("%s %s %s", q.Method, q.Host, q.RequestURI) + q.Header.Get("Upgrade")
					for name := range q.Header {
						if strings.HasPrefix(strings.ToLower(name), "x") {
							line += " " + name
						}
					}
					got <- line
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			})
			answers, _ := w.exchangeHalf("a.test", 80, []byte(tt.request))
			w.call.End()
			close(got)
			var parts []string
			for g := range got {
				parts = append(parts, g)
			}
			for _, status := range []string{" 400 ", " 403 ", " 405 ", " 501 ", " 505 "} {
				if strings.Contains(answers, "HTTP/1.1"+status) {
					parts = append(parts, "!")
				}
			}
			if all := strings.Join(parts, ", "); all != tt.want {
				t.Errorf("got %q, want %q; the answer was %q", all, tt.want, answers)
			}
		})
	}
}

// exchangeHalf is exchange by a program that ends its direction after what it sends.
func (w *world) exchangeHalf(host string, port int, send []byte) (string, error) {
	conn := w.connect(host, port)
	conn.Write(send)
	conn.CloseWrite()
	got, err := io.ReadAll(conn)
	return string(got), err
}

// The proxy: what it is asked for in each of its ways, and what the program is told.
func TestX12_WhatTheProxyRefuses(t *testing.T) {
	w := newWorld(t)
	proxy := w.proxy()
	for _, tt := range []struct{ name, send, want string }{
		{"a path alone", "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "the proxy needs the whole address"},
		{"https without CONNECT", "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "use CONNECT for https"},
		{"a literal address", "GET http://10.0.0.1/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "10.0.0.1 is an address"},
		{"one in a number", "GET http://2130706433/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "it is no host name"},
		{"one with a port", "GET http://10.0.0.1:81/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "sandboxd: 10.0.0.1:81 is refused"},
		{"CONNECT to a literal address", "CONNECT [::1]:443 HTTP/1.1\r\n\r\n", "::1 is an address"},
		{"CONNECT without a port", "CONNECT a.test HTTP/1.1\r\n\r\n", "it is no host name"},
		{"CONNECT to port 0", "CONNECT a.test:0 HTTP/1.1\r\n\r\n", "it is no host name"},
		{"CONNECT to a port that is a word", "CONNECT a.test:http HTTP/1.1\r\n\r\n", "400 Bad Request"},
		{"CONNECT to a port that is too large", "CONNECT a.test:65536 HTTP/1.1\r\n\r\n", "write a host name"},
		{"CONNECT to a mapped address", "CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\r\n\r\n", "127.0.0.1 is an address"},
		{"a full-width address", "CONNECT １27.0.0.1:443 HTTP/1.1\r\n\r\n", "400 Bad Request"},
		{"no HTTP", "hello\r\n\r\n", "400 Bad Request"},
		{"SOCKS4", "\x04\x01\x00\x50\x7f\x00\x00\x01\x00", ""},
		{"SOCKS5 with a password alone", "\x05\x01\x02", "\x05\xff"},
		{"SOCKS5 that goes on without one", "\x05\x01\x02\x05\x01\x00\x03\x06a.test\x01\xbb", "\x05\xff\x05\x01"},
		{"SOCKS5 that goes on as SOCKS4", "\x05\x01\x00\x04\x01\x00\x03\x06a.test\x01\xbb", "\x05\x00\x05\x01"},
		{"SOCKS5 for a server", "\x05\x01\x00\x05\x02\x00\x03\x06a.test\x01\xbb", "\x05\x00\x05\x07"},
	} {
		conn := w.dial(proxy)
		io.WriteString(conn, tt.send)
		got, err := io.ReadAll(conn)
		if !strings.Contains(string(got), tt.want) || tt.want == "" && len(got) > 0 || os.IsTimeout(err) {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	for _, tt := range []struct {
		name    string
		kind    byte
		address string
		port    int
		want    byte
	}{
		{"an address", 1, "\x7f\x00\x00\x01", 443, socksNotAllowed},
		{"an address of IPv6", 4, strings.Repeat("\x00", 15) + "\x01", 443, socksNotAllowed},
		{"an address as a name", 3, "\x09127.0.0.1", 443, socksNotAllowed},
		{"a name with a zero byte", 3, "\x0da.test\x00b.test", 443, socksNotAllowed},
		{"an empty name", 3, "\x00", 443, socksNotAllowed},
		{"port 0", 3, "\x06a.test", 0, socksNotAllowed},
		{"no kind", 9, "", 0, socksNoAddress},
	} {
		if got := socksConnect(t, w.dial(proxy), tt.kind, []byte(tt.address), tt.port); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
	if got := w.questions(); len(got) > 0 {
		t.Errorf("judged were %v", got)
	}
	for _, r := range w.call.End().Connections {
		if r.Verdict != Denied || r.Reason == "" || strings.ContainsAny(r.Host, "\x00\n") {
			t.Errorf("got %+v", r)
		}
	}
}

// Programs that look names up themselves give the proxy the address that they got.
func TestProxyTakesSyntheticAddresses(t *testing.T) {
	w := newWorld(t)
	w.server("db.test", echo)
	a, _ := w.net.names.address("db.test")
	proxy := w.proxy()
	four := a.As4()
	conn := w.dial(proxy)
	if code := socksConnect(t, conn, 1, four[:], 5432); code != socksOK {
		t.Fatalf("got %d", code)
	}
	tunnel := w.dial(proxy)
	fmt.Fprintf(tunnel, "CONNECT %s:5432 HTTP/1.1\r\n\r\n", a)
	if _, err := io.ReadFull(tunnel, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))); err != nil {
		t.Fatal(err)
	}
	for _, conn := range []net.Conn{conn, tunnel} {
		io.WriteString(conn, "x")
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Error(err)
		}
	}
	for _, k := range w.questions() {
		if k.Host != "db.test" || k.Port != 5432 || k.Protocol != ProtocolTCP {
			t.Errorf("got %+v", k)
		}
	}
}

// After a websocket has begun, bytes pass both ways.
func TestWebsockets(t *testing.T) {
	w := newWorld(t)
	w.server("a.test", func(conn *net.TCPConn) {
		defer conn.Close()
		r := bufio.NewReader(conn)
		q, err := http.ReadRequest(r)
		if err != nil || q.Header.Get("Upgrade") != "websocket" {
			return
		}
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(conn, r)
	})
	conn := w.connect("a.test", 80)
	io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	io.WriteString(conn, "frames")
	if _, err := io.ReadFull(r, make([]byte, len("frames"))); err != nil {
		t.Error(err)
	}
	if row := one(t, w.call.End()); row.BytesIn < 6 || row.BytesOut < 6 || row.Count != 1 {
		t.Errorf("got %+v", row)
	}
}

// A host that changes the protocol without being asked, and others that lie, are cut.
func TestUpstreamLies(t *testing.T) {
	for name, answer := range map[string]string{
		"a protocol that nobody asked for": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		"no HTTP":                          "SSH-2.0-x\r\n",
		"headers without end":              "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20),
		"nothing":                          "",
		"less than it promised":            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"half a chunk":                     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf",
	} {
		w := newWorld(t)
		w.server("a.test", func(conn *net.TCPConn) {
			defer conn.Close()
			http.ReadRequest(bufio.NewReader(conn))
			io.WriteString(conn, answer)
		})
		got, err := w.exchange("a.test", 80, []byte("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n"))
		if err == nil {
			t.Errorf("%s: got %q and no error", name, got)
		}
	}
}

// A refused request does not wait for a body that never comes.
func TestRefusalComesBeforeTheBody(t *testing.T) {
	w := newWorld(t)
	w.deny = func(Connection) bool { return true }
	conn := w.connect("a.test", 80)
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000000\r\n\r\nbegin")
	conn.SetDeadline(time.Now().Add(time.Minute))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "403") {
		t.Errorf("got %q, %v", line, err)
	}
}

// What a program has sent behind CONNECT belongs to the tunnel.
func TestConnectAndMoreAtOnce(t *testing.T) {
	w := newWorld(t)
	w.server("db.test", echo)
	conn := w.dial(w.proxy())
	io.WriteString(conn, "CONNECT db.test:5432 HTTP/1.1\r\n\r\nhello")
	conn.CloseWrite()
	if got, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(got), "\r\n\r\nhello") {
		t.Errorf("got %q, %v", got, err)
	}
}

// The relay adds nothing to a request or an answer, and takes nothing from the program's own.
func TestHTTPIsNotChanged(t *testing.T) {
	w := newWorld(t)
	request := make(chan http.Header, 1)
	w.server("a.test", func(conn *net.TCPConn) {
		defer conn.Close()
		q, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		request <- q.Header
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Own: 1\r\nContent-Length: 6\r\n\r\n<html>")
	})
	conn := w.connect("a.test", 80)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.1\r\nCookie: a=b\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(<-request), "map[Cookie:[a=b] X-Forwarded-For:[192.0.2.1]]"; got != want {
		t.Errorf("the host got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(res.Header), "map[Content-Length:[6] X-Own:[1]]"; got != want {
		t.Errorf("the program got %s, want %s", got, want)
	}
}

// Records that never end are no hello.
func TestHelloWithoutEnd(t *testing.T) {
	long := append([]byte{1, 0, 0xfd, 0xe8}, make([]byte, 65000)...) // in all, a message that crypto/tls takes
	if _, read, err := serverName(bytes.NewReader(fragmented(append([]byte{22, 3, 1, 0, 0}, long...), 1))); err == nil ||
		len(read) != 128<<10 {
		t.Errorf("%d bytes were kept, %v", len(read), err)
	}
	w := newWorld(t)
	got, err := w.exchange("a.test", 443, bytes.Repeat([]byte{22, 3, 1, 0, 1, 1}, 50000))
	if err == nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
	if row := one(t, w.call.End()); row.Verdict != Denied || row.Rule != "network" {
		t.Errorf("got %+v", row)
	}
}

// A server name that is encrypted is not seen, so the one outside counts.
func TestEncryptedServerName(t *testing.T) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sized := func(b []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...) }
	for outside, want := range map[string]string{"front.test": "unrecognized name", "a.test": "reset by peer"} {
		contents := append([]byte{1, 0, 0x20}, sized(key.PublicKey().Bytes())...)      // id, X25519
		contents = append(contents, 0, 4, 0, 1, 0, 1, 32)                              // HKDF-SHA256, AES-128-GCM
		contents = append(append(contents, byte(len(outside))), outside+"\x00\x00"...) // no extensions
		list := sized(append([]byte{0xfe, 0x0d}, sized(contents)...))
		w := newWorld(t)
		w.server("a.test", reset) // what is let through ends there
		err = tls.Client(w.connect("a.test", 443), &tls.Config{
			ServerName: "inside.test", EncryptedClientHelloConfigList: list,
		}).Handshake()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", outside, err, want)
		}
	}
}
