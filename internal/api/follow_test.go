package api

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func asks(o *Options) {
	o.Tools.SetPermissions(map[string]catalog.Permission{"Echo": {Execution: tool.ExecAskAlways}})
}

// callEvent is the name and the data of the next event of a call.
func callEvent(t *testing.T, in *bufio.Reader, data any) string {
	t.Helper()
	name := ""
	for {
		line, err := in.ReadString('\n')
		must(t, err)
		if v, ok := strings.CutPrefix(line, "event: "); ok {
			name = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(line, "data: "); ok {
			must(t, json.Unmarshal([]byte(v), data))
			return name
		}
	}
}

// follow sends one call whose events are read.
func (w *world) follow(path, body string) *bufio.Reader {
	w.t.Helper()
	res := w.send(tool.RoleAgent, "POST", path, strings.NewReader(body), "Accept", "text/event-stream, application/json")
	w.t.Cleanup(func() { res.Body.Close() })
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		w.t.Fatalf("got %d %s", res.StatusCode, kind)
	}
	return bufio.NewReader(res.Body)
}

// TestACallThatWaitsSaysSo: two equal calls wait for one answer, and both say so.
func TestACallThatWaitsSaysSo(t *testing.T) {
	w := newWorld(t, asks)
	id := w.session(tool.RoleAgent)
	told := w.queue.Subscribe(t.Context())
	var waits [2]tool.Waiting
	var in [2]*bufio.Reader
	for i := range in {
		in[i] = w.follow("/sessions/"+id+"/calls", `{"tool":"Echo"}`)
		if name := callEvent(t, in[i], &waits[i]); name != "waiting" {
			t.Fatalf("got the event %s, want waiting", name)
		}
	}
	first := waits[0]
	if first.Approval != waits[1].Approval || first.CallID == waits[1].CallID || first.Type != "execution" ||
		!first.Until.After(first.Asked) || !first.Until.Equal(waits[1].Until) || len(first.Why) == 0 {
		t.Errorf("got %+v", waits)
	}
	for _, want := range []struct {
		kind approvals.EventKind
		call string
	}{
		{approvals.EventAsked, first.CallID},
		{approvals.EventJoined, waits[1].CallID},
	} {
		var e approvals.Event
		select {
		case e = <-told:
		case <-time.After(time.Minute):
			t.Fatalf("nobody was told %v", want)
		}
		if e.Kind != want.kind || e.Item.CallID != want.call || e.Item.ID != first.Approval ||
			!e.Item.ExpiresAt.Equal(first.Until) {
			t.Errorf("got %s %+v, want %v", e.Kind, e.Item, want)
		}
	}

	w.do(tool.RoleOperator, "POST", "/approvals/"+first.Approval, `{"approved":true}`)
	for i := range in {
		var began tool.Began
		if name := callEvent(t, in[i], &began); name != "begin" || began.CallID != waits[i].CallID || began.Tool != "Echo" {
			t.Errorf("got %s %+v, want the begin", name, began)
		}
		var r tool.Result
		if name := callEvent(t, in[i], &r); name != "end" || r.Status != tool.StatusSuccess || r.CallID != waits[i].CallID {
			t.Errorf("got %s %+v, want the end", name, r)
		}
		if rest, err := io.ReadAll(in[i]); err != nil || string(rest) != "\n" {
			t.Errorf("%q comes after the end, %v", rest, err)
		}
	}
}

func TestACallThatIsRefusedOnlyEnds(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	var r tool.Result
	if name := callEvent(t, w.follow("/sessions/"+id+"/calls", `{"tool":"Nope"}`), &r); name != "end" ||
		r.Error == nil || r.Error.Code != "tool_not_found" {
		t.Errorf("got %s %+v", name, r)
	}
}

// TestDecideTellsThatItWaits: it is what the hooks of other agents call.
func TestDecideTellsThatItWaits(t *testing.T) {
	w := newWorld(t, asks)
	id := w.session(tool.RoleAgent)
	in := w.follow("/decide", `{"session_id":"`+id+`","tool":"Echo","args":{},"wait":true}`)
	var asked tool.Waiting
	if name := callEvent(t, in, &asked); name != "waiting" {
		t.Fatalf("got the event %s", name)
	}
	w.do(tool.RoleOperator, "POST", "/approvals/"+asked.Approval, `{"approved":true}`)
	var d decided
	if name := callEvent(t, in, &d); name != "end" || d.Decision.Verdict != tool.Allow || d.CallID != asked.CallID {
		t.Errorf("got %s %+v", name, d)
	}
}

