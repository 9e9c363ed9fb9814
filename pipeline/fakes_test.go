package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// world is every stage in memory; it writes down what was asked of it.
type world struct {
	mu    sync.Mutex
	trace []string

	session  tool.Session
	advice   tool.Advice
	hook     func(args json.RawMessage) tool.Advice // nil: advice
	basis    string                                 // of what Before says
	post     tool.Advice
	posts    bool
	decide   func(*tool.Call) tool.Decision
	answers  []tool.Approval
	shown    []tool.Reason // of the last question before a call runs
	asked    []string      // digests
	counted  []tool.Status
	failAt   string // the stage that fails
	echo     *echo
	backend  boxes
	settings guard.Settings
	closed   error    // of the workspace
	others   []string // workspaces
	journal  Journal
	undoable bool
	stored   map[string]string
	pending  bool
	refused  int // how often hooks heard of a refusal
	heard    int // and of changes
	line     *Pipeline
	submit   func(Edit) (string, error) // nil is the line's

	connect  func(*tool.Call, egress.Connection) tool.Decision // nil has no opinion
	requests bool                                              // policies see requests
	people   func(context.Context, tool.Connecting) tool.Approval
	told     []egress.Verdict                               // of connections
	changed  func(*tool.Call, []tool.Changed) tool.Decision // nil: no rule looks at changes
	mayStay  func(*tool.Call, tool.Changing) tool.Approval
}

func (w *world) say(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, what)
	if w.failAt == what {
		return errors.New(what + " is broken")
	}
	return nil
}

func newWorld(spec tool.Spec) *world {
	spec.Name = "Echo"
	if spec.Schema == nil {
		spec.Schema = json.RawMessage(
			`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`,
		)
	}
	w := &world{
		session: tool.Session{ID: "s", Account: "a", Dir: "/w", Mode: "auto"},
		decide:  func(*tool.Call) tool.Decision { return tool.Decision{Verdict: tool.Allow, Revision: "r1"} },
		stored:  map[string]string{},
	}
	w.echo = &echo{w: w, spec: spec}
	return w
}

func (w *world) do(t *testing.T, args string) tool.Result {
	t.Helper()
	return w.pipeline().Do(t.Context(), w.request(args))
}

func (w *world) request(args string) tool.Request {
	return tool.Request{Account: "a", Role: tool.RoleAgent, Session: "s", Tool: "Echo", Args: json.RawMessage(args)}
}

func (w *world) pipeline() *Pipeline {
	r := catalog.NewRegistry(catalog.Group{Name: "g", Tools: []tool.Tool{w.echo}})
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	w.line = New(Options{
		Sessions: w, Tools: r, Vars: w, Hooks: w, Policy: w, Approvals: w, Record: w, Meter: w,
		Backend: &w.backend, Workspaces: w, Log: slog.New(slog.DiscardHandler),
		Journal: w.journal, Undoable: w.undoable, Paces: egress.NewPaces(1, 0),
		Connected: func(_ *tool.Call, _ egress.Connection, v egress.Verdict) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, v)
		},
	})
	return w.line
}

// Of is the workspace of the world, unless nobody lets agents work there.
func (w *world) Of(string) (tool.Workspace, error) {
	return tool.Workspace{Roots: []string{"/w"}, Settings: w.settings}, w.closed
}

// Dirs are this workspace, and one of others.
func (w *world) Dirs() []string { return append([]string{"/w"}, w.others...) }

func (w *world) Session(_ context.Context, account, id string) (tool.Session, error) {
	if err := w.say("lookup"); err != nil {
		return tool.Session{}, err
	}
	if account != w.session.Account || id != w.session.ID {
		return tool.Session{}, &tool.Error{Code: "session_not_found", Msg: "no session"}
	}
	return w.session, nil
}

func (w *world) Patch(_ context.Context, _, _ string, change func(*tool.Session) error) (tool.Session, error) {
	return w.session, change(&w.session)
}

