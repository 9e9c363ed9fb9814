package client

import "time"

// Result is the answer to a call.
type Result struct {
	CallID    string `json:"call_id"`
	NodeID    string `json:"node_id"` // part of the names of its variables
	Tool      string `json:"tool"`
	ToolUseID string `json:"tool_use_id,omitempty"` // the model's own id of the call
	Status    Status `json:"status"`

	FinalText     string    `json:"final_text"` // what the model reads
	FormattedText string    `json:"formatted_text,omitempty"`
	Data          any       `json:"data,omitempty"` // what the tool returned, as encoding/json decodes it
	Content       []Content `json:"content,omitempty"`
	Truncated     bool      `json:"is_truncated"` // FinalText is shorter than FormattedText

	VarResult string `json:"cache_var_result,omitempty"` // variable that keeps the result
	VarArgs   string `json:"cache_var_args,omitempty"`   // variable that keeps the arguments

	Error          *Error    `json:"error,omitempty"`
	RejectReason   string    `json:"reject_reason,omitempty"` // in the words of the person who refused
	SystemMessages []string  `json:"system_messages,omitempty"`
	Decision       *Decision `json:"decision,omitempty"`
	Sandbox        *Report   `json:"sandbox,omitempty"` // nil if nothing ran
	Network        *Ledger   `json:"network,omitempty"` // nil if nothing connected, or tried to
	Usage          *Usage    `json:"usage,omitempty"`

	Changes      []Change `json:"changes,omitempty"`       // what the call did to files
	ChangesTotal int      `json:"changes_total,omitempty"` // where Changes has not all
	Undo         *Undo    `json:"undo,omitempty"`          // nil if nothing changed
}

// Change is what a call did to one path.
type Change struct {
	Path        string `json:"path"` // relative to the directory of the session, absolute outside it
	Kind        string `json:"kind"` // "create", "modify" or "delete"
	BytesBefore int64  `json:"bytes_before"`
	BytesAfter  int64  `json:"bytes_after"`
	ModeBefore  string `json:"mode_before,omitempty"` // octal, where it is another one now
	Conflict    string `json:"conflict,omitempty"`    // why it is still there, of changes that were refused
}

// Undo says whether the changes of a call can be undone.
type Undo struct {
	Kept  bool       `json:"kept"`
	Until *time.Time `json:"until,omitempty"` // at the latest
	Why   string     `json:"why,omitempty"`   // it is not kept
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
	Type     string `json:"type"` // text, image, resource
	Text     string `json:"text,omitempty"`
	Data     []byte `json:"data,omitempty"`
	MIMEType string `json:"mime_type,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
}

// Decision is how a call was judged, and why.
type Decision struct {
	Verdict     string      `json:"verdict"`            // "deny", "ask" or "allow"
	Revision    string      `json:"revision,omitempty"` // of the policies
	Reasons     []Reason    `json:"reasons"`            // deciding ones first
	By          string      `json:"by,omitempty"`       // "rule", "mode", "floor", "tool", "hook" or "core"
	Obligations Obligations `json:"obligations,omitzero"`
}

// Obligations are limits that a policy put on a call that it allowed.
type Obligations struct {
	NoNetwork   bool `json:"no_network,omitempty"`
	ReadOnly    bool `json:"read_only,omitempty"`
	WallSeconds int  `json:"wall_seconds,omitempty"`
}

// Reason is one cause of a decision.
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
	Missing   []string          `json:"missing"`        // what this host could not give
	Denials   []Denial          `json:"denials"`        // what was stopped while the call ran
	Limits    map[string]string `json:"limits,omitempty"`
}

// Denial is one act that the sandbox stopped.
type Denial struct {
	Act     string `json:"act"` // "connect 127.0.0.1:80"
	Layer   string `json:"layer"`
	Setting string `json:"setting,omitempty"` // what would allow it
}

// Ledger is what a call connected to.
type Ledger struct {
	Connections []Connection `json:"connections"`
	Omitted     int          `json:"omitted"` // rows that there was no room for
	// WaitedMS is how long connections waited for limits.accountNetwork, all together.
	WaitedMS int64 `json:"waited_ms,omitempty"`
}

// Connection is all connections of a call to one host and port with one verdict.
type Connection struct {
	Host       string `json:"host"`
	Port       int    `json:"port"`
	Protocol   string `json:"protocol"` // "tls", "http", "tcp"; "dns" and "udp" for what was refused
	Via        string `json:"via"`      // "transparent", "connect", "socks5", "proxy" or "fetch"
	Verdict    string `json:"verdict"`  // "allow" or "deny"
	Rule       string `json:"rule,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Address    string `json:"address,omitempty"` // of the host, as it was dialled last
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

// Error is what the daemon reports of a failure.
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
