package cron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// world is what a daemon gives the part.
type world struct {
	t    *testing.T
	path string
	do   func(context.Context, tool.Request) tool.Result // nil succeeds at once

	budget *budget.Budget

	mu       sync.Mutex // guards what follows
	sessions map[string]tool.Session
	accounts map[int]string
	calls    []tool.Request
	notes    []tool.Note
	noRecord error
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, path: filepath.Join(t.TempDir(), "s.db"), sessions: map[string]tool.Session{},
		accounts: map[int]string{os.Geteuid(): "a"}, budget: budget.New(budget.Limits{}),
	}
	w.session("s", "a")
	return w
}

func (w *world) session(id, account string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[id] = tool.Session{ID: id, Account: account, Created: time.Now()}
}

// Session implements [part.Sessions].
func (w *world) Session(_ context.Context, account, id string) (tool.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.sessions[id]
	if !ok || s.Account != account {
		return s, &tool.Error{Code: "session_not_found", Msg: "no session"}
	}
	return s, nil
}

// Patch implements [part.Sessions].
func (w *world) Patch(context.Context, string, string, func(*tool.Session) error) (tool.Session, error) {
	return tool.Session{}, errors.New("nobody patches")
}

// All implements [part.Sessions].
func (w *world) All(context.Context, string) ([]tool.Session, error) {
	return nil, errors.New("nobody lists")
}

func (w *world) called() []tool.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

func (w *world) noted(name string) (all []tool.Note) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.notes {
		if n.Name == name {
			all = append(all, n)
		}
	}
	return all
}