func (w *world) Resolve(_ context.Context, _ string, args json.RawMessage) (json.RawMessage, tool.Origins, error) {
	return args, tool.Origins{}, w.say("resolve")
}

func (w *world) Remember(_ context.Context, c *tool.Call, pending bool) error {
	w.pending = pending
	c.Result.VarResult, c.Result.VarArgs = "v_result", "v_args"
	w.stored["v_result"] = c.Result.FormattedText
	return w.say("remember")
}

func (w *world) Publish(context.Context, *tool.Call) error {
	w.pending = false
	return w.say("publish")
}

func (w *world) Discard(context.Context, *tool.Call) error {
	delete(w.stored, "v_result")
	return w.say("discard")
}

func (w *world) Before(_ context.Context, c *tool.Call) (tool.Advice, error) {
	if w.hook != nil {
		return w.hook(c.In.Args), w.say("before")
	}
	return w.advice, w.say("before")
}

func (w *world) Basis(context.Context, *tool.Call) (string, error) { return w.basis, nil }

func (w *world) After(context.Context, *tool.Call) (tool.Advice, error) {
	return w.post, w.say("after")
}

func (w *world) Moved(context.Context, *tool.Call) []string { return nil }
func (w *world) Changed(context.Context, *tool.Call) []string {
	w.heard++
	return nil
}

func (w *world) Refused(context.Context, *tool.Call) []string {
	w.refused++
	return []string{"somebody was told"}
}
func (w *world) Posts() bool { return w.posts }

func (w *world) Decide(_ context.Context, c *tool.Call) (tool.Decision, error) {
	return w.decide(c), w.say("policy")
}

func (w *world) Connect(_ context.Context, c *tool.Call, conn egress.Connection) (tool.Decision, error) {
	if w.connect == nil {
		return tool.Decision{Verdict: tool.Allow}, nil
	}
	return w.connect(c, conn), nil
}

func (w *world) SeesRequests() bool { return w.requests }

func (w *world) JudgeChanges(_ context.Context, c *tool.Call, changes []tool.Changed) (tool.Decision, error) {
	return w.changed(c, changes), nil
}

func (w *world) Withheld(context.Context, *tool.Call, []string) (map[string]bool, error) {
	return nil, nil
}

func (w *world) SeesChanges() bool { return w.changed != nil }

func (w *world) Changes(ctx context.Context, c *tool.Call, made tool.Changing) (tool.Approval, error) {
	return w.mayStay(c, made), ctx.Err()
}

func (w *world) Connection(ctx context.Context, _ *tool.Call, to tool.Connecting) (tool.Approval, error) {
	if w.people == nil {
		return tool.Approval{Code: "no_approver", Reason: "nobody is there"}, nil
	}
	return w.people(ctx, to), nil
}

func (w *world) Execution(_ context.Context, c *tool.Call) (tool.Approval, error) {
	w.asked, w.shown = append(w.asked, c.Digest), c.Decision.Reasons
	a := w.answer()
	if a.Args != nil { // as the queue does when a person submits them
		before := w.trace
		req := c.Request
		req.Args = c.In.Args
		e := Edit{Call: req, Origins: c.Origins, Digest: c.Digest, Args: a.Args}
		submit := w.submit
		if submit == nil {
			submit = func(e Edit) (string, error) { return w.line.Edited(context.Background(), e) }
		}
		a.Digest, _ = submit(e) // "" is asked again
		w.trace = before
	}
	return a, w.say("ask")
}

func (w *world) Result(context.Context, *tool.Call) (tool.Approval, error) {
	return w.answer(), w.say("ask result")
}

func (w *world) answer() tool.Approval {
	if len(w.answers) == 0 {
		return tool.Approval{Code: "no_approver", Reason: "nobody is there"}
	}
	a := w.answers[0]
	w.answers = w.answers[1:]
	return a
}