// TestWhoDoesNotAskForEventsGetsOneAnswer: clients are older than the daemon, too.
func TestWhoDoesNotAskForEventsGetsOneAnswer(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	const one, batch = `{"tool":"Echo","args":{}}`, `{"calls":[{"tool":"Echo","args":{}}]}`
	for _, tt := range []struct {
		name, session, accept, body, kind string
		status                            int
	}{
		{"no word of it", id, "", one, "application/json", 200},
		{"anything", id, "*/*", one, "application/json", 200},
		{"JSON", id, "application/json", one, "application/json", 200},
		{"events", id, "text/event-stream", one, "text/event-stream", 200},
		{"events, with a weight", id, "application/json;q=0.5, text/event-stream;q=0.9", one, "text/event-stream", 200},
		{"nonsense", id, ";;,text/", one, "application/json", 200},
		{"a wrong request", id, "text/event-stream", `{`, "application/json", 400},
		{"no such session", "nope", "text/event-stream", one, "application/json", 404},
		{"events of several calls", id, "text/event-stream", batch, "application/json", 400},
		{"several calls", id, "application/json", batch, "application/json", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := w.send(tool.RoleAgent, "POST", "/sessions/"+tt.session+"/calls", strings.NewReader(tt.body), "Accept", tt.accept)
			defer res.Body.Close()
			if kind := res.Header.Get("Content-Type"); res.StatusCode != tt.status || kind != tt.kind {
				t.Errorf("got %d %s, want %d %s", res.StatusCode, kind, tt.status, tt.kind)
			}
		})
	}
}

// TestWhoLeavesAStreamEndsTheCall as who leaves without one does.
func TestWhoLeavesAStreamEndsTheCall(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	res := w.send(tool.RoleAgent, "POST", "/sessions/"+id+"/calls", strings.NewReader(`{"tool":"Wait"}`),
		"Accept", "text/event-stream")
	var began tool.Began
	if name := callEvent(t, bufio.NewReader(res.Body), &began); name != "begin" {
		t.Fatalf("got the event %s", name)
	}
	res.Body.Close()
	w.running(0)
	state, ok := w.opts.Pipeline.Call(tool.DefaultAccount, began.CallID)
	if !ok || state.Result == nil || state.Result.Error == nil || state.Result.Error.Code != "cancelled" {
		t.Errorf("got %+v", state)
	}
}

// TestARefusalThatNobodyGaveNamesTheRule: the hook of an agent shows one reason, so it has to say what asked and what to
// do instead. The words of a person stay as they are.
func TestARefusalThatNobodyGaveNamesTheRule(t *testing.T) {
	asked := tool.Reason{Rule: "acme.push", Message: "it publishes", Hint: "push to a branch"}
	for _, tt := range []struct {
		name          string
		answer        *tool.Approval
		message, hint string
	}{
		{
			"nobody", &tool.Approval{Code: approvals.CodeTimedOut, Reason: "approval timed out"},
			"approval timed out; asked by acme.push: it publishes", "push to a branch",
		},
		{"a person", &tool.Approval{By: "uid:0", Reason: "approval timed out"}, "approval timed out", ""},
		{"nothing was asked", nil, "approval timed out", ""},
	} {
		c := &tool.Call{}
		c.Approval, c.Decision = tt.answer, tool.Decision{Verdict: tool.Ask, Reasons: []tool.Reason{asked}}
		c.Result = tool.Result{RejectReason: "approval timed out", Error: &tool.Error{Code: "approval_timed_out", Msg: "m"}}
		d := decisionOf(c)
		if d.Verdict != tool.Deny || len(d.Reasons) != 1 || d.Reasons[0].Message != tt.message ||
			d.Reasons[0].Hint != tt.hint || d.Reasons[0].Rule != "core.approval_timed_out" {
			t.Errorf("%s: got %+v", tt.name, d)
		}
	}
}
