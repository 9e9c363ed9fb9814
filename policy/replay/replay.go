// Package replay judges recorded calls again, by other policies.
//
// [Run] takes recorded decisions, ordered by when each call was first judged, and one or two judges.
// Its [Report] says which calls since Run.Since would be judged otherwise and by which rules, and
// counts, by reason, those that cannot be judged again. [Suggest] proposes rules for questions that people
// answered alike, and tries them in the same way.
//
//	engine, err := policy.New(ctx, options) // the other policies; db has the record of the daemon
//	r := replay.Run{Now: engine.Judge(), Since: monday}
//	report, err := r.Of(ctx, policy.Records{DB: db})
//	// report.Tighter, report.Looser, report.Flips
//	s := replay.Suggest{Least: 3, Options: inForce}
//	suggested, err := s.Of(ctx, policy.Records{DB: db})
//
// A call is judged by the code that judges real calls, over the input that was recorded. Settings, tool,
// hooks, policy.canUseTool and sandbox are taken to say what they said then. Rules that count see the
// calls that really ran before, with what the policies find about those. Nothing is guessed: a call
// is counted in Unknown, with the reason, if it was not recorded whole, or if the policies now need
// something that was not asked then. Dry runs and explanations are counted in Questions and left out.
//
// No call runs, no person is asked and nothing is changed; Suggest uses a temporary directory.
//
// A new kind of rule to propose is a case of candidates in candidates.go. A new reason why a call cannot
// be judged again is a policy.NotReplayable; any other error ends the run.
package replay

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/recent"
)

// Reach is how far back rules that count can look.
const Reach = 26 * time.Hour

// Run is one comparison.
type Run struct {
	Was *policy.Judge // what Now is compared with; nil is the recorded decision
	Now policy.Judge

	Since time.Time // older calls are not reported; rules that count still see them
	Last  int       // look at the newest of these only; 0 is all
}

// Report is what came of it.
type Report struct {
	Was   string    `json:"was,omitempty"` // revision; "" is what was recorded
	Now   string    `json:"now"`           // revision
	Since time.Time `json:"since,omitzero"`

	Calls   int     `json:"calls"` // judged by both
	Looser  int     `json:"looser"`
	Tighter int     `json:"tighter"`
	Rules   []Count `json:"rules"` // that made calls flip, the most calls first
	Flips   []Flip  `json:"flips"` // in the order of the calls

	Unknown   []Unknown `json:"unknown"`   // calls that cannot be judged again
	Lost      int       `json:"lost"`      // of these, calls that Was can judge and Now cannot
	Questions int       `json:"questions"` // dry runs and explanations, which are left out
}

// Count is how many calls flip by one rule.
type Count struct {
	Rule  string       `json:"rule"`
	Was   tool.Verdict `json:"was"`
	Now   tool.Verdict `json:"now"`
	Calls int          `json:"calls"`
}

// Unknown is why calls cannot be judged again.
type Unknown struct {
	Why   string `json:"why"`
	Calls int    `json:"calls"`
}

// Flip is one call that is judged otherwise.
type Flip struct {
	CallID  string    `json:"call_id"`
	At      time.Time `json:"at"`
	Account string    `json:"account"`
	Session string    `json:"session_id"`
	Tool    string    `json:"tool"`
	What    string    `json:"what"` // its command line, or its arguments
	Was     Side      `json:"was"`
	Now     Side      `json:"now"`
	Looser  bool      `json:"looser"`
}

// Side is one of two decisions.
type Side struct {
	Verdict tool.Verdict `json:"verdict"`
	Rule    string       `json:"rule"` // that decided
}

// SideOf returns a decision in short.
func SideOf(d tool.Decision) Side {
	s := Side{Verdict: d.Verdict}
	if len(d.Reasons) > 0 {
		s.Rule = d.Reasons[0].Rule
	}
	return s
}

// Rule returns the rule that made the difference: what denies or asks in the stricter decision.
func (f Flip) Rule() string {
	if f.Looser {
		return f.Was.Rule
	}
	return f.Now.Rule
}

