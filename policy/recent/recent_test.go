package recent_test

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/recent"
)

// newCall is a call of Bash in a session of the account a.
func newCall(id, session string) *tool.Call {
	return &tool.Call{ID: id, Target: tool.Target{Spec: tool.Spec{Name: "Bash"}, Session: tool.Session{ID: session, Account: "a"}}}
}

// judged counts a call with these rules, and returns what was counted before it.
func judged(k *recent.Counter, c *tool.Call, rules ...string) (got *input.Recent) {
	k.Judge(c, func(before func() *input.Recent) []string {
		got = before()
		return rules
	})
	return got
}

// ran ends a call with this verdict.
func ended(k *recent.Counter, c *tool.Call, v tool.Verdict, s tool.Status) {
	c.Decision.Verdict, c.Result.Status = v, s
	k.End(c)
}

func Example() {
	k := recent.New(time.Now)
	for i := range 3 {
		c := newCall(strconv.Itoa(i), "s1")
		k.Judge(c, func(before func() *input.Recent) []string {
			fmt.Println("pushes of the last hour:", before().Account.Hour.Rules["acme.push"])
			return []string{"acme.push"}
		})
		ended(k, c, tool.Allow, tool.StatusSuccess)
	}
	// Output:
	// pushes of the last hour: 0
	// pushes of the last hour: 1
	// pushes of the last hour: 2
}

func TestACallIsCountedFromItsJudgementOn(t *testing.T) {
	k := recent.New(time.Now)
	first := newCall("1", "s1")
	judged(k, first, "acme.push", "allow Bash")
	got := judged(k, newCall("2", "s2"))
	want := input.Count{Calls: 1, Tools: map[string]int{"Bash": 1}, Rules: map[string]int{"acme.push": 1, "allow Bash": 1}}
	if diff := cmp.Diff(input.Windows{Minute: want, Hour: want, Day: want}, got.Account); diff != "" {
		t.Errorf("of the account, while the first runs (-want +got):\n%s", diff)
	}
	if got.Session.Day.Calls != 0 {
		t.Errorf("another session has %+v", got.Session)
	}
	ended(k, first, tool.Ask, tool.StatusSuccess)
	got = judged(k, newCall("3", "s1"))
	if n := got.Session.Minute; n.Calls != 1 || n.Verdicts != (input.Verdicts{Ask: 1}) {
		t.Errorf("after its end the session has %+v", n)
	}
}

func TestWhatDidNotRunIsTakenAway(t *testing.T) {
	approved, rejected := &tool.Approval{Approved: true}, &tool.Approval{}
	for _, tt := range []struct {
		name    string
		verdict tool.Verdict
		status  tool.Status
		answer  *tool.Approval
		calls   int
	}{
		{"allowed", tool.Allow, tool.StatusSuccess, nil, 1},
		{"allowed, and it failed", tool.Allow, tool.StatusError, nil, 1},
		{"approved, and it failed", tool.Ask, tool.StatusError, approved, 1},
		{"asked by whoever runs it", tool.Ask, tool.StatusSuccess, nil, 1},
		{"denied", tool.Deny, tool.StatusError, nil, 0},
		{"rejected", tool.Ask, tool.StatusExecutionRejected, rejected, 0},
		{"cancelled while it waited", tool.Ask, tool.StatusError, nil, 0},
	} {
		k := recent.New(time.Now)
		c := newCall("1", "s1")
		judged(k, c, "r")
		c.Approval = tt.answer
		ended(k, c, tt.verdict, tt.status)
		k.End(c) // a second end is none
		n := judged(k, newCall("2", "s1")).Session.Hour
		if n.Calls != tt.calls || n.Tools["Bash"] != tt.calls || n.Rules["r"] != tt.calls {
			t.Errorf("%s: %+v, want %d calls", tt.name, n, tt.calls)
		}
		if n.Verdicts.Allow+n.Verdicts.Ask+n.Verdicts.Deny != 1 {
			t.Errorf("%s: the verdicts are %+v", tt.name, n.Verdicts)
		}
	}
}

