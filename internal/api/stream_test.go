package api

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// prints prints what it is told to, each time that say receives something.
type prints struct{ say chan string }

func (prints) Spec() tool.Spec {
	return tool.Spec{Name: "Prints", Class: tool.ClassRead, ReadOnly: true, Schema: json.RawMessage(`{"type":"object"}`)}
}
func (prints) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }
func (p prints) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	for all := ""; ; {
		select {
		case s, ok := <-p.say:
			if !ok {
				return tool.Output{Data: all}, nil
			}
			all += s
			in.Emit(tool.Progress{Stream: "stdout", Output: []byte(s)})
		case <-ctx.Done():
			return tool.Output{}, &tool.Error{Code: "cancelled", Msg: "until then it wrote " + all}
		}
	}
}

func printing(say chan string, p catalog.Permission) func(*Options) {
	return func(o *Options) {
		o.Tools.Register(catalog.Group{Name: "prints", Tools: []tool.Tool{prints{say}}})
		o.Tools.SetPermissions(map[string]catalog.Permission{"Prints": p})
	}
}

// event is one event of a call, with its id.
type event struct {
	id, name, data string
}

func nextEvent(t *testing.T, in *bufio.Reader) (e event) {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		must(t, err)
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
			return e
		}
	}
}

func (e event) printed(t *testing.T) (p tool.Printed) {
	t.Helper()
	if e.name != "output" {
		t.Fatalf("got %+v, want output", e)
	}
	must(t, json.Unmarshal([]byte(e.data), &p))
	return p
}

// TestACallStreamsWhatItPrints: as it comes, with offsets; another reader gets what lies
// behind an event, and its leaving ends nothing.
func TestACallStreamsWhatItPrints(t *testing.T) {
	say := make(chan string)
	w := newWorld(t, printing(say, catalog.Permission{}))
	calls := "/sessions/" + w.session(tool.RoleAgent) + "/calls"
	in := w.follow(calls, `{"tool":"Prints"}`)
	var began tool.Began
	if e := nextEvent(t, in); e.name != "begin" || json.Unmarshal([]byte(e.data), &began) != nil {
		t.Fatalf("got %+v, want begin", e)
	}
	say <- "one\n"
	first := nextEvent(t, in)
	if p := first.printed(t); p != (tool.Printed{Stream: "stdout", Text: "one\n"}) {
		t.Errorf("got %+v", p)
	}
	say <- "two\n"
	if p := nextEvent(t, in).printed(t); p != (tool.Printed{Stream: "stdout", Offset: 4, Text: "two\n"}) {
		t.Errorf("got %+v", p)
	}

	accept := []string{"Accept", "text/event-stream"}
	res := w.send(tool.RoleAgent, "GET", "/calls/"+began.CallID, nil, accept...)
	other := bufio.NewReader(res.Body)
	if e := nextEvent(t, other); e.name != "begin" {
		t.Errorf("who comes later got %+v first", e)
	}
	res.Body.Close() // leaves
	res = w.send(tool.RoleAgent, "POST", calls, strings.NewReader(`{"tool":"Prints"}`),
		append(accept, "Last-Event-ID", first.id)...)
	defer res.Body.Close()
	behind := bufio.NewReader(res.Body)
	if p := nextEvent(t, behind).printed(t); p.Text != "two\n" || p.Offset != 4 {
		t.Errorf("behind the first got %+v", p)
	}
	w.running(1) // the same call, and it still runs
	close(say)
	for _, r := range []*bufio.Reader{in, behind} {
		var result tool.Result
		if e := nextEvent(t, r); e.name != "end" || json.Unmarshal([]byte(e.data), &result) != nil ||
			result.FinalText == "" || result.CallID != began.CallID {
			t.Errorf("got %+v, want the end of %s", e, began.CallID)
		}
	}
}

// TestTheLastOutputOfACallIsKept: for those who come later; its client had all of it.
func TestTheLastOutputOfACallIsKept(t *testing.T) {
	say := make(chan string)
	w := newWorld(t, printing(say, catalog.Permission{}))
	in := w.follow("/sessions/"+w.session(tool.RoleAgent)+"/calls", `{"tool":"Prints"}`)
	var began tool.Began
	must(t, json.Unmarshal([]byte(nextEvent(t, in).data), &began))
	const all, most = 320 << 10, 256 << 10
	until := func(in *bufio.Reader) (first int64) {
		t.Helper()
		first = -1
		for {
			e := nextEvent(t, in)
			if e.name != "output" {
				continue
			}
			p := e.printed(t)
			if first < 0 {
				first = p.Offset
			}
			if p.Offset+int64(len(p.Text)) >= all {
				return first
			}
		}
	}
	for range 5 {
		say <- strings.Repeat("x", all/5)
	}
	if first := until(in); first != 0 {
		t.Errorf("its client hears from byte %d on", first)
	}
	res := w.send(tool.RoleAgent, "GET", "/calls/"+began.CallID, nil, "Accept", "text/event-stream")
	defer res.Body.Close()
	if kept := all - until(bufio.NewReader(res.Body)); kept > most || kept < most/2 {
		t.Errorf("who comes later hears the last %d bytes", kept)
	}
	close(say)
}