// Of judges the records.
func (r Run) Of(ctx context.Context, records policy.Records) (Report, error) {
	report := Report{Now: r.Now.Revision(), Since: r.Since, Rules: []Count{}, Flips: []Flip{}, Unknown: []Unknown{}}
	f := &feed{run: r, report: &report, now: newSide(r.Now), unknown: map[string]int{}, rules: map[Count]int{}}
	f.sides = []*side{f.now}
	counts := r.Now.Counts()
	if r.Was != nil {
		report.Was = r.Was.Revision()
		f.was = newSide(*r.Was)
		f.sides = append(f.sides, f.was)
		counts = counts || r.Was.Counts()
	}
	records.Since, records.Last = r.Since, r.Last
	if counts && !r.Since.IsZero() {
		records.Since = r.Since.Add(-Reach)
	}
	var err error
	if f.start, err = records.Start(ctx); err != nil {
		return report, err
	}
	if counts && r.Last > 0 {
		f.start = time.Time{} // set by the first record: older ones are not read
	}
	f.cut = counts && r.Last > 0
	for rec, err := range records.All(ctx) {
		if err == nil {
			err = f.take(ctx, rec)
		}
		if err != nil {
			return report, err
		}
	}
	if err := f.pass(ctx, time.Time{}); err != nil {
		return report, err
	}
	for _, why := range slices.SortedFunc(maps.Keys(f.unknown), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.unknown[b], f.unknown[a]), cmp.Compare(a, b))
	}) {
		report.Unknown = append(report.Unknown, Unknown{why, f.unknown[why]})
	}
	for c, n := range f.rules {
		c.Calls = n
		report.Rules = append(report.Rules, c)
	}
	slices.SortFunc(report.Rules, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Was, b.Was),
			cmp.Compare(a.Now, b.Now))
	})
	return report, nil
}

// side is one judge with its counts.
type side struct {
	judge policy.Judge
	clock time.Time
	count *recent.Counter
	// unknown is until when rules of an account may count a call of which it is not known what
	// the policies find about it.
	unknown map[string]time.Time
}

func newSide(j policy.Judge) *side {
	s := &side{judge: j}
	s.forget()
	return s
}

// forget begins to count at zero, as the daemon did.
func (s *side) forget() {
	s.count = recent.New(func() time.Time { return s.clock })
	s.unknown = map[string]time.Time{}
}

// feed takes what happened to the calls to the judges, in the order in which it happened.
type feed struct {
	run    Run
	report *Report

	now, was *side // was is nil where the recorded decision stands for it
	sides    []*side
	unknown  map[string]int
	rules    map[Count]int

	start    time.Time // decisions before are not there
	cut      bool      // the first record says where that is
	counting time.Time // since when the daemon of these calls counted
	events   events
}

// take brings one record.
func (f *feed) take(ctx context.Context, r policy.Record) error {
	first := r.At
	if b := r.Basis; b != nil && !b.First.IsZero() {
		first = b.First
	}
	if f.cut {
		f.start, f.cut = first, false
	}
	if b := r.Basis; b != nil && b.Hypothetical {
		if !first.Before(f.run.Since) {
			f.report.Questions++
		}
		return nil
	}
	if err := f.pass(ctx, first); err != nil {
		return err
	}
	if b := r.Basis; b != nil && !b.Counting.Equal(f.counting) { // another process
		if err := f.pass(ctx, time.Time{}); err != nil {
			return err
		}
		f.counting = b.Counting
		for _, s := range f.sides {
			s.forget()
		}
	}
	c, err := r.Again()
	if err != nil {
		f.leave(r, first, err)
		return nil
	}
	c.Call.Decision = r.Decision // how it ended, for the counts
	if r.Basis.Ran {
		c.Call.Approval = &tool.Approval{Approved: true}
	}
	x := &item{record: r, call: c}
	if r.Basis.Judged.After(first) {
		for _, s := range f.sides {
			if s.judge.Counts() {
				s.clock = first
				_, _ = s.judge.Judge(ctx, c, s.count) // only counted: it is judged as it was last
			}
		}
		heap.Push(&f.events, event{at: r.Basis.Judged, item: x, judge: true})
	} else if err := f.judge(ctx, x); err != nil {
		return err
	}
	heap.Push(&f.events, event{at: r.At, item: x})
	return nil
}

