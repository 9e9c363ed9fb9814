package web

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// webBox is a box whose judge allows some hosts, all of which are one server.
type webBox struct {
	toolstest.HostBox
	at    string
	hosts []string
	asked []egress.Connection
}

func (b *webBox) Dial(ctx context.Context, to egress.Connection) (net.Conn, error) {
	b.asked = append(b.asked, to)
	if v, _ := (guard.Network{AllowedDomains: b.hosts}).Connect(to.Host, to.Port); v != guard.Allow {
		return nil, &egress.RefusedError{Connection: to, Verdict: egress.Verdict{
			Rule: "network.allowedDomains", Hint: "allowed by network.allowedDomains",
		}}
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", b.at)
}

// get makes the call as the pipeline does.
func (b *webBox) get(t *testing.T, args string) (fetched, string, error) {
	t.Helper()
	in := tool.In{Session: "s", Args: []byte(args)}
	if _, err := (Fetch{}).Uses(t.Context(), in); err != nil {
		return fetched{}, "", err
	}
	out, err := Fetch{}.Run(t.Context(), in, b)
	if err != nil {
		return fetched{}, "", err
	}
	return out.Data.(fetched), out.Text, nil
}

func serve(t *testing.T, h http.HandlerFunc) *webBox {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &webBox{at: s.Listener.Addr().String(), hosts: []string{"docs.example", "*.docs.example"}}
}

func TestT48_WebFetchShowsMarkdown(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if names := slices.Sorted(maps.Keys(r.Header)); r.Method != http.MethodGet ||
			!slices.Equal(names, []string{"Accept", "Accept-Encoding", "Connection", "User-Agent"}) {
			t.Errorf("%s with %q: nothing that says who asks", r.Method, names)
		}
		w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
		fmt.Fprint(w, "<title>T</title><script>alert(1)</script><style>p{}</style><h1>Caf\xe9</h1>",
			`<p>see <a href="next.html">next</a> and <a href="/top">top</a></p>`,
			"<table><tr><th>a<th>b<tr><td>1<td>2</table>")
	})
	page, text, err := b.get(t, `{"url":"http://docs.example/a/b?q=1#part","prompt":"the menu"}`)
	if err != nil {
		t.Fatal(err)
	}
	const want = "# Café\n\nsee [next](http://docs.example/a/next.html) and [top](http://docs.example/top)\n\n" +
		"| a | b |\n|---|---|\n| 1 | 2 |"
	if page.Text != want || page.Cut || page.URL != "http://docs.example/a/b?q=1" {
		t.Errorf("got %+v", page)
	}
	if !strings.HasPrefix(text, "The page http://docs.example/a/b?q=1, as its author wrote it:\n"+
		"(you want to know: the menu)\n\n# Café") {
		t.Errorf("the model reads %q", text)
	}
	to := egress.Connection{
		Host: "docs.example", Port: 80, Protocol: egress.ProtocolHTTP, Method: "GET", Path: "/a/b", Via: egress.ViaFetch,
	}
	if len(b.asked) != 1 || b.asked[0] != to {
		t.Errorf("the judge was asked about %+v", b.asked)
	}
	if s := (Fetch{}).Spec(); s.Origin != tool.OriginWeb || s.OutputLimit != 100_000 {
		t.Errorf("got %+v", s)
	}
}

// TestWebFetchShowsOtherTextAsItIs: what is no page is not made one.
func TestWebFetchShowsOtherTextAsItIs(t *testing.T) {
	const text = "# a  <b>b</b>\n\n\n * c\n"
	for _, kind := range []string{"text/plain", "text/markdown", "application/json"} {
		b := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, text)
		})
		if page, _, err := b.get(t, `{"url":"http://docs.example/"}`); err != nil || page.Text != text {
			t.Errorf("%s: got %q, %v", kind, page.Text, err)
		}
	}
}

