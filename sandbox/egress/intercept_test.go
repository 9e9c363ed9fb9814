package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
)

const token = "ghp_S3cretS3cretS3cret"

// intercepted is a world whose hosts are intercepted, and whose authority its clients trust.
type intercepted struct {
	*world
	pool   *x509.CertPool // what programs trust
	caFile string         // what the daemon trusts
	secret func() (string, error)
	asked  []guard.Secret
}

func newIntercepted(tb testing.TB, change ...func(*CallOptions)) *intercepted {
	tb.Helper()
	i := &intercepted{
		pool: x509.NewCertPool(), caFile: filepath.Join(tb.TempDir(), "ca.pem"),
		secret: func() (string, error) { return token, nil },
	}
	a, err := NewAuthority(guard.Network{Intercept: []string{"*.test", "*.test:8443"}})
	if err != nil {
		tb.Fatal(err)
	}
	i.pool.AppendCertsFromPEM([]byte(a.PEM()))
	i.world = newWorld(tb, append([]func(*CallOptions){func(o *CallOptions) {
		o.Authority = a
		o.Network.Intercept = []string{"*.test", "*.test:8443"}
		o.Network.AllowedDomains = append(o.Network.AllowedDomains, "*.test:8443")
		o.Network.CAFile = i.caFile
		o.Network.Secrets = []guard.Secret{{Host: "api.test", Value: "Bearer {{file}}", File: "/token"}}
	}}, change...)...)
	i.dialer.Secret = func(_ context.Context, s guard.Secret) (string, error) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.asked = append(i.asked, s)
		return i.secret()
	}
	return i
}

// serve serves HTTPS under a name, and makes the daemon trust it.
func (i *intercepted) serve(name string, cert tls.Certificate, h http.HandlerFunc) *httptest.Server {
	i.tb.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	i.tb.Cleanup(s.Close)
	i.host(name, s.Listener.Addr().String())
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	f, err := os.OpenFile(i.caFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		i.tb.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		i.tb.Fatal(err)
	}
	return s
}

func (i *intercepted) programs(h2 bool) *http.Client {
	c := i.client(i.pool)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return nil }
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = h2
	return c
}

// TestSecretsAreOfTheDaemon: a program that has none is known to the host, one of its own is
// replaced, and what the host says back has stars; over both versions of HTTP.
func TestSecretsAreOfTheDaemon(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%t", h2), func(t *testing.T) {
			i := newIntercepted(t)
			var got []string
			i.serve("api.test", certificate(t, "api.test"), func(rw http.ResponseWriter, r *http.Request) {
				got = append(got, strings.Join(r.Header["Authorization"], ","), r.Proto)
				rw.Header().Set("X-Echo", r.Header.Get("Authorization"))
				rw.Header().Set("Trailer", "X-Late")
				rw.(http.Flusher).Flush()
				fmt.Fprintf(rw, "you sent %v", r.Header)
				rw.Header().Set("X-Late", r.Header.Get("Authorization"))
			})
			r, _ := http.NewRequest(http.MethodGet, "https://api.test/user?q=1", nil)
			r.Header.Set("authorization", "Bearer of the program")
			res, err := i.programs(h2).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 2 || got[0] != "Bearer "+token || got[1] != map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[h2] {
				t.Errorf("the host got %q", got)
			}
			all := fmt.Sprint(string(body), res.Header, res.Trailer)
			if strings.Contains(all, token) || strings.Count(all, strings.Repeat("*", len(token))) != 3 {
				t.Errorf("the program got %s", all)
			}
			if want := map[bool]int{false: 1, true: 2}[h2]; res.ProtoMajor != want {
				t.Errorf("the program speaks %s", res.Proto)
			}
			k := i.requests()
			if len(k) != 1 || k[0].Method != "GET" || k[0].Path != "/user" || k[0].Protocol != ProtocolTLS {
				t.Errorf("judged: %+v", k)
			}
			if row := one(t, i.call.End()); row.Protocol != ProtocolTLS || row.Count != 1 || row.BytesIn == 0 {
				t.Errorf("the ledger: %+v", row)
			}
		})
	}
}

