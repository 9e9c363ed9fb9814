package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// changes is a journal of calls that delete a file.
type changes struct {
	none, lost bool  // nothing changed; it cannot be undone
	failed     error // of the undo
	left       []tool.Change
	undone     int
	broken     error    // of the facts
	full       error    // nothing can be written down
	whole      []string // what it says in turn of whether everything is kept; the last one stays
}

func (j *changes) Whole(context.Context, *tool.Call) string {
	if len(j.whole) == 0 {
		return ""
	}
	why := j.whole[0]
	if len(j.whole) > 1 {
		j.whole = j.whole[1:]
	}
	return why
}

func (j *changes) Keep(ctx context.Context, _ *tool.Call) (context.Context, error) {
	return ctx, j.full
}

func (j *changes) Collect(_ context.Context, c *tool.Call) error {
	if !j.none {
		list := []tool.Change{{Path: "a", Kind: tool.ChangeDelete, BytesBefore: 3}}
		c.Changes = tool.Changes{List: list, Total: 1, Undo: &tool.Undo{Kept: !j.lost}, Made: j}
	}
	return nil
}

func (j *changes) Facts(context.Context) ([]tool.Changed, error) {
	return []tool.Changed{{Path: "/w/a", Kind: tool.ChangeDelete}}, j.broken
}

func (j *changes) Diff(context.Context, int) (string, error) { return "-one\n", nil }

func (j *changes) Undo(context.Context) (string, []tool.Change, error) {
	j.undone++
	return "call_undo", j.left, j.failed
}