// A call that is judged again, after an answer or for a lease, is not counted twice and
// does not see itself.
func TestACallDoesNotCountItself(t *testing.T) {
	k := recent.New(time.Now)
	c := newCall("1", "s1")
	judged(k, c, "first")
	if n := judged(k, c, "second").Account.Hour; n.Calls != 0 || len(n.Rules) != 0 {
		t.Errorf("it sees %+v", n)
	}
	c.Request.Lease = true
	ended(k, c, tool.Allow, tool.StatusSuccess) // a client may start it
	if n := judged(k, c).Account.Hour; n.Calls != 0 {
		t.Errorf("when it starts it sees %+v", n)
	}
	if n := judged(k, newCall("2", "s1")).Account.Hour; n.Calls != 1 || len(n.Rules) != 0 {
		t.Errorf("another sees %+v", n)
	}
}

// TestACallCountsFromWhereItWasJudgedFirst, so that an answer that comes late does not keep it.
func TestACallCountsFromWhereItWasJudgedFirst(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	k := recent.New(func() time.Time { return now })
	c := newCall("1", "s1")
	judged(k, c)
	now = now.Add(50 * time.Second)
	judged(k, c)
	now = now.Add(20 * time.Second)
	if n := judged(k, newCall("2", "s1")).Session; n.Minute.Calls != 0 || n.Hour.Calls != 1 {
		t.Errorf("70 s after the first judgement: %d in the minute, %d in the hour", n.Minute.Calls, n.Hour.Calls)
	}
}

// TestALeaseIsRememberedForAnHour, which a client has to start the call; one that was denied
// has ended at once.
func TestALeaseIsRememberedForAnHour(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status tool.Status
		after  time.Duration
		open   bool
		calls  int
	}{
		{"for its client", tool.StatusSuccess, 59 * time.Minute, true, 2},
		{"never started", tool.StatusSuccess, 61 * time.Minute, false, 2},
		{"denied", tool.StatusError, 0, false, 1},
	} {
		now := time.Unix(1_800_000_000, 0)
		k := recent.New(func() time.Time { return now })
		c := newCall("1", "s1")
		c.Request.Lease = true
		judged(k, c)
		verdict := tool.Allow
		if tt.status == tool.StatusError {
			verdict = tool.Deny
		}
		ended(k, c, verdict, tt.status)
		now = now.Add(tt.after)
		other := newCall("2", "s1")
		judged(k, other)
		ended(k, other, tool.Allow, tool.StatusSuccess)
		c.Request.Hypothetical = true // one that is under way has nothing before it
		if n := judged(k, c).Session.Day.Calls; (n == 0) != tt.open || n != 0 && n != tt.calls {
			t.Errorf("%s: %d calls before it, want open=%v or %d", tt.name, n, tt.open, tt.calls)
		}
	}
}

func TestAQuestionIsNoCall(t *testing.T) {
	k := recent.New(time.Now)
	c := newCall("1", "s1")
	c.Request.Hypothetical = true
	judged(k, c, "r")
	ended(k, c, tool.Deny, tool.StatusError)
	if n := judged(k, newCall("2", "s1")).Account.Day; n.Calls != 0 || n.Verdicts.Deny != 0 {
		t.Errorf("%+v", n)
	}
}

