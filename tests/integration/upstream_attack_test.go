package integration

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// corporate is a daemon that must go through a proxy of its operator, whose password it has. The proxy
// repeats that password wherever it can.
type corporate struct {
	*keeper
	password string
	proxy    net.Listener
	engine   net.Listener // what all names lead to over TLS

	mu    sync.Mutex
	asked []string // guarded by mu: the targets of CONNECT
	wrong []string // guarded by mu: requests without the password
}

// pair is how the password is sent.
func (c *corporate) pair() string {
	return base64.StdEncoding.EncodeToString([]byte("me:" + c.password))
}

func newCorporate(t *testing.T, uid int) *corporate {
	t.Helper()
	needs.Program(t, "curl")
	c := &corporate{password: "pw_" + strings.ToLower(rand.Text())}
	c.keeper = &keeper{running: newPlaces(t, "x: 1\n"), token: "tok_" + strings.ToLower(rand.Text())}
	cert := serverCertificate(t, "api.test", "search.test")
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.keeper.mu.Lock()
		c.got = append(c.got, r.Host+" "+r.Header.Get("Authorization")+r.Header.Get("Proxy-Authorization"))
		c.keeper.mu.Unlock()
		if r.Host == "search.test" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"results":[{"title":"found with %s","url":"https://api.test/"}]}`, r.Header.Get("Authorization"))
			return
		}
		fmt.Fprintf(w, "page with %s\n", r.Header.Get("Authorization"))
	}))
	up.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	up.StartTLS()
	t.Cleanup(up.Close)
	c.engine = up.Listener
	var err error
	if c.proxy, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.proxy.Close() })
	go func() {
		for {
			conn, err := c.proxy.Accept()
			if err != nil {
				return
			}
			go c.serve(conn)
		}
	}()
	c.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	c.write("token", c.token+"\n")
	c.write("password", c.password+"\n")
	if err := errors.Join(os.Chmod(filepath.Join(c.work, "token"), 0o600), os.Chmod(filepath.Join(c.work, "password"), 0o600)); err != nil {
		t.Fatal(err)
	}
	c.write("config.yaml", fmt.Sprintf(`
sessions: {mode: auto}
log: {level: debug}
sandbox:
  network:
    allowedDomains: [api.test, search.test, plain.test, page.test, refuses.test, nohttp.test, endless.test, early.test, silent.test]
    unlisted: deny
    upstreamProxy: http://%s
    intercept: [api.test]
    caFile: %s/ca.pem
    search: {provider: searxng, url: "https://search.test/"}
    secrets:
      - {host: api.test, value: "Bearer {{file}}", file: %[2]s/token}
      - {host: search.test, value: "Bearer {{file}}", file: %[2]s/token}
      - {host: %[1]q, user: me, file: %[2]s/password}
`, c.proxy.Addr(), c.work))
	if uid != 0 {
		c.becomeAnother(uid, "")
	}
	c.start()
	c.needsWayOut()
	return c
}

// serve answers one CONNECT as the name of its host says.
func (c *corporate) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	given := r.Header.Get("Proxy-Authorization")
	c.mu.Lock()
	c.asked = append(c.asked, r.RequestURI)
	if r.Method != http.MethodConnect || given != "Basic "+c.pair() || r.Host != r.RequestURI {
		c.wrong = append(c.wrong, fmt.Sprintf("%s %s of %s with %q", r.Method, r.RequestURI, r.Host, given))
	}
	c.mu.Unlock()
	said := given + " " + c.password + " " + fmt.Sprintf("%x", c.password)
	open := func() { _, _ = io.WriteString(conn, "HTTP/1.1 200 "+said+"\r\nX-Said: "+said+"\r\n\r\n") }
	switch host, _, _ := strings.Cut(r.RequestURI, ":"); host {
	case "api.test", "search.test":
		up, err := net.Dial("tcp", c.engine.Addr().String())
		if err != nil {
			return
		}
		defer up.Close()
		open()
		go func() { _, _ = io.Copy(up, in) }()
		_, _ = io.Copy(conn, up)
	case "plain.test": // it answers itself, and repeats what it knows
		open()
		for {
			if r, err := http.ReadRequest(in); err != nil || r.Host != host {
				return
			}
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 %s\r\nX-Said: %[1]s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%[1]s",
				said, len(said))
		}
	case "page.test":
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 %s\r\nContent-Length: %d\r\n\r\n%[1]s", said, len(said))
	case "refuses.test":
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 407 %s\r\nProxy-Authenticate: Basic realm=%q\r\n\r\n%[1]s", said, said)
	case "nohttp.test":
		_, _ = io.WriteString(conn, said+"\r\n\r\n")
	case "endless.test":
		for err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 200 X-Said: "+said)
		}
	case "early.test": // behind its answer, before anybody has asked the host
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Yes\r\n\r\nHTTP/1.1 200 "+said+"\r\nContent-Length: 3\r\n\r\n"+said[:3])
	case "silent.test":
		_, _ = io.Copy(io.Discard, in) // until the daemon leaves
	}
}

// TestLearnThePasswordOfAProxy: a program, its model and whoever reads the record try to learn it from a
// proxy that repeats it everywhere, and to reach by it what is not allowed. Over TLS the proxy sees nothing.
func TestLearnThePasswordOfAProxy(t *testing.T) { asEach(t, learnThePasswordOfAProxy) }

func learnThePasswordOfAProxy(t *testing.T, uid int) {
	c := newCorporate(t, uid)
	s := c.session()
	c.write("ws/learn.sh", `for u in https://api.test/ http://plain.test/a http://plain.test/b http://page.test/ https://page.test/ \