// TestX13_EachHopIsJudged: a page that leads on to a host that is not allowed is refused, and
// no connection is made.
// A page in HTML is shown as Markdown however its server says that it is HTML, and an answer says where it is from.
func TestWebFetchSaysWhatItRead(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "/over", http.StatusFound)
			return
		case "/over":
			http.Redirect(w, r, "http://www.docs.example/xhtml", http.StatusFound)
			return
		case "/xhtml":
			w.Header().Set("Content-Type", "application/xhtml+xml")
		case "/unsaid":
			w.Header()["Content-Type"] = nil
		case "/plain":
			w.Header().Set("Content-Type", "text/plain")
		case "/other":
			w.WriteHeader(http.StatusNonAuthoritativeInfo)
		}
		fmt.Fprint(w, "<!DOCTYPE html><h1>a</h1>")
	})
	const at, xhtml = "http://docs.example", "application/xhtml+xml"
	for path, want := range map[string]fetched{
		"/xhtml":  {URL: at + "/xhtml", ContentType: xhtml, Text: "# a"},
		"/unsaid": {URL: at + "/unsaid", Text: "# a"},
		"/plain":  {URL: at + "/plain", ContentType: "text/plain", Text: "<!DOCTYPE html><h1>a</h1>"},
		"/other":  {URL: at + "/other", ContentType: "text/html; charset=utf-8", Text: "# a"},
		"/away": {
			URL: "http://www.docs.example/xhtml", ContentType: xhtml, Hops: []string{at + "/away", at + "/over"}, Text: "# a",
		},
	} {
		want.Bytes = len("<!DOCTYPE html><h1>a</h1>")
		if page, _, err := b.get(t, `{"url":"`+at+path+`"}`); err != nil || !reflect.DeepEqual(page, want) {
			t.Errorf("%s: got %+v, %v, want %+v", path, page, err, want)
		}
	}
}

func TestX13_ThePortOfAnAddressIsJudged(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") })
	for _, tt := range []struct {
		address, path string
		port          int
	}{
		{"http://docs.example", "/", 80},
		{"http://docs.example?q=1", "/", 80},
		{"http://docs.example:8080/a", "/a", 8080},
		{"https://docs.example", "/", 443},
		{"https://docs.example:8443/a", "/a", 8443},
		{"https://docs.example:80/a", "/a", 80},
	} {
		b.asked = nil
		_, _, _ = b.get(t, `{"url":"`+tt.address+`"}`) // who answers here speaks no TLS
		if len(b.asked) != 1 || b.asked[0].Port != tt.port || b.asked[0].Path != tt.path {
			t.Errorf("%s: the judge was asked about %+v", tt.address, b.asked)
		}
	}
}

func TestX13_EachHopIsJudged(t *testing.T) {
	served := 0
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		served++
		switch r.URL.Path {
		case "/out":
			http.Redirect(w, r, "http://evil.test/x", http.StatusFound)
		case "/in":
			http.Redirect(w, r, "//www.docs.example/page", http.StatusMovedPermanently)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
		case "/odd":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case "/user":
			http.Redirect(w, r, "http://a:b@docs.example/", http.StatusFound)
		case "/empty":
			w.WriteHeader(http.StatusFound)
		default:
			fmt.Fprint(w, "here at ", r.Host)
		}
	})
	for _, tt := range []struct {
		path, code, text string
		served           int
	}{
		{"/in", "", "here at www.docs.example", 2},
		{"/out", "host_denied", "", 1},
		{"/loop", "too_many_redirects", "", 6}, // the page, and five that it leads on to
		{"/odd", "bad_redirect", "", 1},
		{"/user", "bad_redirect", "", 1},
		{"/empty", "bad_redirect", "", 1},
	} {
		served = 0
		page, _, err := b.get(t, `{"url":"http://docs.example`+tt.path+`"}`)
		if code := toolstest.Code(err); code != tt.code || page.Text != tt.text || served != tt.served {
			t.Errorf("%s: got %q, %v after %d requests", tt.path, page.Text, err, served)
		}
	}
	if _, _, err := b.get(t, `{"url":"http://evil.test/"}`); toolstest.Code(err) != "host_denied" || !strings.Contains(
		err.(*tool.Error).Hint, "allowed by network.allowedDomains") {
		t.Errorf("got %v", err)
	}
}

