package tool

import (
	"crypto/rand"
	"encoding/json"
	"math/big"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/output"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/shellparse"
)

// Request is one call as a front door hands it in. The front door vouches for
// Account, Role and User; everything else was written by the model.
type Request struct {
	Account string
	Role    Role
	User    sandbox.User // who calls, with whose rights tools open files; the zero value opens none
	// By is the process that calls; nil of a call that no process made.
	By *Identity
	// RunsAs names the rights that the call has, where they are not the daemon's: an answer for
	// one uid of an account is none for another.
	RunsAs string
	// Approver is the person who asks for the call and may answer questions about it: they are
	// not asked. "" is an agent.
	Approver  string
	Session   string
	Tool      string
	Args      json.RawMessage
	ToolUseID string
	Host      Host
	DryRun    bool // judge only
	Ask       bool // with DryRun: where the verdict is ask, a person is asked
	Lease     bool // with DryRun: what may run is kept for a client, which may start it once
	// Hypothetical: with DryRun, nobody will run the call, so no rule counts it.
	Hypothetical bool
	// Outside: with DryRun, the tool is one of the client's own, which the daemon does not have.
	Outside bool
	// Own is a tool for this call alone, which the front door brings: what a session has registered.
	// Tool is its name.
	Own Tool
	// Scheduled: the call was written down earlier, and nobody waits for it.
	Scheduled *Scheduled
	// Theirs: with DryRun, the client runs it by its own program, which no sandbox of ours holds: nothing
	// leaves denied files out of what it finds.
	Theirs bool
	// Home is where ~ of the arguments leads in that program, "" as in the session. Rules keep the home of the session.
	Home string
	// Typed: with DryRun, the client may type into the program that it starts, unseen.
	Typed bool
	Dir   string         // of a call that somebody else runs; "" is the session's
	Emit  func(Progress) // safe for concurrent use; nil: nobody listens
	// Log is what Emit writes to, so that others can follow the call by its id; nil: nobody can.
	Log *output.Log
	// NoOutput says that Emit leaves out what programs print.
	NoOutput bool
}

// Scheduled is a call that was written down before it is made. It leaves the directory of its session.
type Scheduled struct {
	By []Origin // who wrote its arguments then, beside whom their text shows now
}

// Elsewhere reports whether another program runs the call, outside of this daemon's control.
func (r Request) Elsewhere() bool { return r.DryRun && !r.Lease }

// DefaultAccount is the account of callers that the configuration does not name.
const DefaultAccount = "default-admin"

// Role is which socket a request came by.
type Role string

// The roles.
const (
	RoleAgent    Role = "agent"
	RoleOperator Role = "operator"
)

// Session is the state of one conversation that the stages read.
type Session struct {
	ID      string
	Account string
	Dir     string // absolute, physical
	// Begun is the directory in which the session began, or that which its parent has: /x, ./x and *.x of
	// permission rules are below it, wherever the model goes. It never changes; "" is Dir.
	Begun string
	// Tree is what stands for Begun in the git worktree that the session entered last; "" if it did not.
	Tree     string
	Home     string // home directory of the caller
	Mode     Mode   // permission mode
	Profile  sandbox.Profile
	Title    string
	Tag      string
	Metadata json.RawMessage
	Created  time.Time
	Updated  time.Time
	Groups   map[string]bool // overrides of the defaults, by group
	Tools    map[string]bool // overrides of the defaults, by tool
	Found    []string        // deferred tools that a search has brought
	Sandbox  *guard.Settings // nil: the daemon's
	Skills   []Skill         // that run, the innermost last

	Parent  string    // the session whose agent started this one; "" of a root
	Agent   string    // name in its tree; "" of a root without one
	Type    string    // of that agent, as the one that started it said; "" of others
	Only    []string  // tools of its parent that it has; empty: all
	Without []string  // tools of its parent that it has not
	Above   []Session // the sessions above it as they are now, the nearest first

	// Daemon is the one that made it, where several share the database, and Place is where its directory
	// lies: calls run where that is the same.
	Daemon, Place string
}

// Call moves through the stages. Each fills one part; later ones only read it.
type Call struct {
	ID      string // unguessable
	NodeID  string // names the variables of this call (V-32)
	Request Request
	Started time.Time

	Target            // lookup
	In        In      // resolve fills Args; before and judge may replace them
	Origins   Origins // resolve
	Advice    Advice  // before
	Judgement         // judge
	Consent           // approve
	Execution         // run
	Result    Result  // format and later
}

// Target is what a request names: where it is made, and what is called.
type Target struct {
	Session   Session
	Workspace Workspace
	Tool      Tool
	Spec      Spec
}

