package policy

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// ShadowOptions say where a shadow counts and writes.
type ShadowOptions struct {
	DB     *store.DB
	Counts ShadowCounts
	Count  func(result string) // of each call: same, looser, tighter, error or missed; nil counts nothing
	Failed func(error)         // what could not be written; nil ignores it
}

// ShadowCounts count the calls that a shadow judges; package recent does.
type ShadowCounts interface {
	Counts
	End(c *tool.Call)
}

// How a decision of the shadow compares with the one that counts.
const (
	shadowSame    = "same"
	shadowLooser  = "looser"
	shadowTighter = "tighter"
	shadowError   = "error"  // its rules failed, or cannot be compared
	shadowMissed  = "missed" // too many calls waited for it
)

// Shadow judges every call beside the policies in force, and keeps where it differs. It decides
// nothing: it gets a copy of what was judged, later, and nobody waits for it. When more waits
// than it may hold, calls are left out and counted.
type Shadow struct {
	o      ShadowOptions
	engine atomic.Pointer[Engine] // nil: no policies judge
	queue  shadowQueue
	stop   func()
	done   chan struct{}

	mu       sync.Mutex // guards what follows
	failure  string     // why there is no engine
	revision string     // of the numbers
	report   ShadowReport
	byRule   map[ShadowRule]int
	errors   map[string]int

	// Of the goroutine that judges.
	pending map[string]pending
	found   []Difference
}

// Bounds of what is kept in memory.
const (
	maxPending     = 4096 // calls that were judged and have not ended
	maxFound       = 4096 // differences that wait to be written
	maxShadowRules = 200  // different lines of the report
)

// pending is what the shadow said of a call that has not ended.
type pending struct {
	call     *tool.Call // what is known of it
	revision string
	decision tool.Decision
	err      error
}

// ShadowReport is what GET /policies/shadow answers.
type ShadowReport struct {
	Revision string    `json:"revision,omitempty"` // that judges in the shadow; absent: none does
	Dirs     []string  `json:"dirs,omitempty"`
	Since    time.Time `json:"since,omitzero"`    // when this began to count
	Failure  string    `json:"failure,omitempty"` // why it does not judge, or judges by older files
	Calls    int       `json:"calls"`
	Same     int       `json:"same"`
	Looser   int       `json:"looser"`
	Tighter  int       `json:"tighter"`
	Missed   int       `json:"missed"` // calls that it had no time for

	Rules       []ShadowRule  `json:"rules"`       // by which they differ
	Errors      []ShadowError `json:"errors"`      // calls that it could not judge
	Differences []Difference  `json:"differences"` // the newest first
	Total       int           `json:"total"`       // differences that are kept
}

// ShadowRule is how many calls differ by one rule.
type ShadowRule struct {
	Rule   string       `json:"rule"` // what asks or denies in the stricter decision
	Live   tool.Verdict `json:"live"`
	Shadow tool.Verdict `json:"shadow"`
	Calls  int          `json:"calls"`
}

// ShadowError is why calls could not be judged.
type ShadowError struct {
	Why   string `json:"why"`
	Calls int    `json:"calls"`
}

// Difference is a call that the shadow judges otherwise.
type Difference struct {
	CallID  string       `json:"call_id"`
	At      time.Time    `json:"at"`
	Account string       `json:"account"`
	Session string       `json:"session_id"`
	Tool    string       `json:"tool"`
	Live    DecidedShort `json:"live"`
	Shadow  DecidedShort `json:"shadow"`
	Looser  bool         `json:"looser"`         // the shadow lets it do more
	What    string       `json:"what,omitempty"` // its command line or arguments, while its decision is kept
}

// DecidedShort is a decision without its texts, which may hold arguments.
type DecidedShort struct {
	Revision string       `json:"revision"`
	Verdict  tool.Verdict `json:"verdict"`
	Rule     string       `json:"rule"` // that decided
}

func decidedShort(d tool.Decision, revision string) DecidedShort {
	s := DecidedShort{Revision: revision, Verdict: d.Verdict}
	if len(d.Reasons) > 0 {
		s.Rule = d.Reasons[0].Rule
	}
	return s
}

