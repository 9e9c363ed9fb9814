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

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// world is every stage in memory; it writes down what was asked of it.
type world struct {
	mu    sync.Mutex
	trace []string

	session  tool.Session
	advice   tool.Advice
	post     tool.Advice
	posts    bool
	decide   func(*tool.Call) tool.Decision
	answers  []tool.Approval
	asked    []string // digests
	counted  []tool.Status
	failAt   string // the stage that fails
	echo     *echo
	backend  boxes
	settings sandbox.Settings
	stored   map[string]string
	pending  bool
	refused  int // how often hooks heard of a refusal
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
		spec.Schema = json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`)
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
	r := tool.NewRegistry(tool.Group{Name: "g", Tools: []tool.Tool{w.echo}})
	r.SetDefaults(tool.Defaults{AllGroups: true})
	return New(Options{
		Sessions: w, Tools: r, Vars: w, Hooks: w, Policy: w, Approvals: w, Record: w, Meter: w,
		Backend: &w.backend, Settings: w.settings, Roots: []string{"/w"}, Log: slog.New(slog.DiscardHandler),
	})
}

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

func (w *world) Before(context.Context, *tool.Call) (tool.Advice, error) {
	return w.advice, w.say("before")
}

func (w *world) After(context.Context, *tool.Call) (tool.Advice, error) {
	return w.post, w.say("after")
}

func (w *world) Changed(context.Context, *tool.Call) []string { return nil }
func (w *world) Refused(context.Context, *tool.Call) []string {
	w.refused++
	return []string{"somebody was told"}
}
func (w *world) Posts() bool { return w.posts }

func (w *world) Decide(_ context.Context, c *tool.Call) (tool.Decision, error) {
	return w.decide(c), w.say("policy")
}

func (w *world) Execution(_ context.Context, c *tool.Call) (tool.Approval, error) {
	w.asked = append(w.asked, c.Digest)
	return w.answer(), w.say("ask")
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
	uses    sandbox.Uses
	panics  bool
	running chan struct{} // closed when Run starts and is to wait for its context
	got     string
}

func (e *echo) Spec() tool.Spec { return e.spec }

func (e *echo) Uses(context.Context, tool.In) (sandbox.Uses, error) { return e.uses, e.w.say("uses") }

func (e *echo) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	if err := e.w.say("run"); err != nil {
		return tool.Output{}, err
	}
	if e.panics {
		panic("oh")
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
	e.got = args.Text
	return tool.Output{Data: args.Text}, nil
}

// boxes is a backend whose boxes hold files in memory directories of the test.
type boxes struct {
	report   sandbox.Report
	settings sandbox.Settings // of the last box
}

func (b *boxes) Probe() sandbox.Report { return b.report }
func (b *boxes) Forget(string) error   { return nil }
func (b *boxes) Close() error          { return nil }

func (b *boxes) Box(_ context.Context, _, _ string, s sandbox.Settings) (sandbox.Box, error) {
	b.settings = s
	return box{b.report}, nil
}

type box struct{ report sandbox.Report }

func (box) Open(_ context.Context, use sandbox.PathUse, flag int) (*os.File, error) {
	return os.OpenFile(use.Path, flag, 0)
}

func (box) Start(context.Context, sandbox.Spec) (sandbox.Proc, error) {
	return nil, errors.New("no programs here")
}

func (box) Dial(context.Context, string) (net.Conn, error) { return nil, errors.New("no network here") }
func (b box) Report() sandbox.Report                       { return b.report }
func (box) Close() error                                   { return nil }

func (w *world) Done(c *tool.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted = append(w.counted, c.Result.Status)
}
