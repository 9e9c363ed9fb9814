package ask

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/undo/conflict"
)

// Daemon answers requests: a client of the daemon, or what sandboxd exec kept without one.
type Daemon interface {
	Do(ctx context.Context, method, path string, in, out any) error
}

// Undo is how calls are undone.
type Undo struct {
	Daemon Daemon
	Paths  []string // these files alone, and what lies below these directories; nil: all
	Force  bool     // undo also files that changed after the call; only an operator may
	Flag   string   // behind "sandboxd undo" in hints: "" or " --exec"
	Newest bool     // nobody named the call: it is the newest that can be undone, and a hint tells how to go on
}

// Answer is what the daemon says of one undo.
type Answer struct {
	CallID    string           `json:"call_id"`
	Undone    string           `json:"undone"`
	Restored  []string         `json:"restored"`
	Removed   []string         `json:"removed"` // paths of Restored that the call had created
	Conflicts []conflict.Entry `json:"conflicts"`
	Status    tool.Status      `json:"status"`
	Error     *tool.Error      `json:"error,omitempty"`
}

// Undoable returns the last calls of a session that can be undone; 0 is all.
func (u Undo) Undoable(ctx context.Context, session string, most int) ([]string, error) {
	var ids []string
	for offset := 0; ; {
		var page []Changed
		at := fmt.Sprintf("/sessions/%s/changes?limit=100&offset=%d", url.PathEscape(session), offset)
		if err := u.Daemon.Do(ctx, http.MethodGet, at, nil, &page); err != nil {
			return nil, err
		}
		for _, c := range page {
			if c.Undoes != "" || c.UndoneBy != "" {
				continue
			}
			if ids = append(ids, c.CallID); len(ids) == most {
				return ids, nil
			}
		}
		if offset += len(page); len(page) < 100 {
			break
		}
	}
	if len(ids) == 0 {
		return nil, &tool.Error{
			Msg: "no call of this session changed a file that is kept and was not undone",
			Hint: "sandboxd changes" + u.Flag + " lists what calls changed; each directory in which calls are " +
				"made has a session of its own; name a call to undo an undo",
		}
	}
	return ids, nil
}

// All undoes calls in this order, and gives each answer to show. It ends with the first error. left
// says that something was left as it is.
func (u Undo) All(ctx context.Context, ids []string, show func(Answer) error) (left bool, err error) {
	for _, id := range ids {
		var a Answer
		in := map[string]any{"paths": u.Paths, "force": u.Force}
		if u.Paths == nil {
			delete(in, "paths")
		}
		err := u.Daemon.Do(ctx, http.MethodPost, "/calls/"+url.PathEscape(id)+"/undo", in, &a)
		if err != nil {
			return left, err
		}
		switch err := show(a); {
		case err != nil:
			return left, err
		case a.Error != nil:
			return left, a.Error
		}
		left = left || len(a.Conflicts) > 0
	}
	return left, nil
}

// Print writes an answer of All for people.
func (u Undo) Print(out io.Writer, a Answer) {
	if a.Error != nil {
		return // who gave the answer says why
	}
	removed := map[string]bool{}
	for _, path := range a.Removed {
		removed[path] = true
	}
	for _, path := range a.Restored {
		if removed[path] {
			fmt.Fprintln(out, "removed ", path)
			continue
		}
		fmt.Fprintln(out, "restored", path)
	}
	for _, c := range a.Conflicts {
		fmt.Fprintf(out, "left     %s: %s\n", c.Path, c.Why)
	}
	some := func(is func(conflict.Entry) bool) bool { return slices.ContainsFunc(a.Conflicts, is) }
	if some(conflict.Entry.IsInUse) {
		fmt.Fprintln(out, "end the programs that write these files, and undo the call again")
	}
	if some(conflict.Entry.IsTaken) {
		fmt.Fprintln(out, "move what lies in the old places away, and undo the call again")
	}
	switch {
	case some(conflict.Entry.IsOfCall):
		fmt.Fprintln(out, "what changed since the call stays: undo the later call first, or use --force (operator)")
	case some(conflict.Entry.IsLater):
		fmt.Fprintln(out, "what changed since the call stays; --force (operator) puts the old content back")
	case some(conflict.Entry.IsProtected):
		fmt.Fprintln(out, "what decides what runs outside of the sandbox comes back by the operator socket alone")
	case len(a.Restored)+len(a.Conflicts) == 0:
		fmt.Fprintf(out, "nothing to do: %s, or what you named of it, was undone before\n", a.Undone)
	}
	if len(a.Restored) == 0 && len(a.Conflicts) > 0 {
		on := ""
		if u.Newest {
			on = fmt.Sprintf("; sandboxd undo%s --last 2 goes on with the call before it", u.Flag)
		}
		fmt.Fprintf(out, "nothing of %s was undone%s\n", a.Undone, on)
	}
	if len(a.Restored) > 0 {
		part := ""
		if len(a.Conflicts) > 0 {
			part = "a part of "
		}
		fmt.Fprintf(out, "undid %s%s; sandboxd undo%s %s takes that back\n", part, a.Undone, u.Flag, a.CallID)
	}
}