// Judgement is what is known of a call before it runs, and what was decided.
type Judgement struct {
	Facts    Facts
	Settings guard.Settings // of the session, tightened by obligations
	Beside   Beside         // what judged beside the policies
	Decision Decision
	Digest   string  // what an approval binds
	Binding  Binding // the files among that
}

// Consent is the answer to the question about a call.
type Consent struct {
	Approval *Approval // nil: nobody was asked
	Undoable bool      // nobody was asked, because all that it may lose is kept
}

// Execution is what a call did.
type Execution struct {
	Job     Job // of a call that may go on when it has been answered; nil of most
	Report  sandbox.Report
	Output  Output
	Changes Changes
	Network egress.Ledger
}

// Approved reports whether a person, or a grant of one, answered for the call.
func (c *Call) Approved() bool { return c.Approval != nil && c.Approval.Approved }

// Received returns the hosts from which bytes came in while the call ran.
func (c *Call) Received() []string {
	var hosts []string
	for _, r := range c.Network.Connections {
		if r.BytesIn > 0 && !slices.Contains(hosts, r.Host) {
			hosts = append(hosts, r.Host)
		}
	}
	return hosts
}

// Ran reports whether a call that was judged ran, or may run at whoever asked about it.
func (c *Call) Ran() bool {
	switch c.Decision.Verdict {
	case Allow:
		return true
	case Ask:
		return c.Approved() || c.Result.Status == StatusSuccess
	}
	return false
}

// Absent is the sum of a file that is not there, or that the call may not open.
const Absent = "absent"

// NewCall gives a request its ids.
func NewCall(req Request) *Call {
	if req.Emit == nil {
		req.Emit = func(Progress) {}
	}
	now := time.Now()
	c := &Call{ID: "call_" + rand.Text(), NodeID: newNodeID(now), Request: req, Started: now}
	c.In = In{
		CallID: c.ID, Session: req.Session, Account: req.Account, Host: req.Host, Args: req.Args, Typed: req.Typed,
		Theirs: req.Theirs, Emit: req.Emit, By: req.By, Scheduled: req.Scheduled != nil,
	}
	c.Result = Result{CallID: c.ID, NodeID: c.NodeID, Tool: req.Tool, ToolUseID: req.ToolUseID}
	return c
}

// newNodeID returns a 14-digit UTC timestamp, a dash and random base36 characters (V-32). Seven would collide about
// once in 400,000 pairs within a second at 10,000 calls, so there are ten.
func newNodeID(now time.Time) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, 10)
	for i := range b {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(digits))))
		if err != nil {
			panic("crypto/rand failed: " + err.Error())
		}
		b[i] = digits[n.Int64()]
	}
	return now.UTC().Format("20060102150405") + "-" + string(b)
}

// Origin is the author of some text.
type Origin string

// The authors.
const (
	OriginModel      Origin = "model"
	OriginRepository Origin = "repository"
	OriginWeb        Origin = "web"
	OriginMCP        Origin = "mcp"
	OriginPerson     Origin = "person"
	OriginRule       Origin = "rule"
	OriginTool       Origin = "tool"
)

// Origins says who wrote what went into a call: per top-level argument, and over
// the whole session; and which hosts the text of the web among it came from.
type Origins struct {
	Args    map[string][]Origin `json:"args,omitempty"`
	Session []Origin            `json:"session,omitempty"`
	Hosts   []string            `json:"hosts,omitempty"`
}

// Facts are what policy judges.
type Facts struct {
	Class   Class
	Mode    Mode
	Uses    guard.Uses
	Origins Origins
}

// Verdict is the outcome of judging. The zero value denies.
type Verdict = guard.Verdict

// The verdicts, strictest first.
const (
	Deny  = guard.Deny
	Ask   = guard.Ask
	Allow = guard.Allow
)

// Decision is what the judge says and why.
type Decision struct {
	Verdict     Verdict           `json:"verdict"`
	Revision    string            `json:"revision,omitempty"` // of the policies
	Reasons     []Reason          `json:"reasons"`            // deciding ones first
	By          By                `json:"by,omitempty"`       // what kind of reason decided
	Obligations guard.Obligations `json:"obligations,omitzero"`
	Args        json.RawMessage   `json:"-"` // a policy's rewrite; judged again
	// Else is the decision if nobody is asked about what can be undone; nil if that makes no difference.
	Else *Decision `json:"-"`
}

// By says which layer decided. Only an ask by the mode can be answered by an
// allow of a hook, a callback or a grant.
type By string

// The layers that decide.
const (
	ByRule  By = "rule"  // a Rego finding
	ByMode  By = "mode"  // the permission mode
	ByFloor By = "floor" // the settings
	ByTool  By = "tool"  // the tool's own execution policy
	ByHook  By = "hook"
	ByCore  By = "core" // an error: always a deny
)

