package tool

import (
	"crypto/rand"
	"encoding/json"
	"math/big"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

// Request is one call as a front door hands it in. The front door vouches for
// Account and Role; everything else was written by the model.
type Request struct {
	Account   string
	Role      Role
	Session   string
	Tool      string
	Args      json.RawMessage
	ToolUseID string
	Host      Host
	DryRun    bool                          // judge only
	Ask       bool                          // with DryRun: where the verdict is ask, a person is asked
	Hold      bool                          // with DryRun: what may run is kept for another program to run it once
	Dir       string                        // of a call that somebody else runs; "" is the session's
	Emit      func(stream string, b []byte) // nil: output is not streamed
}

// Role is which socket a request came by.
type Role string

// The roles.
const (
	RoleAgent    Role = "agent"
	RoleOperator Role = "operator"
)

// Session is the state of one conversation that the stages read.
type Session struct {
	ID       string
	Account  string
	Dir      string // absolute, physical
	Home     string // home directory of the caller
	Mode     string // permission mode
	Profile  string // sandbox profile
	Title    string
	Tag      string
	Metadata json.RawMessage
	Created  time.Time
	Updated  time.Time
	Groups   map[string]bool   // overrides of the defaults, by group
	Tools    map[string]bool   // overrides of the defaults, by tool
	Sandbox  *sandbox.Settings // nil: the daemon's
}

// Call moves through the stages. Each fills its field; later ones only read it.
type Call struct {
	ID      string // unguessable
	NodeID  string // names the variables of this call (V-32)
	Request Request
	Started time.Time

	Session  Session          // lookup
	Tool     Tool             // lookup
	Spec     Spec             // lookup
	In       In               // resolve fills Args; before and judge may replace them
	Origins  Origins          // resolve
	Advice   Advice           // before
	Facts    Facts            // judge
	Settings sandbox.Settings // judge: the floor, tightened by obligations
	Decision Decision         // judge
	Digest   string           // judge: what an approval binds
	Approval *Approval        // approve
	Report   sandbox.Report   // run
	Output   Output           // run
	Result   Result           // format and later
}

// NewCall gives a request its ids.
func NewCall(req Request) *Call {
	if req.Emit == nil {
		req.Emit = func(string, []byte) {}
	}
	now := time.Now()
	c := &Call{ID: "call_" + rand.Text(), NodeID: newNodeID(now), Request: req, Started: now}
	c.In = In{CallID: c.ID, Session: req.Session, Account: req.Account, Host: req.Host, Args: req.Args, Emit: req.Emit}
	c.Result = Result{CallID: c.ID, NodeID: c.NodeID, Tool: req.Tool, ToolUseID: req.ToolUseID}
	return c
}

// newNodeID is a 14-digit UTC timestamp, a dash and random base36 characters
// (V-32). Seven would collide about once in 400,000 pairs within a second at
// 10,000 calls, so there are ten.
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
// the whole session.
type Origins struct {
	Args    map[string][]Origin `json:"args,omitempty"`
	Session []Origin            `json:"session,omitempty"`
}

// Facts are what policy judges.
type Facts struct {
	Class   Class
	Mode    string
	Uses    sandbox.Uses
	Origins Origins
}

// Verdict is the outcome of judging. The zero value denies.
type Verdict int

// The verdicts, strictest first.
const (
	Deny Verdict = iota
	Ask
	Allow
)

var verdictNames = [...]string{"deny", "ask", "allow"}

func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdictNames) {
		return "deny"
	}
	return verdictNames[v]
}

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown text is Deny.
func (v *Verdict) UnmarshalText(b []byte) error {
	*v = Deny
	for i, n := range verdictNames {
		if n == string(b) {
			*v = Verdict(i)
		}
	}
	return nil
}

// Decision is what the judge says and why.
type Decision struct {
	Verdict     Verdict             `json:"verdict"`
	Revision    string              `json:"revision,omitempty"` // of the policies
	Reasons     []Reason            `json:"reasons"`            // deciding ones first
	By          By                  `json:"by,omitempty"`       // what kind of reason decided
	Obligations sandbox.Obligations `json:"obligations,omitzero"`
	Args        json.RawMessage     `json:"-"` // a policy's rewrite; judged again
	Judged      any                 `json:"-"` // what the policies saw and said, for package policy
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

// Advice is what pre hooks said of a call; hooks can only tighten, but for Allow,
// which answers the ask of a mode.
type Advice struct {
	Block    bool
	Ask      bool
	Allow    bool
	Reason   string
	Args     json.RawMessage // nil: unchanged
	Messages []string        // for the model (H-24)
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
	Asked    time.Time       `json:"asked"`
	Answered time.Time       `json:"answered"`
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
	Usage          *Usage          `json:"usage,omitempty"`
}

// Usage is what a call cost.
type Usage struct {
	WallMS      int64 `json:"wall_ms"`
	CPUMS       int64 `json:"cpu_ms"`
	MaxRSSBytes int64 `json:"max_rss_bytes"`
}
