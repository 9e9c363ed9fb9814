package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Whatever holds the memory of an account for a moment refuses no call; what holds it for
// longer does, and says so.
func TestACallWaitsForItsRoom(t *testing.T) {
	for _, tt := range []struct {
		name   string
		held   time.Duration
		status tool.Status
		code   string
	}{
		{"for a moment", roomTime - time.Second, tool.StatusSuccess, ""},
		{"for long", roomTime + time.Second, tool.StatusError, "account_busy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := budget.New(budget.Limits{Bytes: budget.Least})
				request, err := all.Request("a")
				if err != nil {
					t.Fatal(err)
				}
				defer request.Release()
				other, err := all.Request("a")
				if err != nil {
					t.Fatal(err)
				}
				if err := other.Take(budget.Least/2 - 60<<10); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(tt.held, other.Release)
				w := newWorld(tool.Spec{})
				r := w.pipeline().Do(budget.With(t.Context(), request), w.request(`{"text":"hi"}`))
				if r.Status != tt.status || (r.Error != nil && r.Error.Code != tt.code) {
					t.Errorf("got %s %v: %s", r.Status, r.Error, r.FinalText)
				}
				time.Sleep(2 * roomTime)
			})
		})
	}
}

// Commands that were let in together are judged one after the other: none holds what another
// one waits for.
func TestLargeCommandsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.New(budget.Limits{Bytes: budget.Least})
		var calls sync.WaitGroup
		for range 4 { // as many as fit
			calls.Go(func() {
				request, err := all.Request("a")
				if err != nil {
					t.Error(err)
					return
				}
				defer request.Release()
				ctx, stop := context.WithTimeout(budget.With(t.Context(), request), time.Hour)
				defer stop()
				c := &tool.Call{
					Target: tool.Target{Spec: tool.Spec{Class: tool.ClassExec}},
					In:     tool.In{Args: json.RawMessage(strings.Repeat("x", 60<<10))},
				}
				if err := memoryRoom(ctx, c); err != nil {
					t.Errorf("no room: %v", err)
					return
				}
				time.Sleep(time.Second) // the others are let in
				done, err := whileJudged(ctx, c)
				if err != nil {
					t.Errorf("not judged: %v", err)
					return
				}
				time.Sleep(time.Millisecond)
				done()
			})
		}
		calls.Wait()
	})
}

// What keeps its room for long ends the wait of a command for its judge, and of those behind it.
func TestACommandDoesNotWaitForLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.New(budget.Limits{Bytes: budget.Least})
		request, err := all.Request("a")
		if err != nil {
			t.Fatal(err)
		}
		defer request.Release()
		lease, err := request.Keep(budget.Least / 4)
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release()
		ctx := budget.With(t.Context(), request)
		c := &tool.Call{
			Target: tool.Target{Spec: tool.Spec{Class: tool.ClassExec}},
			In:     tool.In{Args: json.RawMessage(strings.Repeat("x", 40<<10))},
		}
		if err := memoryRoom(ctx, c); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = whileJudged(ctx, c)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "account_busy" || time.Since(start) != judgeTime {
			t.Errorf("after %v: %v, want account_busy after %v", time.Since(start), err, judgeTime)
		}
		err = RoomToJudge(ctx, 60<<10)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "account_busy" {
			t.Errorf("a check: %v, want account_busy", err)
		}
	})
}

// What policies saw of a call is in its context, and goes when the call has ended.
func TestAnEndedCallKeepsNoContext(t *testing.T) {
	type key struct{}
	w := newWorld(tool.Spec{})
	p := w.pipeline()
	gone := make(chan struct{})
	do := func(saw *[1 << 20]byte) {
		runtime.AddCleanup(saw, func(gone chan struct{}) { close(gone) }, gone)
		r := p.Do(context.WithValue(t.Context(), key{}, saw), w.request(`{"text":"hi"}`))
		if s, ok := p.Call("a", r.CallID); !ok || s.Running {
			t.Errorf("the call is not known: %+v", s)
		}
	}
	do(new([1 << 20]byte))
	for range 100 {
		runtime.GC()
		select {
		case <-gone:
			runtime.KeepAlive(p)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the call has ended, and its context is kept")
}