// open opens the part, as one daemon after another does, and lets the clock run until stop.
func (w *world) open(c Config) (f *feature, stop func()) {
	w.t.Helper()
	db, err := store.Open(w.t.Context(), store.Options{Path: w.path}, Definition().Schema)
	if err != nil {
		w.t.Fatal(err)
	}
	f = newFeature(part.Host{
		DB: db, Sessions: w, Events: &events.Broker{}, Log: slog.New(slog.DiscardHandler),
		Admit: func(ctx context.Context, account string) (context.Context, func(), error) {
			hold, err := w.budget.Request(account)
			return budget.With(ctx, hold), hold.Release, err
		},
		Account: func(uid int) (string, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			a, ok := w.accounts[uid]
			return a, ok
		},
		Record: func(_ context.Context, n tool.Note) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.noRecord == nil {
				w.notes = append(w.notes, n)
			}
			return w.noRecord
		},
		Do: func(ctx context.Context, r tool.Request) tool.Result {
			w.mu.Lock()
			w.calls = append(w.calls, r)
			do := w.do
			w.mu.Unlock()
			if do != nil {
				return do(ctx, r)
			}
			return tool.Result{CallID: "call_1", Status: tool.StatusSuccess}
		},
	})
	f.config.Store(&c)
	ctx, cancel := context.WithCancel(w.t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := f.serve(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	return f, sync.OnceFunc(func() {
		cancel()
		<-served
		db.Close()
	})
}

// in is a call of a tool in a session, by this process.
func in(session string, args any) tool.In {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return tool.In{
		Account: "a", Session: session, Args: b, By: &tool.Identity{UID: os.Geteuid(), GID: os.Getegid()},
		Origins: tool.Origins{Args: map[string][]tool.Origin{"command": {tool.OriginModel}}},
	}
}

type line struct {
	Name     string `json:"name"`
	Schedule string `json:"schedule"`
	Command  string `json:"command"`
}

func (f *feature) create(t *testing.T, session string, l line) Job {
	t.Helper()
	out, err := f.cronCreate(t.Context(), in(session, l))
	if err != nil {
		t.Fatal(err)
	}
	return out.Data.(Job)
}

func (f *feature) only(t *testing.T, session string) Job {
	t.Helper()
	all, err := f.table.ofSession(t.Context(), session)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %+v, %v", all, err)
	}
	return all[0]
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

// bubble runs a test by a clock of its own, that begins at midnight of 2000-01-01 UTC.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

func TestT51_TextsAndIds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.session("other", "a")
		f, stop := w.open(*Defaults())
		defer stop()
		says := func(run func(context.Context, tool.In) (tool.Output, error), session string, args any, want string) {
			t.Helper()
			out, err := run(t.Context(), in(session, args))
			if out.Text != want || err != nil {
				t.Errorf("got %q, %v; want %q", out.Text, err, want)
			}
		}
		says(f.cronList, "s", line{}, "No cron jobs found.")
		if out, err := f.cronList(t.Context(), in("s", line{})); fmt.Sprint(out.Data) != "map[jobs:[]]" {
			t.Errorf("the data of no jobs is %v, %v", out.Data, err)
		}
		says(f.cronCreate, "s", line{"n", "@daily", "make test"}, `Cron job created: cron_1 "n"`)
		says(f.cronCreate, "s", line{`the "second"`, "* * * * *", "true"}, `Cron job created: cron_2 "the "second""`)
		says(f.cronCreate, "other", line{"n", "@daily", "true"}, `Cron job created: cron_1 "n"`)
		says(f.cronDelete, "s", map[string]string{"id": "cron_2"}, `Cron job deleted: cron_2 "the "second""`)
		says(f.cronCreate, "s", line{"third", "@hourly", "true"}, `Cron job created: cron_3 "third"`)
		next := time.Date(2000, 1, 2, 0, 0, 0, 0, time.Local)
		out, err := f.cronList(t.Context(), in("s", line{}))
		if err != nil || !strings.HasPrefix(out.Text, `[cron_1] "n" @daily - make test (next `+stamp(next)+")\n[cron_3]") {
			t.Errorf("got %q, %v", out.Text, err)
		}
		if all, err := f.table.ofSession(t.Context(), "s"); !reflect.DeepEqual(out.Data, map[string]any{"jobs": all}) {
			t.Errorf("got %+v, want %+v, %v", out.Data, all, err)
		}
		for _, id := range []string{"cron_2", "cron_9", "", "cron_", "cron_01", "cron_-1", "cron_+1", "1", "cron_99999999999999999999"} {
			_, err := f.cronDelete(t.Context(), in("s", map[string]string{"id": id}))
			if codeOf(err) != "cron_not_found" || err.Error() != "Cron job not found: "+id {
				t.Errorf("%q: %v", id, err)
			}
		}
		if got := w.noted("cron_deleted"); len(got) != 1 || got[0].Detail["cron"] != "cron_2" {
			t.Errorf("recorded: %+v", got)
		}
	})
}

func TestT51_WhatIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, stop := w.open(Config{PerSession: 2, PerAccount: 3})
		defer stop()
		w.session("b", "a")
		w.session("c", "a")
		good := line{"n", "@daily", "true"}
		for _, tt := range []struct {
			name, code string
			l          line
		}{
			{"no name", "invalid_arguments: name is empty", line{" ", "@daily", "true"}},
			{"a long name", "invalid_arguments: name has 201 bytes, 200 at most", line{strings.Repeat("n", 201), "@daily", "true"}},
			{"a name of two lines", "invalid_arguments", line{"a\nb", "@daily", "true"}},
			{"a name that draws", "invalid_arguments", line{"a\x1b[2J", "@daily", "true"}},
			{"a name that turns the text", "invalid_arguments", line{"a\u202eb", "@daily", "true"}},
			{"no command", "invalid_arguments: command is empty", line{"n", "@daily", "\n "}},
			{"a long command", "invalid_arguments: command has 32769 bytes, 32768 at most", line{"n", "@daily", strings.Repeat("x", 32*1024+1)}},
			{"a command with NUL", "invalid_arguments: command is not text", line{"n", "@daily", "a\x00b"}},
			{"each second", "invalid_schedule", line{"n", "* * * * * *", "true"}},
			{"every second", "invalid_schedule", line{"n", "@every 1s", "true"}},
		} {
			if _, err := f.cronCreate(t.Context(), in("s", tt.l)); !strings.HasPrefix(codeOf(err)+": "+fmt.Sprint(err), tt.code) {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		nobody := in("s", good)
		nobody.By = nil
		if _, err := f.cronCreate(t.Context(), nobody); codeOf(err) != "invalid_arguments" {
			t.Errorf("no process: %v", err)
		}
		other := in("s", good)
		other.By = &tool.Identity{UID: 4711} // an operator who acts for the account
		if _, err := f.cronCreate(t.Context(), other); codeOf(err) != "cron_author_gone" {
			t.Errorf("of another account: %v", err)
		}
		for i, session := range []string{"s", "s", "b"} {
			if _, err := f.cronCreate(t.Context(), in(session, good)); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		for _, session := range []string{"s", "b"} { // of the session, of the account
			if _, err := f.cronCreate(t.Context(), in(session, good)); codeOf(err) != "too_many_cron_jobs" {
				t.Errorf("%s: %v", session, err)
			}
		}
		f.config.Store(&Config{})
		if _, err := f.cronCreate(t.Context(), in("c", good)); codeOf(err) != "too_many_cron_jobs" {
			t.Errorf("none at all: %v", err)
		}
	})
}

