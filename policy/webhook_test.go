package policy

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

	"github.com/sandboxd/sandboxd/tool"
)

func TestP08_AWebhookAnswersOrTheCallIsDenied(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   tool.Verdict
		by     tool.By
	}{
		{"allow", 200, `{"behavior": "allow"}`, tool.Allow, tool.ByRule},
		{"deny", 200, `{"behavior": "deny", "message": "no"}`, tool.Deny, tool.ByRule},
		{"ask", 200, `{"behavior": "ask"}`, tool.Ask, tool.ByRule},
		{"no opinion", 200, `{}`, tool.Ask, tool.ByMode},
		{"no content", 204, ``, tool.Ask, tool.ByMode},
		{"another status", 500, `{"behavior": "allow"}`, tool.Deny, tool.ByCore},
		{"a redirect", 302, `{"behavior": "allow"}`, tool.Deny, tool.ByCore},
		{"an empty answer", 200, ``, tool.Deny, tool.ByCore},
		{"no JSON", 200, `allow`, tool.Deny, tool.ByCore},
		{"an unknown behavior", 200, `{"behavior": "yes"}`, tool.Deny, tool.ByCore},
		{"an unknown field", 200, `{"behavior": "allow", "x": 1}`, tool.Deny, tool.ByCore},
		{"two answers", 200, `{"behavior": "allow"} {}`, tool.Deny, tool.ByCore},
		{"a message alone", 200, `{"message": "no"}`, tool.Deny, tool.ByCore},
		{"input with a deny", 200, `{"behavior": "deny", "updatedInput": {}}`, tool.Deny, tool.ByCore},
		{"too much", 200, `{"message": "` + strings.Repeat("x", maxOpinionBytes) + `"}`, tool.Deny, tool.ByCore},
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
			e := newEngine(t, Options{CanUseTool: Webhook(s.URL, 10*time.Second)})
			d := decide(t, e, newCall(t, ModeDefault, "Todo", map[string]any{}))
			if d.Verdict != tt.want || d.By != tt.by {
				t.Errorf("%s by %s, want %s by %s: %+v", d.Verdict, d.By, tt.want, tt.by, d.Reasons)
			}
		})
	}
}

func TestAWebhookThatDoesNotAnswerDenies(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // else the server does not see that the client left
		<-r.Context().Done()
	}))
	defer s.Close()
	e := newEngine(t, Options{CanUseTool: Webhook(s.URL, time.Millisecond)})
	d := decide(t, e, newCall(t, ModeBypassPermissions, "Todo", map[string]any{}))
	if d.Verdict != tool.Deny || d.Reasons[0].Rule != "core.callback" {
		t.Errorf("%+v, want a deny by core.callback", d)
	}
}

func TestACommandAnswersOrTheCallIsDenied(t *testing.T) {
	for _, tt := range []struct {
		name, out string
		err       error
		want      tool.Verdict
	}{
		{"allow", `{"behavior": "allow"}`, nil, tool.Allow},
		{"no output", "\n", nil, tool.Ask},
		{"a failure", `{"behavior": "allow"}`, errors.New("exit status 1"), tool.Deny},
		{"no JSON", "ok", nil, tool.Deny},
	} {
		run := func(context.Context, []byte) ([]byte, error) { return []byte(tt.out), tt.err }
		e := newEngine(t, Options{CanUseTool: Command(time.Minute, run)})
		if d := decide(t, e, newCall(t, ModeDefault, "Todo", map[string]any{})); d.Verdict != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, d.Verdict, tt.want)
		}
	}
}

func TestACommandThatDoesNotEndDenies(t *testing.T) {
	e := newEngine(t, Options{CanUseTool: Command(time.Millisecond, func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return []byte(`{"behavior": "allow"}`), nil
	})})
	d := decide(t, e, newCall(t, ModeBypassPermissions, "Todo", map[string]any{}))
	if d.Verdict != tool.Deny || d.Reasons[0].Rule != "core.callback" {
		t.Errorf("%+v, want a deny by core.callback", d)
	}
}
