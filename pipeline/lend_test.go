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

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// program is echo as a program that another process can start.
type program struct{ *echo }

func (p program) Argv(in tool.In) ([]string, error) { return []string{"echo", string(in.Args)}, nil }

// lending is a pipeline whose only tool is a program.
func (w *world) lending() *Pipeline {
	r := tool.NewRegistry(tool.Group{Name: "g", Tools: []tool.Tool{program{w.echo}}})
	r.SetDefaults(tool.Defaults{AllGroups: true})
	p := w.pipeline()
	p.Tools = r
	return p
}

// hold judges a call for another program, in another directory.
func (w *world) hold(t *testing.T, p *Pipeline) *tool.Call {
	t.Helper()
	req := w.request(hello)
	req.Ask, req.Hold, req.Dir = true, true, "/w/sub"
	return p.Decide(t.Context(), req)
}

// exited starts nothing, and tells that it exited.
func exited(p *Pipeline, dirs *[]string) func(*tool.Call) error {
	return func(c *tool.Call) error {
		if dirs != nil {
			*dirs = append(*dirs, c.In.Dir)
		}
		end := Ended{Output: tool.Output{Text: "exit status 0"}, Report: sandbox.Report{Layers: []string{"userns"}}}
		if !p.Ended("a", c.ID, end) {
			return errors.New("nobody waits for the end")
		}
		return nil
	}
}

func wantNotHeld(t *testing.T, err error) {
	t.Helper()
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "call_not_held" {
		t.Errorf("got %v, want call_not_held", err)
	}
}

func TestAHeldCallRunsOnceForItsAccount(t *testing.T) {
	w := newWorld(tool.Spec{})
	p := w.lending()
	c := w.hold(t, p)
	if c.Result.Error != nil || w.path() != "lookup resolve before uses policy end" || len(w.counted) > 0 {
		t.Fatalf("%s, counted %v: %+v", w.path(), w.counted, c.Result)
	}
	_, err := p.Lend(t.Context(), "b", c.ID, exited(p, nil))
	wantNotHeld(t, err)
	_, err = p.Lend(t.Context(), "a", "call_X", exited(p, nil))
	wantNotHeld(t, err)

	p = p.Next(p.Options) // a reload forgets nothing
	if s, ok := p.Call("a", c.ID); !ok || !s.Held || s.Running {
		t.Errorf("got %+v, %v, want it held", s, ok)
	}
	w.trace = nil
	var dirs []string
	r, err := p.Lend(t.Context(), "a", c.ID, exited(p, &dirs))
	if err != nil || r.Status != tool.StatusSuccess || r.FinalText != "exit status 0" || r.CallID != c.ID {
		t.Errorf("got %+v, %v", r, err)
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
	_, err = p.Lend(t.Context(), "a", c.ID, exited(p, nil))
	wantNotHeld(t, err)
}

func TestAHeldCallIsTooOldAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tool.Spec{})
		p := w.lending()
		young, old := w.hold(t, p), w.hold(t, p)
		time.Sleep(heldFor - time.Second)
		if r, err := p.Lend(t.Context(), "a", young.ID, exited(p, nil)); err != nil || r.Status != tool.StatusSuccess {
			t.Errorf("got %+v, %v", r, err)
		}
		time.Sleep(2 * time.Second)
		_, err := p.Lend(t.Context(), "a", old.ID, exited(p, nil))
		wantNotHeld(t, err)
		if s, _ := p.Call("a", old.ID); s.Held {
			t.Error("it is still said to be held")
		}
	})
}

func TestWhatMayNotRunIsNotHeld(t *testing.T) {
	for _, tt := range []struct {
		name string
		w    func(*world) *Pipeline
		code string
	}{
		{"denied", func(w *world) *Pipeline {
			w.decide = func(*tool.Call) tool.Decision { return tool.Decision{Reasons: []tool.Reason{{Rule: "r"}}} }
			return w.lending()
		}, "policy_denied"},
		{"refused by a person", func(w *world) *Pipeline {
			w.decide = asks
			w.answers = []tool.Approval{{Reason: "no"}}
			return w.lending()
		}, "execution_rejected"},
		{"no program", func(w *world) *Pipeline { return w.pipeline() }, "not_a_program"},
		{"its result must be seen first", func(w *world) *Pipeline {
			w.echo.spec.Results = tool.ResultAlways
			return w.lending()
		}, "result_not_held_back"},
		{"too many", func(w *world) *Pipeline {
			p := w.lending()
			for range maxHeld {
				w.hold(t, p)
			}
			return p
		}, "too_many_held"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			p := tt.w(w)
			c := w.hold(t, p)
			if c.Result.Error == nil || c.Result.Error.Code != tt.code {
				t.Errorf("got %+v, want %s", c.Result.Error, tt.code)
			}
			_, err := p.Lend(t.Context(), "a", c.ID, exited(p, nil))
			wantNotHeld(t, err)
		})
	}
}