// Reason is one cause of a decision.
type Reason struct {
	Rule    string          `json:"rule"` // finding id, "mode:default", "floor:deniedPaths", "core.timeout"
	Message string          `json:"message"`
	Hint    string          `json:"hint,omitempty"`
	Code    string          `json:"code,omitempty"` // stable, for the error of the result
	At      *shellparse.Pos `json:"at,omitempty"`
}

// Advice is what pre hooks said of a call; hooks can only tighten, except Allow,
// which answers the ask of a mode.
type Advice struct {
	Block    bool
	Ask      bool
	Allow    bool
	Reason   string
	Args     json.RawMessage // nil: unchanged
	Messages []string        // for the model (H-24)

	// Basis is what the hooks were when they advised, and Saw the arguments that they were shown. If they are others
	// later, they advise again.
	Basis string
	Saw   json.RawMessage
}

// Approval is a person's answer.
type Approval struct {
	ID       string          `json:"id"`
	Approved bool            `json:"approved"`
	Reason   string          `json:"reason,omitempty"`
	By       string          `json:"by,omitempty"`
	Code     string          `json:"code,omitempty"` // when nobody answered: "approval_timed_out", "no_approver", …
	Remember string          `json:"remember,omitempty"`
	Args     json.RawMessage `json:"-"` // a person's edit; judged again
	Digest   string          `json:"-"` // with Args: of the edited call, when the person submitted it
	Asked    time.Time       `json:"asked"`
	Answered time.Time       `json:"answered"`
}

// Connecting is a connection of a call that runs, of which a person is asked.
type Connecting struct {
	Host      string   `json:"host"`
	Port      int      `json:"port"`
	Protocol  string   `json:"protocol"` // tls, http or tcp
	Via       string   `json:"via"`
	Method    string   `json:"method,omitempty"`  // of the one request that the answer is about; "": of any
	Path      string   `json:"path,omitempty"`    // likewise
	Endpoint  string   `json:"endpoint"`          // what an answer is about, as network.allowedDomains has it
	Workspace string   `json:"workspace"`         // where an answer for longer holds
	ByRule    bool     `json:"by_rule,omitempty"` // a rule asks, and not the settings alone: no answer is remembered
	Why       []Reason `json:"-"`
}

// Binding is what an answer binds of the files of a call.
type Binding struct {
	Files []sandbox.Approved // that the call executes; it gets this content, whatever is there
	Not   []string           // in words: what it executes too, as others may have changed it
	Sums  map[string]string  // SHA-256 of every file that the question shows, or why there is none
}

// Status is how a call ended (T-12).
type Status string

// The statuses.
const (
	StatusSuccess           Status = "SUCCESS"
	StatusError             Status = "ERROR"
	StatusExecutionRejected Status = "EXECUTION_REJECTED"
	StatusResultRejected    Status = "RESULT_REJECTED"
	StatusNotFound          Status = "NOT_FOUND"
)

// Result is the answer to a call (T-11).
type Result struct {
	CallID         string          `json:"call_id"`
	NodeID         string          `json:"node_id"`
	Tool           string          `json:"tool"`
	ToolUseID      string          `json:"tool_use_id,omitempty"`
	Status         Status          `json:"status"`
	FinalText      string          `json:"final_text"`
	FormattedText  string          `json:"formatted_text,omitempty"`
	Data           any             `json:"data,omitempty"`
	Content        []Content       `json:"content,omitempty"`
	Truncated      bool            `json:"is_truncated"`
	VarResult      string          `json:"cache_var_result,omitempty"`
	VarArgs        string          `json:"cache_var_args,omitempty"`
	Error          *Error          `json:"error,omitempty"`
	RejectReason   string          `json:"reject_reason,omitempty"`
	SystemMessages []string        `json:"system_messages,omitempty"`
	Decision       *Decision       `json:"decision,omitempty"`
	Sandbox        *sandbox.Report `json:"sandbox,omitempty"`
	Network        *egress.Ledger  `json:"network,omitempty"` // what it connected to, or tried to
	Usage          *Usage          `json:"usage,omitempty"`
	Changes        []Change        `json:"changes,omitempty"`
	ChangesTotal   int             `json:"changes_total,omitempty"` // where Changes has not all
	Undo           *Undo           `json:"undo,omitempty"`
}

// Usage is what a call cost.
type Usage struct {
	WallMS      int64 `json:"wall_ms"`
	CPUMS       int64 `json:"cpu_ms"`
	MaxRSSBytes int64 `json:"max_rss_bytes"`
}