// What a call has changed stays or is undone as policies and a person say.
func TestWhatACallChangedIsJudged(t *testing.T) {
	says := func(v tool.Verdict) func(*tool.Call, []tool.Changed) tool.Decision {
		return func(_ *tool.Call, list []tool.Changed) tool.Decision {
			if len(list) != 1 || list[0].Path != "/w/a" {
				return tool.Decision{Verdict: tool.Allow}
			}
			return tool.Decision{Verdict: v, Reasons: []tool.Reason{{Rule: "acme.a", Message: "a is deleted", Hint: "move it"}}}
		}
	}
	left := []tool.Change{{Path: "a", Kind: tool.ChangeDelete, Conflict: "it changed since"}}
	for _, tt := range []struct {
		name     string
		made     changes
		verdict  tool.Verdict
		before   tool.Verdict // of the call, if it is not allow
		undoable bool
		fails    bool // the tool
		cancels  bool // the caller leaves while it runs
		answer   tool.Approval
		asked    int
		undone   bool
		want     string // in the text for the model
	}{
		{name: "allowed", verdict: tool.Allow, want: "echo"},
		{name: "denied", verdict: tool.Deny, undone: true, want: "a is deleted (acme.a). Hint: move it. " +
			"Everything is as it was before. When the rule is changed, a person can have the changes again by sandboxd undo call_undo"},
		{name: "a person lets it stay", verdict: tool.Ask, answer: tool.Approval{Approved: true}, asked: 1, want: "echo"},
		{name: "a person refuses", verdict: tool.Ask, answer: tool.Approval{Reason: "no, keep a"}, asked: 1, undone: true, want: "no, keep a. " +
			"Everything is as it was before. A person can have the changes again by sandboxd undo call_undo"},
		{name: "a person approved the call", verdict: tool.Ask, before: tool.Ask, answer: tool.Approval{Approved: true}, want: "echo"},
		{name: "a person approved the call, a rule denies", verdict: tool.Deny, before: tool.Ask, answer: tool.Approval{Approved: true}, undone: true, want: "acme.a"},
		{name: "undoable", verdict: tool.Ask, undoable: true, want: "echo"},
		{name: "undoable, and not kept", verdict: tool.Ask, undoable: true, made: changes{lost: true}, asked: 1, undone: true, want: "acme.a"},
		{name: "denied, and not kept", verdict: tool.Deny, made: changes{lost: true}, undone: true, want: "not everything was kept"},
		{name: "undoable does not allow what is denied", verdict: tool.Deny, undoable: true, undone: true, want: "acme.a"},
		{name: "the tool failed", verdict: tool.Deny, fails: true, undone: true, want: "acme.a"},
		{name: "the tool failed, and changed nothing", verdict: tool.Deny, fails: true, made: changes{none: true}, want: "it broke"},
		{name: "nothing changed", verdict: tool.Deny, made: changes{none: true}, want: "echo"},
		{name: "nobody knows the facts", verdict: tool.Allow, made: changes{broken: errors.New("no journal")}, undone: true, want: "no journal (core.changes)"},
		{name: "a part stays", verdict: tool.Deny, made: changes{left: left}, undone: true, want: "except 1 paths"},
		{name: "the undo fails", verdict: tool.Deny, made: changes{left: left, failed: errors.New("disk is gone")}, undone: true, want: "could not be undone: disk is gone"},
		{name: "the caller leaves", verdict: tool.Ask, cancels: true, asked: 1, answer: tool.Approval{Approved: true}, undone: true, want: "context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := newWorld(tool.Spec{})
			w.journal, w.undoable, w.changed, w.answers = &tt.made, tt.undoable, says(tt.verdict), []tool.Approval{tt.answer}
			if tt.before == tool.Ask {
				w.decide = func(*tool.Call) tool.Decision { return tool.Decision{Verdict: tool.Ask, Revision: "r1"} }
			}
			asked := 0
			w.mayStay = func(_ *tool.Call, made tool.Changing) tool.Approval {
				if asked++; made.Diff != "-one\n" || made.Total != 1 || made.Kept == tt.made.lost {
					t.Errorf("asked about %+v", made)
				}
				return tt.answer
			}
			w.echo.run = func() error {
				if tt.cancels {
					cancel()
				}
				if tt.fails {
					return errors.New("it broke")
				}
				return nil
			}
			r := w.pipeline().Do(ctx, w.request(`{"text":"echo"}`))
			if !strings.Contains(r.FinalText, tt.want) || asked != tt.asked || (tt.made.undone > 0) != tt.undone {
				t.Errorf("asked %d times, undone %d times: %q", asked, tt.made.undone, r.FinalText)
			}
			if told := !tt.undone && !tt.fails; (w.heard == 1) != told {
				t.Errorf("hooks heard of the changes %d times", w.heard)
			}
			if tt.undone && (r.Status != tool.StatusExecutionRejected || r.Error == nil || r.Error.Code != "changes_rejected" ||
				r.Error.Stage != "settle" || len(r.Changes) != len(tt.made.left) || r.FormattedText != "") {
				t.Errorf("the answer: %+v, %+v", r, r.Error)
			}
		})
	}
}

func TestNothingRunsWhoseChangesNobodyCouldKnow(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.journal = &changes{full: &tool.Error{Code: "undo_store_full", Msg: "no room"}}
	w.echo.run = func() error { t.Error("it runs"); return nil }
	if r := w.do(t, `{"text":"hi"}`); r.Error == nil || r.Error.Code != "undo_store_full" {
		t.Errorf("got %+v", r)
	}
}

// TestNothingRunsInACageThatLacksWhatIsRequired: the answer says so by its code.
func TestNothingRunsInACageThatLacksWhatIsRequired(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.backend.noBox = &sandbox.MissingError{Layer: "landlock", Why: "off"}
	w.echo.run = func() error { t.Error("it runs"); return nil }
	if r := w.do(t, `{"text":"hi"}`); r.Error == nil || r.Error.Code != "sandbox_missing" {
		t.Errorf("got %+v", r)
	}
}

// Where no rule looks at changes, nobody asks for them.
func TestChangesThatNoRuleReads(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.journal = &changes{broken: errors.New("nobody must ask")}
	if r := w.do(t, `{"text":"echo"}`); r.Status != tool.StatusSuccess || len(r.Changes) != 1 {
		t.Errorf("got %+v", r)
	}
}