// leave leaves a call out that cannot be judged again. It ran all the same, so what counts it
// is not known.
func (f *feed) leave(r policy.Record, first time.Time, why error) {
	if !first.Before(f.run.Since) {
		f.unknown[why.Error()]++
	}
	if r.Basis != nil && !r.Basis.Ran {
		return
	}
	for _, s := range f.sides {
		s.unknown[r.Account] = first.Add(Reach)
	}
}

// pass lets everything happen until then; the zero time is the end.
func (f *feed) pass(ctx context.Context, until time.Time) error {
	for len(f.events) > 0 && (until.IsZero() || !f.events[0].at.After(until)) {
		e := heap.Pop(&f.events).(event)
		if e.judge {
			if err := f.judge(ctx, e.item); err != nil {
				return err
			}
			continue
		}
		for _, s := range f.sides {
			s.clock = e.at
			s.count.End(e.item.call.Call)
		}
	}
	return nil
}

// judge judges one call by both, and compares.
func (f *feed) judge(ctx context.Context, x *item) error {
	r := x.record
	inside := !r.Basis.First.Before(f.run.Since)
	var was tool.Decision
	var before error
	if f.was == nil {
		was = r.Decision
	} else if inside || f.was.judge.Counts() {
		was, before = f.ask(ctx, f.was, x)
	}
	if !inside && !f.now.judge.Counts() {
		return ctx.Err()
	}
	now, err := f.ask(ctx, f.now, x)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !inside {
		return nil
	}
	if why := cmp.Or(err, before); why != nil {
		var not policy.NotReplayable
		if !errors.As(why, &not) {
			return why
		}
		f.unknown[why.Error()]++
		if before == nil {
			f.report.Lost++
		}
		return nil
	}
	f.report.Calls++
	f.compare(r, was, now)
	return nil
}

func (f *feed) compare(r policy.Record, was, now tool.Decision) {
	differ, looser := policy.Differ(was, now)
	if !differ {
		return
	}
	flip := Flip{
		CallID: r.CallID, At: r.At, Account: r.Account, Session: r.Session, Tool: r.Tool, What: r.What(),
		Was: SideOf(was), Now: SideOf(now), Looser: looser,
	}
	if looser {
		f.report.Looser++
	} else {
		f.report.Tighter++
	}
	f.rules[Count{Rule: flip.Rule(), Was: was.Verdict, Now: now.Verdict}]++
	f.report.Flips = append(f.report.Flips, flip)
}

// ask judges one call by one side, with what was counted before.
func (f *feed) ask(ctx context.Context, s *side, x *item) (tool.Decision, error) {
	b := x.record.Basis
	s.clock = b.Judged
	got, err := s.judge.Judge(ctx, x.call, s.count)
	if _, not := errors.AsType[policy.NotReplayable](err); not && b.Ran {
		s.unknown[x.record.Account] = b.Judged.Add(Reach) // what the rules would have counted of it is not known
	}
	if err != nil || !got.Counted {
		return got.Decision, err
	}
	since := b.Judged.Add(-Reach)
	if b.Counting.After(since) {
		since = b.Counting
	}
	if b.Kept.After(since) || f.start.After(since) {
		return got.Decision, policy.NotReplayable("its rules count calls that are not kept, or not looked at")
	}
	if s.unknown[x.record.Account].After(b.Judged) {
		return got.Decision, policy.NotReplayable("its rules count calls that cannot be judged again")
	}
	return got.Decision, nil
}

// item is one call.
type item struct {
	record policy.Record
	call   *policy.Recorded
}

// event is what happens to a call: it is judged, or it ends.
type event struct {
	at    time.Time
	judge bool
	item  *item
}

// events is a heap, the earliest first.
type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// Words says a flip in words; a command of several lines stays so.
func (f Flip) Words() string {
	return fmt.Sprintf("%s %s: %s by %s, now %s by %s", f.Tool, f.What, f.Was.Verdict, f.Was.Rule, f.Now.Verdict,
		f.Now.Rule)
}
