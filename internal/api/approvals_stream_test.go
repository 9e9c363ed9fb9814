package api

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// A person who comes late sees what waits already, then what comes, and nothing
// that is no question.
func TestApprovalStream(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	ctx, cancel := context.WithCancel(t.Context())
	told := w.queue.Subscribe(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.queue.Execution(ctx, &tool.Call{
			ID:      "c1",
			Request: tool.Request{Account: tool.DefaultAccount, Session: id},
			Target: tool.Target{
				Session: tool.Session{ID: id, Account: tool.DefaultAccount},
				Spec:    tool.Spec{Name: "Echo"},
			},
			In:        tool.In{Args: json.RawMessage(`{}`)},
			Judgement: tool.Judgement{Digest: "d", Decision: tool.Decision{Verdict: tool.Ask, By: tool.ByMode}},
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	asked := <-told

	res := w.send(tool.RoleOperator, "GET", "/approvals/stream", strings.NewReader(""))
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	if name, ev := next(t, in); name != string(events.ApprovalAsked) || ev.Approval != asked.Item.ID ||
		ev.Status != "pending" {
		t.Fatalf("got %s %+v, want the question %s", name, ev, asked.Item.ID)
	}
	w.opts.Events.Publish(events.Event{Type: events.CallBegin, Account: "a"})
	w.opts.Events.Publish(events.Event{Type: events.ApprovalDecided, Account: "a", Approval: "q2"})
	if name, ev := next(t, in); name != string(events.ApprovalDecided) || ev.Approval != "q2" {
		t.Errorf("got %s %+v", name, ev)
	}
}

func TestApprovalStreamIsForOperators(t *testing.T) {
	w := newWorld(t)
	if a := w.do(tool.RoleAgent, "GET", "/approvals/stream", ""); a.status != 403 {
		t.Errorf("got %d", a.status)
	}
}

// TestA03_AnswerIsYesOrNoWithAReason is the answer on the wire.
func TestA03_AnswerIsYesOrNoWithAReason(t *testing.T) {
	ask := func(o *Options) {
		o.Tools.SetPermissions(map[string]catalog.Permission{"Echo": {Execution: tool.ExecAskAlways}})
	}
	for _, tt := range []struct {
		name, answer string
		code         string // of the answer that is refused
		status, want string // of the call
	}{
		{"yes", `{"approved":true}`, "", "SUCCESS", ""},
		{"no", `{"approved":false}`, "", "EXECUTION_REJECTED", "Execution rejected by user"},
		{"no, with a reason", `{"approved":false,"reason":"use a branch"}`, "", "EXECUTION_REJECTED", "use a branch"},
		{
			"neither", `{"reason":"use a branch"}`, "validation_error", "EXECUTION_REJECTED",
			"Execution rejected by user",
		},
		{"a word", `{"approved":"yes"}`, "validation_error", "EXECUTION_REJECTED", "Execution rejected by user"},
		{
			"a field that there is not", `{"approved":true,"skipExecutionApproval":true}`, "validation_error",
			"EXECUTION_REJECTED", "Execution rejected by user",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, ask)
			id := w.session(tool.RoleAgent)
			asked := w.queue.Subscribe(t.Context())
			done := make(chan answer, 1)
			go func() { done <- w.do(tool.RoleAgent, "POST", "/sessions/"+id+"/calls", `{"tool":"Echo"}`) }()
			path := "/approvals/" + (<-asked).Item.ID
			a := w.do(tool.RoleOperator, "POST", path, tt.answer)
			if a.Error.Code != tt.code {
				t.Errorf("got %+v, want %q", a, tt.code)
			}
			if tt.code != "" { // it waits on
				w.do(tool.RoleOperator, "POST", path, `{"approved":false}`)
			}
			var r tool.Result
			must(t, json.Unmarshal((<-done).Data, &r))
			if a := w.do(tool.RoleOperator, "POST", path, `{"approved":true}`); a.status != 409 ||
				a.Error.Code != "already_decided" {
				t.Errorf("a second answer: got %d %+v", a.status, a.Error)
			}
			if a := w.do(tool.RoleOperator, "POST", "/approvals/apr_none", `{"approved":true}`); a.status != 404 ||
				a.Error.Code != "not_found" {
				t.Errorf("an unknown question: got %d %+v", a.status, a.Error)
			}
			if a := w.do(tool.RoleAgent, "POST", path, `{"approved":true}`); a.status != 403 ||
				a.Error.Code != "operator_only" {
				t.Errorf("an agent's answer: got %d %+v", a.status, a.Error)
			}
			if string(r.Status) != tt.status || r.RejectReason != tt.want || !strings.Contains(r.FinalText, tt.want) {
				t.Errorf("got %s %q %q", r.Status, r.RejectReason, r.FinalText)
			}
		})
	}
}

// next is the name and the data of the next event, comments left out.
func next(t *testing.T, in *bufio.Reader) (name string, ev events.Event) {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := strings.CutPrefix(line, "event: "); ok {
			name = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(v), &ev); err != nil {
				t.Fatal(err)
			}
			return name, ev
		}
	}
}
