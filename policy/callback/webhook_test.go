package callback

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// answers holds what a callback says about a call against what it must say: an opinion
// with this verdict, none, or an error.
func answers(t *testing.T, name string, ask CanUseTool, want string) {
	t.Helper()
	c := Context{Session: tool.Session{ID: "s1"}}
	o, err := ask(t.Context(), "Todo", json.RawMessage(`{}`), c)
	got := "none"
	switch {
	case err != nil && o == nil:
		got = "error"
	case o != nil:
		got = o.Verdict.String()
	}
	if got != want {
		t.Errorf("%s: %s, want %s: %+v, %v", name, got, want, o, err)
	}
}

func TestP08_AWebhookAnswersOrFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"allow", 200, `{"behavior": "allow"}`, "allow"},
		{"deny", 200, `{"behavior": "deny", "message": "no"}`, "deny"},
		{"ask", 200, `{"behavior": "ask"}`, "ask"},
		{"no opinion", 200, `{}`, "none"},
		{"no content", 204, ``, "none"},
		{"another status", 500, `{"behavior": "allow"}`, "error"},
		{"a redirect", 302, `{"behavior": "allow"}`, "error"},
		{"an empty answer", 200, ``, "error"},
		{"no JSON", 200, `allow`, "error"},
		{"an unknown behavior", 200, `{"behavior": "yes"}`, "error"},
		{"an unknown field", 200, `{"behavior": "allow", "x": 1}`, "error"},
		{"a behavior given twice", 200, `{"behavior": "deny", "behavior": "allow"}`, "error"},
		{"a behavior in two cases", 200, `{"behavior": "deny", "Behavior": "allow"}`, "error"},
		{"no object", 200, `null`, "error"},
		{"two answers", 200, `{"behavior": "allow"} {}`, "error"},
		{"a message alone", 200, `{"message": "no"}`, "error"},
		{"input with a deny", 200, `{"behavior": "deny", "updatedInput": {}}`, "error"},
		{"too much", 200, `{"behavior": "allow", "message": "` + strings.Repeat("x", maxOpinionBytes) + `"}`, "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var q question
				if b, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(b, &q) != nil || q.Tool != "Todo" || q.Session != "s1" {
					t.Errorf("the question is %s", b)
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer s.Close()
			answers(t, tt.name, Webhook(s.URL, 10*time.Second), tt.want)
		})
	}
}

// A program reads on stdin what a webhook gets by POST.
func TestTheQuestionSaysWhichCall(t *testing.T) {
	const want = `{"tool":"Bash","input":{"command":"ls"},"session_id":"s1","mode":"auto","cwd":"/src"}`
	c := Context{Session: tool.Session{ID: "s1", Mode: tool.ModeAuto, Dir: "/src"}}
	var posted, typed, stdin string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posted, typed = r.Method+" "+string(b), r.Header.Get("Content-Type")
		io.WriteString(w, `{"behavior": "allow", "updatedInput": {"command": "true"}}`)
	}))
	defer s.Close()
	run := func(_ context.Context, in []byte) ([]byte, error) {
		stdin = string(in)
		return []byte(`{"behavior": "deny", "message": "no"}`), nil
	}
	args := json.RawMessage(`{"command":"ls"}`)
	allow, err := Webhook(s.URL, time.Minute)(t.Context(), "Bash", args, c)
	if err != nil || string(allow.Input) != `{"command": "true"}` || posted != "POST "+want ||
		typed != "application/json" {
		t.Errorf("a webhook got %s of %s and said %+v, %v; want POST %s", posted, typed, allow, err, want)
	}
	deny, err := Command(time.Minute, run)(t.Context(), "Bash", args, c)
	if err != nil || deny.Reason != "no" || stdin != want {
		t.Errorf("a program got %s and said %+v, %v; want %s", stdin, deny, err, want)
	}
}

// A program that looks for a text in the question finds it, whatever the model wrote.
func TestTheQuestionHasOneSpelling(t *testing.T) {
	var posted, stdin string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posted = string(b)
		io.WriteString(w, `{}`)
	}))
	defer s.Close()
	run := func(_ context.Context, in []byte) ([]byte, error) {
		stdin = string(in)
		return nil, nil
	}
	args := json.RawMessage(`{"c\u006fmmand": "\u006dake deploy >x"}`)
	const want = `{"tool":"Bash","input":{"command":"make deploy >x"},"session_id":"","mode":"","cwd":""}`
	for _, ask := range []CanUseTool{Webhook(s.URL, time.Minute), Command(time.Minute, run)} {
		if _, err := ask(t.Context(), "Bash", args, Context{}); err != nil {
			t.Error(err)
		}
		if _, err := ask(t.Context(), "Bash", json.RawMessage(`{"a":1,"a":2}`), Context{}); err == nil {
			t.Error("a question that two readers understand differently was asked")
		}
	}
	if posted != want || stdin != want {
		t.Errorf("a webhook got %s, a program %s; want %s", posted, stdin, want)
	}
}

func TestAWebhookThatDoesNotAnswerFails(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // else the server does not see that the client left
		<-r.Context().Done()
	}))
	defer s.Close()
	answers(t, "a webhook that hangs", Webhook(s.URL, time.Millisecond), "error")
}

func TestACommandAnswersOrFails(t *testing.T) {
	for _, tt := range []struct {
		name, out string
		err       error
		want      string
	}{
		{"allow", `{"behavior": "allow"}`, nil, "allow"},
		{"no output", "\n", nil, "none"},
		{"a failure", `{"behavior": "allow"}`, errors.New("exit status 1"), "error"},
		{"no JSON", "ok", nil, "error"},
		{"too much", `{"behavior": "allow", "message": "` + strings.Repeat("x", maxOpinionBytes) + `"}`, nil, "error"},
	} {
		run := func(context.Context, []byte) ([]byte, error) { return []byte(tt.out), tt.err }
		answers(t, tt.name, Command(time.Minute, run), tt.want)
	}
}

func TestACommandThatDoesNotEndFails(t *testing.T) {
	answers(t, "a command that hangs", Command(time.Millisecond, func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return []byte(`{"behavior": "allow"}`), nil
	}), "error")
}

// TestAWebhookIsNotLedAway: the question goes where the operator said, and nobody
// else answers it.
func TestAWebhookIsNotLedAway(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s came by a redirect", r.Method)
		io.WriteString(w, `{"behavior": "allow"}`)
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		opinion, err := Webhook(s.URL, time.Minute)(t.Context(), "Todo", json.RawMessage(`{}`), Context{})
		if err == nil || opinion != nil {
			t.Errorf("%d: got %+v, %v, want an error", status, opinion, err)
		}
		s.Close()
	}
}
