package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// waitingQuestion is a question, as an operator finds it.
type waitingQuestion struct {
	ID      string `json:"id"`
	RunsAs  string `json:"runs_as"`
	Waiting int    `json:"waiting"`
}

// next waits until a call has ended, or until a question waits for so many callers.
func (d *running) next(ended <-chan string, callers int) (out string, q waitingQuestion) {
	d.t.Helper()
	for {
		select {
		case out = <-ended:
			return out, waitingQuestion{}
		default:
		}
		var all []waitingQuestion
		if err := d.operator.Do(d.t.Context(), "GET", "/approvals", nil, &all); err != nil {
			d.t.Fatal(err)
		}
		if len(all) > 0 && all[0].Waiting == callers {
			return "", all[0]
		}
	}
}

// post sends a request, and the answer later.
func (c *caller) post(ctx context.Context, path, body string) <-chan string {
	out := make(chan string, 1)
	go func() {
		defer close(out)
		req, err := http.NewRequestWithContext(ctx, "POST", "http://sandboxd/v1"+path, bytes.NewBufferString(body))
		if err != nil {
			out <- err.Error()
			return
		}
		res, err := c.http.Do(req)
		if err != nil {
			out <- err.Error()
			return
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		out <- fmt.Sprint(string(raw), err)
	}()
	return out
}

// An answer for one uid is none for another uid of the same account: not one that came late, not
// one that is remembered, and not a call that is held.
func TestAccounts_AnAnswerIsForOneUser(t *testing.T) {
	d := newShared(t, "accounts: {64101: team, 64102: team}\nsandbox: {autoAllowBashIfSandboxed: false}\n")
	session := d.as(alice).session("")
	if err := d.operator.Do(t.Context(), "PATCH", "/sessions/"+session, map[string]any{"mode": "default"}, nil); err != nil {
		t.Fatal(err)
	}
	send := func(ctx context.Context, uid int, command string) <-chan string {
		body := fmt.Sprintf(`{"tool":"Bash","args":{"command":%q}}`, command)
		return d.as(uid).post(ctx, "/sessions/"+session+"/calls", body)
	}
	answer := func(q waitingQuestion, a map[string]any) {
		t.Helper()
		if err := d.operator.Do(t.Context(), "POST", "/approvals/"+q.ID, a, nil); err != nil {
			t.Fatal(err)
		}
	}
	yes, always := map[string]any{"approved": true}, map[string]any{"approved": true, "remember": "always"}
	no := map[string]any{"approved": false}

	const late, known = "id -u > late; id -u", "id -u > known; id -u"
	// only is a call that was answered for alice: bob is asked about it, and she is not.
	only := func(command string) {
		t.Helper()
		c := send(t.Context(), bob, command)
		out, q := d.next(c, 1)
		if !strings.HasPrefix(q.RunsAs, "uid 64102, gid 64102") {
			t.Fatalf("bob, %s: asked with the rights %q, or answered: %s", command, q.RunsAs, out)
		}
		answer(q, no)
		if out := <-c; !strings.Contains(out, "EXECUTION_REJECTED") {
			t.Errorf("bob, %s: %s", command, out)
		}
		if out, q := d.next(send(t.Context(), alice, command), 1); !strings.Contains(out, "SUCCESS") {
			t.Fatalf("alice, %s: asked %+v, got %s", command, q, out)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	gone := send(ctx, alice, late)
	if out, q := d.next(gone, 1); !strings.HasPrefix(q.RunsAs, "uid 64101, gid 64101") {
		t.Fatalf("alice's question names the rights %q, or there is none: %s", q.RunsAs, out)
	}
	leave()
	<-gone
	_, q := d.next(nil, 0)
	answer(q, yes)
	only(late)

	kept := send(t.Context(), alice, known)
	if _, q = d.next(kept, 1); q.ID == "" {
		t.Fatal("alice was not asked")
	}
	answer(q, always)
	if out := <-kept; !strings.Contains(out, "SUCCESS") {
		t.Fatal(out)
	}
	only(known)

	held := d.as(alice).ask("POST", "/decide", fmt.Sprintf(
		`{"session_id":%q,"tool":"Bash","args":{"command":%q},"hold":true,"wait":true}`, session, known))
	var call struct {
		ID string `json:"call_id"`
	}
	if err := json.Unmarshal(held.Data, &call); err != nil || call.ID == "" || held.Status != http.StatusOK {
		t.Fatal(held.Raw)
	}
	if out := <-d.as(bob).post(t.Context(), "/calls/"+call.ID+"/run", ""); !strings.Contains(out, "call_not_held") {
		t.Errorf("bob runs what is held for alice: %s", out)
	}
	if s := d.as(alice).ask("GET", "/calls/"+call.ID, ""); !strings.Contains(s.Raw, `"held":true`) {
		t.Errorf("alice's call is not held any more: %s", s.Raw)
	}
}