func TestT48_WhatWebFetchRefuses(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		switch r.URL.Path {
		case "/bomb":
			h.Set("Content-Type", "text/plain")
			h.Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			part := make([]byte, 1<<20)
			for i := range part {
				part[i] = 'a'
			}
			for range 64 {
				if _, err := z.Write(part); err != nil {
					return
				}
			}
			z.Close()
		case "/image":
			h.Set("Content-Type", "image/svg+xml")
			fmt.Fprint(w, "<svg/>")
		case "/binary":
			h["Content-Type"] = nil
			fmt.Fprint(w, "\x00\x01\x02")
		case "/br":
			h.Set("Content-Encoding", "br")
			fmt.Fprint(w, "x")
		case "/notgzip":
			h.Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "xxxxxxxxxxxxxxxxxxxxxxxxxx")
		case "/missing":
			http.NotFound(w, r)
		case "/headers":
			for i := range 3000 {
				h.Set(fmt.Sprint("H", i), strings.Repeat("x", 100))
			}
		case "/short":
			h.Set("Content-Length", "100")
			fmt.Fprint(w, "short")
		case "/tags":
			h.Set("Content-Type", "text/html")
			fmt.Fprint(w, strings.Repeat("<br>", maxNodes+1))
		case "/deep":
			h.Set("Content-Type", "text/html")
			fmt.Fprint(w, strings.Repeat("<b>", 600))
		}
	})
	for path, want := range map[string]string{
		"/image": "not_text", "/binary": "bad_page", "/br": "fetch_failed", "/notgzip": "fetch_failed",
		"/missing": "http_status", "/headers": "fetch_failed", "/short": "fetch_failed", "/tags": "bad_page",
		"/deep": "bad_page",
	} {
		if page, _, err := b.get(t, `{"url":"http://docs.example`+path+`"}`); toolstest.Code(err) != want {
			t.Errorf("%s: got %.100q, %v, want %s", path, page.Text, err, want)
		}
	}
	page, text, err := b.get(t, `{"url":"http://docs.example/bomb"}`)
	if err != nil || !page.Cut || page.Bytes != 1<<20 || !strings.HasSuffix(text, "bytes that were read.)") {
		t.Errorf("got %v, %d bytes, cut: %v", err, page.Bytes, page.Cut)
	}
	for _, address := range []string{
		"docs.example", "ftp://docs.example/", "file:///etc/passwd", "http://u:p@docs.example/", "http://docs.example:0/",
		"http://docs.example:70000/", "http:///x", "http://dócs.example/", `http://docs.example\\@evil.test/`,
		"http://docs.example /", "http://127.1/", "http://0x7f.1/",
	} {
		if _, _, err := b.get(t, fmt.Sprintf(`{"url":%q}`, address)); toolstest.Code(err) != "invalid_arguments" {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

// TestT48_WebFetchTrustsCertificates: the name of a certificate must be that of the address.
func TestT48_WebFetchTrustsCertificates(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a server with a certificate of nobody was asked")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer s.Close()
	b := &webBox{at: s.Listener.Addr().String(), hosts: []string{"docs.example"}}
	_, _, err := b.get(t, `{"url":"https://docs.example/"}`)
	if toolstest.Code(err) != "fetch_failed" || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
	if b.asked[0].Port != 443 || b.asked[0].Protocol != egress.ProtocolTLS {
		t.Errorf("got %+v", b.asked)
	}
	b, n := engine(t, "searxng", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "a page; %d secrets", len(r.Header["X-Subscription-Token"]))
	})
	out, err := Fetch{}.Run(t.Context(), tool.In{
		Args: []byte(`{"url":"https://search.example/"}`), Rules: guard.NewRules(guard.Settings{Network: n}),
	}, b)
	if err != nil || out.Data.(fetched).Text != "a page; 0 secrets" { // of network.caFile
		t.Errorf("with the authority of the settings: %+v, %v", out.Data, err)
	}
}

// deafBox is a box on a host whose resolver does not answer.
type deafBox struct{ toolstest.HostBox }

func (deafBox) Dial(ctx context.Context, to egress.Connection) (net.Conn, error) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{
			Op: "dial", Net: "udp", Addr: &net.UDPAddr{IP: net.IPv4(10, 9, 8, 7), Port: 53}, Err: syscall.ECONNREFUSED,
		}
	}}
	return (&net.Dialer{Resolver: resolver}).DialContext(ctx, "tcp", to.Host+":80")
}

// TestT48_AFailureNamesNoResolver: whoever wrote the address learns that the look-up failed, and
// not which machines this one asks.
func TestT48_AFailureNamesNoResolver(t *testing.T) {
	_, err := Fetch{}.Run(t.Context(), tool.In{Session: "s", Args: []byte(`{"url":"http://docs.example/"}`)}, &deafBox{})
	if toolstest.Code(err) != "fetch_failed" || !strings.Contains(err.Error(), "look-up: ") || strings.Contains(err.Error(), "10.9.8.7") {
		t.Errorf("got %v", err)
	}
}

// TestT48_TextIsBounded: the text of a page is not many times as long as the page, whatever
// its author does.
func TestT48_TextIsBounded(t *testing.T) {
	u := &url.URL{Scheme: "https", Host: "docs.example", Path: "/"}
	wide := "<table><tr>" + strings.Repeat("<td>a", 500)
	for name, page := range map[string]string{
		"nested lists":  strings.Repeat("<ul><li>", 200) + strings.Repeat("a<br>", 10_000),
		"nested quotes": strings.Repeat("<blockquote>", 400) + strings.Repeat("x<br>", 10_000),
		"wide table":    wide + strings.Repeat("<tr><td>x", 3000),
		"wide later":    "<table><tr><td>a" + strings.Repeat("<tr><td>x", 3000) + "<tr>" + strings.Repeat("<td>a", 500),
		"spans":         "<table><tr><td>a" + strings.Repeat("<tr><td>x<td colspan=1000 rowspan=60000>y", 1000),
		"one long cell": "<table><tr><td>" + strings.Repeat("x", 50_000) + strings.Repeat("<tr><td>x", 3000),
		"marks":         strings.Repeat("* _a_ [x](y) ", 5000),
		"base":          `<base href="https://` + strings.Repeat("a.", 100) + `test/">` + strings.Repeat(`<a href=x>y</a>`, 200),
	} {
		md, err := toMarkdown([]byte(page), u)
		if err != nil || len(md) > 16*len(page) || len(md) == 0 {
			t.Errorf("%s: %d bytes become %d, %v", name, len(page), len(md), err)
		}
	}
}

