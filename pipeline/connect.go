package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// maxKept bounds the verdicts, and the open hosts and ports, that are kept for the connections of one call.
const maxKept = 4096

// connections judges the connections of a call while it runs. It keeps the verdict for a host and port until the
// session, the settings or the policies change; a person's answer holds for the rest of the call. Policies see the
// command of the call, so a verdict for one call says nothing about another. The queue of questions keeps an answer
// that a person gave for longer.
type connections struct {
	line  *running
	call  tool.Call     // as it was when it began
	stale chan struct{} // has room for one: closed has something; nil where programs run here
	clock *tool.Clock

	mu       sync.Mutex // guards what follows
	age      int        // how often everything was judged again
	kept     map[egress.Connection]*keptVerdict
	open     map[string]*opened     // by host and port: what is allowed
	answered map[string]*personSaid // by question
	closed   []egress.Connection    // what was open and no longer may be, if a client has to hear of it
}

// personSaid is the answer of a person, or a question that waits for one.
type personSaid struct {
	done chan struct{} // closed when it is there
	tool.Approval
	err error
}

// keptVerdict is a verdict, or a judgement that is under way.
type keptVerdict struct {
	done chan struct{} // closed when the verdict is there
	egress.Verdict
}

// opened is the hosts and ports to which programs may connect.
type opened struct {
	conn  egress.Connection
	ended chan struct{} // closed when they no longer may
}

func newConnections(p *Pipeline, c *tool.Call) *connections {
	return &connections{
		line: p.running, call: *c, clock: &tool.Clock{}, kept: map[egress.Connection]*keptVerdict{},
		open: map[string]*opened{}, answered: map[string]*personSaid{},
	}
}

// judge is the [egress.Judge] of the call.
func (j *connections) judge(ctx context.Context, conn egress.Connection) egress.Verdict {
	p := j.line.inForce()
	key, decide := conn, j.decide
	opens := false
	switch requests := p.Policy.SeesRequests(); {
	case !requests:
		key.Method, key.Path = "", ""
	case conn.Method == "" && j.carriesRequests(conn):
		opens, decide = true, j.opening
	}
	j.mu.Lock()
	v, known := j.kept[key]
	if !known {
		v = &keptVerdict{done: make(chan struct{})}
		if len(j.kept) < maxKept {
			j.kept[key] = v
		}
	}
	j.mu.Unlock()
	if known {
		select {
		case <-v.done:
			return v.Verdict
		case <-ctx.Done():
			return over(ctx)
		}
	}
	defer close(v.done)
	if err := p.contain(func() error { v.Verdict = decide(ctx, conn); return nil }); err != nil {
		v.Verdict = egress.Verdict{Rule: "core.connection", Reason: err.Error()}
	}
	if ctx.Err() != nil {
		v.Verdict = over(ctx)
	}
	if strings.HasPrefix(v.Rule, "core.") { // the next connection may have better luck
		j.forget(key, v)
	}
	if p.Connected != nil && !(opens && v.Allow) { // each of its requests is told
		p.Connected(&j.call, conn, v.Verdict)
	}
	return v.Verdict
}

// opening refuses a host that the settings deny for every request. Rules then judge each request.
func (j *connections) opening(ctx context.Context, conn egress.Connection) egress.Verdict {
	p := j.line.inForce()
	now, err := p.asOfNow(ctx, &j.call)
	if err != nil {
		return egress.Verdict{Rule: "core.connection", Reason: err.Error()}
	}
	if d := p.connectionFloor(now, conn); d.Verdict == tool.Deny {
		return refusal(d)
	}
	return egress.Verdict{Allow: true}
}

// carriesRequests reports whether each HTTP request of a connection is judged by itself.
func (j *connections) carriesRequests(conn egress.Connection) bool {
	return conn.Protocol == egress.ProtocolHTTP || j.call.Settings.Network.Intercepts(conn.Host, conn.Port)
}

func (j *connections) forget(key egress.Connection, v *keptVerdict) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.kept[key] == v {
		delete(j.kept, key)
	}
}

