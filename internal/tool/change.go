package tool

import (
	"context"
	"time"
)

// Change is what a call did to one path.
type Change struct {
	Path        string     `json:"path"` // relative to the directory of the session, absolute outside it
	Kind        ChangeKind `json:"kind"`
	BytesBefore int64      `json:"bytes_before"`
	BytesAfter  int64      `json:"bytes_after"`
	ModeBefore  string     `json:"mode_before,omitempty"` // octal, where it is another one now
	Conflict    string     `json:"conflict,omitempty"`    // why it is still there, of changes that were refused
}

// ChangeKind is what kind of change it is. A change of mode, time or attributes alone is a
// modification.
type ChangeKind string

// The kinds.
const (
	ChangeCreate ChangeKind = "create"
	ChangeModify ChangeKind = "modify"
	ChangeDelete ChangeKind = "delete"
)

// Changes are what a call changed, and whether that can be undone.
type Changes struct {
	List  []Change // the largest first, where some are left out
	Total int
	Undo  *Undo // nil: nothing changed
	// Made is what the call changed, for who judges it; nil: nothing, or nobody knows what.
	Made Made
}

// Made is what a call that has ended changed.
type Made interface {
	// Facts are what policies see, of every change.
	Facts(ctx context.Context) ([]Changed, error)
	// Diff shows it to a person, in as many bytes at most.
	Diff(ctx context.Context, most int) (string, error)
	// Undo puts back what was there. by is the call that can be undone to have the changes again;
	// left is what stays as it is, each with the reason.
	Undo(ctx context.Context) (by string, left []Change, err error)
}

// Changed is a change as policies see it. What it says of git is from before the call.
type Changed struct {
	Path        string     `json:"path"` // absolute
	Kind        ChangeKind `json:"kind"`
	BytesBefore int64      `json:"bytes_before"`
	BytesAfter  int64      `json:"bytes_after"`
	Tracked     bool       `json:"tracked"`     // by git
	Uncommitted bool       `json:"uncommitted"` // what was there is not what git has, and git does not ignore it
	Protected   bool       `json:"protected"`   // the settings do not let calls write it unasked
	Own         bool       `json:"own"`         // calls of the session made the file, and nobody else changed it since
	Moved       bool       `json:"moved"`       // what was deleted is at another path now
}

// Changing is a question to a person about changes that a call has made.
type Changing struct {
	Changes []Change `json:"changes"`
	Total   int      `json:"total"`
	Diff    string   `json:"diff"`
	Kept    bool     `json:"kept"`             // all of it can be undone
	Unkept  string   `json:"unkept,omitempty"` // why not
	Why     []Reason `json:"-"`
}

// Undo says whether the changes of a call can be undone.
type Undo struct {
	Kept  bool       `json:"kept"`
	Until *time.Time `json:"until,omitempty"` // at the latest: the oldest go first when there is no room
	Why   string     `json:"why,omitempty"`   // it is not kept
}
