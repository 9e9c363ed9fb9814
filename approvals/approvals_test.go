package approvals

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/shellparse"
)

// openQueue opens a queue in memory.
func openQueue(t *testing.T, o Options) *Queue {
	t.Helper()
	q, closeAll := openQueueAt(t, ":memory:", o)
	t.Cleanup(closeAll)
	return q
}

func openQueueAt(t testing.TB, path string, o Options) (*Queue, func()) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: path}, Schema())
	if err != nil {
		t.Fatal(err)
	}
	q, err := New(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	return q, func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// bashCall is a judged call that a mode asks about.
func bashCall(command string) *tool.Call {
	args, _ := json.Marshal(map[string]string{"command": command})
	c := tool.NewCall(tool.Request{Account: "acc", Session: "s1", Tool: "Bash", Args: args})
	c.Session = tool.Session{ID: "s1", Account: "acc", Dir: "/src", Profile: "developer"}
	c.Spec = tool.Spec{Name: "Bash", Description: "run a command", Class: tool.ClassExec}
	c.In.Dir = "/src"
	c.Facts = tool.Facts{Class: tool.ClassExec, Mode: "default", Uses: guard.Uses{
		Script: &shellparse.Script{
			Commands: []shellparse.Command{{Name: "git", Args: []shellparse.Word{{Text: "push", Known: true}}}},
		},
		Paths: []guard.PathUse{
			{Raw: "a", Path: "/src/a", Op: guard.Read},
			{Raw: "$X", Op: guard.Write},
		},
		Hosts: []string{"example.com"},
	}}
	c.Decision = tool.Decision{
		Verdict: tool.Ask, By: tool.ByMode,
		Reasons: []tool.Reason{{Rule: "mode:default", Message: "this mode asks"}},
	}
	c.Digest = "digest of " + command
	return c
}

type outcome struct {
	tool.Approval
	err error
}

// start files a question and returns once it waits.
func start(ctx context.Context, ask func(context.Context, *tool.Call) (tool.Approval, error),
	c *tool.Call,
) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		a, err := ask(ctx, c)
		done <- outcome{a, err}
	}()
	synctest.Wait()
	return done
}

func pending(t *testing.T, q *Queue) []Item {
	t.Helper()
	items, _ := listed(t, q, Filter{})
	return items
}

// listed is a page of questions, and how many there are in all.
func listed(t testing.TB, q *Queue, f Filter) (items []Item, total int) {
	t.Helper()
	page, err := q.List(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	for item, err := range q.Items(context.Background(), page) {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items, page.Total
}

func onlyPending(t *testing.T, q *Queue) Item {
	t.Helper()
	items := pending(t, q)
	if len(items) != 1 {
		t.Fatalf("got %d pending questions, want 1", len(items))
	}
	return items[0]
}

func decide(t *testing.T, q *Queue, id string, d Decision) Item {
	t.Helper()
	item, err := q.Decide(context.Background(), id, d)
	if err != nil {
		t.Fatal(err)
	}
	return item
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != code || e.Hint == "" {
		t.Errorf("got error %#v, want code %q with a hint", err, code)
	}
}

// inBubble runs f with a fake clock and an approver.
func inBubble(t *testing.T, o Options, f func(t *testing.T, q *Queue)) {
	t.Helper()
	o.Approver = true
	synctest.Test(t, func(t *testing.T) { f(t, openQueue(t, o)) })
}

func TestA11_A20_ItemShowsTheWholeCall(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		long := "git push " + strings.Repeat("x", 100_000)
		done := start(t.Context(), q.Execution, bashCall(long))
		item := onlyPending(t, q)
		var args struct{ Command string }
		if err := json.Unmarshal(item.Args, &args); err != nil || args.Command != long {
			t.Errorf("arguments are not shown in full: %d bytes, %v", len(args.Command), err)
		}
		if item.Type != TypeExecution || item.Tool != "Bash" || item.Description == "" || item.SessionID != "s1" {
			t.Errorf("item lacks its head: %+v", item)
		}
		f := item.Facts
		if len(f.Commands) != 1 || len(f.Reads) != 1 || len(f.Writes) != 1 || len(f.Hosts) != 1 ||
			f.Writes[0] != "$X (unknown)" {
			t.Errorf("facts are incomplete: %+v", f)
		}
		if len(item.Why) != 1 || item.Why[0].Rule != "mode:default" {
			t.Errorf("got reasons %+v, want those of the decision", item.Why)
		}
		if got, want := item.ExpiresAt.Sub(item.CreatedAt), 300*time.Second; got != want {
			t.Errorf("question waits %v, want %v", got, want)
		}
		decide(t, q, item.ID, Decision{Approved: true, By: "ann"})
		if got := <-done; !got.Approved || got.By != "ann" || got.ID != item.ID {
			t.Errorf("got %+v, want ann's approval", got)
		}
		if n := len(pending(t, q)); n != 0 || q.Pending() != 0 {
			t.Errorf("a decided question is still listed (%d, %d)", n, q.Pending())
		}
	})
}