// Each window forgets when its time is over, and not before.
// TestAJobThatIsJudgedAgainIsNoNewCall: neither for others, whatever rules find now, nor for
// itself: what came after it does not count as what came before it.
func TestAJobThatIsJudgedAgainIsNoNewCall(t *testing.T) {
	k := recent.New(time.Now)
	job := newCall("1", "s1")
	judged(k, job, "acme.servers")
	judged(k, newCall("2", "s1"))
	job.Request.Hypothetical = true
	if got := judged(k, job, "acme.new"); !cmp.Equal(got, new(input.Recent)) {
		t.Errorf("before the job: %+v", got)
	}
	got := judged(k, newCall("3", "s1"))
	if h := got.Session.Hour; h.Calls != 2 || h.Rules["acme.servers"] != 1 || h.Rules["acme.new"] != 0 {
		t.Errorf("got %+v", h)
	}
	job.Request.Hypothetical = false
	ended(k, job, tool.Allow, tool.StatusSuccess)
	job.Request.Hypothetical = true
	judged(k, job, "acme.new") // it has ended meanwhile
	if h := judged(k, newCall("4", "s1")).Session.Hour; h.Calls != 3 || h.Rules["acme.new"] != 0 {
		t.Errorf("after its end: %+v", h)
	}
}

func TestWindowsSlide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := recent.New(time.Now)
		c := newCall("1", "s1")
		judged(k, c, "r")
		ended(k, c, tool.Allow, tool.StatusSuccess)
		for _, tt := range []struct {
			after             time.Duration
			minute, hour, day int
		}{
			{59 * time.Second, 1, 1, 1},
			{7 * time.Second, 0, 1, 1}, // a twelfth later at most
			{58 * time.Minute, 0, 1, 1},
			{7 * time.Minute, 0, 0, 1},
			{22 * time.Hour, 0, 0, 1},
			{4 * time.Hour, 0, 0, 0},
			{1000 * time.Hour, 0, 0, 0},
		} {
			time.Sleep(tt.after)
			c := newCall("q", "s1")
			c.Request.Hypothetical = true
			n := judged(k, c).Account
			if n.Minute.Calls != tt.minute || n.Hour.Calls != tt.hour || n.Day.Calls != tt.day ||
				n.Minute.Verdicts.Allow != tt.minute || n.Day.Rules["r"] != tt.day || len(n.Day.Rules) != tt.day {
				t.Errorf("after another %s: %+v", tt.after, n)
			}
		}
	})
}

// The numbers are those of a list of all calls, between the length of a window and a
// twelfth more.
func TestCountsAreThoseOfAList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1_800_000_000, 0)
		k := recent.New(func() time.Time { return now })
		type entry struct {
			at   time.Time
			open *tool.Call
		}
		var list []entry
		for i := range rapid.IntRange(1, 60).Draw(rt, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 900).Draw(rt, "seconds")) * time.Second)
			c := newCall(strconv.Itoa(i), "s")
			got := judged(k, c).Account
			for _, w := range []struct {
				got    int
				length time.Duration
			}{
				{got.Minute.Calls, time.Minute}, {got.Hour.Calls, time.Hour}, {got.Day.Calls, 24 * time.Hour},
			} {
				least, most := 0, 0
				for _, e := range list {
					if age := now.Sub(e.at); age < w.length {
						least++
						most++
					} else if age <= w.length+w.length/12 {
						most++
					}
				}
				if w.got < least || w.got > most {
					rt.Fatalf("%d calls in %s, want %d to %d", w.got, w.length, least, most)
				}
			}
			list = append(list, entry{now, c})
			if n := rapid.IntRange(0, len(list)-1).Draw(rt, "ends"); list[n].open != nil {
				if rapid.Bool().Draw(rt, "denied") {
					ended(k, list[n].open, tool.Deny, tool.StatusError)
					list = append(list[:n], list[n+1:]...)
				} else {
					ended(k, list[n].open, tool.Allow, tool.StatusSuccess)
					list[n].open = nil
				}
			}
		}
	})
}

