package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// browser asks the page of a daemon as a browser does, without running its script.
type browser struct {
	t      *testing.T
	by     *http.Client
	origin string
	cookie *http.Cookie
	csrf   string
}

// freePort is a port of the loopback on which nobody listens now, for a daemon that starts again at
// the same address; others listen on port 0. The kernel does not give it to a connection of another
// test meanwhile: it gives those from 32768, unless a host says otherwise. It has no seed: two runs
// side by side would try the same ports.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(22768))
		l, err := net.Listen("tcp", address)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		return address
	}
}

// openPage logs in by a link that the operator socket gave.
func openPage(t *testing.T, d *running, as string) *browser {
	t.Helper()
	return openPageBy(t, d, as, http.DefaultClient)
}

func openPageBy(t *testing.T, d *running, as string, by *http.Client) *browser {
	t.Helper()
	var link struct{ URL string }
	said, err := d.exec("sandboxd", "web", "--as", as)
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	link.URL = strings.TrimSpace(said)
	origin, _, _ := strings.Cut(link.URL, "/login")
	b := &browser{t: t, by: by, origin: origin}
	got := b.send("GET", strings.TrimPrefix(link.URL, origin), "", nil)
	if got.StatusCode != 200 || len(got.Cookies()) != 1 {
		t.Fatalf("login: %s", got.Status)
	}
	b.cookie = got.Cookies()[0]
	if !b.cookie.HttpOnly || b.cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is %+v", b.cookie)
	}
	if again := b.send("GET", strings.TrimPrefix(link.URL, origin), "", nil); again.StatusCode != 403 {
		t.Errorf("a link that was used: %s", again.Status)
	}
	token := regexp.MustCompile(`name="csrf" content="([^"]+)"`).FindStringSubmatch(b.text("/"))
	if token == nil {
		t.Fatal("the page shows no token")
	}
	b.csrf = token[1]
	return b
}

func (b *browser) send(method, path, body string, header map[string]string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.origin+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if b.cookie != nil {
		req.AddCookie(b.cookie)
	}
	for name, value := range header {
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	got, err := b.by.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { got.Body.Close() })
	return got
}

func (b *browser) text(path string) string {
	b.t.Helper()
	got := b.send("GET", path, "", nil)
	text, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != 200 {
		b.t.Fatalf("GET %s: %s, %v: %s", path, got.Status, err, text)
	}
	return string(text)
}

// A change comes from a page of this origin and this login, or not at all; and nothing but what
// people do on a page is served there.
func TestW04_W07_OnlyThePageChangesSomething(t *testing.T) {
	d := newDaemon(t, "web: {listen: '127.0.0.1:0'}\npolicy: {rules: {ask: ['Bash(touch *)']}}\n")
	b := openPage(t, d, "Ada")
	whole := map[string]string{"X-CSRF-Token": b.csrf, "Content-Type": "application/json", "Origin": b.origin}
	local := strings.Replace(strings.TrimPrefix(b.origin, "http://"), "127.0.0.1", "localhost", 1)
	with := func(name, value string) map[string]string {
		out := map[string]string{}
		for k, v := range whole {
			out[k] = v
		}
		out[name] = value
		return out
	}
	for _, tt := range []struct {
		name, method, path string
		header             map[string]string
		want               int
	}{
		{"it comes as far as the route", "POST", "/v1/approvals/apr_x", whole, 404},
		{"no token", "POST", "/v1/approvals/apr_x", with("X-CSRF-Token", ""), 403},
		{"another token", "POST", "/v1/approvals/apr_x", with("X-CSRF-Token", b.cookie.Value), 403},
		{"a form", "POST", "/v1/approvals/apr_x", with("Content-Type", "application/x-www-form-urlencoded"), 415},
		{"an undo", "POST", "/v1/calls/call_x/undo", whole, 400},
		{"the end of a call", "POST", "/v1/calls/call_x/cancel", whole, 404},
		{"the end of a job", "POST", "/v1/jobs/job_x/stop", whole, 404},
		{"another port", "POST", "/v1/approvals/apr_x", with("Origin", "http://127.0.0.1:1"), 403},
		{"another origin that reads", "GET", "/v1/approvals", map[string]string{"Origin": "null"}, 403},
		{"the same site", "POST", "/v1/approvals/apr_x", with("Sec-Fetch-Site", "same-site"), 403},
		{"another site that reads", "GET", "/", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"another name", "GET", "/", map[string]string{"Host": "evil.example"}, 421},
		{"another name of the host", "GET", "/", map[string]string{"Host": local}, 421},
		{"the end of the daemon", "POST", "/v1/stop-all", whole, 405},
		{"another configuration", "POST", "/v1/reload", whole, 405},
		{"a call", "POST", "/v1/sessions/x/calls", whole, 405},
		{"a link", "POST", "/v1/web/links", whole, 405},
		{"a looser session", "PATCH", "/v1/sessions/x", whole, 405},
		{"what is read", "GET", "/v1/approvals", nil, 200},
	} {
		if got := b.send(tt.method, tt.path, `{"approved": true}`, tt.header); got.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d", tt.name, got.Status, tt.want)
		}
	}
	stranger := &browser{t: t, by: http.DefaultClient, origin: b.origin}
	for _, path := range []string{"/", "/v1/approvals", "/v1/events", "/sessions", "/record"} {
		if got := stranger.send("GET", path, "", nil); got.StatusCode != 401 {
			t.Errorf("without a login: %s: %s", path, got.Status)
		}
	}
	if got := b.send("POST", "/logout", "", map[string]string{"X-CSRF-Token": b.csrf}); got.StatusCode != 204 {
		t.Errorf("logout: %s", got.Status)
	}
	if got := b.send("GET", "/", "", nil); got.StatusCode != 401 {
		t.Errorf("after the logout: %s", got.Status)
	}
}