// A hundred calls at once get as many jobs as there may be, each with its id.
func TestT51_ManyAtOnce(t *testing.T) {
	w := newWorld(t)
	f, stop := w.open(*Defaults())
	defer stop()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { f.cronCreate(t.Context(), in("s", line{"n", "@yearly", "true"})) })
	}
	wg.Wait()
	all, err := f.table.ofSession(t.Context(), "s")
	if err != nil || len(all) != 16 || all[15].ID != "cron_16" {
		t.Errorf("%d jobs, %v", len(all), err)
	}
}

func TestT51_ARunIsACallOfBash(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, stop := w.open(*Defaults())
		defer stop()
		said := in("s", line{"nightly", "*/10 * * * *", "make"})
		said.Origins.Args["command"] = []tool.Origin{tool.OriginWeb}
		said.Origins.Session = []tool.Origin{tool.OriginMCP}
		said.By = &tool.Identity{UID: 4711, GID: 4712, Groups: []int{4712, 4713}, Name: "ann", Home: "/home/ann"}
		w.accounts[said.By.UID] = "a"
		user := sandbox.NewUser(said.By.UID, said.By.GID, said.By.Groups, said.By.Name, said.By.Home)
		if _, err := f.cronCreate(t.Context(), said); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9*time.Minute + 59*time.Second)
		if got := w.called(); len(got) != 0 {
			t.Fatalf("too early: %+v", got)
		}
		time.Sleep(2 * time.Second)
		calls := w.called()
		if len(calls) != 1 {
			t.Fatalf("got %+v", calls)
		}
		r := calls[0]
		var args map[string]string
		if err := json.Unmarshal(r.Args, &args); err != nil || args["command"] != "make" ||
			args["description"] != `run of cron job cron_1 "nightly"` {
			t.Errorf("arguments %s", r.Args)
		}
		by := []tool.Origin{tool.OriginModel, tool.OriginWeb, tool.OriginMCP}
		if r.Account != "a" || r.Session != "s" || r.Tool != "Bash" || r.Role != tool.RoleAgent || r.Approver != "" ||
			r.ToolUseID != "cron_1" || !reflect.DeepEqual(r.By, said.By) || !slices.Equal(r.Scheduled.By, by) {
			t.Errorf("got %+v by %+v, want it by %+v", r, r.By, said.By)
		}
		if !reflect.DeepEqual(r.User, user) || r.RunsAs != user.Rights() {
			t.Errorf("it has the rights of %+v, as %q, want %+v", r.User, r.RunsAs, user)
		}
		note := tool.Note{
			Name: "cron_run", Account: "a", Session: "s", Tool: "Bash",
			Message: `a run of cron job cron_1 "nightly" begins`,
			Detail:  map[string]string{"cron": "cron_1", "schedule": "*/10 * * * *"},
		}
		if n := w.noted("cron_run"); !reflect.DeepEqual(n, []tool.Note{note}) {
			t.Errorf("recorded: %+v, want %+v", n, note)
		}
		j := f.only(t, "s")
		if j.Last == nil || j.Last.Status != "SUCCESS" || j.Last.Call != "call_1" || j.Missed != nil {
			t.Errorf("got %+v", j.Last)
		}
		out, err := f.cronList(t.Context(), in("s", line{}))
		if out.Origin != tool.OriginWeb {
			t.Errorf("the list is of %q, %v", out.Origin, err)
		}
		if want := "; last " + stamp(j.Last.At) + ": SUCCESS call_1)"; !strings.HasSuffix(out.Text, want) {
			t.Errorf("the list is %q, want %q at its end", out.Text, want)
		}
		time.Sleep(time.Hour)
		if got := len(w.called()); got != 7 {
			t.Errorf("%d calls", got)
		}
	})
}