// NewShadow starts a shadow without policies. Close it before the database.
func NewShadow(o ShadowOptions) *Shadow {
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	stop := make(chan struct{})
	s := &Shadow{
		o: o, queue: newShadowQueue(), done: make(chan struct{}),
		stop: sync.OnceFunc(func() { close(stop) }), pending: map[string]pending{},
	}
	s.Use(nil, nil)
	go s.run(stop)
	return s
}

// Use judges by another engine from now on; nil judges by none, and why says the reason where
// there should be one. Numbers begin at zero with each revision.
func (s *Shadow) Use(e *Engine, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = ""
	if why != nil {
		s.failure = why.Error()
	}
	s.engine.Store(e)
	revision := ""
	if e != nil {
		revision = e.current.Load().id
	}
	if revision == s.revision && s.byRule != nil {
		return
	}
	s.revision = revision
	s.report, s.byRule, s.errors = ShadowReport{Since: time.Now().UTC()}, map[ShadowRule]int{}, map[string]int{}
}

// ShadowState is whether policies judge in the shadow.
type ShadowState struct {
	Revision string `json:"revision,omitempty"` // absent: none does
	Failure  string `json:"last_failure,omitempty"`
}

// State is nil where no shadow is wanted.
func (s *Shadow) State() *ShadowState {
	s.mu.Lock()
	out := ShadowState{Failure: s.failure}
	s.mu.Unlock()
	if e := s.engine.Load(); e != nil {
		status := e.Status()
		out.Revision = status.Revision
		if status.Failure != nil {
			out.Failure = status.Failure.Error
		}
	}
	if out == (ShadowState{}) {
		return nil
	}
	return &out
}

// judged takes a call that was judged. It never waits.
func (s *Shadow) judged(c *tool.Call, seen *evidence) {
	if s == nil || s.engine.Load() == nil || c.Request.Hypothetical {
		return
	}
	s.queue.put(shadowed{id: c.ID, input: seen.input, said: seen.opinion})
}

// Ended takes a call that has ended, with its decision. It never waits.
func (s *Shadow) Ended(c *tool.Call) {
	if s == nil || s.engine.Load() == nil || c.Request.Hypothetical || len(c.Decision.Reasons) == 0 {
		return
	}
	s.queue.put(shadowed{id: c.ID, ended: &ended{
		decision: c.Decision, beside: c.Beside, approved: c.Approved(), status: c.Result.Status, lease: c.Request.Lease,
	}})
}

// Close ends the shadow.
func (s *Shadow) Close() {
	s.stop()
	<-s.done
}

// run judges what comes, one call at a time, and writes what differs now and then.
func (s *Shadow) run(stop <-chan struct{}) {
	defer close(s.done)
	prune := time.NewTicker(time.Hour)
	defer prune.Stop()
	for {
		select {
		case <-s.queue.more:
			select { // calls are judged together: to wake up for each would cost as much
			case <-time.After(shadowGather):
			case <-s.queue.hurry:
			case <-stop:
			}
			for _, x := range s.queue.take() {
				s.take(x)
			}
			s.save()
		case <-prune.C:
			s.prune()
		case <-stop:
			return
		}
	}
}

func (s *Shadow) take(x shadowed) {
	if x.flush != nil {
		s.save()
		close(x.flush)
		return
	}
	if x.ended == nil {
		s.judge(x)
		return
	}
	p, ok := s.pending[x.id]
	delete(s.pending, x.id)
	if !ok { // it was judged before there was a shadow, or left out: then it was not counted either
		s.count(shadowMissed, ShadowRule{}, "")
		return
	}
	c := p.call
	c.Decision, c.Beside = x.ended.decision, x.ended.beside
	c.Result.Status, c.Request.Lease = x.ended.status, x.ended.lease
	if x.ended.approved {
		c.Approval = &tool.Approval{Approved: true}
	}
	s.o.Counts.End(c)
	s.compare(c, p)
}

// judge judges a call by the shadow. What fails, panics included, is an error of the shadow.
func (s *Shadow) judge(x shadowed) {
	e := s.engine.Load()
	if e == nil {
		return
	}
	if len(s.pending) >= maxPending { // calls of which the end was left out
		for _, p := range s.pending {
			s.o.Counts.End(p.call) // as one that did not run
		}
		clear(s.pending)
	}
	j := e.Judge()
	p := pending{call: callOf(x.id, x.input), revision: j.Revision()}
	defer func() {
		if v := recover(); v != nil {
			p.err = fmt.Errorf("panic: %v", v)
		}
		s.pending[x.id] = p
	}()
	p.decision, _, p.err = j.again(context.Background(), p.call, x.input, s.o.Counts, x.said)
}