// A login outlives the daemon, an answer carries the person's name, and secrets are masked in what
// the page and its routes say of results.
func TestW01_W05_APersonAnswersAndSeesNoSecret(t *testing.T) {
	d := newDaemon(t, "web: {listen: '"+freePort(t)+"'}\npolicy: {rules: {ask: ['Bash(touch *)']}}\n")
	b := openPage(t, d, "Ada")
	d.stop(os.Interrupt)
	d.start()
	session := d.session()
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	ended := make(chan error, 1)
	var result struct{ Status, CallID, Var string }
	go func() {
		in := map[string]any{"tool": "Bash", "args": map[string]string{"command": "touch x; echo key=" + secret}}
		var said struct {
			Status string `json:"status"`
			CallID string `json:"call_id"`
			Text   string `json:"final_text"`
			Var    string `json:"cache_var_result"`
		}
		err := d.agent.Do(t.Context(), "POST", "/sessions/"+session+"/calls", in, &said)
		result.Status, result.CallID, result.Var = said.Status, said.CallID, said.Var
		if err == nil && !strings.Contains(said.Text, secret) {
			t.Errorf("the agent reads its own output whole: %q", said.Text)
		}
		ended <- err
	}()
	question := ""
	for end := time.Now().Add(time.Minute); question == "" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if m := regexp.MustCompile(`data-approval="([^"]+)"`).FindStringSubmatch(b.text("/")); m != nil {
			question = m[1]
		}
	}
	got := b.send("POST", "/v1/approvals/"+question, `{"approved": true}`,
		map[string]string{"X-CSRF-Token": b.csrf, "Content-Type": "application/json"})
	var answered struct {
		Data struct {
			By string `json:"decided_by"`
		}
	}
	if err := json.NewDecoder(got.Body).Decode(&answered); err != nil || !strings.HasPrefix(answered.Data.By, "Ada (uid:") {
		t.Errorf("%s: %v: answered by %q", got.Status, err, answered.Data.By)
	}
	if err := <-ended; err != nil || result.Status != "SUCCESS" {
		t.Fatalf("%v: %+v", err, result)
	}
	for _, path := range []string{
		"/calls/" + result.CallID, "/v1/calls/" + result.CallID, "/sessions/" + session, "/decisions/" + result.CallID,
		"/v1/decisions/" + result.CallID, "/record",
	} {
		text := b.text(path)
		if strings.Contains(text, secret) {
			t.Errorf("%s has the secret", path)
		}
		if !strings.Contains(text, "echo key=") && !strings.Contains(text, result.CallID) {
			t.Errorf("%s does not speak of the call: %.300s", path, text)
		}
	}
	if text := b.text("/variables"); !strings.Contains(text, result.Var) {
		t.Errorf("the variables of the last session lack %s: %.300s", result.Var, text)
	}
	value := b.text("/variables?session=" + session + "&name=" + url.QueryEscape(result.Var))
	if strings.Contains(value, secret) || !strings.Contains(value, "key=") {
		t.Errorf("the value of a variable: %.3000s", value)
	}
}