func (w *world) Begin(context.Context, *tool.Call) error { return w.say("begin") }
func (w *world) End(context.Context, *tool.Call) error   { return w.say("end") }
func (w *world) Stage(string, time.Duration)             {}

// ran reports whether the tool ran.
func (w *world) ran() bool { return slices.Contains(w.trace, "run") }

func (w *world) path() string { return strings.Join(w.trace, " ") }

// echo returns its text.
type echo struct {
	w       *world
	spec    tool.Spec
	uses    guard.Uses
	panics  bool
	prints  string        // while it runs
	running chan struct{} // closed when Run starts and is to wait for its context
	leaves  tool.Output   // beside the text
	data    any           // in place of the text
	got     string
	in      tool.In                             // of the last run
	start   func(sandbox.Box)                   // in Run
	dials   func(context.Context, egress.Judge) // in Run
	run     func() error                        // in Run
}

func (e *echo) Spec() tool.Spec { return e.spec }

func (e *echo) Uses(context.Context, tool.In) (guard.Uses, error) { return e.uses, e.w.say("uses") }

func (e *echo) Run(ctx context.Context, in tool.In, b sandbox.Box) (tool.Output, error) {
	if err := e.w.say("run"); err != nil {
		return tool.Output{}, err
	}
	if e.panics {
		panic("oh")
	}
	if e.run != nil {
		if err := e.run(); err != nil {
			return tool.Output{}, err
		}
	}
	if e.running != nil {
		close(e.running)
		<-ctx.Done()
		return tool.Output{}, ctx.Err()
	}
	var args struct{ Text string }
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return tool.Output{}, err
	}
	e.got, e.in = args.Text, in
	if e.prints != "" {
		in.Emit(tool.Progress{Stream: "stdout", Output: []byte(e.prints)})
	}
	if e.start != nil {
		e.start(b)
	}
	if e.dials != nil {
		e.dials(ctx, b.(box).judge)
	}
	out := e.leaves
	out.Data = args.Text
	if e.data != nil {
		out.Data = e.data
	}
	return out, nil
}

// boxes is a backend whose boxes hold files in memory directories of the test.
type boxes struct {
	report   sandbox.Report
	settings guard.Settings  // of the last box
	profile  sandbox.Profile // likewise
	binds    error
	noBox    error             // a call gets none
	path     map[string]string // of programs
	started  *sandbox.Spec     // the last program
	judge    egress.Judge      // of the last box
	ledger   egress.Ledger
}

func (b *boxes) Probe() sandbox.Report { return b.report }
func (b *boxes) Forget(string) error   { return nil }
func (b *boxes) Binds() error          { return b.binds }
func (b *boxes) Close() error          { return nil }

func (b *boxes) Box(_ context.Context, _ string, profile sandbox.Profile, s guard.Settings) (sandbox.Box, error) {
	b.settings, b.profile = s, profile
	return box{b}, b.noBox
}

type box struct{ *boxes }

func (box) Open(_ context.Context, use guard.PathUse, flag int) (*os.File, error) {
	return os.OpenFile(use.Path, flag, 0)
}

func (b box) Start(_ context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	b.started = &s
	return nil, errors.New("no programs here")
}

func (b box) Judged(j egress.Judge) sandbox.Box {
	b.judge = j
	return b
}

func (b box) Ledger() egress.Ledger { return b.ledger }

func (b box) LookPath(name string) (string, []string) {
	all := strings.Split(b.path[name], ":")
	return all[len(all)-1], all[:len(all)-1]
}

func (box) Dial(context.Context, egress.Connection) (net.Conn, error) {
	return nil, errors.New("no network here")
}
func (b box) As(sandbox.User) sandbox.Box            { return b }
func (box) Do(_ guard.PathUse, f func() error) error { return f() }
func (b box) Report() sandbox.Report                 { return b.report }
func (box) Close() error                             { return nil }

func (w *world) Done(c *tool.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted = append(w.counted, c.Result.Status)
}