// TestSecretsStayWithTheirHost: no other host gets one, also when the first leads to it.
func TestSecretsStayWithTheirHost(t *testing.T) {
	i := newIntercepted(t)
	cert := certificate(t, "api.test", "other.test")
	var got []http.Header
	i.serve("other.test", cert, func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header) })
	i.serve("api.test", cert, func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "https://other.test/?t="+r.Header.Get("Authorization"), http.StatusFound)
	})
	res, err := i.programs(true).Get("https://api.test/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if len(got) != 1 || got[0].Get("Authorization") != "" || strings.Contains(fmt.Sprint(got, res.Request.URL), token) {
		t.Errorf("the other host got %v by %s", got, res.Request.URL)
	}
	if len(i.asked) != 1 {
		t.Errorf("asked for %v", i.asked)
	}
}

// TestEchoesAreMasked in pieces, compressed although nobody asked, and in base64.
func TestEchoesAreMasked(t *testing.T) {
	for name, echo := range map[string]func(rw http.ResponseWriter, text string){
		"in pieces": func(rw http.ResponseWriter, text string) {
			for _, b := range []byte(text) {
				rw.Write([]byte{b})
				rw.(http.Flusher).Flush()
			}
		},
		"compressed": func(rw http.ResponseWriter, text string) {
			rw.Header().Set("Content-Encoding", "gzip")
			rw.Header().Set("Trailer", "X-Late")
			z := gzip.NewWriter(rw)
			io.WriteString(z, text)
			z.Close()
			rw.Header().Set("X-Late", text)
		},
		"deflated": func(rw http.ResponseWriter, text string) {
			rw.Header().Set("Content-Encoding", "deflate")
			rw.Header().Set("Trailer", "X-Late")
			z := zlib.NewWriter(rw)
			io.WriteString(z, text)
			z.Close()
			rw.Header().Set("X-Late", text)
		},
		"of a known length": func(rw http.ResponseWriter, text string) {
			rw.Header().Set("Content-Length", fmt.Sprint(len(text)))
			io.WriteString(rw, text)
		},
		"in base64": func(rw http.ResponseWriter, text string) {
			for i := range 3 {
				fmt.Fprintln(rw, base64.StdEncoding.EncodeToString([]byte("abc"[:i]+text)))
			}
		},
		"before the answer": func(rw http.ResponseWriter, text string) {
			rw.Header().Set("Link", text)
			rw.WriteHeader(http.StatusEarlyHints)
			io.WriteString(rw, "done")
		},
		"in an encoding nobody knows": func(rw http.ResponseWriter, text string) {
			rw.Header().Set("Content-Encoding", "br")
			io.WriteString(rw, text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIntercepted(t)
			var asked http.Header
			i.serve("api.test", certificate(t, "api.test"), func(rw http.ResponseWriter, r *http.Request) {
				asked = r.Header
				echo(rw, "it is "+r.Header.Get("Authorization")+" !")
			})
			conn := tls.Client(i.connect("api.test", 443), &tls.Config{RootCAs: i.pool, ServerName: "api.test"})
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: gzip, br\r\nRange: bytes=0-9\r\n"+
				"Connection: close\r\n\r\n")
			all, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			if asked.Get("Accept-Encoding") != "identity" || asked.Get("Range") != "" {
				t.Errorf("the host was asked with %v", asked)
			}
			secret := base64.StdEncoding.EncodeToString([]byte(token))[3:20]
			if bytes.Contains(all, []byte(token[:8])) || bytes.Contains(all, []byte(secret)) {
				t.Errorf("the program got %s", all)
			}
			stars, encoded := bytes.Count(all, []byte(strings.Repeat("*", len(token)))), bytes.Contains(all, []byte("Encoding: gzip"))
			if (name == "compressed" || name == "deflated") && (stars != 2 || encoded) {
				t.Errorf("%s: it is not taken apart: %q", name, all)
			}
			if name == "in an encoding nobody knows" && !bytes.HasPrefix(all, []byte("HTTP/1.1 403")) {
				t.Errorf("it is passed on: %s", all)
			}
			if name == "in base64" {
				if got := bytes.Count(all, []byte(strings.Repeat("*", 25))); got < 3 {
					t.Errorf("%d of 3 are masked: %s", got, all)
				}
			}
		})
	}
}

