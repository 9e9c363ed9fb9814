// Package conflict says why an undo left a path as it is.
//
// The daemon writes an [Entry] for each such path into its answer. Whoever shows the answer asks the
// entry what would help, and does not compare words of its own:
//
//	e := conflict.Entry{Path: "a.go", Why: conflict.Changed + conflict.ByCall + "call_2"}
//	e.IsLater()  // true: somebody changed the path after the call
//	e.IsOfCall() // true: that was a call, which can be undone first
//
// Why is a sentence for people. It may be any other text, such as an error of the kernel: then no
// method reports true.
//
// The methods compare words, so a client that is older than the daemon knows only the words of its own
// version: do not change them without need. A new reason is a constant here, a method that says what
// helps, and a case in ask_test.go of package ask, which tells people.
package conflict

import "strings"

// Entry is a path that an undo did not change.
type Entry struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Reasons. Gone and Changed may have ByOthers behind them, or ByCall with the id of a call.
const (
	Gone     = "it is gone"
	Changed  = "it changed since"
	InUse    = "a program has it open for writing"
	ByCall   = ", by call "
	ByOthers = ", by somebody else than calls"
	Holds    = "it holds what lay at " // then that path, and Taken
	Taken    = ", where something else lies now"
	// Protected comes behind the path.
	Protected = "is write-protected: it decides what runs outside the sandbox"
)

// IsLater reports whether somebody changed the path after the call.
func (e Entry) IsLater() bool {
	return strings.HasPrefix(e.Why, Gone) || strings.HasPrefix(e.Why, Changed)
}

// IsOfCall reports whether a later call can be undone first.
func (e Entry) IsOfCall() bool { return e.IsLater() && strings.Contains(e.Why, ByCall) }

// IsTaken reports whether the undo can be made when the place from which the call moved the path is free.
func (e Entry) IsTaken() bool { return strings.HasPrefix(e.Why, Holds) }

// IsInUse reports whether the undo can be made after a program has ended.
func (e Entry) IsInUse() bool { return e.Why == InUse }

// IsProtected reports whether the path comes back by the operator socket alone.
func (e Entry) IsProtected() bool { return strings.HasSuffix(e.Why, Protected) }
