package ask

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// Changed is a call that changed files.
type Changed struct {
	CallID   string        `json:"call_id"`
	Session  string        `json:"session_id,omitempty"`
	Tool     string        `json:"tool"`
	At       time.Time     `json:"at"`
	Changes  []tool.Change `json:"changes"`
	Total    int           `json:"changes_total"`
	Undo     tool.Undo     `json:"undo"`
	Undoes   string        `json:"undoes,omitempty"`
	UndoneBy string        `json:"undone_by,omitempty"`
}

// OfSession lists the calls of a session that changed files, the newest first.
func OfSession(ctx context.Context, d Daemon, session string) ([]Changed, error) {
	return changes(ctx, d, "/sessions/"+url.PathEscape(session)+"/changes?limit=100")
}

// OfPath lists the calls that changed a file, or anything in a directory. The path is one of [Physical].
func OfPath(ctx context.Context, d Daemon, path string) ([]Changed, error) {
	return changes(ctx, d, "/changes?limit=100&path="+url.QueryEscape(path))
}

func changes(ctx context.Context, d Daemon, at string) (found []Changed, err error) {
	err = d.Do(ctx, http.MethodGet, at, nil, &found)
	return found, err
}

// Diff returns what a call changed, as lines.
func Diff(ctx context.Context, d Daemon, call string) (string, error) {
	var a struct {
		Diff string `json:"diff"`
	}
	err := d.Do(ctx, http.MethodGet, "/calls/"+url.PathEscape(call)+"/diff", nil, &a)
	return a.Diff, err
}

// maxLinks is how many links to what is gone Physical follows. The kernel gives up after as many.
const maxLinks = 40

// Physical returns an absolute path without links above the file, as the journal has it. A call may have removed the
// file with directories above it: then it follows the links of those that are left.
func Physical(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, below := filepath.Dir(path), filepath.Base(path)
	for links := 0; links < maxLinks; {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, below), nil
		}
		to, err := os.Readlink(dir)
		above, gone := filepath.EvalSymlinks(filepath.Dir(dir))
		switch {
		case err != nil || gone != nil: // no link: the root is always there
			dir, below = filepath.Dir(dir), filepath.Join(filepath.Base(dir), below)
			continue
		case !filepath.IsAbs(to):
			to = filepath.Join(above, to)
		}
		dir = filepath.Clean(to)
		links++
	}
	return path, nil // a link that leads to itself
}

// shownPaths is how many changes of a call have a place in a row.
const shownPaths = 3

// PrintChanges writes a table for people.
func PrintChanges(out io.Writer, found []Changed) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CALL\tWHEN\tTOOL\tSTATE\tCHANGES")
	for _, c := range found {
		state := "kept"
		switch {
		case c.UndoneBy != "":
			state = "undone"
		case !c.Undo.Kept:
			state = "not all kept"
		}
		var paths []string
		for _, x := range c.Changes[:min(len(c.Changes), shownPaths)] {
			paths = append(paths, fmt.Sprintf("%s %s", x.Kind, x.Path))
		}
		if c.Total > len(paths) {
			paths = append(paths, fmt.Sprintf("and %d more", c.Total-len(paths)))
		}
		visible.Row(w, c.CallID, c.At.Local().Format(time.DateTime), c.Tool, state, strings.Join(paths, ", "))
	}
	return w.Flush()
}
