// Package hooks runs what the operator configured around calls and other events
// of a session: functions of this program, shell commands and HTTP endpoints.
//
//	r, err := hooks.New(hooks.Options{Hooks: map[string][]hooks.Definition{
//		"preToolUse": {{Command: "/etc/sandboxd/guard", Matcher: "^Bash$"}},
//	}})
//	advice, err := r.Before(ctx, call)  // preToolUse, then permissionRequest
//	advice, err = r.After(ctx, call)    // postToolUse or postToolUseFailure
//	answer, err := r.Fire(ctx, hooks.SessionStart, hooks.Input{SessionID: id})
//
// The hooks of one event run one after the other in the order of configuration;
// each sees the input as the ones before it left it. Their outputs are merged so
// that the strictest wins: any block blocks, then any ask asks. An allow answers
// only the question of a permission mode; deciding that is the caller's part.
//
// A hook that fails (no start, non-zero exit, time-out, output that is too large, is broken
// JSON, or may hold an answer that is not understood) blocks where its event can block, unless its definition says
// otherwise. A hook that panics fails. A command that exits with 2 does not fail: it
// answers that it blocks.
//
// A command gets the input as JSON on stdin and never in its text, a clean
// environment, and / as its directory: the directory of a session holds files
// that others wrote, and many programs run what they find there. When it ends, or
// at its time-out, everything that it started is killed (package reaper); if something
// cannot be killed, the hook fails. Where its
// definition says so, it runs in the sandbox instead, as tools do.
//
// The request path calls Before, [Registry.Basis], After, [Registry.Changed], [Registry.Moved] and
// [Registry.Refused]; everybody else calls Fire. After a reload, [Registry.Next] makes
// the registry with other options, and keeps running programs and permissions.
// [Registry.Try] runs hooks as Fire does, but keeps and tells nothing.
//
// A hook can also allow or deny a tool, or have it asked about, for the rest of a
// session ([PermissionUpdate]). This is stored in the tables of [Schema].
//
// The package starts two other kinds of operator programs in the same way:
// [Registry.Program], which answers a question, and [Registry.RunAgent], which runs an
// agent. Only the latter may call the daemon; [Registry.Descends] finds the calls of
// all others, and the daemon refuses them.
//
// What starts, watches and ends hooks and other programs of the operator outside of the sandbox
// belongs here, except the programs that print a secret (package secrets). The package asks no person,
// evaluates no policy and writes no record: it returns advice, and Options.Observe
// hears of each run that its caller waited for.
//
// A new event is a constant and an element of [Events] in event.go, which also says whether it has a tool
// and what its answer is good for; and a row in docs/hooks.md. If no client may send it, add it to [Event.Seen]. The
// request path and routes fire it with [Registry.Fire]. A feature fires it with part.Host.Fire and needs a constant
// part.Event; a new field of part.Happening goes into fire in internal/daemon/parts.go.
package hooks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Options configures a registry.
type Options struct {
	Hooks map[string][]Definition // by name of the event

	Child    string            // path of sandboxd-child; "": the running binary, which must call child.Main
	Env      map[string]string // added to the environment of commands, literally
	Writable []string          // directories of the workspace: no configured program may lie there

	// DB keeps what hooks say of permissions over a restart; it has [Schema]. nil
	// keeps it in memory.
	DB *store.DB
	// Box is a sandbox for the commands that are to run in one; nil fails them.
	Box func(context.Context) (sandbox.Box, error)

	// Notify receives what hooks want people to see (H-25). It must not block.
	Notify func(session string, n Notification)
	// Observe is told of every run, for metrics and the record. It must not block.
	Observe func(Run)
}

// Registry holds the hooks by event. It is safe for concurrent use.
type Registry struct {
	opts    Options
	running *runs
	grants  *permissions

	mu     sync.RWMutex // guards events
	events map[Event][]hook
}

// hook is a definition that was checked.
type hook struct {
	Definition
	event Event
	match func(toolName string) bool
}

// New checks every definition; one that is wrong is an error that names it.
func New(o Options) (*Registry, error) {
	grants, err := openPermissions(o.DB)
	if err != nil {
		return nil, err
	}
	return build(o, newRuns(), grants)
}

// Next returns a registry of other hooks that takes the place of r. It still knows the running commands of r, and the
// permissions that hooks gave or denied to the tools of a session.
func (r *Registry) Next(o Options) (*Registry, error) {
	return build(o, r.running, r.grants)
}

func build(o Options, running *runs, grants *permissions) (*Registry, error) {
	r := &Registry{opts: o, running: running, grants: grants}
	if err := r.Replace(o.Hooks); err != nil {
		return nil, err
	}
	return r, nil
}

