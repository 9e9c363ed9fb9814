package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// relayedAs is a request that reached the routes of operators.
type relayedAs struct {
	line string
	by   route.Caller
}

// newSite is the page with routes of operators that answer nothing, and note what they were asked.
func newSite(t *testing.T) (s *site, all *[]relayedAs) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	pages, err := readFiles()
	if err != nil {
		t.Fatal(err)
	}
	db, all := newDB(t), &[]relayedAs{}
	s = &site{
		hours: 12 * time.Hour, logins: logins{db: db}, shares: shares{db: db}, listen: l, files: pages,
		host: part.Host{
			Sessions: oneSession{}, Log: slog.New(slog.DiscardHandler),
			Redact: func(text string) string { return text },
			Record: func(context.Context, tool.Note) error { return nil },
			Operators: func(by route.Caller) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					*all = append(*all, relayedAs{r.Method + " " + r.URL.Path, by})
					if r.URL.Path != "/metrics" {
						fmt.Fprint(w, `{"data":[]}`)
					}
				})
			},
		},
	}
	return s, all
}

// send sends a request to the page, with these headers in pairs.
func (s *site) send(t *testing.T, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	at := "http://" + s.listen.Addr().String() + path
	r := httptest.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w.Result()
}

func TestW04_ALoginLastsTwelveHours(t *testing.T) {
	if got := Definition().Config().(*Config).SessionHours; got != 12 {
		t.Errorf("without a setting a login lasts %d hours", got)
	}
	s, _ := newSite(t)
	token, _, err := s.logins.link(person{Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	cookies := s.send(t, "GET", "/login?token="+token, "").Cookies()
	if len(cookies) != 1 || cookies[0].MaxAge != 12*60*60 {
		t.Fatalf("the cookies are %v", cookies)
	}
	who, ok, err := s.logins.who(t.Context(), cookies[0].Value, s.hours)
	if left := time.Until(who.Ends); err != nil || !ok || left > 12*time.Hour || left < 11*time.Hour {
		t.Errorf("it lasts %v more: %t, %v", left, ok, err)
	}
}

// Below /v1/ there is what people do on the page, and nothing that runs something new or changes the daemon.
func TestW04_WhatThePageMayChange(t *testing.T) {
	s, all := newSite(t)
	token, _, err := s.logins.link(person{Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	cookie := s.send(t, "GET", "/login?token="+token, "").Cookies()[0]
	who, _, err := s.logins.who(t.Context(), cookie.Value, s.hours)
	if err != nil {
		t.Fatal(err)
	}
	for line, relayed := range map[string]bool{
		"GET /v1/anything/at/all": true, "POST /v1/approvals/a": true, "DELETE /v1/grants/g": true,
		"POST /v1/policies/explain": true, "POST /v1/calls/c/cancel": true, "POST /v1/calls/c/undo": true,
		"POST /v1/jobs/j/stop": true, "POST /v1/sessions/s/shares": true, "DELETE /v1/shares/x": true,
		"POST /v1/policies": false, "POST /v1/sessions": false, "DELETE /v1/sessions/s": false,
		"POST /v1/decide": false, "PUT /v1/sessions/s/mcp": false, "DELETE /v1/sessions/s/vars/v": false,
		"POST /v1/web/links": false, "POST /v1/reload": false, "PATCH /v1/approvals/a": false,
	} {
		*all = nil
		method, path, _ := strings.Cut(line, " ")
		got := s.send(t, method, path, "{}", "Cookie", cookie.Name+"="+cookie.Value, "X-CSRF-Token", who.CSRF,
			"Content-Type", "application/json")
		if came := len(*all) == 1 && (*all)[0].line == line; came != relayed || relayed != (got.StatusCode == 200) {
			t.Errorf("%s: %s, the routes of operators got %v", line, got.Status, *all)
		}
	}
}

// certified is a certificate of these names.
func certified(t *testing.T, names ...string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	as := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "old.test"}, DNSNames: names,
		IPAddresses: []net.IP{net.ParseIP("192.0.2.7")},
	}
	der, err := x509.CreateCertificate(rand.Reader, as, as, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// With TLS the names of the certificate, at this port, are those of the page, and the address of the listener is none.
func TestW04_UnderTLSThePageHasTheNamesOfItsCertificate(t *testing.T) {
	s, _ := newSite(t)
	s.cert = certified(t, "page.test", "*.pages.test")
	_, port, _ := net.SplitHostPort(s.listen.Addr().String())
	for host, want := range map[string]bool{
		"page.test:" + port: true, "a.pages.test:" + port: true, "192.0.2.7:" + port: true,
		"page.test": false, "page.test:1": false, "evil.test:" + port: false, "old.test:" + port: false,
		s.listen.Addr().String(): false,
	} {
		if got := s.ours(host); got != want {
			t.Errorf("%s is its name: %t", host, got)
		}
		if got := s.ownOrigin("https://" + host); got != want {
			t.Errorf("https://%s is its origin: %t", host, got)
		}
	}
	if s.ownOrigin("http://page.test:" + port) {
		t.Error("a page that came without TLS is its own")
	}
	if got := s.origin(); got != "https://page.test:"+port {
		t.Errorf("links lead to %s", got)
	}
	s.cert = certified(t)
	if got := s.origin(); got != "https://192.0.2.7:"+port {
		t.Errorf("without a name in the certificate links lead to %s", got)
	}
	s.cert = certified(t, "page.test", "*.pages.test")
	token, _, err := s.logins.link(person{})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "https://page.test:"+port+"/login?token="+token, nil)
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	if c := w.Result().Cookies(); len(c) != 1 || c[0].Name != "__Host-sandboxd" || !c[0].Secure {
		t.Errorf("the cookies are %v", c)
	}
}

// Each answer keeps browsers from using it elsewhere, from guessing what it is, and from keeping it.
func TestW04_WhatEachAnswerTellsTheBrowser(t *testing.T) {
	s, _ := newSite(t)
	for _, tls := range []bool{false, true} {
		want := map[string]string{
			"Content-Security-Policy": policyOfContent, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control": "no-store", "Strict-Transport-Security": "",
		}
		if tls {
			s.cert, want["Strict-Transport-Security"] = certified(t, "page.test"), "max-age=31536000"
		}
		for _, path := range []string{"/", "/login", "/nothing", "/v1/status", "/shared/x"} {
			h := s.send(t, "GET", path, "").Header
			for name, value := range want {
				if got := h.Get(name); got != value {
					t.Errorf("TLS %t, %s: %s is %q, want %q", tls, path, name, got, value)
				}
			}
		}
	}
}

func TestW04_WhereThePageMayListen(t *testing.T) {
	both := TLS{CertFile: "/c", KeyFile: "/k"}
	for _, tt := range []struct {
		listen string
		tls    TLS
		want   bool
	}{
		{"127.0.0.1:1", TLS{}, true},
		{"[::1]:1", TLS{}, true},
		{"0.0.0.0:1", TLS{}, false},
		{"192.0.2.7:1", TLS{}, false},
		{"192.0.2.7:1", both, true},
		{"127.0.0.1", TLS{}, false},
		{"localhost:1", TLS{}, false},
	} {
		c := Config{Listen: tt.listen, SessionHours: 12, TLS: tt.tls}
		if err := c.Check(); (err == nil) != tt.want {
			t.Errorf("%s %+v: %v", tt.listen, tt.tls, err)
		}
	}
	for hours, want := range map[int]bool{0: false, 1: true, 720: true, 721: false} {
		if err := (&Config{SessionHours: hours}).Check(); (err == nil) != want {
			t.Errorf("%d hours: %v", hours, err)
		}
	}
	c := Config{Listen: "127.0.0.1:1", TLS: both}
	if got := c.Hides(); !slices.Equal(got, []string{"/k"}) {
		t.Errorf("calls do not see %v", got)
	}
}

// What can be said of a link for viewers, and what holds where nothing is said.
func TestW03_WhatALinkMayBe(t *testing.T) {
	s, _ := newSite(t)
	link := func(body string) (Shared, error) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/sessions/s/shares", strings.NewReader(body))
		r.SetPathValue("id", "s")
		operator := route.Caller{Account: "a", Role: tool.RoleOperator}
		out, err := s.share(r.WithContext(route.WithCaller(r.Context(), operator)))
		if err != nil {
			return Shared{}, err
		}
		return out.(route.Created).Data.(Shared), nil
	}
	for body, hours := range map[string]int{`{}`: 24, `{"hours":1}`: 1, `{"hours":720}`: 720} {
		before := time.Now()
		x, err := link(body)
		if err != nil {
			t.Fatal(err)
		}
		late := time.Now().Add(time.Duration(hours) * time.Hour)
		if early := before.Add(time.Duration(hours) * time.Hour); x.Ends.Before(early) || x.Ends.After(late) {
			t.Errorf("%s: it ends at %v, want %d hours from now", body, x.Ends, hours)
		}
	}
	for body, want := range map[string]bool{
		`{"hours":721}`: false, `{"hours":-1}`: false,
		`{"password":"1234567"}`: false, `{"password":"12345678"}`: true,
		`{"password":"` + strings.Repeat("x", 256) + `"}`: true,
		`{"password":"` + strings.Repeat("x", 257) + `"}`: false,
	} {
		if _, err := link(body); (err == nil) != want {
			t.Errorf("%.40s: %v", body, err)
		}
	}
}

// The record has who made a link, who opened it and with what, who gave a wrong password, and who revoked it.
func TestW03_TheRecordOfALink(t *testing.T) {
	s, _ := newSite(t)
	var notes []string
	s.host.Record = func(_ context.Context, n tool.Note) error {
		said := []string{n.Name, n.Session, n.Message, n.Detail["for"], n.Detail["browser"]}
		notes = append(notes, strings.Join(said, "|"))
		return nil
	}
	operator := func(method, path, id, body string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.SetPathValue("id", id)
		return r.WithContext(route.WithCaller(r.Context(), route.Caller{Account: "a", UID: 1007, Person: "Ada"}))
	}
	var made Shared
	for _, body := range []string{`{"for":"Grace"}`, `{"for":"Alan","password":"correct horse"}`} {
		out, err := s.share(operator("POST", "/sessions/ses_1/shares", "ses_1", body))
		if err != nil {
			t.Fatal(err)
		}
		made = out.(route.Created).Data.(Shared)
		_, path, _ := strings.Cut(made.URL, s.listen.Addr().String())
		for range 2 { // the same browser
			s.send(t, "GET", path, "", "User-Agent", "Lynx")
		}
		s.send(t, "POST", path, "password=wrong", "User-Agent", "Lynx",
			"Content-Type", "application/x-www-form-urlencoded")
	}
	if _, err := s.revokeShare(operator("DELETE", "/shares/"+made.ID, made.ID, "")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"web_share|ses_1|a link to look at the session was made by Ada (uid:1007)|Grace|",
		"web_share_opened|ses_1|a link to look at the session was opened|Grace|Lynx",
		"web_share|ses_1|a link to look at the session was made by Ada (uid:1007)|Alan|",
		"web_share_refused|ses_1|a wrong password was given on a link||Lynx",
		"web_share_revoked||a link to a session was revoked by Ada (uid:1007)||",
	}
	if !slices.Equal(notes, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(notes, "\n"), strings.Join(want, "\n"))
	}
}

// A person who edits a masked question would send the mask, so questions are shown as they are.
func TestW05_EverythingButTheQuestionsIsMasked(t *testing.T) {
	s, _ := newSite(t)
	s.host.Redact = func(string) string { return "masked" }
	for path, masked := range map[string]bool{
		"/v1/approvals": false, "/v1/approvals/apr_1": false, "/approvals/apr_1": false, "/approvals": false,
		"/v1/calls/c": true, "/v1/approvalsx": true, "/v1/sessions/s/vars/v": true, "/decisions/c": true,
	} {
		if got := s.redactor(path)("key"); (got == "masked") != masked {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// Of a call that runs, pages get what it prints, with what cannot be seen as an escape, and its end: nothing of what it
// is, because viewers get the same stream.
func TestW06_WhatIsShownOfACallThatRuns(t *testing.T) {
	w := httptest.NewRecorder()
	l := &liveOutput{ResponseWriter: w}
	for _, event := range []string{
		"event: begin\ndata: {\"args\":{\"command\":\"cat key\"}}\n\n",
		"event: output\ndata: {\"stream\":\"stdout\",\"offset\":0,\"text\":\"a\\u202eb\\n\"}\n\nevent: wai",
		"ting\ndata: {\"approval\":\"apr_1\"}\n\n",
		"event: output\ndata: {\"stream\":\"stdout\",\"offset\":9,\"text\":\"c\"}\n\n",
		"event: end\ndata: {\"final_text\":\"key\"}\n\n",
	} {
		if _, err := l.Write([]byte(event)); err != nil {
			t.Fatal(err)
		}
	}
	want := "event: output\ndata: {\"stream\":\"stdout\",\"text\":\"a\\\\u{202e}b\\n\"}\n\n" +
		"event: output\ndata: {\"stream\":\"stdout\",\"missed\":true,\"text\":\"c\"}\n\n" +
		"event: end\ndata: {}\n\n"
	if got := w.Body.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Five tries at once, and one every twelve seconds after them, for each link.
func TestW03_TriesOfAPasswordTakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shares
		tried := func(x Share) (n int) {
			for s.mayTry(x) {
				n++
			}
			return n
		}
		one, other := Share{ID: "one"}, Share{ID: "other"}
		if n := tried(one); n != 5 {
			t.Errorf("%d tries are answered at once", n)
		}
		time.Sleep(11 * time.Second)
		if n := tried(one); n != 0 {
			t.Errorf("%d more after 11 s", n)
		}
		time.Sleep(time.Second)
		if n := tried(one); n != 1 {
			t.Errorf("%d more after 12 s", n)
		}
		if n := tried(other); n != 5 {
			t.Errorf("%d tries of another link", n)
		}
	})
}

// Viewers read with the rights of whoever made the link, the routes that the page of a link has.
func TestW07_AViewerReadsWithTheRightsOfTheMaker(t *testing.T) {
	s, all := newSite(t)
	x := Share{
		Session: "ses_1", Made: time.Now(), Ends: time.Now().Add(time.Hour),
		maker: person{UID: 1007, GID: 1008, Groups: []int{1009}},
	}
	token, err := s.shares.make(t.Context(), &x)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "/calls/c", "/calls/c/output"} {
		s.send(t, "GET", "/shared/"+token+path, "")
	}
	if len(*all) == 0 {
		t.Fatal("nothing was read")
	}
	for _, a := range *all {
		if a.by.UID != 1007 || a.by.GID != 1008 || !slices.Equal(a.by.Groups, []int{1009}) {
			t.Errorf("%s is read as %+v", a.line, a.by)
		}
		path := strings.TrimPrefix(a.line, "GET ")
		if !slices.Contains([]string{"/sessions/ses_1", "/calls", "/decisions", "/decisions/c"}, path) {
			t.Errorf("it reads %s", a.line)
		}
	}
}

// The page shows the last hour by what it has sampled itself, every 15 s.
func TestTheLastHourIsSampled(t *testing.T) {
	s, all := newSite(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.watch(ctx) }()
		synctest.Wait()
		is := func(when string, want int, since time.Duration) {
			t.Helper()
			samples := s.history.until(sample{At: time.Now()})
			if n, oldest := len(samples)-1, time.Since(samples[0].At); n != want || oldest != since {
				t.Errorf("%s there are %d samples, the first %v ago", when, n, oldest)
			}
		}
		is("at first", 1, 0)
		time.Sleep(time.Minute + time.Millisecond)
		is("after a minute", 5, time.Minute+time.Millisecond)
		time.Sleep(2 * time.Hour)
		is("after hours", 240, time.Hour-15*time.Second+time.Millisecond)
		stop()
		<-ended
	})
	if got := (*all)[0].line; got != "GET /metrics" {
		t.Errorf("it samples %s", got)
	}
}