func over(ctx context.Context) egress.Verdict {
	return egress.Verdict{Rule: "core.cancelled", Reason: "the call ended: " + context.Cause(ctx).Error()}
}

// decide finds the verdict by the session, the settings and the policies that are in force now, and again if they
// change meanwhile.
func (j *connections) decide(ctx context.Context, conn egress.Connection) egress.Verdict {
	for range maxQuestions {
		age := j.currentAge()
		d := j.line.inForce().connection(ctx, &j.call, conn)
		if d.Verdict == tool.Ask {
			a, err := j.ask(ctx, conn, d)
			if err != nil {
				return egress.Verdict{Rule: "core.connection", Reason: err.Error()}
			}
			if !a.Approved {
				return refusedBy(a, d)
			}
			// While the person thought, a new rule may have denied it.
			again := j.line.inForce().connection(ctx, &j.call, conn)
			if again.Verdict == tool.Ask && j.question(conn, again) == j.question(conn, d) {
				again = tool.Decision{Verdict: tool.Allow, Reasons: []tool.Reason{{Rule: "person"}}}
			}
			d = again
		}
		switch d.Verdict {
		case tool.Deny:
			return refusal(d)
		case tool.Allow:
			if v, ok := j.admit(conn, d, age); ok {
				return v
			}
		}
	}
	return egress.Verdict{
		Rule: "core.connection", Reason: "the settings or the policies changed each time while this was judged",
		Hint: "try again",
	}
}

func (j *connections) currentAge() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.age
}

// admit opens a host and port. It reports false when everything has been judged again since.
func (j *connections) admit(conn egress.Connection, d tool.Decision, age int) (egress.Verdict, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.age != age {
		return egress.Verdict{}, false
	}
	at := address(conn)
	o := j.open[at]
	if o == nil && len(j.open) >= maxKept {
		return egress.Verdict{
			Rule: "core.connection", Reason: fmt.Sprintf("the call connects to more than %d hosts and ports", maxKept),
			Hint: "do less in one call",
		}, true
	}
	if o == nil {
		o = &opened{conn: conn, ended: make(chan struct{})}
		j.open[at] = o
	}
	pace := j.line.inForce().Paces.Of(j.call.Request.Account)
	return egress.Verdict{Allow: true, Rule: firstRule(d), Ended: o.ended, Pace: pace}, true
}

// ask asks a person, once for each question of this call.
func (j *connections) ask(ctx context.Context, conn egress.Connection, d tool.Decision) (tool.Approval, error) {
	q := j.question(conn, d)
	j.mu.Lock()
	a, known := j.answered[q]
	if !known {
		a = &personSaid{done: make(chan struct{})}
		j.answered[q] = a
	}
	j.mu.Unlock()
	if known {
		<-a.done // it ends with the call, as ctx does
		return a.Approval, a.err
	}
	defer close(a.done)
	defer j.clock.Pause()()
	defer egress.Pause(ctx)()
	p := j.line.inForce()
	if d.By != tool.ByRule || !p.Policy.SeesRequests() {
		conn.Method, conn.Path = "", ""
	}
	a.Approval, a.err = p.Approvals.Connection(ctx, &j.call, tool.Connecting{
		Method: conn.Method, Path: conn.Path,
		Host: conn.Host, Port: conn.Port, Protocol: conn.Protocol, Via: conn.Via,
		Endpoint: guard.Endpoint(conn.Host, conn.Port), Workspace: workspaceOf(&j.call),
		ByRule: d.By == tool.ByRule, Why: d.Reasons,
	})
	return a.Approval, a.err
}

// question returns what a person is asked: the settings ask about a host with its port, a rule for its own reason,
// and about one request if rules see requests.
func (j *connections) question(conn egress.Connection, d tool.Decision) string {
	parts := []string{guard.Endpoint(conn.Host, conn.Port)}
	if d.By == tool.ByRule {
		for _, r := range d.Reasons {
			parts = append(parts, r.Rule)
		}
		if j.line.inForce().Policy.SeesRequests() {
			parts = append(parts, conn.Method, conn.Path)
		}
	}
	return strings.Join(parts, "\x00")
}

