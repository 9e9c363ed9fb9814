package textcall

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// line is what is known of the calls by text of one session.
type line struct {
	// turn is held by the call that runs; those that wait get it in the order in which they came.
	turn chan struct{}

	mu       sync.Mutex  // guards what follows
	times    []time.Time // of calls within the window, blocked ones too
	calls    int         // that were not blocked
	failures int
	log      []logged // the last ones
}

// logged is a call as the log of stats has it.
type logged struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

const (
	maxLog    = 100
	maxLogged = 64 // characters of a name: a longer one is of nothing that can be called
)

// What became of a reply, beside the statuses of calls.
const (
	statusBlocked = "BLOCKED" // by the breaker
	statusNoCall  = "NO_CALL"
)

func (f *feature) line(session string) *line {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, known := f.lines[session]
	if !known {
		l = &line{turn: make(chan struct{}, 1)}
		f.lines[session] = l
	}
	return l
}

// recent forgets the calls before the window, and returns how many are left.
func (l *line) recent(window time.Duration) int {
	for len(l.times) > 0 && time.Since(l.times[0]) >= window {
		l.times = l.times[1:]
	}
	return len(l.times)
}

// count notes a call, and returns how many there were within the window, this one included.
func (l *line) count(window time.Duration, most int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent(window)
	if l.times = append(l.times, time.Now()); len(l.times) > 100*most { // a model that never stops
		l.times = l.times[1:]
	}
	return len(l.times)
}

// done notes how a call ended.
func (l *line) done(name, status string, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if status != statusBlocked {
		l.calls++
	}
	if failed {
		l.failures++
	}
	name = strings.Clone(oneLine(name, maxLogged)) // a model wrote it: no reply is kept for its name
	if l.log = append(l.log, logged{name, status}); len(l.log) > maxLog {
		l.log = l.log[1:]
	}
}

// outcome is what became of one call.
type outcome struct {
	Call    Call   `json:"call"`
	Status  string `json:"status"`
	message string
	goOn    bool // the model should be asked again
}

// perform makes one call: counted, in its turn, down the request path.
func (f *feature) perform(ctx context.Context, s tool.Session, call Call, req tool.Request) (outcome, error) {
	c := f.config.Load()
	l := f.line(s.ID)
	if n := l.count(c.BreakerWindow, c.BreakerCalls); n > c.BreakerCalls {
		l.done(call.Name, statusBlocked, false)
		f.alarm(s, n, c.BreakerWindow)
		return outcome{Call: call, Status: statusBlocked, message: blocked(n, c.BreakerWindow)}, nil
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return outcome{}, context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	if err := context.Cause(ctx); err != nil { // both were ready
		return outcome{}, err
	}
	have, err := f.callables(ctx, s.ID)
	if err != nil {
		return outcome{}, err
	}
	k, registered := have[call.Name]
	if registered && !k.Enabled {
		l.done(call.Name, string(tool.StatusNotFound), true)
		return unknown(call), nil
	}
	req.Tool, req.Args = call.Name, toolArgs(call)
	if registered {
		req.Tool, req.Args, req.Own = k.request(call, f.host.Known)
	}
	r := f.host.Do(ctx, req)
	out := outcomeOf(call, r)
	_, without := r.Data.(none)
	l.done(call.Name, out.Status, r.Status != tool.StatusSuccess || without)
	return out, nil
}

func blocked(n int, window time.Duration) string {
	return fmt.Sprintf("Circuit breaker triggered. The model called skills too frequently (%d calls within %s). "+
		"Further calls are blocked to prevent infinite loops.", n, seconds(window))
}

func seconds(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return d.String()
}

// alarm tells operators.
func (f *feature) alarm(s tool.Session, n int, window time.Duration) {
	f.host.Log.Warn("calls by text are blocked", "session", s.ID, "calls", n, "window", window)
	f.host.Events.Publish(events.Event{
		Type: events.Notification, Account: s.Account, Session: s.ID, Status: "warning",
		Title: "Calls by text are blocked", Message: fmt.Sprintf("%d calls within %s", n, seconds(window)),
	})
}

func unknown(call Call) outcome {
	return outcome{
		Call: call, Status: string(tool.StatusNotFound), goOn: true,
		message: fmt.Sprintf("Skill call failed: %q is not registered or not enabled.", call.Name),
	}
}

// outcomeOf returns the result of a call in words.
func outcomeOf(call Call, r tool.Result) outcome {
	switch r.Status {
	case tool.StatusNotFound:
		return unknown(call)
	case tool.StatusSuccess:
		text := r.FinalText
		if strings.TrimSpace(r.FormattedText) == "" && r.Data == nil { // the text may say where it is kept
			text = "(empty result)"
		}
		return outcome{call, string(r.Status), "Skill result: " + call.Name + "\n---\n" + text, true}
	}
	return outcome{call, string(r.Status), "Skill execution failed: " + call.Name + "\n---\n" + r.FinalText, true}
}

// answer is the answer to a reply of a model.
type answer struct {
	Call     *Call        `json:"call"`
	Status   string       `json:"status"`
	Message  *textMessage `json:"message"` // to append
	Continue bool         `json:"continue"`
	Ignored  int          `json:"ignored"`
	// More are the calls behind the first, where text.maxCallsPerMessage lets several be made.
	More []outcome `json:"more,omitempty"`
}

type textMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// reply makes the calls of a reply, one after the other.
func (f *feature) reply(ctx context.Context, s tool.Session, content string, req tool.Request) (answer, error) {
	calls, ignored := Parse(content, f.config.Load().MaxCalls)
	if len(calls) == 0 {
		return answer{Status: statusNoCall}, nil
	}
	a := answer{Call: &calls[0], Ignored: ignored}
	var said []string
	for i, call := range calls {
		out, err := f.perform(ctx, s, call, req)
		if err != nil {
			return answer{}, err
		}
		said = append(said, out.message)
		a.Continue = out.goOn
		if i == 0 {
			a.Status = out.Status
		} else {
			a.More = append(a.More, out)
		}
		if !out.goOn {
			a.Ignored += len(calls) - i - 1
			break
		}
	}
	if a.Ignored > 0 {
		said = append(said, fmt.Sprintf("(Further calls of that reply were ignored: %d.)", a.Ignored))
	}
	a.Message = &textMessage{"system", strings.Join(said, "\n\n")}
	return a, nil
}

// stats are the numbers of the calls by text of a session.
type stats struct {
	Enabled     int      `json:"enabled"` // callables that are on
	Calls       int      `json:"calls"`   // without those that were blocked
	Failures    int      `json:"failures"`
	FailureRate float64  `json:"failure_rate"`
	Breaker     string   `json:"breaker"` // closed, or open: the next call is blocked
	Log         []logged `json:"log"`
}

func (f *feature) stats(session string, on int) stats {
	c, l := f.config.Load(), f.line(session)
	l.mu.Lock()
	defer l.mu.Unlock()
	st := stats{Enabled: on, Calls: l.calls, Failures: l.failures, Breaker: "closed", Log: append([]logged{}, l.log...)}
	if l.calls > 0 {
		st.FailureRate = float64(l.failures) / float64(l.calls)
	}
	if l.recent(c.BreakerWindow) >= c.BreakerCalls {
		st.Breaker = "open"
	}
	return st
}

// reset closes the breaker of a session.
func (f *feature) reset(session string) {
	l := f.line(session)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = nil
}
