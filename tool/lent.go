package tool

import "github.com/sandboxd/sandboxd/sandbox"

// Lent is a judged call that a client starts, in a cage with these settings and
// nothing else.
type Lent struct {
	CallID   string           `json:"call_id"`
	Session  string           `json:"session_id"`
	Argv     []string         `json:"argv"`
	Dir      string           `json:"cwd"`
	Home     string           `json:"home"`
	Profile  string           `json:"profile"`
	Settings sandbox.Settings `json:"settings"`
	Private  []string         `json:"private"` // what the cage must not show
	Roots    []string         `json:"workspace_roots"`
}

// LentEnd is how such a call ended, in the words of the client.
type LentEnd struct {
	ExitCode int            `json:"exit_code"`
	Why      string         `json:"why,omitempty"`     // "exited", "signaled", "timed_out", or a limit
	Failure  string         `json:"failure,omitempty"` // why it was not started
	CPUMS    int64          `json:"cpu_ms"`
	MaxRSS   int64          `json:"max_rss_bytes"`
	Report   sandbox.Report `json:"report"` // of the cage
}

// Ended is for the record and the metrics.
func (e LentEnd) Ended() (code int, why string) { return e.ExitCode, e.Why }
