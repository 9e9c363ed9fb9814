package pipeline

import (
	"errors"
	"testing"

	"github.com/sandboxd/sandboxd/internal/output"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// A call that runs is known to its account alone, and nobody else ends it.
func TestARunningCallIsOfItsAccount(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.echo.running = make(chan struct{})
	p := w.pipeline()
	ended := make(chan tool.Result)
	go func() { ended <- p.Do(t.Context(), w.request(`{"text":"x"}`)) }()
	<-w.echo.running
	mine := p.Calls("a")
	if len(mine) != 1 || !mine[0].Running || mine[0].Tool != "Echo" || mine[0].SessionID != "s" || len(p.Calls("b")) != 0 {
		t.Fatalf("its account knows %+v, another one %+v", mine, p.Calls("b"))
	}
	id := mine[0].CallID
	for account, want := range map[string]bool{"a": true, "b": false, "": false} {
		_, known := p.Call(account, id)
		_, _, follows := p.Follow(account, id, 100)
		if known != want || follows != want {
			t.Errorf("account %q knows it: %v, follows it: %v", account, known, follows)
		}
		if !want && p.Cancel(account, id) {
			t.Errorf("account %q ends it", account)
		}
	}
	if owner, ok := p.Owner(id); owner != "a" || !ok || p.Running() != 1 {
		t.Errorf("it is of %q, %v, and %d run", owner, ok, p.Running())
	}
	if n := p.CancelIn(func(dir string) bool { return dir != "/w" }, errors.New("gone")); n != 0 {
		t.Errorf("%d calls of another directory are ended", n)
	}
	if !p.Cancel("a", id) {
		t.Error("its account does not end it")
	}
	if got := <-ended; got.Error == nil || got.Error.Code != "cancelled" {
		t.Errorf("got %+v", got)
	}
	if s, ok := p.Call("a", id); !ok || s.Running || s.Result == nil || len(p.Calls("a")) != 0 {
		t.Errorf("after the end: %+v, %v", s, ok)
	}
}

// Who follows a call has the log of its client, unless that leaves out what programs print. The client is told at the
// begin which call it is.
func TestTheLogOfARunningCall(t *testing.T) {
	for _, none := range []bool{false, true} {
		w := newWorld(tool.Spec{})
		w.echo.running = make(chan struct{})
		p := w.pipeline()
		r := w.request(`{"text":"x"}`)
		var began []tool.Began
		r.Log, r.NoOutput = output.NewLog(1000), none
		r.Emit = func(x tool.Progress) {
			if x.Began != nil {
				began = append(began, *x.Began)
			}
		}
		ended := make(chan tool.Result)
		go func() { ended <- p.Do(t.Context(), r) }()
		<-w.echo.running
		id := p.Calls("a")[0].CallID
		log, _, ok := p.Follow("a", id, 100)
		if own := log == r.Log; !ok || log == nil || own == none {
			t.Errorf("without output %v: it has the log of the client: %v, %v", none, own, ok)
		}
		p.Cancel("a", id)
		<-ended
		if want := (tool.Began{CallID: id, Tool: "Echo"}); len(began) != 1 || began[0] != want {
			t.Errorf("its client is told %+v, want %+v", began, want)
		}
	}
}

// taken is a workspace that a person takes back while a call asks for it.
type taken struct {
	*world
	ended int
}

func (x *taken) Of(dir string) (tool.Workspace, error) {
	x.ended = x.line.CancelIn(func(at string) bool { return at == dir }, errors.New("the workspace is gone"))
	return x.world.Of(dir)
}

// A call that has found its workspace just before it is taken back does not run.
func TestAWorkspaceIsTakenBackMeanwhile(t *testing.T) {
	w := newWorld(tool.Spec{})
	x := &taken{world: w}
	p := w.pipeline()
	p.Workspaces = x
	got := p.Do(t.Context(), w.request(`{"text":"x"}`))
	if x.ended != 1 || got.Error == nil || got.Error.Code != "cancelled" || w.ran() {
		t.Errorf("%d calls are ended, got %+v", x.ended, got)
	}
}