// The base of links is an element, not a word; and white space between cells is no cell.
func TestT48_WhatIsABaseAndWhatIsACell(t *testing.T) {
	u := &url.URL{Scheme: "https", Host: "docs.example", Path: "/"}
	for page, want := range map[string]string{
		`<title>base</title><base target="_top"><base href="https://b.test/"><a href="x">y</a>`: "[y](https://b.test/x)",
		"<table><tr>" + strings.Repeat("\n<td>a</td>\n", 40) + "</tr></table>":                  "| a |",
	} {
		md, err := toMarkdown([]byte(page), u)
		if err != nil || !strings.Contains(md, want) {
			t.Errorf("%.60s becomes %.200q, %v; want %q in it", page, md, err, want)
		}
	}
}

func FuzzToMarkdown(f *testing.F) {
	for _, s := range []string{
		"<h1>a", "<table><tr><td>", "<ul><li><ul><li>x", "<a href='('>[</a>", "<base href=':'>", "<pre>`</pre>", "\x00<b",
		"<td colspan=9>", "<svg><table><tr>", "<math><tr><td>x", "<template><tr><td>",
	} {
		f.Add([]byte(s))
	}
	u := &url.URL{Scheme: "https", Host: "docs.example", Path: "/"}
	f.Fuzz(func(t *testing.T, page []byte) {
		md, err := toMarkdown(page, u)
		if err == nil && len(md) > 64*(len(page)+64) {
			t.Errorf("%d bytes become %d", len(page), len(md))
		}
		if err != nil && strings.HasPrefix(err.Error(), "convert it") {
			t.Error(err)
		}
	})
}

// TestWebFetchIsJudgedByWhatItSends: a path has one spelling for a rule and for the host.
func TestWebFetchIsJudgedByWhatItSends(t *testing.T) {
	var sent []string
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.RequestURI)
		fmt.Fprint(w, "x")
	})
	if _, _, err := b.get(t, `{"url":"http://docs.example/%61dmin%2fx?q=%61"}`); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 1 || sent[0] != "/admin%2Fx?q=%61" || b.asked[0].Path != "/admin%2Fx" {
		t.Errorf("sent %q, asked about %+v", sent, b.asked)
	}
	for _, path := range []string{"/a/..;/b", "/a/%2e%2e/b", "//b", "/a%5cb"} {
		if _, _, err := b.get(t, `{"url":"http://docs.example`+path+`"}`); toolstest.Code(err) != "fetch_failed" || len(sent) != 1 {
			t.Errorf("%s: %v, sent %q", path, err, sent)
		}
	}
}

// silentBox is a box whose hosts lead on once, after a while, and say nothing more.
type silentBox struct {
	toolstest.HostBox
	leadsOn time.Duration // after which time; 0: never
	asks    time.Duration // that a person takes to allow each connection
}

func (b *silentBox) Dial(_ context.Context, to egress.Connection) (net.Conn, error) {
	time.Sleep(b.asks)
	here, there := net.Pipe()
	go func() {
		if _, err := http.ReadRequest(bufio.NewReader(there)); err != nil || b.leadsOn == 0 || to.Path != "/" {
			return
		}
		time.Sleep(b.leadsOn)
		fmt.Fprint(there, "HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n")
	}()
	return here, nil
}

// A page that does not come ends a fetch after 30 seconds, also where it leads on. What a person takes to answer does
// not count.
func TestAFetchEndsInTime(t *testing.T) {
	for _, tt := range []struct {
		name          string
		leadsOn, asks time.Duration
		want          time.Duration
	}{
		{"silent", 0, 0, 30 * time.Second},
		{"silent after it led on", 20 * time.Second, 0, 30 * time.Second},
		{"a person allows each", 20 * time.Second, time.Hour, 2*time.Hour + 30*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				in := tool.In{Session: "s", Args: []byte(`{"url":"http://docs.example/"}`)}
				_, err := Fetch{}.Run(t.Context(), in, &silentBox{leadsOn: tt.leadsOn, asks: tt.asks})
				if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "timeout" {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took != tt.want {
					t.Errorf("it took %v, want %v", took, tt.want)
				}
			})
		})
	}
}