http://refuses.test/ https://refuses.test/ http://nohttp.test/ http://endless.test/ http://early.test/ https://early.test/; do
for http in --http1.1 --http2; do echo "== $u"; curl -sSi -v $http -m 20 -H 'Proxy-Authorization: Basic mine' $u; done; done
echo == by the proxy inside
for u in http://plain.test/ https://api.test/ https://page.test/; do curl -sSi -v -m 20 --cacert $SSL_CERT_FILE -x http://127.0.0.1:3128 -U me:mine $u; done
curl -sSi -m 20 -x socks5h://127.0.0.1:3128 http://plain.test/
echo == what may not be reached
curl -sS -m 20 -x http://PROXY http://plain.test/; curl -sS -m 20 http://PROXY/; curl -sS -m 20 -x http://127.0.0.1:3128 http://PROXY/
curl -sS -m 20 -p -x http://127.0.0.1:3128 http://PROXY/; curl -sS -m 20 https://off.test/; curl -sS -m 20 -p -x http://127.0.0.1:3128 https://off.test/
curl -sS -m 20 -x http://127.0.0.1:3128 http://169.254.169.254/; curl -sS -m 20 -x http://127.0.0.1:3128 -p https://localhost/
curl -sS -m 20 -H 'Host: off.test' http://plain.test/; curl -sS -m 20 --connect-to off.test:443:api.test:443 https://off.test/
for target in 'plain.test:22' 'off.test:443' 'plain.test:80@off.test:80' 'plain.test:80%0d%0aHost:off.test' 'PLAIN.test.:80' 'plain.test\@off.test:443'; do
printf 'CONNECT %s HTTP/1.1\r\nHost: off.test\r\nProxy-Authorization: Basic mine\r\n\r\nGET / HTTP/1.1\r\nHost: plain.test\r\n\r\n' "$target" |
timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; cat >&3; cat <&3'; done
env; cat /proc/self/environ /proc/*/cmdline /proc/net/tcp | tr '\0' '\n'; cat ../password ../token ../config.yaml; ls -laR /run
`)
	script, err := os.ReadFile(filepath.Join(c.ws, "learn.sh"))
	if err != nil {
		t.Fatal(err)
	}
	c.write("ws/learn.sh", strings.ReplaceAll(string(script), "PROXY", c.proxy.Addr().String()))
	r := c.call(s, "Bash", `{"command":"bash ./learn.sh > kept 2>&1; tail -c 20000 kept","timeout":280000}`)
	results := []client.Result{r}
	for tool, args := range map[string][]string{
		"WebFetch": {
			`{"url":"http://plain.test/"}`, `{"url":"http://page.test/"}`, `{"url":"https://page.test/"}`, `{"url":"http://refuses.test/"}`,
			`{"url":"http://nohttp.test/"}`, `{"url":"http://early.test/"}`, `{"url":"https://api.test/"}`,
			`{"url":"http://` + c.proxy.Addr().String() + `/"}`,
		},
		"WebSearch": {`{"query":"x"}`},
	} {
		for _, a := range args {
			c.forget(s)
			results = append(results, c.call(s, tool, a))
		}
	}
	kept, err := os.ReadFile(filepath.Join(c.ws, "kept"))
	if err != nil || !strings.Contains(string(kept), "page with Bearer "+strings.Repeat("*", len(c.token))) {
		t.Errorf("nothing was tried: %v\n%s", err, kept)
	}
	found := results[len(results)-1].FormattedText + results[1].FormattedText // the map has no order
	if !strings.Contains(found, "found with Bearer "+strings.Repeat("*", len(c.token))) {
		t.Errorf("nothing was found: %s", found)
	}
	all := string(kept) + c.told(s, results...)
	c.stop(os.Interrupt)
	all += c.log.String()
	for _, form := range []string{
		c.password, c.password[:len(c.password)/2], c.password[len(c.password)/2:], c.pair(), c.pair()[4 : len(c.pair())-4],
		fmt.Sprintf("%x", c.password), c.token,
	} {
		if at := strings.Index(all, form); at >= 0 {
			t.Errorf("%s is learnt: %s", form, all[max(0, at-600):min(len(all), at+200)])
		}
		c.searchBut(form, "password", "token")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wrong) > 0 {
		t.Errorf("the proxy was asked %q", c.wrong)
	}
	slices.Sort(c.asked)
	for _, target := range slices.Compact(c.asked) {
		if host, port, _ := strings.Cut(target, ":"); !strings.HasSuffix(host, ".test") || host == "off.test" || port != "80" && port != "443" {
			t.Errorf("the proxy was asked for %s", target)
		}
	}
	for _, got := range strings.Split(c.sent(), "\n") {
		if got != "api.test Bearer "+c.token && got != "api.test " && got != "search.test Bearer "+c.token {
			t.Errorf("a host got %q", got)
		}
	}
}

// TestAProxyThatDoesNotAnswer ends no later than the call that waits for it, and nothing goes by it.
func TestAProxyThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := newCorporate(t, 0)
	s := c.session()
	r := c.call(s, "Bash", `{"command":"curl -sS -m 9999 http://silent.test/","timeout":2000}`)
	if r.Error == nil || r.Error.Code != "timeout" {
		t.Errorf("got %+v %s", r.Error, r.FormattedText)
	}
	c.proxy.Close()
	c.forget(s)
	before := c.sent()
	got := c.call(s, "Bash", `{"command":"curl -sS https://api.test/ 2>&1; curl -sS http://plain.test/ 2>&1"}`)
	if c.sent() != before || strings.Contains(got.FormattedText, "page with") {
		t.Errorf("something goes by the proxy: %s", got.FormattedText)
	}
	if got.Network == nil || len(got.Network.Connections) == 0 || !strings.Contains(got.Network.Connections[0].Reason, "refused") {
		t.Errorf("it is not told why: %+v", got.Network)
	}
}
