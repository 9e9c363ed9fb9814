package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestASocketWithoutADaemonHasItsCode, and what to do about it.
func TestASocketWithoutADaemonHasItsCode(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "x", Err: &net.OpError{Op: "dial", Err: os.ErrPermission}}
	away := &url.Error{Op: "Get", URL: "x", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	lost := &url.Error{Op: "Get", URL: "x", Err: &net.OpError{Op: "read", Err: os.ErrPermission}}
	for _, tt := range []struct {
		name            string
		err             error
		code, msg, hint string
	}{
		{"not allowed", refused, "daemon_unreachable", "this user may not connect to /s: permission", "log in anew"},
		{"nobody listens", away, "daemon_unreachable", "no daemon answers on /s: connection refused", "sandboxd serve"},
		{"it ended", lost, "connection_lost", "the daemon on /s ended before it answered", "sandboxd audit tail"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", "")
			e, ok := errors.AsType[*Error](New("/s").explain(t.Context(), tt.err))
			if !ok || e.Code != tt.code || !strings.HasPrefix(e.Msg, tt.msg) || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("got %+v", e)
			}
		})
	}
	long := New("/s").explain(t.Context(), fmt.Errorf("read events: %w", bufio.ErrTooLong))
	if _, ok := errors.AsType[*Error](long); ok || !errors.Is(long, bufio.ErrTooLong) {
		t.Errorf("an event that is too long: %v", long)
	}
	err := New(filepath.Join(t.TempDir(), "none.sock")).Do(t.Context(), "GET", "/jobs", nil, nil)
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != "daemon_unreachable" {
		t.Errorf("got %v", err)
	}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New("/s").Do(left, "GET", "/jobs", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
}

// TestOverSendsAnotherWay, and says "the daemon" where there is no socket.
func TestOverSendsAnotherWay(t *testing.T) {
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data": "x"}`) })
	got := ""
	if err := Over(c.http.Transport).Do(t.Context(), "GET", "/y", nil, &got); err != nil || got != "x" {
		t.Errorf("got %q, %v", got, err)
	}
	err := Over(to("127.0.0.1:1")).Do(t.Context(), "GET", "/y", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "no daemon answers on the daemon") {
		t.Errorf("got %v", err)
	}
}

// TestRequestsAndAnswersOfDo: JSON both ways, under /v1, and a failure that says what came.
func TestRequestsAndAnswersOfDo(t *testing.T) {
	for _, tt := range []struct {
		name         string
		in           any
		status       int
		answer       string
		kind, body   string
		out, failure string
	}{
		{"nothing sent", nil, 200, `{"data": "x"}`, "", "", "x", ""},
		{"sent", map[string]int{"a": 1}, 200, `{"data": "x"}`, "application/json", `{"a":1}`, "x", ""},
		{"no JSON", nil, 502, `<html>`, "", "", "", "read the answer of the daemon (502 Bad Gateway)"},
		{
			"a status alone", nil, 503, `{}`, "", "", "",
			"the daemon answered 503 Service Unavailable without saying why",
		},
		{"an error", nil, 200, `{"error": {"code": "c", "message": "why"}}`, "", "", "", "why"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := serving(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if kind := r.Header.Get("Content-Type"); kind != tt.kind || string(body) != tt.body ||
					r.URL.Path != "/v1/x" {
					t.Errorf("sent %q of %q to %s", body, kind, r.URL.Path)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.answer)
			})
			out := ""
			err := c.Do(t.Context(), "POST", "/x", tt.in, &out)
			if out != tt.out || (err == nil) != (tt.failure == "") ||
				err != nil && !strings.HasPrefix(err.Error(), tt.failure) {
				t.Errorf("got %q, %v", out, err)
			}
		})
	}
	if err := New("/s").Do(t.Context(), "POST", "/x", func() {}, nil); err == nil ||
		!strings.HasPrefix(err.Error(), "encode the request: ") {
		t.Errorf("what is no JSON: %v", err)
	}
}

// pages answers with so many numbers from offset on, and at most limit of them.
func pages(t *testing.T, total int, asked *[]string) *Client {
	return serving(t, func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Query().Get("offset"))
		limit, offset := 0, 0
		if _, err := fmt.Sscan(r.URL.Query().Get("limit"), &limit); err != nil {
			t.Error(err)
		}
		if _, err := fmt.Sscan(r.URL.Query().Get("offset"), &offset); err != nil {
			t.Error(err)
		}
		var page []map[string]any
		for n := offset; n < min(total, offset+limit); n++ {
			page = append(page, map[string]any{"name": fmt.Sprint(n)})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": page})
	})
}