func asks(*tool.Call) tool.Decision {
	return tool.Decision{Verdict: tool.Ask, By: tool.ByRule, Revision: "r1", Reasons: []tool.Reason{{Rule: "r"}}}
}

func TestAHeldCallIsJudgedAgain(t *testing.T) {
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
			p.Settings.AllowedWritePaths = []string{"/w/other"}
		}, 2, tool.StatusSuccess},
		{"a session that is gone", nil, nil, func(w *world, _ *Pipeline) { w.session.ID = "t" }, 0, tool.StatusError},
		{"a tool that is switched off", nil, nil, func(_ *world, p *Pipeline) { p.Tools = tool.NewRegistry() }, 0, tool.StatusNotFound},
		{"no record", nil, nil, func(w *world, _ *Pipeline) { w.failAt = "begin" }, 0, tool.StatusError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			if tt.decide != nil {
				w.decide = tt.decide
			}
			w.answers = tt.answers
			p := w.lending()
			c := w.hold(t, p)
			if c.Result.Error != nil {
				t.Fatalf("got %+v", c.Result)
			}
			tt.change(w, p)
			var dirs []string
			r, err := p.Lend(t.Context(), "a", c.ID, exited(p, &dirs))
			if err != nil || r.Status != tt.status || len(w.asked) != tt.asked {
				t.Errorf("got %s after %d questions, %v, want %s after %d: %s", r.Status, len(w.asked), err, tt.status, tt.asked, r.FinalText)
			}
			if (len(dirs) == 1) != (tt.status == tool.StatusSuccess) {
				t.Errorf("it was started %d times", len(dirs))
			}
		})
	}
}

func TestALentCallEndsWithItsProgram(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start func(context.CancelFunc, *Pipeline, *tool.Call) error
		code  string
	}{
		{"it could not be handed out", func(context.CancelFunc, *Pipeline, *tool.Call) error { return errors.New("no") }, "run_failed"},
		{"the program left without a word", func(leave context.CancelFunc, _ *Pipeline, _ *tool.Call) error { leave(); return nil }, "cancelled"},
		{"somebody cancelled it", func(_ context.CancelFunc, p *Pipeline, c *tool.Call) error { p.Cancel("a", c.ID); return nil }, "cancelled"},
		{"it did not start", func(_ context.CancelFunc, p *Pipeline, c *tool.Call) error {
			p.Ended("a", c.ID, Ended{Err: &tool.Error{Code: "not_started", Msg: "no bash"}})
			return nil
		}, "not_started"},
		{"it made a denied path", func(_ context.CancelFunc, p *Pipeline, c *tool.Call) error {
			p.Ended("a", c.ID, Ended{Report: sandbox.Report{Denials: []sandbox.Denial{{Layer: "denied_path_created", Act: "create .env"}}}})
			return nil
		}, "denied_path_created"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			p := w.lending()
			c := w.hold(t, p)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r, err := p.Lend(ctx, "a", c.ID, func(c *tool.Call) error { return tt.start(leave, p, c) })
			if err != nil || r.Error == nil || r.Error.Code != tt.code || !strings.HasSuffix(w.path(), " end") {
				t.Errorf("got %+v, %v, %s, want %s", r.Error, err, w.path(), tt.code)
			}
			if p.Ended("a", c.ID, Ended{}) {
				t.Error("it can be ended again")
			}
		})
	}
}

func TestOnlyTheAccountTellsTheEnd(t *testing.T) {
	w := newWorld(tool.Spec{})
	p := w.lending()
	c := w.hold(t, p)
	_, err := p.Lend(t.Context(), "a", c.ID, func(c *tool.Call) error {
		if p.Ended("b", c.ID, Ended{}) {
			t.Error("another account ended it")
		}
		return exited(p, nil)(c)
	})
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