// No record, no run.
func TestT51_WithoutARecordNothingRuns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, stop := w.open(*Defaults())
		defer stop()
		f.create(t, "s", line{"n", "* * * * *", "make"})
		w.mu.Lock()
		w.noRecord = errors.New("full")
		w.mu.Unlock()
		time.Sleep(3*time.Minute + time.Second)
		if j := f.only(t, "s"); len(w.called()) != 0 || j.Last.Status != refused || !strings.Contains(j.Last.Reason, "full") {
			t.Errorf("%d calls, %+v", len(w.called()), j.Last)
		}
	})
}

// Nothing runs for a session that was deleted, nor for another one that has its id now.
func TestT51_NothingRunsForADeletedSession(t *testing.T) {
	for _, again := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			f, stop := w.open(*Defaults())
			defer stop()
			f.create(t, "s", line{"n", "* * * * *", "make"})
			time.Sleep(time.Second)
			w.mu.Lock()
			delete(w.sessions, "s") // by another daemon: this one was told nothing
			w.mu.Unlock()
			if again {
				w.session("s", "a")
			}
			time.Sleep(2 * time.Minute)
			left, err := f.table.ofSession(t.Context(), "s")
			if len(w.called()) != 0 || len(left) != 0 || err != nil {
				t.Errorf("again %v: %d calls, left %+v, %v", again, len(w.called()), left, err)
			}
		})
	}
}

// A maker that has lost its account has no runs, and they come back with it. It is recorded once.
func TestT51_TheMakerHasLostItsAccount(t *testing.T) {
	for _, now := range []string{"", "b"} {
		bubble(t, func(t *testing.T, w *world) {
			f, stop := w.open(*Defaults())
			defer stop()
			f.create(t, "s", line{"n", "* * * * *", "make"})
			set := func(account string) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if delete(w.accounts, os.Geteuid()); account != "" {
					w.accounts[os.Geteuid()] = account
				}
			}
			set(now)
			time.Sleep(5*time.Minute + time.Second)
			j := f.only(t, "s")
			if len(w.called()) != 0 || j.Last.Status != refused || j.Last.Code != "cron_author_gone" ||
				len(w.noted("cron_refused")) != 1 {
				t.Errorf("%d calls, %+v, recorded %+v", len(w.called()), j.Last, w.noted("cron_refused"))
			}
			set("a")
			time.Sleep(time.Minute)
			if j := f.only(t, "s"); len(w.called()) != 1 || j.Last.Status != "SUCCESS" {
				t.Errorf("back: %d calls, %+v", len(w.called()), j.Last)
			}
		})
	}
}