// TestListsAreReadPageByPage, until a page is not full.
func TestListsAreReadPageByPage(t *testing.T) {
	for _, tt := range []struct {
		total int
		asked []string
	}{{0, []string{"0"}}, {99, []string{"0"}}, {100, []string{"0", "100"}}, {250, []string{"0", "100", "200"}}} {
		var asked []string
		all, err := pages(t, tt.total, &asked).Vars(t.Context(), "s", VarFilter{})
		if err != nil || len(all) != tt.total || !slices.Equal(asked, tt.asked) {
			t.Errorf("variables: %d of %d, asked at %v, %v", len(all), tt.total, asked, err)
		}
		asked = nil
		n := 0
		for m, err := range pages(t, tt.total, &asked).Messages(t.Context(), "s", 0) {
			if want := fmt.Sprintf(`{"name":"%d"}`, n); err != nil || string(m) != want {
				t.Fatalf("message %d: %s, %v", n, m, err)
			}
			n++
		}
		if n != tt.total || !slices.Equal(asked, tt.asked) {
			t.Errorf("messages: %d of %d, asked at %v", n, tt.total, asked)
		}
	}
	var asked []string
	for range pages(t, 250, &asked).Messages(t.Context(), "s", 50) {
		break
	}
	if !slices.Equal(asked, []string{"50"}) {
		t.Errorf("who breaks off had pages at %v", asked)
	}
	gone := serving(t, failing)
	if _, err := gone.Vars(t.Context(), "s", VarFilter{}); code(err) != "session_not_found" {
		t.Errorf("variables: %v", err)
	}
	n := 0
	for _, err := range gone.Messages(t.Context(), "s", 0) {
		if n++; code(err) != "session_not_found" {
			t.Errorf("messages: %v", err)
		}
	}
	if n != 1 {
		t.Errorf("a failure of messages came %d times", n)
	}
}

