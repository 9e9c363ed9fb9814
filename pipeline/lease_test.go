package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// program is echo as a program that another process can start.
type program struct{ *echo }

func (p program) Argv(in tool.In) ([]string, error) { return []string{"echo", string(in.Args)}, nil }

// leasing is a pipeline whose only tool is a program.
func (w *world) leasing() *Pipeline {
	r := catalog.NewRegistry(catalog.Group{Name: "g", Tools: []tool.Tool{program{w.echo}}})
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	p := w.pipeline()
	p.Tools = r
	return p
}

// offer judges a call for a client, in another directory.
func (w *world) offer(t *testing.T, p *Pipeline) *tool.Call {
	t.Helper()
	req := w.request(hello)
	req.Ask, req.Lease, req.Dir = true, true, "/w/sub"
	return p.Decide(t.Context(), req)
}

// exited starts nothing, and tells that it exited.
func exited(p *Pipeline, dirs *[]string) func(*tool.Call) error {
	return func(c *tool.Call) error {
		if dirs != nil {
			*dirs = append(*dirs, c.In.Dir)
		}
		end := LeaseEnd{Output: tool.Output{Text: "exit status 0"}, Report: sandbox.Report{Layers: []string{"userns"}}}
		if !p.EndLease("a", "", c.ID, end) {
			return errors.New("nobody waits for the end")
		}
		return nil
	}
}

func wantNoLease(t *testing.T, err error) {
	t.Helper()
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "call_not_held" {
		t.Errorf("got %v, want call_not_held", err)
	}
}

func TestALeasedCallRunsOnceForItsAccount(t *testing.T) {
	w := newWorld(tool.Spec{})
	p := w.leasing()
	c := w.offer(t, p)
	if c.Result.Error != nil || w.path() != "lookup resolve before uses policy end" || len(w.counted) > 0 {
		t.Fatalf("%s, counted %v: %+v", w.path(), w.counted, c.Result)
	}
	_, err := p.Lease(t.Context(), "b", "", c.ID, exited(p, nil), nil)
	wantNoLease(t, err)
	_, err = p.Lease(t.Context(), "a", "uid 9, gid 9", c.ID, exited(p, nil), nil) // judged for other rights
	wantNoLease(t, err)
	_, err = p.Lease(t.Context(), "a", "", "call_X", exited(p, nil), nil)
	wantNoLease(t, err)

	p = p.Next(p.Options) // a reload forgets nothing
	if s, ok := p.Call("a", c.ID); !ok || !s.Leased || s.Running {
		t.Errorf("got %+v, %v, want it leased", s, ok)
	}
	w.trace = nil
	var dirs []string
	r, err := p.Lease(t.Context(), "a", "", c.ID, exited(p, &dirs), nil)
	if err != nil || r.Status != tool.StatusSuccess || r.FinalText != "exit status 0" || r.CallID != c.ID {
		t.Errorf("got %+v, %v", r, err)
	}
	if r.Undo == nil || r.Undo.Kept || r.Undo.Why == "" {
		t.Errorf("of what it changed the answer says %+v", r.Undo)
	}
	if len(dirs) != 1 || dirs[0] != "/w/sub" {
		t.Errorf("it ran in %v, want once in the directory it was judged in", dirs)
	}
	if !slices.Equal(w.counted, []tool.Status{tool.StatusSuccess}) {
		t.Errorf("counted as %v, want once, when it ended", w.counted)
	}
	// Judged again and recorded as any call; hooks have rewritten it already.
	if w.path() != "lookup uses policy begin after end" {
		t.Errorf("the path was %s", w.path())
	}
	_, err = p.Lease(t.Context(), "a", "", c.ID, exited(p, nil), nil)
	wantNoLease(t, err)
}

func TestALeasedCallIsTooOldAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tool.Spec{})
		p := w.leasing()
		young, old := w.offer(t, p), w.offer(t, p)
		time.Sleep(10*time.Minute - time.Second)
		if r, err := p.Lease(t.Context(), "a", "", young.ID, exited(p, nil), nil); err != nil || r.Status != tool.StatusSuccess {
			t.Errorf("got %+v, %v", r, err)
		}
		time.Sleep(2 * time.Second)
		_, err := p.Lease(t.Context(), "a", "", old.ID, exited(p, nil), nil)
		wantNoLease(t, err)
		if s, _ := p.Call("a", old.ID); s.Leased {
			t.Error("it is still said to be leased")
		}
	})
}

