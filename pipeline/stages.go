package pipeline

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// Sessions finds the session of a call, and keeps where it was left. An unknown session, or one of another
// account, is a [*tool.Error] with code "session_not_found".
type Sessions interface {
	Session(ctx context.Context, account, id string) (tool.Session, error)
	Patch(ctx context.Context, account, id string, change func(*tool.Session) error) (tool.Session, error)
}

// Workspaces are asked for the workspace of each call, and again when a person has answered.
// An error denies the call: nobody lets agents work in that directory, or nobody does any
// more.
type Workspaces interface {
	Of(dir string) (tool.Workspace, error)
	// Dirs are the directories of all workspaces, which other calls may change.
	Dirs() []string
}

// Vars expands references and keeps results.
type Vars interface {
	// Resolve expands every $VAR_REF in args, once (V-20 to V-29).
	Resolve(ctx context.Context, session string, args json.RawMessage) (json.RawMessage, tool.Origins, error)
	// Remember stores c.Result.FormattedText and c.In.Args under names made from
	// c.NodeID and fills c.Result.VarResult and VarArgs. Pending values are
	// unlisted and unreadable, and count as not shown, until Publish.
	Remember(ctx context.Context, c *tool.Call, pending bool) error
	// Publish also counts the message of a call that failed as shown.
	Publish(ctx context.Context, c *tool.Call) error
	// Discard deletes the values of the call, published ones too.
	Discard(ctx context.Context, c *tool.Call) error
}

// Hooks runs what the operator configured around a call.
type Hooks interface {
	// Before may block, rewrite or tighten a call, and its error denies. After may withhold the result or add messages,
	// and its error withholds the result.
	Before(ctx context.Context, c *tool.Call) (tool.Advice, error)
	// Basis returns a text that is another one where Before asks other hooks about the call, or where hooks have said
	// something else of its tool meanwhile.
	Basis(ctx context.Context, c *tool.Call) (string, error)
	After(ctx context.Context, c *tool.Call) (tool.Advice, error)
	// Moved runs the hooks for a call after which its session is in another directory. Changed runs those
	// for the files that a call changed, when they are not undone any more. Refused runs those for a call
	// that was denied, or whose result was withheld. No hook can undo these; all return text for the model.
	Moved(ctx context.Context, c *tool.Call) []string
	Changed(ctx context.Context, c *tool.Call) []string
	Refused(ctx context.Context, c *tool.Call) []string
	// Posts reports whether a hook that looks at results is configured.
	Posts() bool
}

// Policy judges the facts of a call: findings and mode, not the floor. A failure
// to judge is a denial, not an error.
type Policy interface {
	Decide(ctx context.Context, c *tool.Call) (tool.Decision, error)
	// Connect judges a connection of a call that runs. Without reasons it has no opinion.
	Connect(ctx context.Context, c *tool.Call, conn egress.Connection) (tool.Decision, error)
	// SeesRequests reports whether requests to one host may be judged differently.
	SeesRequests() bool
	// JudgeChanges judges what a call has changed; SeesChanges reports whether a rule looks at it.
	JudgeChanges(ctx context.Context, c *tool.Call, changes []tool.Changed) (tool.Decision, error)
	SeesChanges() bool
	// Withheld says which of the files that a call has found it may not read.
	Withheld(ctx context.Context, c *tool.Call, paths []string) (map[string]bool, error)
}

// Approvals asks a person and waits; the question is bound to c.Digest.
type Approvals interface {
	Execution(ctx context.Context, c *tool.Call) (tool.Approval, error)
	Result(ctx context.Context, c *tool.Call) (tool.Approval, error)
	// Connection asks about a connection of a call that runs. Where nobody would hear of the
	// question it answers at once.
	Connection(ctx context.Context, c *tool.Call, to tool.Connecting) (tool.Approval, error)
	// Changes asks whether what a call has changed may stay.
	Changes(ctx context.Context, c *tool.Call, made tool.Changing) (tool.Approval, error)
}

// Journal keeps what the tools of this process change, so that it can be undone.
type Journal interface {
	// Keep is called before a tool runs, with the context that it returns. An error denies: nothing
	// could say afterwards what the tool has changed.
	Keep(ctx context.Context, c *tool.Call) (context.Context, error)
	// Collect is called after that with the same context, whatever came of it. It fills
	// c.Changes, with Made if something changed.
	Collect(ctx context.Context, c *tool.Call) error
	// Whole says why not everything that the call may change or delete is kept as it is now; "" if it is. A path
	// that it may not write does not count.
	Whole(ctx context.Context, c *tool.Call) (why string)
}

// Executor performs a call that was admitted and whose begin was recorded: in this
// process, or at a client that has a lease.
type Executor interface {
	// Run does what was judged, to its end, and fills c.Output and c.Report. An
	// error becomes status ERROR for the model. It ends soon after its context.
	Run(ctx context.Context, c *tool.Call) error
	// Remember keeps the formatted result as variables, where the output is here.
	// It is called only after Run succeeded.
	Remember(ctx context.Context, c *tool.Call) error
}

// Record is the audit: no begin, no run; no end, no result.
type Record interface {
	Begin(ctx context.Context, c *tool.Call) error
	End(ctx context.Context, c *tool.Call) error
}

// Decisions keeps how calls were judged, apart from the record; it must not make
// a call wait.
type Decisions interface {
	// Follow is called before the first stage; the call is judged with the context
	// that it returns, and so is Judged called at the end.
	Follow(ctx context.Context) context.Context
	Judged(ctx context.Context, c *tool.Call)
}

// Meter counts.
type Meter interface {
	Stage(name string, d time.Duration)
	Done(c *tool.Call)
}