// workspaceOf returns the workspace in which an answer for longer holds.
func workspaceOf(c *tool.Call) string {
	for _, root := range c.Workspace.Roots {
		if guard.Within(c.Session.Dir, root) {
			return root
		}
	}
	return c.Session.Dir
}

// reconsider judges the open connections again, and ends those that are not allowed any more. It asks nobody: a
// connection that needs a question now ends, unless a person has answered that question.
func (j *connections) reconsider(ctx context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.age++
	clear(j.kept)
	for at, o := range j.open {
		d := j.line.inForce().connection(ctx, &j.call, o.conn)
		if d.Verdict == tool.Ask && j.allowed(j.question(o.conn, d)) {
			continue
		}
		if d.Verdict != tool.Allow {
			close(o.ended)
			delete(j.open, at)
			if j.stale != nil {
				j.closed = append(j.closed, o.conn)
				select {
				case j.stale <- struct{}{}:
				default:
				}
			}
		}
	}
}

// takeClosed returns the connections that a client must end.
func (j *connections) takeClosed() []egress.Connection {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.closed
	j.closed = nil
	return out
}

// allowed reports whether a person allowed it. The caller holds mu.
func (j *connections) allowed(question string) bool {
	a := j.answered[question]
	if a == nil {
		return false
	}
	select {
	case <-a.done:
		return a.Approved
	default:
		return false
	}
}

// ExplainConnection says what would be decided now if a call connected. It asks nobody and runs
// nothing.
func (p *Pipeline) ExplainConnection(ctx context.Context, req tool.Request, conn egress.Connection) (
	tool.Decision, error,
) {
	req.Hypothetical = true
	c := p.Decide(ctx, req)
	if c.Tool == nil || c.Facts.Class == "" {
		return tool.Decision{}, c.Result.Error
	}
	return p.connection(ctx, c, conn), nil
}

// connection judges a connection of a call that runs, by the session, the settings and the
// policies that are in force now.
func (p *Pipeline) connection(ctx context.Context, c *tool.Call, conn egress.Connection) tool.Decision {
	now, err := p.asOfNow(ctx, c)
	if err != nil {
		return deny(tool.ByCore, tool.Reason{Rule: "core.connection", Message: err.Error()})
	}
	return p.judgeConnection(ctx, now, conn)
}

// judgeConnection asks the settings, then the rules. What the settings deny nobody allows; what
// they ask about a rule may allow.
func (p *Pipeline) judgeConnection(ctx context.Context, c *tool.Call, conn egress.Connection) tool.Decision {
	floor := p.connectionFloor(c, conn)
	if floor.Verdict == tool.Deny {
		return floor
	}
	d, err := p.Policy.Connect(ctx, c, conn)
	switch {
	case err != nil:
		return deny(tool.ByCore, tool.Reason{Rule: "core.connection", Message: err.Error()})
	case d.Verdict != tool.Allow || len(d.Reasons) > 0 && floor.Verdict == tool.Ask:
		return d
	}
	d.Verdict, d.By, d.Reasons = floor.Verdict, floor.By, floor.Reasons
	return d.InMode(c.Session.Mode)
}

// connectionFloor returns what the settings say of a connection.
func (p *Pipeline) connectionFloor(c *tool.Call, conn egress.Connection) tool.Decision {
	v, rule := c.Settings.Network.Connect(conn.Host, conn.Port)
	said := tool.Reason{Rule: rule, Message: said(conn, rule, v)}
	if v == guard.Deny {
		said.Code, said.Hint = "host_denied", deniedHint(rule)
		return deny(tool.ByFloor, said)
	}
	// Only network.hosts leads to this machine, and nothing to the daemon itself.
	if at, ok := c.Settings.Network.Address(conn.Host, conn.Port); ok && p.Own != nil && p.Own(at) {
		return deny(tool.ByFloor, tool.Reason{
			Rule: "network.hosts", Code: "host_denied",
			Message: address(conn) + " is metrics.listen of the daemon, which no program may reach",
			Hint:    "do without it",
		})
	}
	return tool.Decision{Verdict: v, By: tool.ByFloor, Reasons: []tool.Reason{said}}
}

