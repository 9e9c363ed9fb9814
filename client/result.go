package client

import "time"

// Result is the answer to a call.
type Result struct {
	CallID    string `json:"call_id"`
	NodeID    string `json:"node_id"` // part of the names of its variables
	Tool      string `json:"tool"`
	ToolUseID string `json:"tool_use_id,omitempty"` // the id that the model gave the call
	Status    Status `json:"status"`

	FinalText     string    `json:"final_text"` // what the model reads
	FormattedText string    `json:"formatted_text,omitempty"`
	Data          any       `json:"data,omitempty"` // the data of the tool, as encoding/json decodes it
	Content       []Content `json:"content,omitempty"`
	Truncated     bool      `json:"is_truncated"` // FinalText is shorter than FormattedText

	VarResult string `json:"cache_var_result,omitempty"` // variable that keeps the result
	VarArgs   string `json:"cache_var_args,omitempty"`   // variable that keeps the arguments

	Error          *Error    `json:"error,omitempty"`
	RejectReason   string    `json:"reject_reason,omitempty"` // written by the person who refused
	SystemMessages []string  `json:"system_messages,omitempty"`
	Decision       *Decision `json:"decision,omitempty"`
	Sandbox        *Report   `json:"sandbox,omitempty"` // nil if nothing ran
	Network        *Ledger   `json:"network,omitempty"` // nil if nothing tried to connect
	Usage          *Usage    `json:"usage,omitempty"`

	Changes      []Change `json:"changes,omitempty"`       // what the call did to files
	ChangesTotal int      `json:"changes_total,omitempty"` // number of changes, if Changes does not list them all
	Undo         *Undo    `json:"undo,omitempty"`          // nil if nothing changed
}

// Change is what a call did to one path.
type Change struct {
	Path        string `json:"path"` // relative to the directory of the session, absolute outside it
	Kind        string `json:"kind"` // "create", "modify" or "delete"
	BytesBefore int64  `json:"bytes_before"`
	BytesAfter  int64  `json:"bytes_after"`
	ModeBefore  string `json:"mode_before,omitempty"` // octal, if it changed
	Conflict    string `json:"conflict,omitempty"`    // of a change that was refused: why it could not be undone
}

// Undo says whether the changes of a call can be undone.
type Undo struct {
	Kept  bool       `json:"kept"`
	Until *time.Time `json:"until,omitempty"` // at the latest
	Why   string     `json:"why,omitempty"`   // why they cannot be undone
}

// Status is how a call ended.
type Status string

// The statuses. A call that a policy or a hook denied is StatusError; the rejected
// ones were refused by a person, or nobody could be asked.
const (
	StatusSuccess           Status = "SUCCESS"
	StatusError             Status = "ERROR"
	StatusExecutionRejected Status = "EXECUTION_REJECTED"
	StatusResultRejected    Status = "RESULT_REJECTED"
	StatusNotFound          Status = "NOT_FOUND"
)

// Content is one typed part of a result.
type Content struct {
	Type     string `json:"type"` // text, image, audio or resource
	Text     string `json:"text,omitempty"`
	Data     []byte `json:"data,omitempty"`
	MIMEType string `json:"mime_type,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
}

// Decision is the decision about a call, with its reasons.
type Decision struct {
	Verdict     string      `json:"verdict"`            // "deny", "ask" or "allow"
	Revision    string      `json:"revision,omitempty"` // of the policies
	Reasons     []Reason    `json:"reasons"`            // the reasons that decided come first
	By          string      `json:"by,omitempty"`       // "rule", "mode", "floor", "tool", "hook" or "core"
	Obligations Obligations `json:"obligations,omitzero"`
}

// Obligations are limits that a policy demands for a call that it allows.
type Obligations struct {
	NoNetwork   bool `json:"no_network,omitempty"`
	ReadOnly    bool `json:"read_only,omitempty"`
	WallSeconds int  `json:"wall_seconds,omitempty"`
}

// Reason is one reason of a decision.
type Reason struct {
	Rule    string `json:"rule"` // "mode:default", "floor:deniedPaths", the id of a rule, …
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Code    string `json:"code,omitempty"` // stable
	At      *Pos   `json:"at,omitempty"`
}

// Pos is a place in a command line.
type Pos struct {
	Offset int32 `json:"offset"` // of the first byte, from 0
	End    int32 `json:"end"`    // after the last byte
	Line   int32 `json:"line"`   // from 1
	Col    int32 `json:"col"`    // in bytes, from 1
}

// Report says which layers of the sandbox confined a call.
type Report struct {
	Profile   string            `json:"profile"`
	Isolation string            `json:"rung,omitempty"` // "namespaces" or "landlock"
	Layers    []string          `json:"layers"`         // "userns", "landlock:7", "seccomp", …
	Missing   []string          `json:"missing"`        // layers that this host does not provide
	Denials   []Denial          `json:"denials"`        // what the sandbox stopped during the call
	Limits    map[string]string `json:"limits,omitempty"`
}

// Denial is one action that the sandbox stopped.
type Denial struct {
	Act     string `json:"act"` // "connect 127.0.0.1:80"
	Layer   string `json:"layer"`
	Setting string `json:"setting,omitempty"` // what would allow it
}

// Ledger lists the connections of a call.
type Ledger struct {
	Connections []Connection `json:"connections"`
	Omitted     int          `json:"omitted"` // number of rows that did not fit
	// WaitedMS is how long connections waited for limits.accountNetwork, all together.
	WaitedMS int64 `json:"waited_ms,omitempty"`
}

// Connection stands for all connections of a call to one host and port with the same verdict.
type Connection struct {
	Host       string `json:"host"`
	Port       int    `json:"port"`
	Protocol   string `json:"protocol"` // "tls", "http", "tcp"; "dns" and "udp" for what was refused
	Via        string `json:"via"`      // "transparent", "connect", "socks5", "proxy" or "fetch"
	Verdict    string `json:"verdict"`  // "allow" or "deny"
	Rule       string `json:"rule,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Address    string `json:"address,omitempty"` // address of the host at the last connection
	Count      int    `json:"count"`
	BytesIn    int64  `json:"bytes_in"`
	BytesOut   int64  `json:"bytes_out"`
	DurationMS int64  `json:"duration_ms"`
}

// Usage is what a call cost.
type Usage struct {
	WallMS      int64 `json:"wall_ms"`
	CPUMS       int64 `json:"cpu_ms"`
	MaxRSSBytes int64 `json:"max_rss_bytes"`
}

// Error is a failure that the daemon reports.
type Error struct {
	Code    string `json:"code"`            // stable: "session_not_found"
	Stage   string `json:"stage,omitempty"` // of a call: "judge"
	Msg     string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to do about it
	Details any    `json:"details,omitempty"`
}

func (e *Error) Error() string { return e.Msg }

// Origin is the author of a text: "model", "repository", "web", "mcp", "person",
// "rule" or "tool".
type Origin string
