package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
)

// upstreamProxy is an operator's proxy that leads every connection to one server.
type upstreamProxy struct {
	at     string
	mu     sync.Mutex
	asked  []string // guarded by mu
	answer string   // "": it connects
}

func newUpstreamProxy(t *testing.T, to func() string) *upstreamProxy {
	p := &upstreamProxy{}
	l := listen(t)
	p.at = l.Addr().String()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				p.mu.Lock()
				p.asked = append(p.asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
				answer := p.answer
				p.mu.Unlock()
				if answer != "" {
					io.WriteString(conn, answer)
					return
				}
				up, err := net.Dial("tcp", to())
				if err != nil {
					return
				}
				defer up.Close()
				io.WriteString(conn, "HTTP/1.1 200 Connection established\r\nX-Any: thing\r\n\r\n")
				go io.Copy(up, in)
				io.Copy(conn, up)
			}()
		}
	}()
	return p
}

// TestUpstreamProxy: all names go through it, with the secret that is its own; those that the
// operator has given an address do not.
func TestUpstreamProxy(t *testing.T) {
	var up string
	p := newUpstreamProxy(t, func() string { return up })
	w := newWorld(t, func(o *CallOptions) {
		o.Network.UpstreamProxy = "http://" + p.at
		o.Network.Secrets = []guard.Secret{{Host: p.at, User: "me", File: "/password"}}
	})
	w.dialer.Secret = func(context.Context, guard.Secret) (string, error) { return "password", nil }
	w.web("near.test", func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, r.Host) })
	up = w.hosts["near.test"]
	for _, host := range []string{"far.test", "near.test"} {
		if code, body := get(t, w.client(nil), "http://"+host+"/"); code != 200 || body != host {
			t.Errorf("%s: %d %q", host, code, body)
		}
	}
	if got := strings.Join(p.asked, "\n"); got != "CONNECT far.test:80 Basic bWU6cGFzc3dvcmQ=" {
		t.Errorf("asked %q", got)
	}
	for _, row := range w.call.End().Connections { // the daemon does not know where the proxy leads to
		if want := map[string]string{"far.test": p.at, "near.test": up}[row.Host]; want == "" || row.Address != want {
			t.Errorf("got %+v, want the address %s", row, want)
		}
	}
}

// TestUpstreamProxyFails: what it answers instead is an error, never data of the host.
func TestUpstreamProxyFails(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"refuses":   {"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "it answered 407"},
		"no HTTP":   {"SSH-2.0-x\r\n\r\n", "no HTTP"},
		"ends":      {"HTTP/1.1 200", "ends too early"},
		"no end":    {"HTTP/1.1 200 " + strings.Repeat("x", 2*maxProxyAnswer), "no end"},
		"page":      {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage", "no proxy"},
		"chunks":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "no proxy"},
		"redirects": {"HTTP/1.1 302 Found\r\nLocation: http://x\r\n\r\n", "it answered 302"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newUpstreamProxy(t, nil)
			p.answer = tt.answer
			d := &Dialer{Timeout: 10 * time.Second}
			_, err := d.Dial(t.Context(), guard.Network{UpstreamProxy: "http://" + p.at}, "far.test", 443)
			if !errors.Is(err, errProxy) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	d := &Dialer{Timeout: time.Second}
	p := newUpstreamProxy(t, nil)
	n := guard.Network{UpstreamProxy: "http://" + p.at, Secrets: []guard.Secret{{Host: p.at, File: "/x"}}}
	if _, err := d.Dial(t.Context(), n, "far.test", 443); err == nil || len(p.asked) != 0 {
		t.Errorf("without its secret: %v, asked %v", err, p.asked)
	}
	silent := listen(t)
	if _, err := d.Dial(t.Context(), guard.Network{UpstreamProxy: "http://" + silent.Addr().String()}, "far.test", 443); err == nil {
		t.Error("a proxy that says nothing connects")
	}
}

// TestUpstreamProxyEchoes: what a proxy repeats of its secret, in an answer that is none of the host and
// in one that cannot be read, is masked for programs, for the daemon's own tools and in the ledger.
func TestUpstreamProxyEchoes(t *testing.T) {
	const basic = "Basic bWU6cGFzc3dvcmQ="
	for _, says := range []string{"HTTP/1.1 200 OK\r\nX-Got: " + basic + "\r\n\r\ngot " + basic, "got " + basic + "\r\n\r\n"} {
		p := newUpstreamProxy(t, nil)
		p.answer = "HTTP/1.1 200 Connection established\r\n\r\n" + says
		w := newWorld(t, func(o *CallOptions) {
			o.Network.UpstreamProxy = "http://" + p.at
			o.Network.Secrets = []guard.Secret{{Host: p.at, User: "me", File: "/password"}}
		})
		w.dialer.Secret = func(context.Context, guard.Secret) (string, error) { return "password", nil }
		heard := ""
		if res, err := w.client(nil).Get("http://far.test/"); err == nil {
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			heard = fmt.Sprint(res.Header, string(body))
		}
		conn, err := w.call.Dial(t.Context(), Connection{Host: "far.test", Port: 80, Protocol: ProtocolHTTP, Via: ViaFetch})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: far.test\r\n\r\n")
		fetched, _ := io.ReadAll(conn)
		conn.Close()
		all := heard + string(fetched) + fmt.Sprint(w.call.End())
		if strings.Contains(all, "bWU6cGFzc3dvcmQ") || strings.Count(string(fetched), "*") < 16 {
			t.Errorf("got %s", all)
		}
	}
}

// TestAnswersThatCannotBeRead may repeat what the host got; the ledger has stars.
func TestAnswersThatCannotBeRead(t *testing.T) {
	i := newIntercepted(t)
	i.serve("api.test", certificate(t, "api.test"), func(rw http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s\r\n\r\n", r.Header.Get("Authorization"))
	}).TLS.NextProtos = []string{"http/1.1"}
	c := i.programs(false)
	if res, err := c.Get("https://api.test/"); err == nil {
		res.Body.Close()
		t.Error("it is an answer")
	}
	rows := fmt.Sprint(i.rows(), i.call.End())
	if strings.Contains(rows, token) || !strings.Contains(rows, strings.Repeat("*", len(token))) {
		t.Errorf("the ledger: %s", rows)
	}
}
