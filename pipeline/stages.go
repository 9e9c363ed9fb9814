package pipeline

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandboxd/sandboxd/tool"
)

// Sessions finds the session of a call, and keeps where it was left. An unknown session, or one of another
// account, is a [*tool.Error] with code "session_not_found".
type Sessions interface {
	Session(ctx context.Context, account, id string) (tool.Session, error)
	Patch(ctx context.Context, account, id string, change func(*tool.Session) error) (tool.Session, error)
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
	Before(ctx context.Context, c *tool.Call) (tool.Advice, error)
	After(ctx context.Context, c *tool.Call) (tool.Advice, error)
	// Changed tells of what a call that ran left behind: files and the directory
	// of its session. Refused tells of a call that was denied, or whose result was
	// withheld. Neither can undo; both return text for the model.
	Changed(ctx context.Context, c *tool.Call) []string
	Refused(ctx context.Context, c *tool.Call) []string
	// Posts reports whether a hook that looks at results is configured.
	Posts() bool
}

// Policy judges the facts of a call: findings and mode, not the floor. A failure
// to judge is a denial, not an error.
type Policy interface {
	Decide(ctx context.Context, c *tool.Call) (tool.Decision, error)
}

// Approvals asks a person and waits; the question is bound to c.Digest.
type Approvals interface {
	Execution(ctx context.Context, c *tool.Call) (tool.Approval, error)
	Result(ctx context.Context, c *tool.Call) (tool.Approval, error)
}

// Record is the audit: no begin, no run; no end, no result.
type Record interface {
	Begin(ctx context.Context, c *tool.Call) error
	End(ctx context.Context, c *tool.Call) error
}

// Decisions keeps how calls were judged, apart from the record; it must not make
// a call wait.
type Decisions interface {
	Judged(c *tool.Call)
}

// Meter counts.
type Meter interface {
	Stage(name string, d time.Duration)
	Done(c *tool.Call)
}
