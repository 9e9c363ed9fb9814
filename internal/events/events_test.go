package events

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// streamFor serves GET /events to one caller, without the sockets.
func streamFor(t *testing.T, e *Broker, me route.Caller, query string) *bufio.Reader {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(route.WithCaller(r.Context(), me))
		out, err := e.stream(r)
		if err != nil {
			t.Error(err)
			return
		}
		route.ServeStream(w, r, out.(route.Stream))
	}))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/events"+query, nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close(); srv.Close() })
	return bufio.NewReader(res.Body)
}

// next is the name and the data of the next event, comments left out.
func next(t *testing.T, in *bufio.Reader) (name string, ev Event) {
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

func TestEventsShowEachCallerItsOwn(t *testing.T) {
	agent := route.Caller{Account: "a", Role: tool.RoleAgent}
	operator := route.Caller{Account: "x", Role: tool.RoleOperator, Any: true}
	forB := route.Caller{Account: "b", Role: tool.RoleOperator}
	all := []Event{
		{Type: SessionCreated, Account: "b", Session: "s3"},
		{Type: Reload}, // of no account
		{Type: CallBegin, Account: "a", Session: "s1", Call: "c1"},
		{Type: ApprovalAsked, Account: "b", Session: "s3"},
		{Type: Reload, Status: "failed"},
		{Type: Reload, Status: "ok"},
		{Type: CallEnd, Account: "a", Session: "s2", Call: "c2"},
	}
	for _, tt := range []struct {
		name, query string
		me          route.Caller
		want        string
	}{
		{"an agent sees its account, and that a reload took effect", "", agent, "call_begin:s1 reload:ok call_end:s2"},
		{
			"an operator sees everything, questions included", "", operator,
			"session_created:s3 reload: call_begin:s1 approval_asked:s3 reload:failed reload:ok call_end:s2",
		},
		{
			"an operator who acts for an account sees that alone", "", forB,
			"session_created:s3 approval_asked:s3 reload:ok",
		},
		{"of one session", "?session_id=s2", agent, "call_end:s2"},
		{"of some types", "?type=call_end,approval_asked", operator, "approval_asked:s3 call_end:s2"},
		{"a session of another account is not seen by its id", "?session_id=s3&session_id=s1", agent, "call_begin:s1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var e Broker
			in := streamFor(t, &e, tt.me, tt.query)
			for _, ev := range all {
				e.Publish(ev)
			}
			want := strings.Fields(tt.want)
			for i := range want {
				name, ev := next(t, in)
				if got := name + ":" + ev.Session + ev.Status; got != want[i] {
					t.Fatalf("event %d: got %s, want %s", i, got, want[i])
				}
				if ev.Time.IsZero() {
					t.Error("no time")
				}
			}
		})
	}
}

func TestEventsRefuseUnknownTypes(t *testing.T) {
	r := httptest.NewRequestWithContext(route.WithCaller(t.Context(), route.Caller{}), "GET", "/events?type=call_ended", nil)
	_, err := new(Broker).stream(r)
	var bad route.Error
	if !errors.As(err, &bad) || bad.Status != http.StatusBadRequest || !strings.Contains(bad.Said.Msg, "call_end ") {
		t.Errorf("got %v", err)
	}
}

// A reader that does not read loses events and is told how many; nobody waits
// for it.
func TestEventsCountWhatASlowReadermissed(t *testing.T) {
	var e Broker
	r := e.subscribe(func(Event) bool { return true })
	for i := range 256 + 7 {
		e.Publish(Event{Type: CallEnd, Call: fmt.Sprint(i)})
	}
	if got := e.missed(r); got != 7 {
		t.Errorf("missed %d, want 7", got)
	}
	if got := e.missed(r); got != 0 {
		t.Errorf("told again of %d", got)
	}
	if first := <-r.events; first.Call != "0" {
		t.Errorf("the first kept is %q", first.Call)
	}
	e.leave(r)
	if len(e.readers) != 0 {
		t.Error("a reader that left is kept")
	}
}

// What it is told comes before the next event.
func TestASlowReaderIsToldHowManyEventsItMissed(t *testing.T) {
	var e Broker
	stream, err := e.Stream(t.Context(), func(Event) bool { return true }, func(context.Context) ([]Event, error) {
		for range 256 + 7 { // nobody reads yet
			e.Publish(Event{Type: CallEnd})
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route.ServeStream(w, r, stream)
	}))
	defer srv.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var said [4]string
	in := bufio.NewReader(res.Body)
	for i := 0; i < len(said); {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line = strings.TrimSpace(line); line != "" && line[0] != ':' {
			said[i] = line
			i++
		}
	}
	if said[0] != "event: dropped" || said[1] != `data: {"dropped":7}` || said[2] != "event: call_end" {
		t.Errorf("it begins with %q", said)
	}
}

// A stream takes room from the budget of its request, whoever opens it, and none without room.
func TestAStreamTakesRoom(t *testing.T) {
	hold, err := budget.New(budget.Limits{Bytes: 4 * readerBytes}).Request("a")
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Release()
	ctx, any := budget.With(t.Context(), hold), func(Event) bool { return true }
	b := new(Broker)
	// One account has half of the room, and a request takes some of it.
	if _, err := b.Stream(ctx, any, nil); err != nil {
		t.Errorf("with room: %v", err)
	}
	if s, err := b.Stream(ctx, any, nil); err == nil || s != nil {
		t.Errorf("without room there is a stream")
	}
}
