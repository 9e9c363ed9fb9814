package cron

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// A daemon that was there, with a machine that stood still, says so: nobody looks for another daemon.
func TestT51_TheMachineStoodStill(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, stop := w.open(*Defaults())
		defer stop()
		f.create(t, "s", line{"n", "@hourly", "make"})
		f.tick(t.Context(), time.Now().Add(90*time.Minute))
		j := f.only(t, "s")
		if len(w.called()) != 0 || j.Missed == nil || j.Missed.Reason != "the daemon or its machine stood still" {
			t.Errorf("%d calls, %+v", len(w.called()), j.Missed)
		}
	})
}

// A record that cannot be written delays no other job.
func TestT51_AMissedRunThatCannotBeRecordedHoldsNothingUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, stop := w.open(*Defaults())
		defer stop()
		for range 3 {
			f.create(t, "s", line{"n", "@hourly", "make"})
		}
		w.mu.Lock()
		w.noRecord = errors.New("full")
		w.mu.Unlock()
		f.tick(t.Context(), time.Now().Add(90*time.Minute))
		all, err := f.table.ofSession(t.Context(), "s")
		if err != nil || len(all) != 3 {
			t.Fatal(all, err)
		}
		for _, j := range all {
			if j.Missed == nil || j.Missed.Count != 1 {
				t.Errorf("%s: missed %+v, want one run", j.ID, j.Missed)
			}
		}
	})
}

// A panic in a run is an end of that run alone.
func TestT51_APanicEndsOneRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.do = func(context.Context, tool.Request) tool.Result { panic("boom") }
		f, stop := w.open(*Defaults())
		defer stop()
		f.create(t, "s", line{"n", "* * * * *", "make"})
		time.Sleep(2*time.Minute + time.Second)
		if j := f.only(t, "s"); len(w.called()) != 2 || j.Last.Status != refused || j.Last.Code != "internal" {
			t.Errorf("%d calls, %+v", len(w.called()), j.Last)
		}
	})
}

// A job that was deleted, or made anew in another session of this id, is neither run nor changed.
func TestT51_AnotherDaemonTookTheJob(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, stop := w.open(*Defaults())
		defer stop()
		j := f.create(t, "s", line{"n", "@hourly", "make"})
		before := j
		before.sessionCreated = before.sessionCreated.Add(-time.Hour)
		if err := f.turn(t.Context(), before, j.Next); err != nil {
			t.Error(err)
		}
		if now := f.only(t, "s"); now.Last != nil || !now.Next.Equal(j.Next) {
			t.Errorf("the new job has the run of the old one: %+v", now)
		}
		if _, err := f.table.remove(t.Context(), "s", j.ID); err != nil {
			t.Fatal(err)
		}
		if err := f.turn(t.Context(), j, j.Next); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(w.called()) != 0 || f.running() != 0 {
			t.Errorf("%d calls, %d running", len(w.called()), f.running())
		}
	})
}

// Routes list the jobs of the caller, or of all where an operator names no account, and a deletion says whose it is.
func TestT51_RoutesAreOfTheCaller(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, stop := w.open(*Defaults())
		defer stop()
		f.create(t, "s", line{"n", "@hourly", "make"})
		f.create(t, "s", line{"n", "@hourly", "make"})
		as := func(c route.Caller) *http.Request {
			r := httptest.NewRequestWithContext(route.WithCaller(t.Context(), c), http.MethodGet, "/", nil)
			r.SetPathValue("id", "s")
			return r
		}
		for want, c := range map[int]route.Caller{2: {Account: "b", Any: true}, 0: {Account: "b"}} {
			if out, err := f.listAll(as(c)); err != nil || len(out.([]Job)) != want {
				t.Errorf("%+v: got %v, %v, want %d", c, out, err, want)
			}
		}
		for line, want := range map[string]int{"GET /cron": 2, "GET /sessions/s/cron": 2} {
			got := routetest.Call(t, f.part().Routes, tool.RoleAgent, line, "")
			if strings.Count(got, `"session_id":"s"`) != want {
				t.Errorf("%s: %s, want %d jobs", line, got, want)
			}
		}
		for i, c := range []route.Caller{{Account: "a"}, {Account: "a", Role: tool.RoleOperator, UID: 7}} {
			r := as(c)
			r.SetPathValue("cron", fmt.Sprintf("cron_%d", i+1))
			want := route.Deleted{ID: fmt.Sprintf("cron_%d", i+1), Deleted: true}
			if got, err := f.deleteOne(r); err != nil || got != want {
				t.Errorf("got %+v, %v", got, err)
			}
			by := []string{"an agent", "operator uid:7"}[i]
			if n := w.noted("cron_deleted"); len(n) != i+1 || !strings.HasSuffix(n[i].Message, "was deleted by "+by) {
				t.Errorf("recorded: %+v", n)
			}
		}
		f.part().Reload(t.Context(), &Config{})
		_, err := f.cronCreate(t.Context(), in("s", line{"n", "@hourly", "make"}))
		if codeOf(err) != "too_many_cron_jobs" {
			t.Errorf("after a reload that permits none: %v", err)
		}
	})
}
