package tool

import (
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// Lease is a judged call that a client starts, in a cage with these settings and
// nothing else.
type Lease struct {
	CallID   string          `json:"call_id"`
	Session  string          `json:"session_id"`
	Argv     []string        `json:"argv"`
	Dir      string          `json:"cwd"`
	Home     string          `json:"home"`
	Profile  sandbox.Profile `json:"profile"`
	Settings guard.Settings  `json:"settings"`
	Private  []string        `json:"private"` // what the cage must not show
	Roots    []string        `json:"workspace_roots"`
	// Siblings are directories beside the workspace that a person opened for the call. One that is missing is
	// made before the program starts.
	Siblings []guard.Sibling `json:"siblings,omitempty"`
	// Bound are the files that a person approved: the program gets this content, or is not
	// started.
	Bound []sandbox.Approved `json:"bound,omitempty"`
}

// LeaseEnd is how a leased call ended, in the words of the client.
type LeaseEnd struct {
	ExitCode int            `json:"exit_code"`
	Why      string         `json:"why,omitempty"`     // "exited", "signaled", "timed_out", or a limit
	Failure  string         `json:"failure,omitempty"` // why it was not started
	CPUMS    int64          `json:"cpu_ms"`
	MaxRSS   int64          `json:"max_rss_bytes"`
	Report   sandbox.Report `json:"report"` // of the cage
	Network  *egress.Ledger `json:"network,omitempty"`
}

// LeaseConnection asks whether a program of a leased call may connect. The client writes it, and its cage enforces the
// answer; the daemon does not see the connection. The fields are those of [egress.Connection].
type LeaseConnection struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
	Method   string `json:"method,omitempty"`
	Path     string `json:"path,omitempty"`
	Via      string `json:"via"`
}

// LeaseVerdict is what is decided about it.
type LeaseVerdict struct {
	Allow  bool   `json:"allow"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// Closed is a host and port that a call which a client runs may no longer be connected to.
type Closed struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// Ended is for the record and the metrics.
func (e LeaseEnd) Ended() (code int, why string) { return e.ExitCode, e.Why }