// What a daemon that was away did not run is said once, and not made up for. A job that is a little late runs.
func TestT51_MissedRunsAreSaidOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, stop := w.open(*Defaults())
		f.create(t, "s", line{"n", "*/5 * * * *", "make"})
		stop()
		time.Sleep(3*time.Hour + 2*time.Minute) // at 3:02
		f, stop = w.open(*Defaults())
		synctest.Wait()
		j := f.only(t, "s")
		if len(w.called()) != 0 || j.Missed == nil || j.Missed.Count != 36 || j.Missed.Reason != "no daemon ran" || j.Last != nil {
			t.Errorf("%d calls, %+v", len(w.called()), j.Missed)
		}
		if n := w.noted("cron_missed"); len(n) != 1 || n[0].Detail["runs"] != "36" {
			t.Errorf("recorded: %+v", n)
		}
		if out, err := f.cronList(t.Context(), in("s", line{})); !strings.Contains(out.Text, "missed 36") {
			t.Errorf("the list says %q, %v", out.Text, err)
		}
		time.Sleep(4 * time.Minute)
		if len(w.called()) != 1 {
			t.Errorf("%d calls after it", len(w.called()))
		}
		stop()
		time.Sleep(4*time.Minute + 30*time.Second) // at 3:10:30
		_, stop = w.open(*Defaults())
		synctest.Wait()
		if len(w.called()) != 2 || len(w.noted("cron_missed")) != 1 {
			t.Errorf("half a minute late: %d calls, %d notes", len(w.called()), len(w.noted("cron_missed")))
		}
		stop()
		time.Sleep(5*time.Minute + 29*time.Second) // at 3:15:59
		_, stop = w.open(*Defaults())
		synctest.Wait()
		if len(w.called()) != 3 || len(w.noted("cron_missed")) != 1 {
			t.Errorf("nearly a minute late: %d calls, %d notes", len(w.called()), len(w.noted("cron_missed")))
		}
		stop()
		time.Sleep(5*time.Minute + time.Second) // at 3:21
		_, stop = w.open(*Defaults())
		defer stop()
		synctest.Wait()
		if len(w.called()) != 3 || len(w.noted("cron_missed")) != 2 {
			t.Errorf("a minute late: %d calls, %d notes", len(w.called()), len(w.noted("cron_missed")))
		}
	})
}

// Two runs of one job are never at the same time: what comes due meanwhile is missed.
func TestT51_ARunThatGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.do = func(ctx context.Context, _ tool.Request) tool.Result {
			select {
			case <-time.After(150 * time.Second):
				return tool.Result{Status: tool.StatusSuccess}
			case <-ctx.Done():
				return tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: "cancelled"}}
			}
		}
		f, stop := w.open(*Defaults())
		f.create(t, "s", line{"n", "* * * * *", "make"})
		time.Sleep(3*time.Minute + time.Second)
		if j := f.only(t, "s"); len(w.called()) != 1 || j.Last.Status != running || j.Missed.Count != 2 ||
			j.Missed.Reason != "the run before it had not ended" {
			t.Errorf("%d calls, %+v, %+v", len(w.called()), j.Last, j.Missed)
		}
		time.Sleep(time.Minute)
		if len(w.called()) != 2 {
			t.Errorf("%d calls when it had ended", len(w.called()))
		}
		stop() // the run is cancelled, and that is kept
		f, stop = w.open(*Defaults())
		defer stop()
		synctest.Wait()
		if j := f.only(t, "s"); j.Last.Status != "ERROR" || j.Last.Code != "cancelled" || len(w.noted("cron_lost")) != 0 {
			t.Errorf("got %+v", j.Last)
		}
	})
}

