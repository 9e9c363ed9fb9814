package api

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tool"
)

// A person who comes late sees what waits already, then what comes, and nothing
// that is no question.
func TestApprovalStream(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	ctx, cancel := context.WithCancel(t.Context())
	told := w.opts.Approvals.Subscribe(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.opts.Approvals.Execution(ctx, &tool.Call{
			ID: "c1", Request: tool.Request{Account: defaultAccount, Session: id}, Session: tool.Session{ID: id, Account: defaultAccount},
			Spec: tool.Spec{Name: "Echo"}, In: tool.In{Args: json.RawMessage(`{}`)}, Digest: "d",
			Decision: tool.Decision{Verdict: tool.Ask, By: tool.ByMode},
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	asked := <-told

	res := w.send(tool.RoleOperator, "GET", "/approvals/stream", strings.NewReader(""))
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	if name, ev := next(t, in); name != string(EventApprovalAsked) || ev.Approval != asked.Item.ID || ev.Status != "pending" {
		t.Fatalf("got %s %+v, want the question %s", name, ev, asked.Item.ID)
	}
	w.opts.Events.Publish(Event{Type: EventCallBegin, Account: "a"})
	w.opts.Events.Publish(Event{Type: EventApprovalDecided, Account: "a", Approval: "q2"})
	if name, ev := next(t, in); name != string(EventApprovalDecided) || ev.Approval != "q2" {
		t.Errorf("got %s %+v", name, ev)
	}
}

func TestApprovalStreamIsForOperators(t *testing.T) {
	w := newWorld(t)
	if a := w.do(tool.RoleAgent, "GET", "/approvals/stream", ""); a.status != 403 {
		t.Errorf("got %d", a.status)
	}
}