// asOfNow returns a copy of a running call with the current session and settings.
func (p *Pipeline) asOfNow(ctx context.Context, c *tool.Call) (*tool.Call, error) {
	s, err := p.Sessions.Session(ctx, c.Request.Account, c.Request.Session)
	if err != nil {
		return nil, err
	}
	if !s.Created.Equal(c.Session.Created) {
		return nil, fmt.Errorf("session %s is another one by now", s.ID)
	}
	now := *c
	s.Dir = c.Session.Dir // of this call
	now.Session = s
	if now.Workspace, err = p.Workspaces.Of(s.Dir); err != nil {
		return nil, err
	}
	floor, err := p.settings(&now)
	if err != nil {
		return nil, err
	}
	now.Settings = floor.Tighten(c.Decision.Obligations)
	return &now, nil
}

// said returns the verdict of the settings about a connection.
func said(conn egress.Connection, rule string, v guard.Verdict) string {
	at := address(conn)
	switch {
	case v == guard.Allow:
		return at + " is allowed by the settings"
	case v == guard.Ask:
		return fmt.Sprintf("a program connects to %s, which network.allowedDomains does not list", at)
	case strings.HasPrefix(rule, "network.deniedDomains"):
		return at + " is in the denied domains"
	}
	return at + " is not in the allowed domains"
}

func deniedHint(rule string) string {
	if strings.HasPrefix(rule, "network.deniedDomains") {
		return "no call may connect to it; do without it"
	}
	return listHint
}

// refusal returns the verdict of a decision that denies.
func refusal(d tool.Decision) egress.Verdict {
	v := egress.Verdict{Rule: "core.connection", Reason: "denied without a reason, which is a bug of the judge"}
	if len(d.Reasons) > 0 {
		r := d.Reasons[0]
		v.Rule, v.Reason, v.Hint = r.Rule, r.Message, r.Hint
	}
	return v
}

// listHint says which setting lets a program connect.
const listHint = "an operator can list it in sandbox.network.allowedDomains"

// askedHint says when a person is asked.
const askedHint = "a person is asked while sandboxd approvals watch runs, or where approvals.webhook or " +
	"approvals.command announces questions"

// refusedBy returns the verdict of a person, or of nobody, about the question of d.
func refusedBy(a tool.Approval, d tool.Decision) egress.Verdict {
	if a.Code == "" {
		return egress.Verdict{Rule: "person", Reason: cmp.Or(a.Reason, "a person refused it")}
	}
	v := egress.Verdict{Rule: firstRule(d), Reason: a.Reason, Hint: askedHint}
	if d.By == tool.ByFloor {
		v.Hint = listHint + "; or " + askedHint
	}
	return v
}

func firstRule(d tool.Decision) string {
	if len(d.Reasons) == 0 {
		return ""
	}
	return d.Reasons[0].Rule
}

func address(conn egress.Connection) string {
	return net.JoinHostPort(conn.Host, strconv.Itoa(conn.Port))
}

// Reconsider judges again, by what is in force now: the open connections of all calls that run,
// and ends those that it forbids; and the jobs, which are told what forbids them. It is called
// when settings, sessions or policies have changed.
func (p *Pipeline) Reconsider(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // who changed something may be gone; what is open stays
	for _, j := range p.running.connecting() {
		j.reconsider(ctx)
	}
	for _, j := range p.running.jobs() {
		p.reconsiderJob(ctx, j)
	}
}

// connecting returns the connections of the calls that run.
func (r *running) connecting() []*connections {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*connections
	for _, e := range r.calls {
		if e.connections != nil {
			all = append(all, e.connections)
		}
	}
	return slices.Clip(all)
}

// connects notes that a call runs whose connections are judged; nil is that it no longer does.
func (r *running) connects(id string, j *connections) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.calls[id]; e != nil {
		e.connections = j
	}
}