// So many calls that ended can be asked for, and of so much text: the newest.
func TestCallsThatEndedAreKeptForAWhile(t *testing.T) {
	w := newWorld(tool.Spec{})
	p := w.pipeline()
	there := func(id string) bool { s, ok := p.Call("a", id); return ok && s.Result != nil }
	var ids []string
	for range 257 {
		ids = append(ids, p.Do(t.Context(), w.request(hello)).CallID)
	}
	if there(ids[0]) || !there(ids[1]) || !there(ids[256]) {
		t.Errorf("of 257 calls there are %v, %v, …, %v", there(ids[0]), there(ids[1]), there(ids[256]))
	}
	large := tool.Result{FinalText: strings.Repeat("x", 1500<<10)}
	for _, id := range []string{"1", "2", "3"} {
		p.running.calls[id] = &entry{account: "a", cancel: func(error) {}, ended: make(chan struct{})}
		p.running.leave(&tool.Call{ID: id, Result: large})
	}
	if there(ids[256]) || there("1") || !there("2") || !there("3") {
		t.Errorf("of 4.5 MiB there are %v, %v, %v", there("1"), there("2"), there("3"))
	}
}

func TestWhatMayNotRunIsNotOffered(t *testing.T) {
	for _, tt := range []struct {
		name string
		w    func(*world) *Pipeline
		code string
	}{
		{"denied", func(w *world) *Pipeline {
			w.decide = func(*tool.Call) tool.Decision { return tool.Decision{Reasons: []tool.Reason{{Rule: "r"}}} }
			return w.leasing()
		}, "policy_denied"},
		{"refused by a person", func(w *world) *Pipeline {
			w.decide = asks
			w.answers = []tool.Approval{{Reason: "no"}}
			return w.leasing()
		}, "execution_rejected"},
		{"no program", func(w *world) *Pipeline { return w.pipeline() }, "not_a_program"},
		{"its result must be seen first", func(w *world) *Pipeline {
			w.echo.spec.Results = tool.ResultAlways
			return w.leasing()
		}, "result_not_held_back"},
		{"too many", func(w *world) *Pipeline {
			p := w.leasing()
			for range 1000 {
				if c := w.offer(t, p); c.Result.Error != nil {
					t.Errorf("one of a thousand: %+v", c.Result.Error)
					break
				}
			}
			return p
		}, "too_many_held"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			p := tt.w(w)
			c := w.offer(t, p)
			if c.Result.Error == nil || c.Result.Error.Code != tt.code {
				t.Errorf("got %+v, want %s", c.Result.Error, tt.code)
			}
			if !slices.Equal(w.counted, []tool.Status{c.Result.Status}) { // it ends with that
				t.Errorf("counted as %v", w.counted)
			}
			_, err := p.Lease(t.Context(), "a", "", c.ID, exited(p, nil), nil)
			wantNoLease(t, err)
		})
	}
}

// Without Ask nobody is asked, so a call that needs a person is not offered.
func TestWhatNobodyAllowedIsNotOffered(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.decide = asks
	p := w.leasing()
	req := w.request(hello)
	req.Lease = true
	c := p.Decide(t.Context(), req)
	if c.Result.Status != tool.StatusSuccess || c.Decision.Verdict != tool.Ask || len(w.asked) > 0 {
		t.Errorf("got %s, %s after %d questions", c.Result.Status, c.Decision.Verdict, len(w.asked))
	}
	if s, ok := p.Call("a", c.ID); !ok || s.Leased {
		t.Errorf("got %+v, %v, want it not leased", s, ok)
	}
	_, err := p.Lease(t.Context(), "a", "", c.ID, exited(p, nil), nil)
	wantNoLease(t, err)
}

func asks(*tool.Call) tool.Decision {
	return tool.Decision{Verdict: tool.Ask, By: tool.ByRule, Revision: "r1", Reasons: []tool.Reason{{Rule: "r"}}}
}