// W-06: everything comes from the binary, in one style sheet and one script, and no text of others
// becomes markup.
func TestW06_ThePageIsOfTheBinaryAlone(t *testing.T) {
	d := newDaemon(t, "web: {listen: '127.0.0.1:0'}\n")
	b := openPage(t, d, "<script>alert(1)</script>")
	for _, path := range []string{
		"/", "/sessions", "/variables", "/policies", "/network", "/record", "/health",
	} {
		text := b.text(path)
		for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(m[1], "/") && !strings.HasPrefix(m[1], "#") && !strings.HasPrefix(m[1], "?") {
				t.Errorf("%s names %s", path, m[1])
			}
		}
		if strings.Contains(text, "<script>") {
			t.Errorf("%s has the script of a name", path)
		}
	}
	policy := b.send("GET", "/", "", nil).Header.Get("Content-Security-Policy")
	directives := strings.Split(policy, "; ")
	for _, want := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "base-uri 'none'",
		"form-action 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
	} {
		if !slices.Contains(directives, want) {
			t.Errorf("%q lacks %s", policy, want)
		}
	}
	if len(directives) != 9 {
		t.Errorf("%q says more", policy)
	}
}

// The page listens on loopback, or speaks TLS.
func TestW04_ThePageIsNotOpenToTheNetwork(t *testing.T) {
	for config, want := range map[string]string{
		"web: {listen: '0.0.0.0:0'}":                                         "without TLS",
		"web: {listen: localhost}":                                           "web.listen",
		"web: {tls: {certFile: /x, keyFile: /y}}":                            "does nothing without web.listen",
		"web: {listen: '127.0.0.1:0', tls: {certFile: /x}}":                  "both certFile and keyFile",
		"web: {listen: '127.0.0.1:0', sessionHours: 0}":                      "sessionHours",
		"web: {listen: '127.0.0.1:0', tls: {certFile: '/x', keyFile: '/y'}}": "web.tls",
	} {
		d := newPlaces(t, config+"\n")
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "sandboxd"), "serve")
		cmd.Env = d.env
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s; want %q", config, err, out, want)
		}
	}
}

// With a certificate and its key, which is another file, the page speaks TLS under the name of the certificate.
func TestW04_ThePageSpeaksTLS(t *testing.T) {
	t.Parallel()
	other := httptest.NewTLSServer(nil) // has a certificate of example.com
	t.Cleanup(other.Close)
	pair := other.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir, trusted := t.TempDir(), x509.NewCertPool()
	trusted.AddCert(other.Certificate())
	for file, block := range map[string]pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(&block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := newDaemon(t, fmt.Sprintf("web: {listen: '127.0.0.1:0', tls: {certFile: %s/cert.pem, keyFile: %[1]s/key.pem}}\n", dir))
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	b := openPageBy(t, d, "Ada", &http.Client{Transport: transport})
	if !strings.HasPrefix(b.origin, "https://example.com:") || !b.cookie.Secure {
		t.Errorf("the page is %s, and its cookie %+v", b.origin, b.cookie)
	}
	plain := "http://127.0.0.1:" + b.origin[strings.LastIndex(b.origin, ":")+1:]
	got, err := http.Get(plain)
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS it answers %s", got.Status)
	}
}

// Whoever opens connections to the page takes no more of the daemon than these.
func TestW04_ConnectionsToThePageAreBounded(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "web: {listen: '127.0.0.1:0'}\n")
	b := openPage(t, d, "Ada")
	address := strings.TrimPrefix(b.origin, "http://")
	http.DefaultClient.CloseIdleConnections()
	var open []net.Conn
	for range 256 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	late, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if _, err := io.WriteString(late, "GET / HTTP/1.1\r\nHost: "+address+"\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(late) // an error is no answer
		answered <- string(text)
	}()
	select {
	case got := <-answered:
		t.Errorf("one more than there may be was answered: %.80q", got)
	case <-time.After(300 * time.Millisecond):
	}
	if got := d.call(d.session(), "Bash", `{"command": "true"}`); got.Status != "SUCCESS" {
		t.Errorf("a call meanwhile: %+v", got)
	}
	open[0].Close()
	if got := <-answered; !strings.HasPrefix(got, "HTTP/1.1 401") {
		t.Errorf("after one has gone: %.80q", got)
	}
}