// TestWebsocketsAreMasked, and work.
func TestWebsocketsAreMasked(t *testing.T) {
	i := newIntercepted(t)
	i.serve("api.test", certificate(t, "api.test"), func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Websocket-Extensions") != "" {
			t.Error("what is sent could be compressed")
		}
		conn, rw2, _ := http.NewResponseController(rw).Hijack()
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := rw2.ReadString('\n')
		io.WriteString(conn, line+r.Header.Get("Authorization")+"\n")
	})
	conn := tls.Client(i.connect("api.test", 443), &tls.Config{RootCAs: i.pool, ServerName: "api.test"})
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", res, err)
	}
	io.WriteString(conn, "hello\n")
	for _, want := range []string{"hello\n", "Bearer " + strings.Repeat("*", len(token)) + "\n"} {
		if got, err := in.ReadString('\n'); got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}

// TestFrontingInsideTLS: a request for another host than that of the handshake is refused, and
// so is another server name.
func TestFrontingInsideTLS(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		i := newIntercepted(t)
		i.serve("api.test", certificate(t, "api.test"), func(http.ResponseWriter, *http.Request) {
			t.Error("the host got the request")
		})
		r, _ := http.NewRequest(http.MethodGet, "https://api.test/", nil)
		r.Host = "other.test"
		res, err := i.programs(h2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "names another host") {
			t.Errorf("got %d %s", res.StatusCode, body)
		}
	}
	i := newIntercepted(t)
	i.serve("api.test", certificate(t, "api.test"), nil)
	err := tls.Client(i.connect("api.test", 443), &tls.Config{RootCAs: i.pool, ServerName: "other.test"}).Handshake()
	if err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("got %v", err)
	}
}

// TestUpstreamMustBeTheHost: a certificate of another name, one that is over and one that
// nobody signed get nothing, and the program is told.
func TestUpstreamMustBeTheHost(t *testing.T) {
	over := certificate(t, "api.test")
	for _, tt := range []struct {
		name, want string
		cert       tls.Certificate
		forget     bool
	}{
		{"another name", "valid for other.test", certificate(t, "other.test"), false},
		{"nobody's", "unknown authority", over, true},
		{"expired", "expired", expired(t, "api.test"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := newIntercepted(t)
			i.serve("api.test", tt.cert, func(http.ResponseWriter, *http.Request) { t.Error("the host got the request") })
			if tt.forget {
				other := certificate(t, "x.test").Certificate[0]
				os.WriteFile(i.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other}), 0o600)
			}
			code, body := get(t, i.programs(true), "https://api.test/")
			if code != http.StatusBadGateway || !strings.Contains(body, tt.want) {
				t.Errorf("got %d %s", code, body)
			}
			rows := i.call.End().Connections
			if last := rows[len(rows)-1]; last.Verdict != Denied || last.Rule != "network.caFile" {
				t.Errorf("the ledger: %+v", rows)
			}
		})
	}
	i := newIntercepted(t)
	i.serve("api.test", over, nil)
	os.Remove(i.caFile)
	_, err := new(Dialer).Roots(guard.Network{CAFile: i.caFile})
	if code, body := get(t, i.programs(true), "https://api.test/"); code != 403 || !strings.Contains(body, "caFile") ||
		err == nil || !strings.Contains(body, err.Error()) {
		t.Errorf("without the file of authorities (%v): %d %s", err, code, body)
	}
	if rows := i.call.End().Connections; !slices.ContainsFunc(rows, func(r Row) bool {
		return r.Verdict == Denied && r.Rule == "network.caFile" && r.Reason == err.Error()
	}) {
		t.Errorf("the ledger without the file of authorities (%v): %+v", err, rows)
	}
	os.WriteFile(i.caFile, []byte("no certificate\n"), 0o600)
	_, err = new(Dialer).Roots(guard.Network{CAFile: i.caFile})
	if err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("without a certificate in it: %v", err)
	}
}

// TestProgramsThatDoNotTrust are named in the ledger with what to do.
func TestProgramsThatDoNotTrust(t *testing.T) {
	i := newIntercepted(t)
	i.serve("api.test", certificate(t, "api.test"), nil)
	_, err := i.client(x509.NewCertPool()).Get("https://api.test/")
	if err == nil {
		t.Fatal("the program trusts an authority that it does not know")
	}
	eventually(t, "a refusal", func() bool { return len(i.rows()) > 0 })
	row := i.rows()[0]
	if row.Rule != "network.intercept" || !strings.Contains(row.Reason, "does not take the certificate") {
		t.Errorf("got %+v", row)
	}
}

