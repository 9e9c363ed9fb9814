// Package recent counts calls in windows of a minute, an hour and a day, for rules that limit how
// many may run.
//
//	k := recent.New(time.Now)
//	k.Judge(call, func(before func() *input.Recent) []string { … }) // the rules with a finding
//	k.End(call)
//
// For each call, [Counter.Judge] comes first and [Counter.End] last. Judge gives the rules what was
// counted before, as [input.Recent], for the session and the account of the call. It then counts
// the call, with the rules that had a finding about it. A call that is judged again is counted
// once. End counts the verdict. It takes the call away again if the call did not run, for example
// because it was denied or nobody approved it. A call for which nobody calls End stays counted, and
// stays in memory.
//
// A call counts from when it was judged. While a function that has asked for the counts judges,
// other calls of the account that ask for them wait, so they cannot pass a limit together. A call
// that waits for a client to start it counts, too. Hypothetical calls are not counted.
//
// A window reaches back up to a twelfth further than its name says. Counts are in memory and begin
// at zero with the process. If there are more than 4096 sessions or accounts, the one that was idle
// for longest is forgotten. The caller of Judge bounds how many names of rules there are. Nothing
// is decided here, and nothing fails: there are no errors.
//
// To let rules count something else, add a kind of key (scope.go), a case in window.count there, the
// place that adds it (End, or call.add), and a field of [input.Count], whose package says where
// its schema is. TestCountsAreThoseOfAList compares the counts with a plain list.
package recent

import (
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
)

// maxScopes bounds how many sessions are counted, and how many accounts. Agents can make
// sessions, and only operators accounts.
const maxScopes = 4096

// leased is how long a call that waits for its client to start it is remembered.
const leased = time.Hour

// Counter counts. It is safe for concurrent use.
type Counter struct {
	now func() time.Time

	mu       sync.Mutex // guards what follows
	sessions map[string]*scope
	accounts map[string]*scope
	open     map[string]*call // judged and not ended, by id
}

// call is what was counted of one call.
type call struct {
	at    time.Time
	tool  string
	rules []string
	in    [2]*scope
	held  time.Time // since when it waits for its client; zero if it does not
}

// New returns a counter without counts.
func New(now func() time.Time) *Counter {
	return &Counter{now: now, sessions: map[string]*scope{}, accounts: map[string]*scope{}, open: map[string]*call{}}
}

// Judge calls judge, and counts c with the rules that it returns. judge may call before, which returns the counts
// without c. From then on other calls of the account wait in their before until c is counted, so that two calls cannot
// pass a limit together. A hypothetical call is not counted. If it is under way already, as a job that is judged again,
// before returns zero counts, because a limit on how many calls begin must not end it. judge must not judge another
// call of the account, which may wait for ever.
func (k *Counter) Judge(c *tool.Call, judge func(before func() *input.Recent) (rules []string)) {
	if c.Request.Hypothetical && k.underWay(c.ID) {
		judge(func() *input.Recent { return new(input.Recent) })
		return
	}
	session, account := k.scopes(c)
	locked := false
	defer func() {
		if locked {
			account.turn.Unlock()
		}
	}()
	rules := judge(func() *input.Recent {
		if !locked {
			account.turn.Lock()
			locked = true
		}
		return k.before(c, session, account)
	})
	if !c.Request.Hypothetical {
		k.count(c, rules, session, account)
	}
}

// underWay reports whether a call was counted and has not ended.
func (k *Counter) underWay(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open[id] != nil
}

// scopes returns those of the session and the account of a call.
func (k *Counter) scopes(c *tool.Call) (session, account *scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	return find(k.sessions, c.Session.Account+"\x00"+c.Session.ID, now), find(k.accounts, c.Session.Account, now)
}

// find returns the scope of this name, made if there is none. When there are too many, the one that was idle for
// longest goes.
func find(all map[string]*scope, name string, now time.Time) *scope {
	s := all[name]
	if s == nil {
		if len(all) >= maxScopes {
			oldest := ""
			for other, o := range all {
				if oldest == "" || o.used.Before(all[oldest].used) {
					oldest = other
				}
			}
			delete(all, oldest)
		}
		s = newScope()
		all[name] = s
	}
	s.used = now
	return s
}

// before returns what was counted, without c itself, which may be judged again.
func (k *Counter) before(c *tool.Call, session, account *scope) *input.Recent {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if own := k.open[c.ID]; own != nil {
		own.add(now, -1)
		defer own.add(now, 1)
	}
	return &input.Recent{Session: session.windows(now), Account: account.windows(now)}
}

func (k *Counter) count(c *tool.Call, rules []string, session, account *scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	own := &call{at: now, tool: c.Spec.Name, rules: rules, in: [2]*scope{session, account}}
	if old := k.open[c.ID]; old != nil {
		old.add(now, -1)
		own.at = old.at
	}
	own.add(now, 1)
	k.open[c.ID] = own
}

// End counts the verdict about a call that has ended, and takes the call away if it did
// not run. A call that waits for a client to start it has not ended.
func (k *Counter) End(c *tool.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	own := k.open[c.ID]
	if own == nil {
		return
	}
	now := k.now()
	if c.Request.Lease && c.Result.Status == tool.StatusSuccess {
		own.held = now
		return
	}
	delete(k.open, c.ID)
	if !c.Ran() {
		own.add(now, -1)
	}
	for _, s := range own.in {
		s.add(now, own.at, key{verdict, c.Decision.Verdict.String()}, 1)
	}
	for id, o := range k.open {
		if !o.held.IsZero() && now.Sub(o.held) > leased {
			delete(k.open, id) // its client never started it; the count stays
		}
	}
}

// add counts the call n times where it was counted first.
func (o *call) add(now time.Time, n int) {
	for _, s := range o.in {
		s.add(now, o.at, key{calls, ""}, n)
		s.add(now, o.at, key{byTool, o.tool}, n)
		for _, r := range o.rules {
			s.add(now, o.at, key{byRule, r}, n)
		}
	}
}