func TestALeasedCallIsJudgedAgain(t *testing.T) {
	yes, no := tool.Approval{Approved: true, By: "ann"}, tool.Approval{Reason: "not any more"}
	for _, tt := range []struct {
		name    string
		decide  func(*tool.Call) tool.Decision
		answers []tool.Approval // of the first question, then of those after the change
		change  func(*world, *Pipeline)
		asked   int
		status  tool.Status
	}{
		{"an approved call is not asked about again", asks, []tool.Approval{yes}, func(*world, *Pipeline) {}, 1, tool.StatusSuccess},
		{"a new policy denies", nil, nil, func(w *world, _ *Pipeline) {
			w.decide = func(*tool.Call) tool.Decision { return tool.Decision{Reasons: []tool.Reason{{Rule: "r"}}} }
		}, 0, tool.StatusError},
		{"a new policy asks", nil, []tool.Approval{yes}, func(w *world, _ *Pipeline) { w.decide = asks }, 1, tool.StatusSuccess},
		{"an approval is not for other policies", asks, []tool.Approval{yes, no}, func(w *world, _ *Pipeline) {
			w.decide = func(c *tool.Call) tool.Decision { d := asks(c); d.Revision = "r2"; return d }
		}, 2, tool.StatusExecutionRejected},
		{"nor for another mode", asks, []tool.Approval{yes, no}, func(w *world, _ *Pipeline) { w.session.Mode = "default" }, 2, tool.StatusExecutionRejected},
		{"nor for other settings", asks, []tool.Approval{yes, yes}, func(_ *world, p *Pipeline) {
			p.Workspaces = tool.Workspace{
				Roots: []string{"/w"}, Settings: guard.Settings{AllowedWritePaths: []string{"/w/other"}},
			}
		}, 2, tool.StatusSuccess},
		{"a hook that is new blocks", nil, nil, func(w *world, _ *Pipeline) {
			w.hooks(tool.Advice{Block: true})
		}, 0, tool.StatusError},
		{"one that is new asks", nil, []tool.Approval{yes}, func(w *world, _ *Pipeline) {
			w.hooks(tool.Advice{Ask: true})
		}, 1, tool.StatusSuccess},
		{"one that is new asks for a call that was approved", asks, []tool.Approval{yes, no}, func(w *world, _ *Pipeline) {
			w.hooks(tool.Advice{Ask: true, Reason: "sure?"})
		}, 2, tool.StatusExecutionRejected},
		{"one that is new rewrites", asks, []tool.Approval{yes, no}, func(w *world, _ *Pipeline) {
			w.hooks(tool.Advice{Args: json.RawMessage(`{"text":"other"}`)})
		}, 2, tool.StatusExecutionRejected},
		{"a session that is gone", nil, nil, func(w *world, _ *Pipeline) { w.session.ID = "t" }, 0, tool.StatusError},
		{"a project that was taken back", nil, nil, func(w *world, _ *Pipeline) {
			w.closed = errors.New("nobody allows it any more")
		}, 0, tool.StatusError},
		{"a tool that is switched off", nil, nil, func(_ *world, p *Pipeline) { p.Tools = catalog.NewRegistry() }, 0, tool.StatusNotFound},
		{"no record", nil, nil, func(w *world, _ *Pipeline) { w.failAt = "begin" }, 0, tool.StatusError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			if tt.decide != nil {
				w.decide = tt.decide
			}
			w.answers = tt.answers
			p := w.leasing()
			c := w.offer(t, p)
			if c.Result.Error != nil {
				t.Fatalf("got %+v", c.Result)
			}
			tt.change(w, p)
			var dirs []string
			r, err := p.Lease(t.Context(), "a", "", c.ID, exited(p, &dirs), nil)
			if err != nil || r.Status != tt.status || len(w.asked) != tt.asked {
				t.Errorf("got %s after %d questions, %v, want %s after %d: %s", r.Status, len(w.asked), err, tt.status,
					tt.asked, r.FinalText)
			}
			if (len(dirs) == 1) != (tt.status == tool.StatusSuccess) {
				t.Errorf("it was started %d times", len(dirs))
			}
		})
	}
}

func TestALeasedCallEndsWithItsProgram(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start func(context.CancelFunc, *Pipeline, *tool.Call) error
		code  string
	}{
		{"it could not be handed out", func(context.CancelFunc, *Pipeline, *tool.Call) error { return errors.New("no") }, "run_failed"},
		{"the program left without a word", func(leave context.CancelFunc, _ *Pipeline, _ *tool.Call) error { leave(); return nil }, "cancelled"},
		{"somebody cancelled it", func(_ context.CancelFunc, p *Pipeline, c *tool.Call) error { p.Cancel("a", c.ID); return nil }, "cancelled"},
		{"it did not start", func(_ context.CancelFunc, p *Pipeline, c *tool.Call) error {
			p.EndLease("a", "", c.ID, LeaseEnd{Err: &tool.Error{Code: "not_started", Msg: "no bash"}})
			return nil
		}, "not_started"},
		{"it made a denied path", func(_ context.CancelFunc, p *Pipeline, c *tool.Call) error {
			made := []sandbox.Denial{{Layer: "denied_path_created", Act: "create .env"}}
			p.EndLease("a", "", c.ID, LeaseEnd{Report: sandbox.Report{Denials: made}})
			return nil
		}, "denied_path_created"},
		{"its output says so", func(_ context.CancelFunc, p *Pipeline, c *tool.Call) error {
			made := []sandbox.Denial{{Layer: "denied_path_created", Act: "create .env"}}
			p.EndLease("a", "", c.ID, LeaseEnd{Output: tool.Output{Denials: made}})
			return nil
		}, "denied_path_created"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			p := w.leasing()
			c := w.offer(t, p)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r, err := p.Lease(ctx, "a", "", c.ID, func(c *tool.Call) error { return tt.start(leave, p, c) }, nil)
			if err != nil || r.Error == nil || r.Error.Code != tt.code || !strings.HasSuffix(w.path(), " end") {
				t.Errorf("got %+v, %v, %s, want %s", r.Error, err, w.path(), tt.code)
			}
			if p.EndLease("a", "", c.ID, LeaseEnd{}) {
				t.Error("it can be ended again")
			}
		})
	}
}