// TestSecretsThatFail close the host: nothing is sent without.
func TestSecretsThatFail(t *testing.T) {
	i := newIntercepted(t)
	i.serve("api.test", certificate(t, "api.test"), func(http.ResponseWriter, *http.Request) {
		t.Error("the host got the request")
	})
	i.secret = func() (string, error) { return "", errors.New("open /token: gone") }
	if code, body := get(t, i.programs(true), "https://api.test/"); code != 403 || !strings.Contains(body, "gone") {
		t.Errorf("got %d %s", code, body)
	}
	i.dialer.Secret = nil
	if code, body := get(t, i.programs(true), "https://api.test/"); code != 403 || !strings.Contains(body, "only the daemon") {
		t.Errorf("got %d %s", code, body)
	}
}

// TestInterceptionNeedsAnAuthority: without one, the host is closed and not merely unread.
func TestInterceptionNeedsAnAuthority(t *testing.T) {
	i := newIntercepted(t, func(o *CallOptions) { o.Authority = nil })
	i.serve("api.test", certificate(t, "api.test"), nil)
	if _, err := i.programs(true).Get("https://api.test/"); err == nil {
		t.Error("the program got through")
	}
	if row := one(t, i.call.End()); row.Rule != "network.intercept" || row.Verdict != Denied {
		t.Errorf("got %+v", row)
	}
}

// TestMethodsAreJudgedInsideTLS, also through the proxy, and on another port.
func TestMethodsAreJudgedInsideTLS(t *testing.T) {
	i := newIntercepted(t)
	i.serve("api.test", certificate(t, "api.test"), func(rw http.ResponseWriter, r *http.Request) {
		io.WriteString(rw, r.Method)
	})
	i.deny = func(k Connection) bool { return k.Method == http.MethodDelete }
	proxy := i.proxy()
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
		"transparent": nil,
		"connect": func(context.Context, string, string) (net.Conn, error) {
			conn := i.dial(proxy)
			fmt.Fprintf(conn, "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
			line, _ := bufio.NewReaderSize(io.LimitReader(conn, 39), 16).ReadString('\n')
			if !strings.Contains(line, "200") {
				return nil, errors.New(line)
			}
			return conn, nil
		},
		"socks5": func(context.Context, string, string) (net.Conn, error) {
			conn := i.dial(proxy)
			conn.Write(append([]byte{5, 1, 0, 5, 1, 0, 3, 8}, "api.test\x01\xbb"...))
			_, err := io.ReadFull(conn, make([]byte, 12))
			return conn, err
		},
		"another port": func(context.Context, string, string) (net.Conn, error) { return i.connect("api.test", 8443), nil },
	} {
		t.Run(name, func(t *testing.T) {
			c := i.programs(true)
			url := "https://api.test/x"
			if name == "another port" {
				url = "https://api.test:8443/x"
			}
			if dial != nil {
				c.Transport.(*http.Transport).DialContext = dial
			}
			if code, body := get(t, c, url); code != 200 || body != "GET" {
				t.Errorf("GET: %d %s", code, body)
			}
			r, _ := http.NewRequest(http.MethodDelete, url, nil)
			res, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusForbidden {
				t.Errorf("DELETE: %d", res.StatusCode)
			}
		})
	}
	if got := i.requests(); len(got) != 8 {
		t.Errorf("judged: %+v", got)
	}
}

// TestAnswersThatAreCut are no whole ones, over both versions of HTTP; requests beside them go on.
func TestAnswersThatAreCut(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		i := newIntercepted(t)
		i.serve("api.test", certificate(t, "api.test"), func(rw http.ResponseWriter, r *http.Request) {
			io.WriteString(rw, "half")
			rw.(http.Flusher).Flush()
			if r.URL.Path == "/cut" {
				panic(http.ErrAbortHandler)
			}
		})
		c := i.programs(h2)
		res, err := c.Get("https://api.test/cut")
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("http2=%t: %q is whole", h2, body)
		}
		res.Body.Close()
		// The connection of HTTP/2 has other requests; that of HTTP/1 ends with the answer.
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(g httptrace.GotConnInfo) { reused = g.Reused }}
		r, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", "https://api.test/whole", nil)
		if res, err = c.Do(r); err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "half" || reused != h2 {
			t.Errorf("http2=%t, after it: %q, %v, the same connection %t", h2, body, err, reused)
		}
		res.Body.Close()
	}
}

func (w *world) rows() []Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}
