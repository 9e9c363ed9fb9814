package web

import (
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// answering is the page before routes of operators that give these answers by path, "null" elsewhere. It returns what
// they were asked, and the headers of a person who is logged in.
func answering(t *testing.T, answers map[string]string) (s *site, asked *[]string, login []string) {
	t.Helper()
	s, _ = newSite(t)
	asked = &[]string{}
	s.host.Operators = func(route.Caller) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*asked = append(*asked, r.URL.RequestURI())
			said := answers[r.URL.Path]
			switch {
			case said == "" && r.URL.Path != "/metrics":
				said = `{"data":null}`
			case strings.HasPrefix(said, `{"error"`):
				w.WriteHeader(http.StatusConflict)
			}
			io.WriteString(w, said)
		})
	}
	token, _, err := s.logins.link(person{Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	cookie := s.send(t, "GET", "/login?token="+token, "").Cookies()[0]
	return s, asked, []string{"Cookie", cookie.Name + "=" + cookie.Value}
}

// inOrder reports the first of these texts that does not come behind those before it, or "".
func inOrder(in string, texts ...string) string {
	for _, text := range texts {
		_, rest, found := strings.Cut(in, text)
		if !found {
			return text
		}
		in = rest
	}
	return ""
}

// What a page asks of the routes, and what it makes of their answers (docs/web.md, "What it shows").
func TestW04_WhatThePagesShow(t *testing.T) {
	full := func(n int, row string) string {
		rows := make([]string, n)
		for i := range rows {
			rows[i] = fmt.Sprintf(row, i+1)
		}
		return `{"data":[` + strings.Join(rows, ",") + `]}`
	}
	const ledger = `{"data":[
		{"seq":7,"call":"c7","session":"s","tool":"Bash","network":{"omitted":3,"connections":[
			{"host":"API.test","port":443,"verdict":"deny"},{"host":"api.test","port":80,"verdict":"allow"},
			{"host":"other.test","port":443,"verdict":"deny"}]}},
		{"seq":6,"call":"c6"}]}`
	for _, tt := range []struct {
		name, path string
		answers    map[string]string
		asked      string   // one of the requests
		want       []string // in this order
		not        string
	}{
		{
			name: "the inbox has what waits, the oldest first", path: "/",
			answers: map[string]string{"/approvals": `{"data":[
				{"id":"apr_2","status":"pending","created_at":"2026-01-02T00:00:00Z"},
				{"id":"apr_1","status":"pending","created_at":"2026-01-01T00:00:00Z"}]}`},
			asked: "/approvals?status=pending&limit=100",
			want:  []string{`data-approval="apr_1"`, `data-approval="apr_2"`},
		},
		{
			name: "a question says below its buttons which rule a yes becomes", path: "/approvals/apr_1",
			answers: map[string]string{"/approvals/apr_1": `{"data":{"id":"apr_1","type":"execution","status":"pending",
				"session_id":"ses_1","tool_name":"Bash","args":{"command":"make"},"remember":["once","session"]}}`},
			want: []string{
				`data-answer="once"`, `data-answer="session"`, `For the session: allow Bash in -, for session ses_1`,
				`&#34;command&#34;: &#34;make&#34;`,
			},
			not: "For the once",
		},
		{
			name: "older sessions are a link away", path: "/sessions?offset=100",
			answers: map[string]string{"/sessions": `{"data":[{"id":"a"},{"id":"b"}],
				"meta":{"offset":100,"has_more":true}}`},
			asked: "/sessions?accounts=all&sort_by=updated_at&limit=100&offset=100",
			want:  []string{`data-session="a"`, `data-session="b"`, `href="/sessions?offset=102"`},
		},
		{
			name: "older calls are a link away, found in the same way", path: "/sessions/s?search=rm&verdict=deny",
			answers: map[string]string{
				"/sessions/s": `{"data":{"id":"s"}}`,
				"/decisions":  `{"data":[{"call_id":"c","tool":"Bash"}],"meta":{"offset":0,"total":9,"has_more":true}}`,
			},
			asked: "/decisions?search=rm&session_id=s&verdict=deny&limit=50&offset=0",
			want:  []string{"Search in 9 calls", `data-call="c"`, `href="?offset=1&amp;search=rm&amp;verdict=deny"`},
		},
		{
			name: "a call that runs stands above the others, with its arguments", path: "/sessions/s",
			answers: map[string]string{
				"/sessions/s": `{"data":{"id":"s"}}`,
				"/calls":      `{"data":[{"call_id":"runs","tool":"Bash","args":{"command":"make all"}}]}`,
				"/decisions":  `{"data":[{"call_id":"c","tool":"Bash"}]}`,
			},
			asked: "/calls?session_id=s",
			want:  []string{`data-call="runs" data-live`, "make all", `data-call="c"`},
		},
		{
			name: "a call that was decided while the page was made stands there once", path: "/sessions/s",
			answers: map[string]string{
				"/sessions/s": `{"data":{"id":"s"}}`,
				"/calls":      `{"data":[{"call_id":"c","tool":"Bash"},{"call_id":"bare","tool":"Bash"}]}`,
				"/decisions":  `{"data":[{"call_id":"c","tool":"Bash"}]}`,
			},
			want: []string{`data-call="bare" data-live`, `data-call="c"`}, not: `data-call="c" data-live`,
		},
		{
			name: "a result that is no longer kept", path: "/calls/c",
			answers: map[string]string{"/calls/c": `{"error":{"code":"x","message":"gone since noon"}}`},
			want:    []string{"its result is no longer kept: gone since noon"},
		},
		{
			name: "a diff that cannot be shown", path: "/calls/c",
			answers: map[string]string{
				"/calls/c":      `{"data":{"result":{"status":"success","changes":[{"path":"f","kind":"changed"}]}}}`,
				"/calls/c/diff": `{"error":{"code":"x","message":"no room for it"}}`,
			},
			want: []string{"the diff cannot be shown: no room for it", "changed f"},
		},
		{
			name: "variables are found by search, type and tag",
			path: "/variables?session=s&search=a&type=json&tag=t&offset=50",
			answers: map[string]string{
				"/sessions":        `{"data":[{"id":"newest"}]}`,
				"/sessions/s":      `{"data":{"id":"s"}}`,
				"/sessions/s/vars": `{"data":[{"name":"v"}],"meta":{"offset":50,"total":99,"has_more":true}}`,
			},
			asked: "/sessions/s/vars?limit=50&offset=50&search=a&tag=t&type=json",
			want: []string{
				`<option value="newest">`, `<option value="s" selected>`, "99 variables", `data-variable="v"`,
				`href="?offset=51&amp;search=a&amp;session=s&amp;tag=t&amp;type=json"`,
			},
		},
		{
			name: "the record is read by text, event and session, page by page",
			path: "/record?search=a&event=call&session_id=s&before=500",
			answers: map[string]string{
				"/audit": full(100, `{"seq":%d,"event":"call"}`),
			},
			asked: "/audit?before=500&event=call&limit=100&search=a&session_id=s",
			want:  []string{"<td>100</td>", "<td>1</td>", `"?before=1&amp;event=call&amp;search=a&amp;session_id=s"`},
		},
		{
			name: "the end of the record has no link to older lines", path: "/record",
			answers: map[string]string{"/audit": full(99, `{"seq":%d,"event":"call"}`)},
			want:    []string{"<td>99</td>"}, not: ">Older<",
		},
		{
			name:    "connections are found by host, verdict and session",
			path:    "/network?host=Api.test&verdict=deny&session_id=s",
			answers: map[string]string{"/audit": ledger},
			asked:   "/audit?connected=true&limit=100&search=Api.test&session_id=s",
			want:    []string{"API.test:443", `/decisions/c7`, "3 more had no room"}, not: "other.test",
		},
		{
			name: "a verdict that is not asked for is left out", path: "/network?host=api.test&verdict=deny",
			answers: map[string]string{"/audit": ledger}, want: []string{"API.test:443"}, not: "api.test:80",
		},
		{
			name: "without a filter all connections are shown", path: "/network",
			answers: map[string]string{"/audit": ledger}, asked: "/audit?connected=true&limit=100",
			want: []string{"API.test:443", "api.test:80", "other.test:443", "0 B"},
		},
		{
			name: "sizes have a unit", path: "/network",
			answers: map[string]string{"/audit": `{"data":[{"seq":1,"network":{"connections":[
				{"host":"h","bytes_in":9999,"bytes_out":10000},
				{"host":"i","bytes_in":9999999,"bytes_out":12000000}]}}]}`},
			want: []string{"<td>9999 B</td><td>10 kB</td>", "<td>9999 kB</td><td>12 MB</td>"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, asked, login := answering(t, tt.answers)
			got := s.send(t, "GET", tt.path, "", login...)
			body, err := io.ReadAll(got.Body)
			if err != nil || got.StatusCode != http.StatusOK {
				t.Fatalf("%s, %v: %s", got.Status, err, body)
			}
			if missing := inOrder(string(body), tt.want...); missing != "" {
				t.Errorf("it lacks %s, or has it too early:\n%s", missing, body)
			}
			if tt.not != "" && strings.Contains(string(body), tt.not) {
				t.Errorf("it has %s:\n%s", tt.not, body)
			}
			if tt.asked != "" && !slices.Contains(*asked, tt.asked) {
				t.Errorf("the routes were asked %q", *asked)
			}
		})
	}
}

// A page whose route refuses has the status, the words and the hint of the route; one that does not understand its
// route says where to look.
func TestW04_APageSaysWhyItIsNotShown(t *testing.T) {
	const refused = `{"error":{"code":"x","message":"nobody may look today","hint":"come back tomorrow"}}`
	for path, at := range map[string]string{
		"/": "/approvals", "/approvals/apr_1": "/approvals/apr_1", "/sessions": "/sessions",
		"/sessions/s":  "/decisions",
		"/decisions/c": "/decisions/c", "/variables?session=s": "/sessions/s/vars", "/policies": "/hooks",
		"/network": "/audit", "/record": "/audit", "/health": "/status", "/shares": "/shares",
	} {
		for answer, want := range map[string][]string{
			refused:              {"409", "nobody may look today", "come back tomorrow"},
			`{"data":"no such"}`: {"500", "the page could not be made", "the log of the daemon says why"},
		} {
			if path == "/health" && answer != refused {
				continue // it shows what the status is
			}
			s, _, login := answering(t, map[string]string{at: answer})
			got := s.send(t, "GET", path, "", login...)
			body, err := io.ReadAll(got.Body)
			if err != nil || inOrder(got.Status+string(body), want...) != "" {
				t.Errorf("%s, where %s says %s: %s, %v:\n%s", path, at, answer, got.Status, err, body)
			}
		}
	}
	s, _, login := answering(t, nil)
	got := s.send(t, "GET", "/nothing/here", "", login...)
	if body, err := io.ReadAll(got.Body); err != nil || got.StatusCode != http.StatusNotFound ||
		!strings.Contains(string(body), "there is no page /nothing/here") {
		t.Errorf("%s, %v:\n%s", got.Status, err, body)
	}
}

// Who has a link without a password has nothing to send.
func TestW03_ALinkWithoutAPasswordTakesNone(t *testing.T) {
	s, _ := newSite(t)
	token, err := s.shares.make(t.Context(), &Share{Session: "s", Made: time.Now(), Ends: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	got := s.send(t, "POST", "/shared/"+token, "password=x", "Content-Type", "application/x-www-form-urlencoded")
	if got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("got %s, %v", got.Status, got.Header)
	}
}

// A page of numbers is not made of metrics that were refused.
func TestW04_HealthNeedsTheMetrics(t *testing.T) {
	s, _, login := answering(t, map[string]string{"/metrics": `{"error":{"message":"later"}}`})
	if got := s.send(t, "GET", "/health", "", login...); got.StatusCode != http.StatusInternalServerError {
		t.Errorf("got %s", got.Status)
	}
	_, err := s.sample(t.Context(), route.Caller{})
	if err == nil || !strings.Contains(err.Error(), "GET /metrics: 409:") {
		t.Errorf("got %v", err)
	}
}

// A page that follows a call whose output is refused gets the status, and nothing of what the route says.
func TestW06_ARefusedStreamSaysNothing(t *testing.T) {
	refused := `{"error":{"message":"event: output"}}` + "\n\nevent: end\ndata: {}\n\n"
	s, _, login := answering(t, map[string]string{"/calls/c": refused})
	got := s.send(t, "GET", "/calls/c/output", "", login...)
	if body, err := io.ReadAll(got.Body); err != nil || len(body) > 0 || got.StatusCode != http.StatusConflict {
		t.Errorf("%s, %v: %s", got.Status, err, body)
	}
}

// Who has no login gets the style sheet and the scripts, as they are or zipped, and no other file.
func TestW04_StaticFiles(t *testing.T) {
	s, _ := newSite(t)
	for name, kind := range kinds {
		plain, err := embedded.ReadFile("page/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, coding := range []string{"", "gzip"} {
			got := s.send(t, "GET", "/static/"+name, "", "Accept-Encoding", coding)
			body := io.Reader(got.Body)
			if coding == "gzip" {
				if body, err = gzip.NewReader(got.Body); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			text, err := io.ReadAll(body)
			h := got.Header
			if err != nil || string(text) != string(plain) || h.Get("Content-Type") != kind ||
				h.Get("Content-Encoding") != coding || h.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s, %q: %v, %v, %d bytes", name, coding, err, h, len(text))
			}
		}
	}
	if got := s.send(t, "GET", "/static/inbox.html", ""); got.StatusCode != http.StatusNotFound {
		t.Errorf("a template is served: %s", got.Status)
	}
}

// So many links wait for a login at once, each for a minute, and a name is no longer than a name.
func TestW04_LinksForALoginAreFew(t *testing.T) {
	s, _ := newSite(t)
	link := func(body string) error {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/web/links", strings.NewReader(body))
		_, err := s.makeLink(r.WithContext(route.WithCaller(r.Context(), route.Caller{})))
		return err
	}
	for name, want := range map[string]bool{strings.Repeat("x", 64): true, strings.Repeat("x", 65): false} {
		if err := link(`{"as":"` + name + `"}`); (err == nil) != want {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var l logins
		var err error
		made := 0
		for ; made < 100 && err == nil; made++ {
			_, _, err = l.link(person{})
		}
		if made != 65 || code(err) != "too_many_requests" {
			t.Errorf("link %d: %v", made, err)
		}
		time.Sleep(59 * time.Second)
		if _, _, err = l.link(person{}); code(err) != "too_many_requests" {
			t.Errorf("within the minute: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, _, err = l.link(person{}); err != nil || len(l.links) != 1 {
			t.Errorf("a minute later: %v, and %d wait", err, len(l.links))
		}
	})
}

func code(err error) string {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

// A link that has reached its end is shown as ended, and the next page of a link begins behind the rows of this one.
func TestW03_WhatIsShownOfLinks(t *testing.T) {
	s, _, _ := answering(t, map[string]string{
		"/sessions/s": `{"data":{"id":"s"}}`,
		"/decisions":  `{"data":[{"call_id":"c","tool":"Bash"}],"meta":{"offset":50,"has_more":true}}`,
	})
	x := Share{Session: "s", Made: time.Now(), Ends: time.Now().Add(time.Hour)}
	token, err := s.shares.make(t.Context(), &x)
	if err != nil {
		t.Fatal(err)
	}
	got := s.send(t, "GET", "/shared/"+token+"?offset=50", "")
	if body, err := io.ReadAll(got.Body); err != nil || !strings.Contains(string(body), `href="?offset=51"`) {
		t.Errorf("%s, %v:\n%s", got.Status, err, body)
	}
	shift(t, s.shares.db, -61*time.Minute)
	all, _, err := s.shares.list(t.Context(), 10, 0)
	if err != nil || len(all) != 1 || !all[0].Ended.Equal(all[0].Ends) {
		t.Errorf("after its end: %+v, %v", all, err)
	}
}

// A link refuses one stream more than it has room for, and a stream of a link that has just ended.
func TestW03_AStreamOfALinkIsRefused(t *testing.T) {
	s, _ := newSite(t)
	x := Share{Session: "s", Made: time.Now(), Ends: time.Now().Add(time.Hour)}
	token, err := s.shares.make(t.Context(), &x)
	if err != nil {
		t.Fatal(err)
	}
	stream := func() (int, string, bool) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/shared/"+token+"/events", nil)
		r.SetPathValue("token", token)
		w := httptest.NewRecorder()
		_, leave, ok := s.stream(w, r, x)
		if ok {
			leave()
		}
		return w.Code, w.Body.String(), ok
	}
	var left []func()
	for range maxStreams {
		leave, _ := s.shares.open(x, func() {})
		left = append(left, leave)
	}
	if code, text, ok := stream(); ok || code != 429 || !strings.Contains(text, "32 pages of this link are open") {
		t.Errorf("one more: %d, %t: %s", code, ok, text)
	}
	for _, leave := range left {
		leave()
	}
	if code, text, ok := stream(); !ok {
		t.Errorf("after they were closed: %d: %s", code, text)
	}
	if _, err := s.shares.end(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	if code, _, ok := stream(); ok || code == 200 {
		t.Errorf("the link was revoked: %d, %t", code, ok)
	}
}

// A password is not taken on a link that has ended, nor from one browser more than may look.
func TestW03_APasswordThatIsOfNoUse(t *testing.T) {
	s, _ := newSite(t)
	x := Share{
		Session: "s", Made: time.Now(), Ends: time.Now().Add(time.Hour), password: hashPassword("correct horse"),
	}
	token, err := s.shares.make(t.Context(), &x)
	if err != nil {
		t.Fatal(err)
	}
	try := func() (int, string) {
		got := s.send(t, "POST", "/shared/"+token, "password=correct+horse",
			"Content-Type", "application/x-www-form-urlencoded")
		body, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode, string(body)
	}
	for range maxLooks {
		if _, ok := s.shares.pass(x); !ok {
			t.Fatal("it does not take as many as may look")
		}
	}
	if code, text := try(); code != 429 || !strings.Contains(text, "1000 browsers have opened this link") {
		t.Errorf("one more: %d: %s", code, text)
	}
	if _, err := s.shares.end(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	if code, text := try(); code != 403 {
		t.Errorf("the link was revoked: %d: %s", code, text)
	}
}

// So many links work at once, and the refusal says how to end one.
func TestW03_LinksForViewersAreBounded(t *testing.T) {
	s, _ := newSite(t)
	s.host.Record = func(context.Context, tool.Note) error { return nil }
	x := Share{Session: "s", Made: time.Now(), Ends: time.Now().Add(time.Hour)}
	if _, err := s.shares.make(t.Context(), &x); err != nil {
		t.Fatal(err)
	}
	fill := `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
		INSERT INTO web_shares SELECT 'shr_' || i, 'token ' || i, session, viewer, password, maker, uid, gid, members,
			made, ends, 0 FROM web_shares, n`
	err := s.shares.db.Write(t.Context(), func(tx *sql.Tx) error { _, err := tx.Exec(fill); return err })
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/sessions/s/shares", strings.NewReader("{}"))
	r.SetPathValue("id", "s")
	_, err = s.share(r.WithContext(route.WithCaller(r.Context(), route.Caller{Account: "a"})))
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "too_many_requests" ||
		!strings.Contains(e.Hint, "share revoke") {
		t.Errorf("got %v", err)
	}
}