// TestACallWhoseClientWentAwayCanBeResumed: leaving ended it, and what it printed is kept.
func TestACallWhoseClientWentAwayCanBeResumed(t *testing.T) {
	say := make(chan string)
	w := newWorld(t, printing(say, catalog.Permission{}))
	calls := "/sessions/" + w.session(tool.RoleAgent) + "/calls"
	res := w.send(tool.RoleAgent, "POST", calls, strings.NewReader(`{"tool":"Prints"}`), "Accept", "text/event-stream")
	begin := nextEvent(t, bufio.NewReader(res.Body))
	say <- "one\n"
	res.Body.Close()
	w.running(0)
	res = w.send(tool.RoleAgent, "POST", calls, strings.NewReader(`{"tool":"Prints"}`),
		"Accept", "text/event-stream", "Last-Event-ID", begin.id)
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	if p := nextEvent(t, in).printed(t); p.Text != "one\n" {
		t.Errorf("got %+v", p)
	}
	if e := nextEvent(t, in); e.name != "end" || !strings.Contains(e.data, `"cancelled"`) ||
		!strings.Contains(e.data, "until then it wrote one") {
		t.Errorf("got %+v, want that it was cancelled and what it wrote", e)
	}
}

// TestWhatAPersonMustReleaseIsNotStreamed: a result policy holds the output back too.
func TestWhatAPersonMustReleaseIsNotStreamed(t *testing.T) {
	for _, p := range []tool.ResultPolicy{tool.ResultAlways, tool.ResultOnError} {
		say := make(chan string)
		w := newWorld(t, printing(say, catalog.Permission{Results: p}))
		in := w.follow("/sessions/"+w.session(tool.RoleAgent)+"/calls", `{"tool":"Prints"}`)
		say <- "SECRET"
		close(say)
		for name := ""; name != "end"; {
			e := nextEvent(t, in)
			if name = e.name; name == "waiting" {
				var asked tool.Waiting
				must(t, json.Unmarshal([]byte(e.data), &asked))
				w.do(tool.RoleOperator, "POST", "/approvals/"+asked.Approval, `{"approved":false}`)
			}
			if strings.Contains(e.data, "SECRET") && (name != "end" || p == tool.ResultAlways) {
				t.Errorf("%s: %+v", p, e)
			}
		}
	}
}

func TestOutputCanBeLeftOut(t *testing.T) {
	say := make(chan string)
	w := newWorld(t, printing(say, catalog.Permission{}))
	in := w.follow("/sessions/"+w.session(tool.RoleAgent)+"/calls?output=false", `{"tool":"Prints"}`)
	say <- "one"
	close(say)
	if b, e := nextEvent(t, in), nextEvent(t, in); b.name != "begin" || e.name != "end" {
		t.Errorf("got %+v and %+v", b, e)
	}
}

func TestEventsThatCannotBeResumed(t *testing.T) {
	w := newWorld(t)
	calls := "/sessions/" + w.session(tool.RoleAgent) + "/calls"
	for _, tt := range []struct {
		method, path, last string
		status             int
	}{
		{"POST", calls, "nothing", 400},
		{"POST", calls, ".5", 400},
		{"POST", calls, "call_A.-1", 400},
		{"POST", calls, "call_A.5", 404},
		{"POST", calls + "?output=perhaps", "", 400},
		{"GET", "/calls/call_A", "call_A.5", 404},
		{"GET", "/calls/call_B", "call_A.5", 400},
	} {
		res := w.send(tool.RoleAgent, tt.method, tt.path, strings.NewReader(`{"tool":"Echo"}`),
			"Accept", "text/event-stream", "Last-Event-ID", tt.last)
		body, err := io.ReadAll(res.Body)
		must(t, err)
		res.Body.Close()
		if res.StatusCode != tt.status {
			t.Errorf("%s %q: got %d %s, want %d", tt.path, tt.last, res.StatusCode, body, tt.status)
		}
	}
}