// Calls at the same time cannot pass a limit together.
func TestALimitHoldsForCallsAtTheSameTime(t *testing.T) {
	k := recent.New(time.Now)
	var wait sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for i := range 100 {
		wait.Go(func() {
			c := newCall(strconv.Itoa(i), strconv.Itoa(i%7))
			allowed := false
			k.Judge(c, func(before func() *input.Recent) []string {
				allowed = before().Account.Hour.Rules["push"] < 10
				for range 20 { // judging takes a while, and others come
					runtime.Gosched()
				}
				return []string{"push"}
			})
			if !allowed {
				ended(k, c, tool.Deny, tool.StatusError)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			passed++
		})
	}
	wait.Wait()
	if passed < 10 {
		t.Errorf("%d passed, want 10 or, where denials are taken away late, no more", passed)
	}
	if n := judged(k, newCall("last", "x")).Account.Hour.Calls; n != passed || passed > 10 {
		t.Errorf("%d are counted and %d passed, want 10", n, passed)
	}
}

// Sessions beyond the bound push the idle ones out; the account keeps its numbers.
func TestMemoryIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	k := recent.New(func() time.Time { now = now.Add(time.Microsecond); return now })
	for i := range 6000 {
		c := newCall(strconv.Itoa(i), strconv.Itoa(i))
		judged(k, c)
		ended(k, c, tool.Allow, tool.StatusSuccess)
	}
	for session, want := range map[string]int{"1903": 0, "1910": 1} { // of 6000 the newest 4096 are known
		c := newCall("q", session)
		c.Request.Hypothetical = true
		if got := judged(k, c).Session.Day.Calls; got != want {
			t.Errorf("session %s has %d calls, want %d", session, got, want)
		}
	}
	first := judged(k, newCall("x", "0"))
	last := judged(k, newCall("y", "5999"))
	if first.Session.Day.Calls != 0 || last.Session.Day.Calls != 1 || last.Account.Day.Calls != 6001 {
		t.Errorf("the first session has %d, the last %d, the account %d", first.Session.Day.Calls, last.Session.Day.Calls,
			last.Account.Day.Calls)
	}
}

func BenchmarkJudge(b *testing.B) {
	for _, read := range []bool{false, true} {
		b.Run(fmt.Sprintf("read=%v", read), func(b *testing.B) {
			k := recent.New(time.Now)
			c := newCall("1", "s")
			for b.Loop() {
				k.Judge(c, func(before func() *input.Recent) []string {
					if read {
						before()
					}
					return []string{"r"}
				})
				ended(k, c, tool.Allow, tool.StatusSuccess)
			}
		})
	}
}

// A clock that was far ahead and is set right again: calls count from then on, and what was
// counted before goes when its time is over.
func TestAClockThatJumps(t *testing.T) {
	for _, ahead := range []time.Duration{10 * time.Minute, 25 * time.Hour, 9000 * time.Hour} {
		now := time.Unix(1_800_000_000, 0)
		k := recent.New(func() time.Time { return now })
		calls := 0
		call := func(n int) {
			for range n {
				calls++
				c := newCall(strconv.Itoa(calls), "s")
				judged(k, c, "push")
				ended(k, c, tool.Allow, tool.StatusSuccess)
			}
		}
		seen := func() input.Windows {
			c := newCall("q", "s")
			c.Request.Hypothetical = true
			return judged(k, c).Account
		}
		call(3)
		now = now.Add(ahead)
		call(2)
		now = now.Add(time.Second - ahead)
		call(4)
		if got := seen(); got.Minute.Rules["push"] < 4 || got.Hour.Rules["push"] < 4 || got.Day.Rules["push"] < 4 {
			t.Errorf("%v ahead and back: %d in the minute, %d in the hour, %d in the day, want 4 or more", ahead,
				got.Minute.Rules["push"], got.Hour.Rules["push"], got.Day.Rules["push"])
		}
		now = now.Add(50 * time.Second) // what was counted last, before and after, is in the window
		if got := seen().Minute.Rules["push"]; got != 6 {
			t.Errorf("%v ahead and back, 50 s later: %d in the minute, want 6", ahead, got)
		}
		now = now.Add(min(ahead, 26*time.Hour) + 30*time.Hour)
		if got := seen(); got.Day.Calls != 0 {
			t.Errorf("%v ahead and back: %d calls are counted when all of that is over", ahead, got.Day.Calls)
		}
	}
}
