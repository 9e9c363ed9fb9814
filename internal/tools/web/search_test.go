package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/secrets"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// engine is a search engine of this test, over TLS, with the settings for it.
func engine(t *testing.T, provider string, h http.HandlerFunc) (*webBox, guard.Network) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"search.example"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, &of, &of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "key")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := errors.Join(os.WriteFile(ca, text, 0o600), os.WriteFile(token, []byte("BSA-key-0123456789"), 0o600)); err != nil {
		t.Fatal(err)
	}
	n := guard.Network{
		AllowedDomains: []string{"search.example"}, CAFile: ca,
		Search:  &guard.Search{Provider: provider, URL: "https://search.example/base"},
		Secrets: []guard.Secret{{Host: "search.example", Header: "X-Subscription-Token", File: token}},
	}
	return &webBox{at: s.Listener.Addr().String(), hosts: n.AllowedDomains}, n
}

// search makes the call as the pipeline does.
func (b *webBox) search(t *testing.T, n guard.Network, args string) (webHits, string, error) {
	t.Helper()
	in := tool.In{Session: "s", Args: []byte(args), Rules: guard.NewRules(guard.Settings{Network: n})}
	w := Search{&secrets.Reader{}}
	uses, err := w.Uses(t.Context(), in)
	if err != nil {
		return webHits{}, "", err
	}
	if len(uses.Hosts) != 1 || uses.Hosts[0] != "search.example" {
		t.Errorf("it says that it uses %v", uses.Hosts)
	}
	out, err := w.Run(t.Context(), in, b)
	if err != nil {
		return webHits{}, "", err
	}
	return out.Data.(webHits), out.Text, nil
}

// TestT48_WebSearchSpeaksWithProviders as their documents say, and keeps their key to itself.
func TestT48_WebSearchSpeaksWithProviders(t *testing.T) {
	for _, tt := range []struct{ provider, path, answer string }{
		{
			"searxng", "/base/search?format=json&q=go+net%26http",
			`{"query":"x","results":[{"title":"A <b>page</b>","url":"https://a.example/1","content":"of a &amp; b %[1]s"},` +
				`{"title":"B","url":"https://sub.b.example/","content":""},{"title":"C","url":"javascript:x"}]}`,
		},
		{
			"brave", "/base?count=20&q=go+net%26http",
			`{"type":"search","web":{"results":[{"title":"A page","url":"https://a.example/1",` +
				`"description":"of <strong>a</strong> &amp; b %[1]s"},{"title":"B","url":"https://sub.b.example/"}]}}`,
		},
	} {
		t.Run(tt.provider, func(t *testing.T) {
			b, n := engine(t, tt.provider, func(w http.ResponseWriter, r *http.Request) {
				key := r.Header.Get("X-Subscription-Token")
				if key != "BSA-key-0123456789" || r.RequestURI != tt.path || r.Header.Get("Accept") != "application/json" {
					t.Errorf("asked %s with %v", r.RequestURI, r.Header)
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, tt.answer, key)
			})
			got, text, err := b.search(t, n, `{"query":"go net&http"}`)
			if err != nil {
				t.Fatal(err)
			}
			all, _ := json.Marshal(got)
			want := []webHit{
				{"A page", "https://a.example/1", "of a & b ******************"}, {"B", "https://sub.b.example/", ""},
			}
			if len(got.Results) != 2 || got.Results[0] != want[0] || got.Results[1] != want[1] {
				t.Errorf("got %s", all)
			}
			if strings.Contains(string(all)+text, "BSA-key") || !strings.Contains(text, "1. A page\n   https://a.example/1\n   of a & b") {
				t.Errorf("the model reads %s", text)
			}
			if len(b.asked) != 1 || b.asked[0].Host != "search.example" || b.asked[0].Port != 443 {
				t.Errorf("judged %+v", b.asked)
			}
			for args, want := range map[string]int{
				`{"query":"go net&http","allowed_domains":["b.example"]}`: 1,
				`{"query":"go net&http","blocked_domains":["B.example"]}`: 1,
				`{"query":"go net&http","allowed_domains":["c.example"]}`: 0,
			} {
				if got, _, err := b.search(t, n, args); err != nil || len(got.Results) != want {
					t.Errorf("%s: %+v, %v", args, got, err)
				}
			}
		})
	}
}