// compare compares with the decision that counted.
func (s *Shadow) compare(c *tool.Call, p pending) {
	live := c.Decision
	d, err := p.decision, p.err
	if err == nil && d.By == tool.ByCore {
		err = errors.New(d.Reasons[0].Rule + ": " + d.Reasons[0].Message)
	}
	if err == nil {
		d, err = joined(d, live.Obligations, c.Beside, c.Spec.Name, c.Session.Mode)
	}
	if err != nil {
		s.count(shadowError, ShadowRule{}, err.Error())
		return
	}
	differ, looser := Differ(live, d)
	if !differ {
		s.count(shadowSame, ShadowRule{}, "")
		return
	}
	found := Difference{
		CallID: c.ID, At: time.Now().UTC(), Account: c.Session.Account, Session: c.Session.ID, Tool: c.Spec.Name,
		Live: decidedShort(live, live.Revision), Shadow: decidedShort(d, p.revision), Looser: looser,
	}
	rule, result := ShadowRule{Rule: found.Shadow.Rule, Live: live.Verdict, Shadow: d.Verdict}, shadowTighter
	if looser {
		rule.Rule, result = found.Live.Rule, shadowLooser
	}
	if len(s.found) < maxFound {
		s.found = append(s.found, found)
	}
	s.count(result, rule, "")
}

// Differ reports whether two decisions about a call differ in what they let it do, and
// whether the second lets it do more.
func Differ(was, now tool.Decision) (differ, looser bool) {
	if was.Verdict != now.Verdict {
		return true, now.Verdict > was.Verdict
	}
	a, b := was.Obligations.WallSeconds, now.Obligations.WallSeconds
	if was.Verdict == tool.Deny || a == b {
		return false, false
	}
	return true, b == 0 || a != 0 && b > a
}

func (s *Shadow) count(result string, rule ShadowRule, why string) {
	s.o.Count(result)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.report
	r.Calls++
	switch result {
	case shadowSame:
		r.Same++
	case shadowLooser:
		r.Looser++
	case shadowTighter:
		r.Tighter++
	case shadowMissed:
		r.Missed++
	case shadowError:
		if _, known := s.errors[why]; !known && len(s.errors) >= maxShadowRules {
			why = computedName
		}
		s.errors[why]++
	}
	if rule.Rule == "" {
		return
	}
	if _, known := s.byRule[rule]; !known && len(s.byRule) >= maxShadowRules {
		rule.Rule = computedName
	}
	s.byRule[rule]++
}

// Flush returns when what was judged before is written.
func (s *Shadow) Flush() {
	written := make(chan struct{})
	s.queue.put(shadowed{flush: written})
	select {
	case s.queue.hurry <- struct{}{}:
	case <-written: // somebody else was in a hurry
	case <-s.done:
	}
	select {
	case <-written:
	case <-s.done:
	}
}

func (s *Shadow) save() {
	if len(s.found) == 0 {
		return
	}
	err := s.o.DB.Write(context.Background(), func(tx *sql.Tx) error {
		for _, d := range s.found {
			text, err := json.Marshal(d)
			if err != nil {
				return err
			}
			_, err = tx.Exec(`INSERT INTO shadow (call_id, at, account, record) VALUES ($1, $2, $3, $4)
				ON CONFLICT (call_id) DO UPDATE SET at = excluded.at, record = excluded.record`,
				d.CallID, d.At.UnixMilli(), d.Account, string(text))
			if err != nil {
				return err
			}
		}
		return nil
	})
	s.found = nil
	if err != nil {
		s.o.Failed(fmt.Errorf("keep where the shadow differs: %w", err))
	}
}

func (s *Shadow) prune() {
	err := s.o.DB.Write(context.Background(), func(tx *sql.Tx) error {
		// A difference is kept as long as the decision, which may not be written yet.
		_, err := tx.Exec(`DELETE FROM shadow WHERE at < $1
			AND NOT EXISTS (SELECT 1 FROM decisions WHERE decisions.call_id = shadow.call_id)`,
			time.Now().Add(-time.Minute).UnixMilli())
		return err
	})
	if err != nil {
		s.o.Failed(fmt.Errorf("drop where the shadow differed: %w", err))
	}
}
