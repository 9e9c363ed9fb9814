package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Options say where a backend finds and puts things. All fields may be empty.
type Options struct {
	Child        string             // path of sandboxd-child; "": the running binary, which must call child.Main
	Runtime      string             // directory for the sessions' private files; "": a temporary one
	Private      []string           // the daemon's own directories and sockets: invisible in the cage
	Roots        []string           // workspaces: shown at their own paths even below a private directory
	Home         string             // the caller's home; "": of this process
	NoUserns     bool               // behave as on a host without user namespaces
	NoNamespaces bool               // behave as on a host without any namespaces
	NoCgroups    bool               // behave as on a host that gives no control groups
	OnMissing    func(layer string) // told once of every layer that this host does not give, and why
}

// StartError says that a program did not start for a reason of its own: there is
// none of that name, or it cannot be executed. Proc.Wait returns it with the exit
// code that a shell would give.
type StartError struct {
	Code int // 127 not found, 126 not executable
	Msg  string
}

func (e *StartError) Error() string { return e.Msg }

// MissingError says that a layer which the settings require does not hold.
type MissingError struct {
	Layer string
	Why   string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("the sandbox layer %q is required and this host does not give it: %s", e.Layer, e.Why)
}

// require holds the settings against what there is.
func (r Report) require(s Settings) error {
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

// clone keeps callers' lists apart.
func (r Report) clone() Report {
	r.Limits = maps.Clone(r.Limits)
	r.Layers, r.Missing, r.Denials = slices.Clone(r.Layers), slices.Clone(r.Missing), slices.Clone(r.Denials)
	return r
}