func TestOnlyWhoRunsItTellsTheEnd(t *testing.T) {
	w := newWorld(tool.Spec{})
	p := w.leasing()
	c := w.offer(t, p)
	_, err := p.Lease(t.Context(), "a", "", c.ID, func(c *tool.Call) error {
		if p.EndLease("b", "", c.ID, LeaseEnd{}) {
			t.Error("another account ended it")
		}
		if p.EndLease("a", "uid 1002, gid 1002", c.ID, LeaseEnd{}) {
			t.Error("another user of the account ended it")
		}
		return exited(p, nil)(c)
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

func TestDecideWaitsForAPerson(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ask    bool
		answer tool.Approval
		asked  int
		status tool.Status
	}{
		{"nobody is asked unless wanted", false, tool.Approval{}, 0, tool.StatusSuccess},
		{"yes", true, tool.Approval{Approved: true}, 1, tool.StatusSuccess},
		{"yes, with other arguments", true, tool.Approval{Approved: true, Args: json.RawMessage(`{"text":"edited"}`)}, 1, tool.StatusSuccess},
		{"no", true, tool.Approval{Reason: "use a branch"}, 1, tool.StatusExecutionRejected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			w.decide, w.answers = asks, []tool.Approval{tt.answer}
			req := w.request(hello)
			req.Ask = tt.ask
			c := w.pipeline().Decide(t.Context(), req)
			if c.Result.Status != tt.status || len(w.asked) != tt.asked || w.ran() {
				t.Errorf("got %s after %d questions: %s", c.Result.Status, len(w.asked), w.path())
			}
			if tt.answer.Args != nil && string(c.In.Args) != string(tt.answer.Args) {
				t.Errorf("got arguments %s", c.In.Args)
			}
		})
	}
}

// TestALeasedCallsConnectionsAreJudgedHere: as those of a call that runs here, for whoever runs it,
// and while it runs.
func TestALeasedCallsConnectionsAreJudgedHere(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Network = asksFor
	w.connect = func(_ *tool.Call, conn egress.Connection) tool.Decision {
		if conn.Host == "a.test" && conn.Port == 80 {
			return saying(tool.Deny, "r")(nil, conn)
		}
		return tool.Decision{Verdict: tool.Allow}
	}
	w.people = answering(true)
	p := w.leasing()
	c := w.offer(t, p)
	if _, ok := p.ConnectLease(t.Context(), "a", "", c.ID, tls("a.test")); ok {
		t.Error("a call that nobody has started connects")
	}
	r, err := p.Lease(t.Context(), "a", "", c.ID, func(c *tool.Call) error {
		plain := tls("a.test")
		plain.Port = 80
		for conn, want := range map[egress.Connection]bool{tls("a.test"): true, plain: false, tls("b.test"): false, tls("c.test"): true} {
			if v, ok := p.ConnectLease(t.Context(), "a", "", c.ID, conn); !ok || v.Allow != want {
				t.Errorf("%v: %v %+v", conn, ok, v)
			}
		}
		if _, ok := p.ConnectLease(t.Context(), "b", "", c.ID, tls("a.test")); ok {
			t.Error("another account asks")
		}
		if _, ok := p.ConnectLease(t.Context(), "a", "uid 9, gid 9", c.ID, tls("a.test")); ok {
			t.Error("others' rights ask")
		}
		end := LeaseEnd{}
		end.Network.Add(egress.Row{Host: "a.test", Port: 443, Verdict: egress.Allowed, Count: 1})
		p.EndLease("a", "", c.ID, end)
		return nil
	}, nil)
	if err != nil || r.Network == nil || r.Network.Connections[0].Host != "a.test" {
		t.Errorf("got %+v, %v", r.Network, err)
	}
	if _, ok := p.ConnectLease(t.Context(), "a", "", c.ID, tls("a.test")); ok {
		t.Error("a call that ended connects")
	}
}
