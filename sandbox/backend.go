package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/sandbox/limit"
)

// Options hold for all calls of a backend. The zero value is usable.
type Options struct {
	Child        string          // path of sandboxd-child; "": the running binary, which must call child.Main
	Runtime      string          // directory for the sessions' private files; "": a temporary one
	Private      []string        // the daemon's own directories and sockets; invisible in the sandbox
	Roots        func() []string // returns the workspaces: shown at their own paths, also below /tmp; nil: none
	Home         string          // the caller's home; "": that of this process
	NoUserns     bool            // behave as on a host without user namespaces
	NoNamespaces bool            // behave as on a host without any namespaces
	NoCgroups    bool            // behave as on a host that gives no control groups

	Reserve limit.Reserve  // room on the disk that calls may not take
	Dialer  *egress.Dialer // makes every connection to other hosts; nil resolves names as the host does

	OnMissing func(layer string) // called once, with the reason, for each layer that this host lacks
}

// StartError says that a program did not start for a reason of its own: it was not found, or it cannot be executed.
// Proc.Wait returns it together with the exit code that a shell would give.
type StartError struct {
	Code int // 127 not found, 126 not executable
	Msg  string
}

func (e *StartError) Error() string { return e.Msg }

// ReplacedError says that somebody replaced an approved file. From [Proc.Wait]: while the program ran.
// The program and all that it had started were ended, before the first instruction of the other
// file. From [Bind]: before the call, so no program was started.
type ReplacedError struct{ Path string }

func (e *ReplacedError) Error() string {
	return e.Path + " was replaced after it was approved; the call was ended, and the other file did not run"
}

// MissingError says that this host does not give a layer that the settings require.
type MissingError struct {
	Layer string
	Why   string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("the sandbox layer %q is required and this host does not give it: %s", e.Layer, e.Why)
}

// Require returns an error if a layer that the settings require is missing.
func (r Report) Require(s guard.Settings) error {
	for _, want := range s.Require {
		has := func(layer string) bool { return layer == want || strings.HasPrefix(layer, want+":") }
		if slices.ContainsFunc(r.Layers, has) {
			continue
		}
		why := "it is not known"
		for _, m := range r.Missing {
			if m == want || strings.HasPrefix(m, want+":") {
				why = m
			}
		}
		return &MissingError{Layer: want, Why: why}
	}
	return nil
}

// clone copies the lists, so that no caller can change the list of another.
func (r Report) clone() Report {
	r.Limits = maps.Clone(r.Limits)
	r.Layers, r.Missing, r.Denials = slices.Clone(r.Layers), slices.Clone(r.Missing), slices.Clone(r.Denials)
	return r
}