func TestA04_A19_RefusalCarriesItsReason(t *testing.T) {
	for _, tt := range []struct{ name, reason, want string }{
		{"the person's own reason", "not on a Friday", "not on a Friday"},
		{"the default reason", "", "Execution rejected by user"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, q *Queue) {
				done := start(t.Context(), q.Execution, bashCall("x"))
				decide(t, q, onlyPending(t, q).ID, Decision{Reason: tt.reason})
				if got := <-done; got.Approved || got.Reason != tt.want || got.err != nil {
					t.Errorf("got %+v, want a refusal %q", got, tt.want)
				}
			})
		})
	}
}

func TestA02_A05_ResultIsShownAndCanBeRefused(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		c := bashCall("cat notes")
		c.Spec.Results = tool.ResultAlways
		c.Result.FormattedText = "the secret plan"
		done := start(t.Context(), q.Result, c)
		item := onlyPending(t, q)
		if item.Type != TypeResult || item.Result != "the secret plan" {
			t.Errorf("got %+v, want the result", item)
		}
		decide(t, q, item.ID, Decision{})
		if got := <-done; got.Approved || got.Reason != "Result rejected by user" {
			t.Errorf("got %+v, want a refusal", got)
		}
	})
}

// TestA09_OneQueueHearsBothKinds: the question before the run has the name, the
// description and the arguments, the one after it the result as well.
func TestA09_OneQueueHearsBothKinds(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		c := bashCall("cat notes")
		c.Result.FormattedText = "the secret plan"
		for _, tt := range []struct {
			kind   Type
			ask    func(context.Context, *tool.Call) (tool.Approval, error)
			result string
		}{{TypeExecution, q.Execution, ""}, {TypeResult, q.Result, "the secret plan"}} {
			done := start(t.Context(), tt.ask, c)
			item := onlyPending(t, q)
			if item.Type != tt.kind || item.SessionID != "s1" || item.Tool != "Bash" ||
				item.Description != "run a command" ||
				string(item.Args) != `{"command":"cat notes"}` || item.Result != tt.result {
				t.Errorf("got %+v", item)
			}
			decide(t, q, item.ID, Decision{Approved: true})
			if a := <-done; !a.Approved {
				t.Errorf("%s: got %+v", tt.kind, a)
			}
		}
	})
}

func TestA16_CX23_FailedResultIsShownWithItsStatus(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		c := bashCall("false")
		c.Result.Status, c.Result.FinalText = tool.StatusError, "exit 1: no such host"
		done := start(t.Context(), q.Result, c)
		item := onlyPending(t, q)
		if item.ResultState != tool.StatusError || item.Result != "exit 1: no such host" {
			t.Errorf("got %q %q, want the error", item.ResultState, item.Result)
		}
		decide(t, q, item.ID, Decision{Approved: true})
		if got := <-done; !got.Approved {
			t.Errorf("got %+v, want an approval", got)
		}
	})
}

func TestA10_NobodyToAsk(t *testing.T) {
	q := openQueue(t, Options{})
	a, err := q.Execution(t.Context(), bashCall("x"))
	if err != nil || a.Approved || a.Code != CodeNoApprover || a.Reason != "No execution approval callback set" {
		t.Errorf("got %+v, %v", a, err)
	}
	a, err = q.Result(t.Context(), bashCall("x"))
	if err != nil || a.Approved || a.Code != CodeNoApprover || a.Reason != "No result approval callback set" {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestA12_AnyOrderOnceEach(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		first := start(t.Context(), q.Execution, bashCall("first"))
		second := start(t.Context(), q.Execution, bashCall("second"))
		ids := map[string]string{}
		for _, i := range pending(t, q) {
			ids[i.Digest] = i.ID
		}
		decide(t, q, ids["digest of second"], Decision{Approved: true})
		if got := <-second; !got.Approved {
			t.Errorf("second: got %+v, want an approval", got)
		}
		decide(t, q, ids["digest of first"], Decision{Reason: "no"})
		if got := <-first; got.Approved {
			t.Errorf("first: got %+v, want a refusal", got)
		}
		_, err := q.Decide(t.Context(), ids["digest of first"], Decision{Approved: true})
		wantCode(t, err, "already_decided")
		_, err = q.Decide(t.Context(), "apr_unknown", Decision{Approved: true})
		wantCode(t, err, "not_found")
		_, err = q.Get(t.Context(), "apr_unknown")
		wantCode(t, err, "not_found")
	})
}