// TestWebSearchHidesItsKey: also with tags and escapes within, and as a password.
func TestWebSearchHidesItsKey(t *testing.T) {
	b, n := engine(t, "searxng", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")
		fmt.Fprintf(w, `{"results":[{"title":"BSA-key\u002d0123456789","url":"https://a.example/BSA-key\u002d0123456789",`+
			`"content":"BSA-<b>key</b>-01&#50;3456789 %x"}]}`, key)
	})
	n.Secrets[0].Header, n.Secrets[0].User = "", "me"
	got, text, err := b.search(t, n, `{"query":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	stars := strings.Repeat("*", len("BSA-key-0123456789"))
	whole := strings.Repeat("*", len(fmt.Sprintf("%x", base64.StdEncoding.EncodeToString([]byte("me:BSA-key-0123456789")))))
	want := webHit{stars, "https://a.example/" + stars, stars + " " + whole}
	if len(got.Results) != 1 || got.Results[0] != want || strings.Contains(text, "BSA") {
		t.Errorf("got %+v, want %+v; the model reads %s", got.Results, want, text)
	}
}

// TestWebSearchSendsItsKeyOverTLSAlone: whoever reads the way there would have it otherwise.
func TestWebSearchSendsItsKeyOverTLSAlone(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header["X-Subscription-Token"]) != 0 {
			t.Error("it sent the key")
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"results":[]}`)
	})
	b.hosts = []string{"search.example:8080"}
	_, n := engine(t, "searxng", http.NotFound)
	n.AllowedDomains, n.Secrets[0].Host = b.hosts, b.hosts[0]
	n.Search.URL = "http://search.example:8080"
	if len(n.SecretsFor("search.example", 8080)) != 1 {
		t.Fatal("there is no key to send")
	}
	if _, _, err := b.search(t, n, `{"query":"x"}`); err != nil {
		t.Error(err)
	}
}

// TestWebSearchAnErrorHidesItsKey: an engine that repeats the key does not show it to the model.
func TestWebSearchAnErrorHidesItsKey(t *testing.T) {
	for _, header := range []string{"Content-Type", "Content-Encoding"} {
		b, n := engine(t, "searxng", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(header, r.Header.Get("X-Subscription-Token"))
			fmt.Fprint(w, "x")
		})
		_, _, err := b.search(t, n, `{"query":"x"}`)
		if err == nil || strings.Contains(err.Error(), "BSA-key") || !strings.Contains(err.Error(), "***") {
			t.Errorf("in %s: %v", header, err)
		}
	}
}