// Replace exchanges all hooks, or none of them if one is wrong. Runs that have
// begun finish with the old ones.
func (r *Registry) Replace(defs map[string][]Definition) error {
	events := map[Event][]hook{}
	for name, list := range defs {
		event, err := ParseEvent(name)
		if err != nil {
			return err
		}
		for i, d := range list {
			h, err := compile(event, d, len(events[event]), r.opts.Writable)
			if err != nil {
				return fmt.Errorf("hooks.%s[%d]: %w", name, i, err)
			}
			events[event] = append(events[event], h)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = events
	return nil
}

// Register adds one hook behind those that are there.
func (r *Registry) Register(event Event, d Definition) error {
	if _, err := ParseEvent(string(event)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h, err := compile(event, d, len(r.events[event]), r.opts.Writable)
	if err != nil {
		return fmt.Errorf("hooks.%s: %w", event, err)
	}
	r.events[event] = append(slices.Clip(r.events[event]), h)
	return nil
}

// Has reports whether an event has hooks.
func (r *Registry) Has(event Event) bool { return len(r.of(event)) > 0 }

// Clear removes every hook.
func (r *Registry) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = map[Event][]hook{}
}

func (r *Registry) of(event Event) []hook {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.events[event]
}

// Info describes one configured hook.
type Info struct {
	Event     Event         `json:"event"`
	Name      string        `json:"name"`
	Kind      string        `json:"kind"` // function, command, http
	Matcher   string        `json:"matcher,omitempty"`
	Command   string        `json:"command,omitempty"`
	URL       string        `json:"url,omitempty"`
	Sandbox   bool          `json:"sandbox,omitempty"`
	TimeoutMS int64         `json:"timeout_ms"`
	OnError   FailureAction `json:"on_error"`
}

// List describes every hook, in the order of the events and of configuration.
func (r *Registry) List() []Info {
	var all []Info
	for _, event := range Events {
		for _, h := range r.of(event) {
			all = append(all, Info{
				Event: event, Name: h.Name, Kind: h.kind(), Matcher: h.Matcher, Command: h.Command, URL: h.URL,
				Sandbox: h.Sandbox, TimeoutMS: h.timeout().Milliseconds(), OnError: h.OnError,
			})
		}
	}
	return all
}

// Before fires preToolUse, then permissionRequest: whatever these hooks put in
// place of the arguments is what is judged next. The arguments must be final:
// references are not expanded again in what a hook puts there. A block of the first
// is final; the second event fires all the same, so that whoever hears it has every
// permission that was asked for (H-05).
func (r *Registry) Before(ctx context.Context, c *tool.Call) (tool.Advice, error) {
	name := toolName(c)
	advice := tool.Advice{}
	for _, event := range []Event{PreToolUse, PermissionRequest} {
		if !r.Has(event) {
			continue
		}
		args := c.In.Args
		if advice.Args != nil {
			args = advice.Args
		}
		answer, err := r.Fire(ctx, event, inputOf(c, args))
		if err != nil {
			return tool.Advice{Block: true, Reason: err.Error()}, err
		}
		advice = join(advice, answer.Advice)
	}
	for _, up := range c.Session.Above {
		var err error
		if advice, err = r.grants.tighten(ctx, advice, up.ID, name); err != nil {
			return advice, err
		}
	}
	return r.grants.apply(ctx, advice, c.Request.Session, name)
}

// Basis returns a text. It changes when other hooks would be asked about the call, when their environment changes, or
// when hooks said something new about the tool. "" is no hook and nothing said.
func (r *Registry) Basis(ctx context.Context, c *tool.Call) (string, error) {
	var all strings.Builder
	name := toolName(c)
	for _, event := range []Event{PreToolUse, PermissionRequest} {
		for _, h := range r.of(event) {
			if h.match(name) || h.match(tool.As(name)) {
				fmt.Fprintf(&all, "%s %+v\n", event, h.Definition)
			}
		}
	}
	if all.Len() > 0 && len(r.opts.Env) > 0 {
		fmt.Fprintf(&all, "%v\n", r.opts.Env) // maps are printed in the order of their keys
	}
	for _, session := range append([]tool.Session{{ID: c.Request.Session}}, c.Session.Above...) {
		known, err := r.grants.of(ctx, session.ID)
		if err != nil {
			return "", fmt.Errorf("read what hooks said of permissions: %w", err)
		}
		if said, as := known[name].behavior, known[tool.As(name)].behavior; said != "" || as != "" {
			fmt.Fprintf(&all, "%s %q %q\n", session.ID, said, as)
		}
	}
	return all.String(), nil
}

// After fires postToolUse for a success and postToolUseFailure for anything else.
// It cannot undo; Block asks the caller to withhold the result.
func (r *Registry) After(ctx context.Context, c *tool.Call) (tool.Advice, error) {
	event := PostToolUseFailure
	if c.Result.Status == tool.StatusSuccess {
		event = PostToolUse
	}
	if !r.Has(event) {
		return tool.Advice{}, nil
	}
	in := callInput(c)
	in.ToolOutput, in.Error = resultOf(c)
	in.DurationMS = time.Since(c.Started).Milliseconds()
	if in.Changes = c.Changes.List; c.Changes.Total > len(in.Changes) {
		in.ChangesTotal = c.Changes.Total
	}
	answer, err := r.Fire(ctx, event, in)
	if err != nil {
		return tool.Advice{Block: true, Reason: err.Error()}, err
	}
	return answer.Advice, nil
}

// Forget deletes the permissions that hooks allowed in a session that is deleted. Denials and asks stay: otherwise a
// model could delete its session to get rid of them.
func (r *Registry) Forget(ctx context.Context, session string) error {
	return r.grants.forgetAllows(ctx, session)
}