// With policy.undoable: allow nobody is asked about lost files before a call runs, if all that it may lose is kept.
func TestWhatCanBeUndoneIsNotAskedAbout(t *testing.T) {
	yes := tool.Decision{Verdict: tool.Allow}
	for _, tt := range []struct {
		name         string
		other        *tool.Decision // without what can be undone
		off          bool           // policy.undoable: ask
		free         bool           // nothing confines programs
		own          bool           // the client brings the tool
		operator     bool           // asked for the call
		made         changes
		asked, stays int // questions before it runs, and about its changes
		runs, undone bool
		want         string // in the text for the model
	}{
		{name: "everything is kept", other: &yes, runs: true, want: "echo"},
		{name: "the settings want a question", other: &yes, off: true, asked: 1, runs: true, want: "echo"},
		{name: "nothing confines it", other: &yes, free: true, asked: 1, runs: true, want: "echo"},
		{name: "its client runs it", other: &yes, own: true, asked: 1, runs: true, want: "echo"},
		{name: "an operator made it", other: &yes, operator: true, made: changes{lost: true}, runs: true, want: "echo"},
		{name: "something else is asked about", other: &tool.Decision{Verdict: tool.Ask}, asked: 1, runs: true, want: "echo"},
		{name: "something else is denied", other: &tool.Decision{Verdict: tool.Deny}, asked: 1, runs: true, want: "echo"},
		{name: "no rule says that it can be undone", asked: 1, runs: true, want: "echo"},
		{name: "not everything is kept", other: &yes, made: changes{whole: []string{"f is too large"}}, asked: 1, runs: true, want: "echo"},
		{
			name: "not everything is kept any more", other: &yes, made: changes{whole: []string{"", "f is too large"}},
			want: "cannot be undone any more: f is too large",
		},
		{name: "what it changed is not kept", other: &yes, made: changes{lost: true}, stays: 1, runs: true, undone: true, want: "no, keep a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			w.journal, w.undoable = &tt.made, !tt.off
			if !tt.free {
				w.backend.report.Isolation = "namespaces"
			}
			w.answers = []tool.Approval{{Approved: true}}
			w.changed = func(*tool.Call, []tool.Changed) tool.Decision { return yes }
			w.decide = func(*tool.Call) tool.Decision {
				return tool.Decision{
					Verdict: tool.Ask, By: tool.ByRule, Revision: "r1", Else: tt.other,
					Reasons: []tool.Reason{{Rule: "acme.lost", Message: "a would be gone"}},
				}
			}
			stays, ran := 0, false
			w.mayStay = func(_ *tool.Call, made tool.Changing) tool.Approval {
				if stays++; made.Why[0].Rule != "undoable" {
					t.Errorf("asked about %+v", made)
				}
				return tool.Approval{Reason: "no, keep a"}
			}
			w.echo.run = func() error {
				ran = true
				return nil
			}
			req := w.request(`{"text":"echo"}`)
			if tt.own {
				req.Own = w.echo
			}
			if tt.operator {
				req.Approver = "ann"
			}
			r := w.pipeline().Do(t.Context(), req)
			if asked := 1 - len(w.answers); asked != tt.asked || stays != tt.stays || ran != tt.runs {
				t.Errorf("asked %d and %d times, ran: %v", asked, stays, ran)
			}
			if (tt.made.undone > 0) != tt.undone || !strings.Contains(r.FinalText, tt.want) {
				t.Errorf("undone %d times: %q", tt.made.undone, r.FinalText)
			}
			if refused := r.Error != nil && r.Error.Code == "undo_not_whole"; refused == tt.runs {
				t.Errorf("the answer: %+v", r.Error)
			}
			if len(tt.made.whole) > 0 && tt.asked > 0 && w.shown[0].Message != "a would be gone; not everything can be undone: f is too large" {
				t.Errorf("a person reads %+v", w.shown)
			}
		})
	}
}
