package approvals

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// endpoint is the other side of a webhook.
type endpoint struct {
	answers []int // status codes in turn; 0 is a broken connection; then 200
	bodies  []string
	heads   []http.Header
	at      []time.Time
}

func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	e.bodies, e.heads, e.at = append(e.bodies, string(body)), append(e.heads, r.Header), append(e.at, time.Now())
	code := 200
	if n := len(e.bodies) - 1; n < len(e.answers) {
		code = e.answers[n]
	}
	if code == 0 {
		return nil, errors.New("connection reset")
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Body: http.NoBody, Request: r}, nil
}

const webhookSecret = "0123456789abcdef"

// withWebhook runs f while a webhook listens.
func withWebhook(t *testing.T, e *endpoint, f func(*testing.T, *Queue)) (failed []string) {
	t.Helper()
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			h := Webhook{URL: "https://example.com/hook", Secret: webhookSecret, Client: &http.Client{Transport: e}}
			done <- q.Notify(ctx, h.Send, func(id string, _ error) { failed = append(failed, id) })
		}()
		synctest.Wait()
		f(t, q)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := q.Close(""); err != nil {
			t.Error(err)
		}
	})
	return failed
}

func TestWebhookIsSignedAndSaysNothingSecret(t *testing.T) {
	e := &endpoint{}
	withWebhook(t, e, func(t *testing.T, q *Queue) {
		start(t.Context(), q.Execution, bashCall("echo hunter2"))
		var n Notice
		if len(e.bodies) != 1 {
			t.Fatalf("got %d requests, want 1", len(e.bodies))
		}
		if err := json.Unmarshal([]byte(e.bodies[0]), &n); err != nil || n.Tool != "Bash" ||
			n.ID != onlyPending(t, q).ID || len(n.Why) != 1 || n.Type != "execution" || n.SessionID != "s1" {
			t.Errorf("got %+v, %v", n, err)
		}
		if i := onlyPending(t, q); n.Event != EventAsked || n.CreatedAt.IsZero() || !n.CreatedAt.Equal(i.CreatedAt) ||
			n.ExpiresAt.IsZero() || !n.ExpiresAt.Equal(i.ExpiresAt) {
			t.Errorf("got %+v, want the times of %+v", n, i)
		}
		if strings.Contains(e.bodies[0], "hunter2") {
			t.Error("the arguments leave the host")
		}
		at := e.heads[0].Get("X-Sandboxd-Timestamp")
		if at != strconv.FormatInt(time.Now().Unix(), 10) {
			t.Errorf("its time is %q", at)
		}
		m := hmac.New(sha256.New, []byte(webhookSecret)) // as the other side computes it, which has the documents alone
		m.Write([]byte(at + "." + e.bodies[0]))
		if got, want := e.heads[0].Get("X-Sandboxd-Signature"), fmt.Sprintf("sha256=%x", m.Sum(nil)); got != want {
			t.Errorf("got signature %q, want %q", got, want)
		}
	})
}

func TestWebhookRetries(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []int
		tries   int
		failed  int
	}{
		{"a broken connection and an error of the server", []int{0, 503, 429}, 4, 0},
		{"for ever", []int{500, 500, 500, 500, 500, 500, 500}, 6, 1},
		{"a refusal is final", []int{403}, 1, 1},
		{"a redirect is not followed", []int{302}, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &endpoint{answers: tt.answers}
			failed := withWebhook(t, e, func(t *testing.T, q *Queue) {
				start(t.Context(), q.Execution, bashCall("x"))
				time.Sleep(time.Minute)
			})
			if len(e.bodies) != tt.tries || len(failed) != tt.failed {
				t.Errorf("got %d tries and %d failures, want %d and %d", len(e.bodies), len(failed), tt.tries, tt.failed)
			}
			for n := 1; n < len(e.at); n++ {
				if got, want := e.at[n].Sub(e.at[n-1]), time.Second<<(n-1); got != want {
					t.Errorf("try %d came after %v, want %v", n, got, want)
				}
			}
		})
	}
}

func TestWebhookStopsWhenTheQuestionIsAnswered(t *testing.T) {
	e := &endpoint{answers: []int{0, 0, 0, 0, 0, 0}}
	withWebhook(t, e, func(t *testing.T, q *Queue) {
		done := start(t.Context(), q.Execution, bashCall("x"))
		decide(t, q, onlyPending(t, q).ID, Decision{})
		<-done
		time.Sleep(time.Minute)
	})
	if len(e.bodies) != 1 {
		t.Errorf("got %d tries, want 1", len(e.bodies))
	}
}

func TestWebhookLosesNothingWhenItFallsBehind(t *testing.T) {
	const before, n = 3, subscriberBuffer + 10
	e := &endpoint{answers: []int{500}} // the first retry leaves time for the rest
	inBubble(t, Options{MaxPerSession: n}, func(t *testing.T, q *Queue) {
		for i := range before {
			start(t.Context(), q.Execution, bashCall(strings.Repeat("x", i+1)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			h := Webhook{URL: "http://h", Secret: webhookSecret, Client: &http.Client{Transport: e}}
			done <- q.Notify(ctx, h.Send, func(string, error) {})
		}()
		synctest.Wait() // it waits to retry the first
		for i := range n {
			c := bashCall(strings.Repeat("y", i+1))
			c.Session.ID = "s2"
			start(t.Context(), q.Execution, c)
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		seen := map[string]bool{}
		for _, body := range e.bodies {
			seen[body] = true
		}
		if want := before + n; len(seen) != want || len(e.bodies) != want+1 {
			t.Errorf("got %d notices in %d requests, want %d in %d", len(seen), len(e.bodies), want, want+1)
		}
		if err := q.Close(""); err != nil {
			t.Error(err)
		}
	})
}

func TestWebhookCheck(t *testing.T) {
	for _, tt := range []struct {
		url, secret string
		ok          bool
	}{
		{"https://example.com/x", webhookSecret, true},
		{"http://127.0.0.1:8080", webhookSecret, true},
		{"https://example.com/x", "short", false},
		{"https://example.com/x", "", false},
		{"file:///etc/passwd", webhookSecret, false},
		{"example.com", webhookSecret, false},
		{"", webhookSecret, false},
		{"http://[", webhookSecret, false},
	} {
		err := Webhook{URL: tt.url, Secret: tt.secret}.Check()
		if (err == nil) != tt.ok {
			t.Errorf("%q %q: got %v, want ok %v", tt.url, tt.secret, err, tt.ok)
		}
	}
}

// TestANoticeIsNotLedAway: a question holds arguments, and goes where the operator
// said.
func TestANoticeIsNotLedAway(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s came by a redirect", r.Method)
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		again, err := Webhook{URL: s.URL, Secret: webhookSecret}.Send(t.Context(), []byte(`{}`))
		if err == nil || again {
			t.Errorf("%d: got %v, %v, want an error that no other try mends", status, again, err)
		}
		s.Close()
	}
}