// TestWebSearchIsBounded: by the bytes of a query, and by the results that a model gets.
func TestWebSearchIsBounded(t *testing.T) {
	b, n := engine(t, "searxng", func(w http.ResponseWriter, r *http.Request) {
		if q := r.FormValue("q"); len(q) != maxQuery {
			t.Errorf("asked for %d bytes", len(q))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"results":[{"title":"x","url":"https://not-a.example/"}`,
			strings.Repeat(`,{"title":"x","url":"https://b.a.example/"}`, 30), `]}`)
	})
	query := strings.Repeat("x", maxQuery)
	got, _, err := b.search(t, n, `{"query":"  `+query+` ","allowed_domains":["a.example"]}`)
	if err != nil || len(got.Results) != 20 || got.Results[0].URL != "https://b.a.example/" {
		t.Errorf("got %d results, %v", len(got.Results), err)
	}
	if _, _, err := b.search(t, n, `{"query":"`+query+`x"}`); err == nil {
		t.Error("a query of 401 bytes is asked")
	}
	got, text, err := b.search(t, n, `{"query":"`+query+`","blocked_domains":["example"]}`)
	if err != nil || got.Results == nil || len(got.Results) != 0 || text != "Nothing was found." {
		t.Errorf("got %+v, %q, %v", got, text, err)
	}
}

func TestWebSearchThatFails(t *testing.T) {
	status, body, location := 200, "", ""
	b, n := engine(t, "searxng", func(w http.ResponseWriter, r *http.Request) {
		if location != "" {
			w.Header().Set("Location", location)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	for _, tt := range []struct {
		name, code     string
		status         int
		body, location string
		change         func(*guard.Network)
		args           string
	}{
		{name: "no engine", code: "no_search", change: func(n *guard.Network) { n.Search = nil }},
		{name: "no query", code: "invalid_arguments", args: `{"query":"  "}`},
		{name: "a long query", code: "invalid_arguments", args: `{"query":"` + strings.Repeat("x", 500) + `"}`},
		{name: "a key that is refused", code: "http_status", status: 403},
		{name: "leads elsewhere", code: "http_status", status: 302, location: "https://evil.example/"},
		{name: "HTML", code: "bad_answer", status: 200, body: "<html>"},
		{name: "another answer", code: "bad_answer", status: 200, body: `{"error":"x"}`},
		{name: "no key", code: "no_secret", change: func(n *guard.Network) {
			n.Secrets = []guard.Secret{{Host: "search.example", File: "/nowhere"}}
		}},
		{name: "no trust", code: "fetch_failed", change: func(n *guard.Network) { n.CAFile = "" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body, location = max(tt.status, 200), tt.body, tt.location
			m := n
			if tt.change != nil {
				tt.change(&m)
			}
			args := tt.args
			if args == "" {
				args = `{"query":"x"}`
			}
			_, _, err := b.search(t, m, args)
			var e *tool.Error
			if !errors.As(err, &e) || e.Code != tt.code {
				t.Errorf("got %v, want %s", err, tt.code)
			}
		})
	}
}

// TestWebSearchSaysWhatToDo: who has to act on each failure, and never the key.
func TestWebSearchSaysWhatToDo(t *testing.T) {
	status, body := 200, ""
	b, n := engine(t, "searxng", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	for _, tt := range []struct {
		status          int
		body, args      string
		change          func(*guard.Network)
		code, msg, hint string
	}{
		{200, "", `{"query":" "}`, nil, "invalid_arguments", fmt.Sprintf("0 bytes, want 1 to %d", maxQuery), "a few words"},
		{200, "", "", func(n *guard.Network) { n.Search = nil }, "no_search", "no search engine is configured", "use WebFetch"},
		{
			200, "", "", func(n *guard.Network) { n.Search = &guard.Search{Provider: "x"} },
			"no_search", `provider "x" is not`, "mend network.search",
		},
		{403, "", "", nil, "http_status", "search.example answered 403 Forbidden", "operator's key"},
		{200, `{"x":1}`, "", nil, "bad_answer", "search.example does not answer as searxng does: it has no results", "SearXNG answers JSON"},
		{
			200, "", "", func(n *guard.Network) { n.Secrets = []guard.Secret{{Host: "search.example", File: "/nowhere"}} },
			"no_secret", "the secret for search.example cannot be had", "sandboxd network secrets",
		},
	} {
		status, body = tt.status, tt.body
		m := n
		if tt.change != nil {
			tt.change(&m)
		}
		if tt.args == "" {
			tt.args = `{"query":"x"}`
		}
		_, _, err := b.search(t, m, tt.args)
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != tt.code || !strings.Contains(e.Msg, tt.msg) || !strings.Contains(e.Hint, tt.hint) {
			t.Errorf("%s: got %+v, want %q and %q", tt.code, e, tt.msg, tt.hint)
		}
	}
	for _, tt := range []struct {
		provider, body string
		want           int // -1: an error
	}{
		{"brave", `{"type":"search"}`, 0},
		{"brave", `{"type":"error"}`, -1},
		{"brave", `{"results":[]}`, -1},
		{"searxng", `{"type":"search"}`, -1},
		{"searxng", `{"web":{"results":[]}}`, -1},
		{"searxng", `{"results":[]}`, 0},
		{"searxng", `[`, -1},
	} {
		got, err := resultsOf(tt.provider, tt.body)
		if (err != nil) != (tt.want < 0) || err == nil && len(got) != tt.want {
			t.Errorf("%s %s: got %v, %v", tt.provider, tt.body, got, err)
		}
	}
}