// Who listens hears of each step, and of an end how it was.
func TestT51_WhatIsToldOfAJob(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.do = func(context.Context, tool.Request) tool.Result {
			time.Sleep(90 * time.Second)
			return tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: "exit_status"}}
		}
		f, stop := w.open(*Defaults())
		defer stop()
		var told []string
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		stream, err := f.host.Events.Stream(ctx, func(e events.Event) bool {
			told = append(told, fmt.Sprintf("%s %s/%s/%s %s%s", e.Type, e.Account, e.Session, e.Cron, e.Status, e.Code))
			return false
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		go route.ServeStream(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil), stream)
		synctest.Wait()
		f.create(t, "s", line{"n", "* * * * *", "make"})
		time.Sleep(2*time.Minute + 45*time.Second) // it was due twice
		if _, err := f.cronDelete(t.Context(), in("s", map[string]string{"id": "cron_1"})); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		want := []string{
			"cron_created a/s/cron_1 ", "cron_started a/s/cron_1 ", "cron_missed a/s/cron_1 ",
			"cron_ended a/s/cron_1 ERRORexit_status", "cron_deleted a/s/cron_1 ",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// CronDelete and the end of a session end the run, and the job says so nowhere any more.
func TestT51_DeletingEndsTheRun(t *testing.T) {
	for _, how := range []string{"CronDelete", "CronDelete without a record", "session"} {
		bubble(t, func(t *testing.T, w *world) {
			ended := 0
			w.do = func(ctx context.Context, _ tool.Request) tool.Result {
				<-ctx.Done()
				ended++
				return tool.Result{Status: tool.StatusError}
			}
			f, stop := w.open(*Defaults())
			defer stop()
			f.create(t, "s", line{"n", "* * * * *", "make"})
			time.Sleep(61 * time.Second)
			if how != "session" {
				if how != "CronDelete" {
					w.mu.Lock()
					w.noRecord = errors.New("full")
					w.mu.Unlock()
				}
				_, err := f.cronDelete(t.Context(), in("s", map[string]string{"id": "cron_1"}))
				if !errors.Is(err, w.noRecord) {
					t.Errorf("%s: %v", how, err)
				}
			} else if err := f.part().Forget(t.Context(), tool.Session{ID: "s"}); err != nil {
				t.Error(err)
			}
			if len(w.called()) != 1 || ended != 1 || f.running() != 0 {
				t.Errorf("%s: %d begun, %d ended, %d running", how, len(w.called()), ended, f.running())
			}
		})
	}
}

// A model reads how the last run of a job ended and why, and which runs were missed.
func TestT51_WhatAModelReadsOfAJob(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	j := Job{
		ID: "cron_1", Name: "nightly", Schedule: "0 3 * * *", Command: "make", Next: at,
		Last:   &Run{At: at, Status: refused, Code: "c", Reason: "it was late", Call: "call_1"},
		Missed: &Missed{Count: 2, Last: at, Reason: "no daemon ran"},
	}
	want := `[cron_1] "nightly" 0 3 * * * - make (next ` + stamp(at) + "; last " + stamp(at) +
		": refused c it was late call_1; missed 2, the last time because no daemon ran)"
	if got := j.line(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The runs of one account wait for each other; another account does not wait.
func TestT51_RunsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.do = func(ctx context.Context, _ tool.Request) tool.Result {
			<-ctx.Done()
			return tool.Result{Status: tool.StatusError}
		}
		f, stop := w.open(*Defaults())
		defer stop()
		var j Job
		for range 7 {
			j = f.create(t, "s", line{"n", "* * * * *", "make"})
		}
		w.session("b", "b")
		w.mu.Lock()
		w.accounts[4711] = "b"
		w.mu.Unlock()
		j.Session, j.account, j.sessionCreated, j.maker = "b", "b", w.sessions["b"].Created, Maker{UID: 4711, GID: 4711}
		if _, err := f.table.create(t.Context(), j, *Defaults()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		of := map[string]int{}
		for _, r := range w.called() {
			of[r.Session]++
		}
		if of["s"] != 4 || of["b"] != 1 || f.running() != 8 {
			t.Errorf("%v calls, %d running", of, f.running())
		}
	})
}

// Whoever cannot have one more request cannot have one more run.
func TestT51_ARunIsBoundedAsACallIs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.budget.Limit(budget.Limits{Bytes: budget.Least, Concurrent: 1})
		busy, err := w.budget.Request("a")
		if err != nil {
			t.Fatal(err)
		}
		held := false
		w.do = func(ctx context.Context, _ tool.Request) tool.Result {
			held = budget.Of(ctx) != nil
			return tool.Result{Status: tool.StatusSuccess}
		}
		f, stop := w.open(*Defaults())
		defer stop()
		f.create(t, "s", line{"n", "* * * * *", "make"})
		time.Sleep(61 * time.Second)
		if j := f.only(t, "s"); len(w.called()) != 0 || j.Last.Status != refused || j.Last.Code != "too_many_requests" {
			t.Errorf("%d calls, the last run: %+v", len(w.called()), j.Last)
		}
		busy.Release()
		time.Sleep(time.Minute)
		if j := f.only(t, "s"); len(w.called()) != 1 || !held || j.Last.Status != string(tool.StatusSuccess) {
			t.Errorf("%d calls with a place in the budget: %t, the last run: %+v", len(w.called()), held, j.Last)
		}
		if u := w.budget.Use(); u.Requests != 0 {
			t.Errorf("%d requests are held after the runs", u.Requests)
		}
	})
}