// failing is a daemon that knows no session.
func failing(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"error": {"code": "session_not_found", "message": "none"}}`)
}

func code(err error) string {
	e, _ := errors.AsType[*Error](err)
	if e == nil {
		return ""
	}
	return e.Code
}

// TestStreamsAreAskedForAndEnd as the daemon says, for events, a job and a lease.
func TestStreamsAreAskedForAndEnd(t *testing.T) {
	var heard []string
	hear := func(o Output) { heard = append(heard, o.Text) }
	events := func(c *Client) (string, error) {
		all, err := c.Events(t.Context(), EventFilter{})
		if err != nil {
			return "", err
		}
		got := ""
		for e, err := range all {
			if err != nil {
				return got, err
			}
			got += string(e.Type)
		}
		return got, nil
	}
	job := func(c *Client) (string, error) {
		j, err := c.FollowJob(t.Context(), "j", 0, hear)
		return j.State, err
	}
	unheard := func(c *Client) (string, error) {
		j, err := c.FollowJob(t.Context(), "j", 0, nil)
		return j.State, err
	}
	lease := func(c *Client) (string, error) {
		start := func(context.Context, Lease) LeaseEnd { return LeaseEnd{} }
		r, err := c.RunLease(t.Context(), "c", start, func(p Progress) {
			if p.Closed != nil {
				heard = append(heard, p.Closed.Host)
			}
		})
		return r.FinalText, err
	}
	output := "event: output\ndata: {\"stream\":\"stdout\",\"offset\":0,\"text\":\"o\"}\n\n"
	for _, tt := range []struct {
		name        string
		do          func(*Client) (string, error)
		body        string
		want, heard string
		code, says  string
	}{
		{"events", events, "event: a\ndata: {}\n\nevent: b\ndata: {}\n\n", "ab", "", "stream_ended", "connect again"},
		{"a broken event", events, "event: a\ndata: [\n\n", "", "", "", "unexpected end"},
		{
			"a job", job, output + "event: new\ndata: 1\n\nevent: end\ndata: {\"state\":\"exited\"}\n\n", "exited", "o",
			"", "",
		},
		{"a job of which nobody hears", unheard, output + "event: end\ndata: {\"state\":\"exited\"}\n\n", "exited", "", "", ""},
		{"a job that is cut", job, output, "", "o", "connection_lost", "audit tail"},
		{"a job with broken output", job, "event: output\ndata: [\n\n", "", "", "", "read the event output"},
		{
			"a lease that was denied", lease, "event: closed\ndata: {\"host\":\"h\"}\n\nevent: new\ndata: 1\n\n" +
				"event: result\ndata: {\"final_text\":\"no\"}\n\n", "no", "h", "", "",
		},
		{"a lease with a broken event", lease, "event: closed\ndata: [\n\n", "", "", "", "read the event closed"},
		{"a lease that is cut", lease, "event: begin\ndata: {}\n\n", "", "", "stream_ended", "connect again"},
		{"a lease that cannot be read", lease, "event: run\ndata: [\n\n", "", "", "", "read the call to start"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			heard = nil
			c := serving(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept"); got != "text/event-stream" {
					t.Errorf("accepts %q", got)
				}
				_, _ = io.WriteString(w, tt.body)
			})
			got, err := tt.do(c)
			said := fmt.Sprint(err)
			if e, ok := errors.AsType[*Error](err); ok {
				said += e.Hint
			}
			if got != tt.want || strings.Join(heard, "") != tt.heard || code(err) != tt.code ||
				(err == nil) != (tt.says == "") || !strings.Contains(said, tt.says) {
				t.Errorf("got %q, heard %q, and %s (%s)", got, heard, said, code(err))
			}
			if _, err := tt.do(serving(t, failing)); code(err) != "session_not_found" {
				t.Errorf("of a daemon that refuses: %v", err)
			}
			if _, err := tt.do(New(filepath.Join(t.TempDir(), "none.sock"))); code(err) != "daemon_unreachable" {
				t.Errorf("without a daemon: %v", err)
			}
		})
	}
}

// TestALeaseEndsAsTheDaemonSays: that it is not held any more is no failure of its own, since the
// stream has the result; another failure is one.
func TestALeaseEndsAsTheDaemonSays(t *testing.T) {
	for _, tt := range []struct{ ended, want, says string }{
		{`{"data": null}`, "done", ""},
		{`{"error": {"code": "call_not_held", "message": "cancelled"}}`, "done", ""},
		{`{"error": {"code": "bad_request", "message": "no"}}`, "", "tell the daemon how the call ended: no"},
	} {
		over := make(chan struct{})
		c := serving(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/ended") {
				_, _ = io.WriteString(w, tt.ended)
				close(over)
				return
			}
			_, _ = io.WriteString(w, "event: run\ndata: {\"call_id\":\"c\"}\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-over:
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, "event: result\ndata: {\"final_text\":\"done\"}\n\n")
		})
		r, err := c.RunLease(t.Context(), "c", func(context.Context, Lease) LeaseEnd { return LeaseEnd{} }, nil)
		if r.FinalText != tt.want || (err == nil) != (tt.says == "") || err != nil && err.Error() != tt.says {
			t.Errorf("%s: got %q, %v", tt.ended, r.FinalText, err)
		}
	}
}

// TestWhatRequestsName: each method sends what it was given.
func TestWhatRequestsName(t *testing.T) {
	args := json.RawMessage(`{"a":1}`)
	for _, tt := range []struct {
		want string
		do   func(c *Client) error
	}{
		{"GET /v1/jobs ", func(c *Client) error { _, err := c.Jobs(t.Context(), ""); return err }},
		{"GET /v1/jobs?session_id=a+b ", func(c *Client) error { _, err := c.Jobs(t.Context(), "a b"); return err }},
		{`POST /v1/sessions/s/calls?output=false {"tool":"Bash","args":{"a":1}}`, func(c *Client) error {
			_, err := c.Follow(t.Context(), "s", "Bash", args, nil)
			return err
		}},
		{`POST /v1/sessions/s/calls {"tool":"Bash","args":{"a":1}}`, func(c *Client) error {
			_, err := c.Stream(t.Context(), "s", "Bash", args, nil)
			return err
		}},
		{"GET /v1/sessions/s/origins ", func(c *Client) error { _, err := c.Origins(t.Context(), "s"); return err }},
		{"POST /v1/sessions/s%2Ft/origins/reset {}", func(c *Client) error { return c.ResetOrigins(t.Context(), "s/t") }},
		{`POST /v1/sessions/s/calls {"args":{"a":1},"tool":"Bash"}`, func(c *Client) error {
			_, err := c.Call(t.Context(), "s", "Bash", args)
			return err
		}},
		{`POST /v1/sessions/s/calls?output=false {"tool":"Bash","args":{"a":1},"tool_use_id":"u"}`, func(c *Client) error {
			_, err := c.FollowCall(t.Context(), "s", CallRequest{Tool: "Bash", Args: args, ToolUseID: "u"}, nil)
			return err
		}},
		{`POST /v1/sessions {"cwd":"/d","reuse":true,"tag":"cli"}`, func(c *Client) error {
			_, err := c.SessionFor(t.Context(), "/d")
			return err
		}},
		{"GET /v1/sessions/s/vars?limit=100&offset=0&search=q&tag=g&type=t ", func(c *Client) error {
			_, err := c.Vars(t.Context(), "s", VarFilter{Type: "t", Tag: "g", Search: "q"})
			return err
		}},
		{"GET /v1/sessions/s/vars/a%2Fb ", func(c *Client) error { _, err := c.Var(t.Context(), "s", "a/b"); return err }},
		{`PUT /v1/sessions/s/vars/n {"value":"x","keep":false}`, func(c *Client) error {
			_, err := c.PutVar(t.Context(), "s", "n", VarChange{Value: "x", Keep: new(bool)})
			return err
		}},
		{`POST /v1/calls/c/connect {"host":"h","port":1,"protocol":"tls","via":"fetch"}`, func(c *Client) error {
			_, err := c.LeaseConnects(t.Context(), "c", LeaseConnection{Host: "h", Port: 1, Protocol: "tls", Via: "fetch"})
			return err
		}},
		{
			"GET /v1/variables/resolve?branch_id=b&floor_id=f&include_layers=true&page_id=p&session_id=s ",
			func(c *Client) error {
				_, err := c.ResolveContext(t.Context(), VariablePlace{Session: "s", Branch: "b", Floor: "f", Page: "p"})
				return err
			},
		},
		{"GET /v1/pages/p/variables/staged ", func(c *Client) error {
			_, err := c.GetPageStagedWrites(t.Context(), "p")
			return err
		}},
		{"GET /v1/pages/p/variables/promotions ", func(c *Client) error {
			_, err := c.GetPagePromotions(t.Context(), "p")
			return err
		}},
		{"GET /v1/variables?key=k&limit=100&offset=0&sort_order=asc ", func(c *Client) error {
			_, err := c.ScopedVariables(t.Context(), url.Values{"key": {"k"}})
			return err
		}},
		{"GET /v1/sessions/s/branches?limit=100&offset=0&sort_by=branch_id&sort_order=asc ", func(c *Client) error {
			_, err := c.Branches(t.Context(), "s")
			return err
		}},
		{"GET /v1/floors?limit=100&offset=0&session_id=s&sort_by=floor_no&sort_order=asc ", func(c *Client) error {
			_, err := c.Floors(t.Context(), "s")
			return err
		}},
		{"GET /v1/pages?floor_id=f&limit=100&offset=0&sort_by=page_no&sort_order=asc ", func(c *Client) error {
			_, err := c.Pages(t.Context(), "f")
			return err
		}},
		{"GET /v1/jobs/j ", func(c *Client) error { _, err := c.Job(t.Context(), "j"); return err }},
		{"GET /v1/jobs/j/output?offset=7 ", func(c *Client) error { _, err := c.ReadJob(t.Context(), "j", 7); return err }},
		{`POST /v1/jobs/j/input {"end":true,"text":"x"}`, func(c *Client) error {
			return c.TypeIntoJob(t.Context(), "j", "x", true)
		}},
		{`POST /v1/jobs/j/forwards {"at":8,"port":7}`, func(c *Client) error {
			_, err := c.ForwardJob(t.Context(), "j", 7, 8)
			return err
		}},
		{"DELETE /v1/jobs/j/forwards/7 ", func(c *Client) error { return c.EndForward(t.Context(), "j", 7) }},
		{"POST /v1/jobs/j/stop ", func(c *Client) error { _, err := c.StopJob(t.Context(), "j"); return err }},
		{"GET /v1/events?session_id=s&type=a&type=b ", func(c *Client) error {
			_, err := c.Events(t.Context(), EventFilter{Types: []string{"a", "b"}, Sessions: []string{"s"}})
			return err
		}},
		{`POST /v1/sessions/s/vars/remove {"names":["n"]}`, func(c *Client) error {
			_, _, err := c.RemoveVars(t.Context(), "s", "n")
			return err
		}},
	} {
		got := ""
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = r.Method + " " + r.URL.RequestURI() + " " + string(body)
			_, _ = io.WriteString(w, `{"data": null}`)
		}))
		if err := tt.do(Over(to(srv.Listener.Addr().String()))); err != nil || got != tt.want {
			t.Errorf("got %s, %v, want %s", got, err, tt.want)
		}
		srv.Close()
	}
}
