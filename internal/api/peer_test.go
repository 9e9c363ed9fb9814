package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestWhoIsAnOperator: the operator socket admits root, the daemon's own uid and
// who is listed; the mode of the socket is not all that keeps others out.
func TestWhoIsAnOperator(t *testing.T) {
	registry, err := hooks.New(hooks.Options{})
	must(t, err)
	s := &Server{Options: Options{
		Hooks: registry,
		Callers: Callers{
			Operators: []int{4711}, OperatorGroups: []int{815}, Account: named(map[int]string{4712: "team"}),
		},
	}}
	const operator = tool.RoleOperator
	known := func(uid, gid int) peer { return peer{uid: uid, gid: gid, known: true} }
	for _, tt := range []struct {
		name    string
		role    tool.Role
		peer    peer
		header  string
		account string
		code    string
	}{
		{"root", operator, known(0, 0), "", tool.DefaultAccount, ""},
		{"the daemon's own uid", operator, known(os.Geteuid(), 0), "", tool.DefaultAccount, ""},
		{"a listed uid", operator, known(4711, 4711), "", tool.DefaultAccount, ""},
		{"a listed group", operator, known(4713, 815), "", tool.DefaultAccount, ""},
		{"for another account", operator, known(4711, 4711), "team", "team", ""},
		{"a stranger", operator, known(4713, 4713), "", "", "not_an_operator"},
		{"an account is no operator", operator, known(4712, 4712), "", "", "not_an_operator"},
		{"nobody that the kernel knows", operator, peer{}, "", "", "peer_unknown"},
		{"an agent", tool.RoleAgent, known(4712, 4712), "", "team", ""},
		{"an agent for another account", tool.RoleAgent, known(4712, 4712), tool.DefaultAccount, "team", ""},
		{"an agent that the kernel does not know", tool.RoleAgent, peer{}, "", "", "peer_unknown"},
		{"an agent without an account", tool.RoleAgent, known(4714, 4714), "", "", "account_refused"},
		{"an agent without one, for another", tool.RoleAgent, known(4714, 4714), "team", "", "account_refused"},
	} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), peerKey{}, tt.peer), "GET", "/status", nil)
		if tt.header != "" {
			r.Header.Set("X-Account-Id", tt.header)
		}
		r, _ = s.withAccount(r)
		got, err := s.identify(r, tt.role)
		if tt.code != "" {
			var refused route.Error
			if !errors.As(err, &refused) || refused.Said.Code != tt.code {
				t.Errorf("%s: got %+v, %v, want %s", tt.name, got, err, tt.code)
			}
			continue
		}
		if err != nil || got.Account != tt.account || got.Role != tt.role || got.UID != tt.peer.uid {
			t.Errorf("%s: got %+v, %v, want the account %s", tt.name, got, err, tt.account)
		}
		if want := tt.role == operator && tt.header == ""; got.Any != want {
			t.Errorf("%s: acts for any account: %v, want %v", tt.name, got.Any, want)
		}
	}
}

// The account of a request is found once: what the limits count is what the routes
// see.
func TestTheAccountIsFoundOnce(t *testing.T) {
	registry, err := hooks.New(hooks.Options{})
	must(t, err)
	s := &Server{Options: Options{Hooks: registry, Callers: Callers{Account: named(map[int]string{4712: "team"})}}}
	r, p := s.withAccount(requestOf(t, 4712))
	if p.account != "team" {
		t.Errorf("got account %q, want team", p.account)
	}
	s.Account = named(map[int]string{4712: "other"})
	if got, err := s.identify(r, tool.RoleAgent); err != nil || got.Account != "team" {
		t.Errorf("got %+v, %v, want account team", got, err)
	}
}

// An account that is over its limits costs the daemon nothing: the server behind
// the front, which is missing here, is not asked.
func TestLimitsComeBeforeEverything(t *testing.T) {
	s := &Server{Options: Options{
		Callers: Callers{Limits: budget.Limits{Concurrent: 1}, Account: named(map[int]string{4712: "team"})},
		Log:     slog.New(slog.DiscardHandler),
	}}
	f := NewFront(s)
	hold, err := f.budget.Request("team")
	must(t, err)
	defer hold.Release()
	w := httptest.NewRecorder()
	f.handler(tool.RoleAgent).ServeHTTP(w, requestOf(t, 4712))
	if body := w.Body.String(); w.Code != 429 || !strings.Contains(body, "account team") {
		t.Errorf("got %d %s, want 429 for account team", w.Code, body)
	}
}

// named are accounts by uid. No other uid but that of the tests is let in.
func named(names map[int]string) func(int) (string, bool) {
	return func(uid int) (string, bool) {
		if uid == os.Geteuid() {
			return tool.DefaultAccount, true
		}
		return names[uid], names[uid] != ""
	}
}

func requestOf(t *testing.T, uid int) *http.Request {
	t.Helper()
	p := peer{uid: uid, gid: uid, known: true}
	return httptest.NewRequestWithContext(context.WithValue(t.Context(), peerKey{}, p), "GET", "/status", nil)
}

// Where a user namespace has no number for some users, the kernel gives all of them the
// same. Only the namespace of the host has numbers for all.
func TestWhichNamespaceHasAllUsers(t *testing.T) {
	for ids, want := range map[string]bool{
		"         0          0 4294967295\n":                       true,
		"         0     100000      65536\n":                       false,
		"         0       1000          1\n":                       false,
		"      1000       1000          1\n":                       false,
		"         0       1000          1\n 1 100000 4294967294\n": false,
		"": false,
	} {
		if got := mapsAll(ids); got != want {
			t.Errorf("%q: got %v, want %v", ids, got, want)
		}
	}
	overflow, ids := userNamespace()
	if overflow <= 0 || ids == "" {
		t.Errorf("this namespace: %d, %q", overflow, ids)
	}
	if nameless(os.Geteuid()) && os.Geteuid() != overflow || nameless(overflow) == mapsAll(ids) {
		t.Errorf("nameless: %v for itself, %v for %d, in %q", nameless(os.Geteuid()), nameless(overflow), overflow, ids)
	}
}