func TestA13_EveryEndWithoutAnAnswerRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		status     Status
		end        func(q *Queue, cancel func())
	}{
		{"time is up", CodeTimedOut, StatusExpired, func(*Queue, func()) { time.Sleep(301 * time.Second) }},
		{"the session ends", CodeCancelled, StatusCancelled, func(q *Queue, _ func()) {
			if err := q.CancelSession(context.Background(), "s1", "session deleted"); err != nil {
				panic(err)
			}
		}},
		{"the daemon stops", CodeCancelled, StatusCancelled, func(q *Queue, _ func()) {
			if err := q.Close(""); err != nil {
				panic(err)
			}
		}},
		{"the caller leaves", CodeLeft, StatusPending, func(_ *Queue, cancel func()) { cancel() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, q *Queue) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := start(ctx, q.Execution, bashCall("x"))
				id := onlyPending(t, q).ID
				tt.end(q, cancel)
				if got := <-done; got.Approved || got.Code != tt.code || got.Reason == "" || got.err != nil {
					t.Errorf("got %+v, want a refusal with code %q", got, tt.code)
				}
				item, err := q.Get(t.Context(), id)
				if err != nil || item.Status != tt.status {
					t.Errorf("got status %q, %v, want %q", item.Status, err, tt.status)
				}
				for _, status := range []Status{StatusPending, StatusApproved, StatusRefused, StatusExpired, StatusCancelled} {
					list, err := q.List(t.Context(), Filter{Status: string(status)})
					if err != nil || (list.Total == 1) != (status == tt.status) {
						t.Errorf("%d questions are %s, %v", list.Total, status, err)
					}
				}
			})
		})
	}
}

func TestExpiredQuestionCannotBeAnswered(t *testing.T) {
	inBubble(t, Options{Timeout: time.Minute}, func(t *testing.T, q *Queue) {
		ctx, cancel := context.WithCancel(t.Context())
		done := start(ctx, q.Execution, bashCall("x"))
		id := onlyPending(t, q).ID
		cancel()
		<-done
		time.Sleep(time.Minute)
		_, err := q.Decide(t.Context(), id, Decision{Approved: true})
		wantCode(t, err, "expired")
		_, err = q.Decide(t.Context(), id, Decision{Approved: true})
		wantCode(t, err, "expired")
		if q.Pending() != 0 {
			t.Error("an expired question still counts as pending")
		}
	})
}

func TestClosedQueueRefuses(t *testing.T) {
	q := openQueue(t, Options{Approver: true})
	if err := q.Close("going down"); err != nil {
		t.Fatal(err)
	}
	a, err := q.Execution(t.Context(), bashCall("x"))
	if err != nil || a.Approved || a.Reason != "going down" {
		t.Errorf("got %+v, %v, want a refusal", a, err)
	}
}

func TestCallWithoutDigestIsAnError(t *testing.T) {
	q := openQueue(t, Options{Approver: true})
	c := bashCall("x")
	c.Digest = ""
	if a, err := q.Execution(t.Context(), c); err == nil || a.Approved {
		t.Errorf("got %+v, want an error", a)
	}
}

