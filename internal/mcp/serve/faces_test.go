package serve

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// empty is a daemon whose sessions have nothing. It notes the sessions that it is asked to make.
type empty struct{ made *[]string }

func (e empty) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"data":[]}`
	switch {
	case strings.HasSuffix(r.URL.Path, "/events"):
		<-r.Context().Done()
		return nil, r.Context().Err()
	case strings.HasSuffix(r.URL.Path, "/sessions"):
		in, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		*e.made = append(*e.made, strings.TrimSpace(string(in)))
		body = `{"data":{"id":"s` + strconv.Itoa(len(*e.made)) + `"}}`
	}
	in := io.NopCloser(strings.NewReader(body))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: in}, nil
}

// A caller has sixteen sessions of MCP at once. One more takes the place of one that is idle, and there is none for it
// while all are busy; another caller is not asked to wait for that.
func TestM24_ACallerHasSixteenSessionsOfMCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHTTP(client.Over(empty{}), "v1", slog.New(slog.DiscardHandler))
		defer h.Close()
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		open := func(caller, key string) (*bound, error) { return h.face(r, caller, key, "s1", "", false) }
		var first *bound
		for i := range 16 {
			b, err := open("ann", strconv.Itoa(i))
			if err != nil {
				t.Fatalf("session %d: %v", i, err)
			}
			if first == nil {
				first = b
			}
		}
		_, err := open("ann", "more")
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "too_many_requests" {
			t.Errorf("one more: %v", err)
		}
		if _, err := open("bob", "own"); err != nil {
			t.Errorf("of another caller: %v", err)
		}
		time.Sleep(time.Second)
		first.serving = 0 // its request has ended
		if _, err := open("ann", "more"); err != nil || h.faces[first.key] != nil {
			t.Errorf("beside an idle one: %v", err)
		}
	})
}

func TestM24_ASessionOfMCPThatNobodyUsesEndsAfterHalfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHTTP(client.Over(empty{}), "v1", slog.New(slog.DiscardHandler))
		defer h.Close()
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		for _, key := range []string{"idle", "busy"} {
			b, err := h.face(r, "ann", key, "s1", "", false)
			if err != nil {
				t.Fatal(err)
			}
			if key == "idle" {
				b.serving = 0
			}
		}
		is := func(when string, want int) {
			t.Helper()
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(h.faces) != want || h.faces["busy"] == nil {
				t.Errorf("%s there are %d", when, len(h.faces))
			}
		}
		time.Sleep(29 * time.Minute)
		is("after 29 minutes", 2)
		time.Sleep(3 * time.Minute)
		is("after half an hour", 1)
	})
}

// A page whose host name was made to lead here, and a page of another site, reach nothing.
func TestM24_OnlyThisMachineIsNamed(t *testing.T) {
	for _, tt := range []struct{ host, origin, want string }{
		{"localhost", "", ""},
		{"sandboxd", "", ""}, // of a client on a Unix socket
		{"127.0.0.1:80", "http://localhost:3000", ""},
		{"[::1]:80", "http://[::1]", ""},
		{"evil.test", "", "host_refused"},
		{"192.0.2.7", "", "host_refused"},
		{"localhost", "https://evil.test", "host_refused"},
		{"localhost", "http://192.0.2.7:80", "host_refused"},
		{"localhost", "http://[", "validation_error"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Host = tt.host
		r.Header.Set("Origin", tt.origin)
		got := ""
		if e, ok := errors.AsType[route.Error](ours(r)); ok {
			got = e.Said.Code
		}
		if got != tt.want {
			t.Errorf("host %s, origin %s: got %q, want %q", tt.host, tt.origin, got, tt.want)
		}
	}
}

// The headers say which session is served, or where it is made. Without sessions of MCP there is one for each caller
// and directory, whoever asks how often.
func TestM24_WhichSessionOfTheDaemonIsServed(t *testing.T) {
	var made []string
	h := NewHTTP(client.Over(empty{&made}), "v1", slog.New(slog.DiscardHandler))
	t.Cleanup(h.Close)
	ask := func(version, uid, session, dir string) string {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set(versionHeader, version)
		r.Header.Set("Sandboxd-Session", session)
		r.Header.Set("Sandboxd-Cwd", dir)
		b, _, err := h.find(r, route.Caller{Account: uid}, "initialize")
		if err != nil {
			t.Fatal(err)
		}
		return b.Session
	}
	const old, newest = "2025-11-25", "2026-07-28"
	for _, tt := range []struct{ name, version, uid, session, dir, want, made string }{
		{"a session that there is", old, "ann", "ses_1", "/w", "ses_1", ""},
		{"one that there is, the other way", newest, "ann", "ses_1", "", "ses_1", ""},
		{"a directory", old, "ann", "", "/w", "s1", `{"cwd":"/w","tag":"mcp"}`},
		{"the same again", old, "ann", "", "/w", "s2", `{"cwd":"/w","tag":"mcp"}`},
		{"none", old, "ann", "", "", "s3", `{"tag":"mcp"}`},
		{"a directory, the other way", newest, "ann", "", "/w", "s4", `{"cwd":"/w","reuse":true,"tag":"mcp"}`},
		{"that again", newest, "ann", "", "/w", "s4", ""},
		{"another directory", newest, "ann", "", "/x", "s5", `{"cwd":"/x","reuse":true,"tag":"mcp"}`},
		{"another account", newest, "bob", "", "/w", "s6", `{"cwd":"/w","reuse":true,"tag":"mcp"}`},
	} {
		before := len(made)
		got := ask(tt.version, tt.uid, tt.session, tt.dir)
		if said := strings.Join(made[before:], "; "); got != tt.want || said != tt.made {
			t.Errorf("%s: session %s, want %s; it was made by %s, want %s", tt.name, got, tt.want, said, tt.made)
		}
	}
}

// The id of a session of MCP is of use to its caller alone: another account, and the account as another user, are told
// that there is none.
func TestM24_ASessionOfMCPIsOfItsCallerAlone(t *testing.T) {
	h := NewHTTP(client.Over(empty{}), "v1", slog.New(slog.DiscardHandler))
	defer h.Close()
	ann := route.Caller{Role: tool.RoleAgent, Account: "ann", UID: 1001, GID: 1001}
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set(SessionHeader, "s1")
	b, _, err := h.find(r, ann, "initialize")
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(idHeader, b.key)
	if got, _, err := h.find(r, ann, "tools/list"); err != nil || got != b {
		t.Errorf("its caller: %v", err)
	}
	bob, other := ann, ann
	bob.Account, other.UID = "bob", 1002
	for _, me := range []route.Caller{bob, other} {
		_, _, err := h.find(r, me, "tools/list")
		if e, ok := errors.AsType[route.Error](err); !ok || e.Status != http.StatusNotFound {
			t.Errorf("%s, uid %d: %v", me.Account, me.UID, err)
		}
	}
}