// A run that was there when its daemon was killed is said to be lost, and is not made again.
func TestT51_ALostRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, stop := w.open(*Defaults())
		j := f.create(t, "s", line{"n", "@daily", "make"})
		_, err := f.table.change(t.Context(), j, func(j *Job) { j.Last = &Run{At: time.Now(), Status: running} })
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			stop()
			f, stop = w.open(*Defaults())
			synctest.Wait()
		}
		defer stop()
		if j := f.only(t, "s"); j.Last.Status != lost || len(w.noted("cron_lost")) != 1 || len(w.called()) != 0 {
			t.Errorf("%+v, recorded %+v", j.Last, w.noted("cron_lost"))
		}
	})
}

// What a job is survives a restart, whole.
func TestT51_ARestartChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, stop := w.open(*Defaults())
		want := f.create(t, "s", line{"ü \"n\"", "@daily", "echo 'ü'\nmake"})
		stop()
		f, stop = w.open(*Defaults())
		defer stop()
		got := f.only(t, "s")
		if got.Name != want.Name || got.Command != want.Command || !got.Next.Equal(want.Next) || !got.sessionCreated.Equal(want.sessionCreated) ||
			got.authors != provenance.ByModel || got.maker.UID != os.Geteuid() || !got.Created.Equal(want.Created) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestT51_WhatIsWrongInTheConfiguration(t *testing.T) {
	for _, tt := range []struct {
		c    Config
		says string
	}{
		{*Defaults(), ""},
		{Config{}, ""},
		{Config{PerSession: -1}, "cron.perSession"},
		{Config{PerAccount: 10_001}, "cron.perAccount"},
	} {
		err := tt.c.Check()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v", tt.c, err)
		}
	}
}

func TestT51_TheSchemasAreJSON(t *testing.T) {
	for _, x := range newFeature(part.Host{}).group().Tools {
		if s := x.Spec(); !json.Valid(s.Schema) {
			t.Errorf("%s: %s", s.Name, s.Schema)
		}
	}
}

// What reads changes nothing, what deletes says so, and no answer is in a variable.
func TestT51_WhatTheToolsMayDo(t *testing.T) {
	var got []string
	for _, x := range newFeature(part.Host{}).group().Tools {
		s := x.Spec()
		class := map[bool]tool.Class{true: tool.ClassRead, false: tool.ClassState}[s.Name == "CronList"]
		if reads := s.Name == "CronList"; s.Class != class || s.ReadOnly != reads || s.Annotations.ReadOnly != reads ||
			s.Annotations.Destructive != (s.Name == "CronDelete") || s.Annotations.OpenWorld || !s.NoCache {
			t.Errorf("%s: %+v, %+v", s.Name, s, *s.Annotations)
		}
		got = append(got, s.Name)
	}
	if fmt.Sprint(got) != "[CronCreate CronDelete CronList]" {
		t.Errorf("got %v", got)
	}
}