func TestCapPerSession(t *testing.T) {
	inBubble(t, Options{MaxPerSession: 2}, func(t *testing.T, q *Queue) {
		start(t.Context(), q.Execution, bashCall("1"))
		second := start(t.Context(), q.Execution, bashCall("2"))
		third := start(t.Context(), q.Execution, bashCall("3"))
		if got := <-third; got.Approved || got.Code != CodeTooMany || got.Reason == "" {
			t.Errorf("got %+v, want %q", got, CodeTooMany)
		}
		other := bashCall("4")
		other.Session.ID = "s2"
		start(t.Context(), q.Execution, other)
		if got, want := q.Pending(), 3; got != want {
			t.Errorf("got %d pending, want %d: another session has its own cap", got, want)
		}
		for _, i := range pending(t, q) {
			if i.Digest == "digest of 2" {
				decide(t, q, i.ID, Decision{Approved: true})
			}
		}
		<-second
		start(t.Context(), q.Execution, bashCall("3"))
		if got, want := q.Pending(), 3; got != want {
			t.Errorf("got %d pending, want %d: an answer makes room", got, want)
		}
		if err := q.Close(""); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCapOfAllSessions: many sessions together do not fill the memory either.
func TestCapOfAllSessions(t *testing.T) {
	inBubble(t, Options{Max: 2}, func(t *testing.T, q *Queue) {
		of := func(session, command string) *tool.Call {
			c := bashCall(command)
			c.Session.ID = session
			return c
		}
		first := start(t.Context(), q.Execution, of("s1", "1"))
		start(t.Context(), q.Execution, of("s2", "2"))
		third := start(t.Context(), q.Execution, of("s3", "3"))
		if got, want := q.Pending(), 2; got != want {
			t.Fatalf("got %d pending, want %d", got, want)
		}
		if got := <-third; got.Approved || got.Code != CodeTooMany || got.Reason != "2 questions wait already" {
			t.Errorf("got %+v, want %q", got, CodeTooMany)
		}
		start(t.Context(), q.Execution, of("s2", "2")) // joins the one that waits
		for _, i := range pending(t, q) {
			if i.SessionID == "s1" {
				decide(t, q, i.ID, Decision{Approved: true})
			}
		}
		<-first
		start(t.Context(), q.Execution, of("s3", "3"))
		if got, want := q.Pending(), 2; got != want {
			t.Errorf("got %d pending, want %d: an answer makes room", got, want)
		}
		if err := q.Close(""); err != nil {
			t.Fatal(err)
		}
	})
}

func TestA21_RecordRefusesWhatItCannotWrite(t *testing.T) {
	fail := ""
	var seen []string
	inBubble(t, Options{Record: func(_ context.Context, e Event) error {
		if string(e.Kind) == fail {
			return errors.New("disk full")
		}
		seen = append(seen, string(e.Kind)+" "+string(e.Item.Status)+" "+e.Item.DecidedBy)
		return nil
	}}, func(t *testing.T, q *Queue) {
		fail = string(EventAsked)
		if a, err := q.Execution(t.Context(), bashCall("x")); err == nil || a.Approved {
			t.Errorf("got %+v, want an error", a)
		}
		fail = string(EventDecided)
		done := start(t.Context(), q.Execution, bashCall("x"))
		id := onlyPending(t, q).ID
		if _, err := q.Decide(t.Context(), id, Decision{Approved: true, By: "ann"}); err == nil {
			t.Error("an answer that cannot be recorded counts")
		}
		fail = ""
		decide(t, q, id, Decision{Approved: true, By: "ann"})
		if got := <-done; !got.Approved {
			t.Errorf("got %+v, want an approval", got)
		}
		want := "approval_asked pending ,approval_decided approved ann"
		if got := strings.Join(seen, ","); got != want {
			t.Errorf("A-21: recorded %q, want %q", got, want)
		}
	})
}

func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	var recorded []Item
	o := Options{Approver: true, Timeout: time.Hour, Record: func(_ context.Context, e Event) error {
		if e.Kind == EventDecided {
			recorded = append(recorded, e.Item)
		}
		return nil
	}}
	q, closeDB := openQueueAt(t, path, o)
	ctx, kill := context.WithCancel(t.Context())
	events := q.Subscribe(ctx)
	done := make(chan outcome)
	res := bashCall("result")
	asked := []func() (tool.Approval, error){
		func() (tool.Approval, error) { return q.Execution(ctx, bashCall("x")) },
		func() (tool.Approval, error) { return q.Execution(ctx, bashCall("late")) },
		func() (tool.Approval, error) { return q.Result(ctx, res) },
		func() (tool.Approval, error) { return q.Changes(ctx, res, tool.Changing{}) },
	}
	for _, ask := range asked {
		go func() {
			a, err := ask()
			done <- outcome{a, err}
		}()
		<-events
	}
	err := q.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE approval_questions SET expires_at = 1 WHERE digest = 'digest of late'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	closeDB() // as kill -9 leaves it: all wait

	q, closeDB = openQueueAt(t, path, o)
	defer closeDB()
	var ended []string
	for _, item := range recorded {
		ended = append(ended, fmt.Sprint(item.Type, " ", item.Status))
	}
	slices.Sort(ended)
	if want := []string{"changes cancelled", "execution expired", "result cancelled"}; !slices.Equal(ended, want) {
		t.Errorf("the restart recorded %q, want %q", ended, want)
	}
	kill()
	item := onlyPending(t, q)
	if item.Digest != "digest of x" || q.Pending() != 1 {
		t.Fatalf("got %+v, want the execution question alone", item)
	}
	decide(t, q, item.ID, Decision{Approved: true, By: "ann"})
	a, err := q.Execution(t.Context(), bashCall("x"))
	if err != nil || !a.Approved || a.By != "ann" {
		t.Errorf("got %+v, %v: the repeated call does not find the answer", a, err)
	}
	if items, _ := listed(t, q, Filter{Status: "cancelled"}); len(items) != 2 {
		t.Errorf("got %+v: want the result and the changes cancelled", items)
	}
	if items, _ := listed(t, q, Filter{Status: "expired"}); len(items) != 1 || items[0].Digest != "digest of late" {
		t.Errorf("got %+v: want the one that is over time", items)
	}
	for range asked {
		<-done
	}
}
