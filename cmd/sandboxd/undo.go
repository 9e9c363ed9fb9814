package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// changedCall is a call that changed files.
type changedCall struct {
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

// undoAnswer is what an undo did.
type undoAnswer struct {
	CallID    string   `json:"call_id"`
	Undone    string   `json:"undone"`
	Restored  []string `json:"restored"`
	Removed   []string `json:"removed"` // those of them that the call had made
	Conflicts []struct {
		Path string `json:"path"`
		Why  string `json:"why"`
	} `json:"conflicts"`
	Status tool.Status `json:"status"`
	Error  *tool.Error `json:"error,omitempty"`
}

// undoCmd puts back what calls changed.
func undoCmd() *cobra.Command {
	var session string
	var last int
	var force, asJSON bool
	var lone loneExec
	c := &cobra.Command{
		Use:   "undo [CALL] [PATH…]",
		Short: "Put back what a call changed",
		Long: `Puts back the files that a call changed: the last one of the session of this directory that
changed something and was not undone, or the call that is named. With --last N the last N
calls are undone, the newest first; with --session all calls of that session. With paths only
these files, and what lies below these directories.

What changed since the call is left as it is, and named; --force restores it all the same, and
needs the operator socket. An undo is a call, and can be undone by its id. Whoever may use the
operator socket is not asked about it; of others a person may be.

With --exec it is about what sandboxd exec ran in this directory without a daemon.

The exit status is 1 if something was left as it is.`,
		Example: `  sandboxd undo
  sandboxd undo --last 3
  sandboxd undo call_XXXXXXXXXXXXXXXXXXXXXXXXXX src/a.go`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			agent, done, err := lone.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			u := undoing{cmd: cmd, api: agent, force: force, asJSON: asJSON, flag: lone.said()}
			if !lone.on && (force || operates()) {
				u.api = client.New(operatorSocket())
			}
			ids := []string{}
			if len(args) > 0 && strings.HasPrefix(args[0], "call_") {
				ids, args = append(ids, args[0]), args[1:]
			}
			named, counted := cmd.Flags().Changed("session"), cmd.Flags().Changed("last")
			if last < 1 || len(ids) > 0 && (named || counted) || named && counted {
				return usageError{errors.New("name a call, --last N with N of at least 1, or --session")}
			}
			for _, path := range args {
				path, err := physical(path)
				if err != nil {
					return err
				}
				u.paths = append(u.paths, path)
			}
			if len(ids) == 0 {
				id, err := lone.session(cmd, agent, session)
				if err != nil {
					return err
				}
				most := last
				if named {
					most = 0
				}
				if ids, err = u.undoable(id, most); err != nil {
					return err
				}
			}
			return u.all(ids)
		},
	}
	c.Flags().IntVar(&last, "last", 1, "how many calls")
	c.Flags().StringVar(&session, "session", "", "undo all calls of this session")
	c.Flags().BoolVar(&force, "force", false, "also what changed since (operator)")
	c.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each call")
	lone.flag(c)
	c.AddCommand(undoPurgeCmd())
	return c
}

// operates reports whether this user is let in at the operator socket.
func operates() bool {
	conn, err := net.Dial("unix", operatorSocket())
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// undoing is one run of undo.
type undoing struct {
	cmd           *cobra.Command
	api           asker
	paths         []string
	force, asJSON bool
	flag          string // " --exec", for what a person types next
}

// undoable are the last calls of a session that can be undone; 0 is all.
func (u undoing) undoable(session string, most int) ([]string, error) {
	var ids []string
	for offset := 0; ; {
		var page []changedCall
		at := fmt.Sprintf("/sessions/%s/changes?limit=100&offset=%d", url.PathEscape(session), offset)
		if err := u.api.Do(u.cmd.Context(), http.MethodGet, at, nil, &page); err != nil {
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
			Msg:  "no call of this session changed a file that is kept and was not undone",
			Hint: "sandboxd changes" + u.flag + " lists what calls changed; name a call to undo an undo",
		}
	}
	return ids, nil
}

// all undoes calls in this order.
func (u undoing) all(ids []string) error {
	var failed error
	for _, id := range ids {
		var a undoAnswer
		in := map[string]any{"paths": u.paths, "force": u.force}
		if u.paths == nil {
			delete(in, "paths")
		}
		err := u.api.Do(u.cmd.Context(), http.MethodPost, "/calls/"+url.PathEscape(id)+"/undo", in, &a)
		if err != nil {
			return err
		}
		if u.asJSON {
			err = printJSON(u.cmd.OutOrStdout(), a)
		} else {
			a.print(u.cmd.OutOrStdout(), u.flag)
		}
		switch {
		case err != nil:
			return err
		case a.Error != nil:
			return a.Error
		case len(a.Conflicts) > 0:
			failed = exitStatus(exitFailed)
		}
	}
	return failed
}

func (a undoAnswer) print(out io.Writer, flag string) {
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
	if len(a.Conflicts) > 0 {
		fmt.Fprintln(out, "what changed since the call stays: undo the later call first, or use --force (operator)")
	}
	if len(a.Restored) > 0 {
		fmt.Fprintf(out, "undid %s; sandboxd undo%s %s takes that back\n", a.Undone, flag, a.CallID)
	}
}

func undoPurgeCmd() *cobra.Command {
	var session string
	var lone loneExec
	c := &cobra.Command{
		Use: "purge", Short: "Remove what is kept for undo, old secrets included (operator)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var gone struct {
				Calls int   `json:"calls"`
				Bytes int64 `json:"bytes"`
			}
			in := map[string]string{}
			if session != "" {
				in["session_id"] = session
			}
			var api asker = client.New(operatorSocket())
			if lone.on {
				var done func()
				var err error
				if api, done, err = lone.open(cmd); err != nil {
					return err
				}
				defer done()
			}
			err := api.Do(cmd.Context(), http.MethodPost, "/undo/purge", in, &gone)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "removed %d calls, %d bytes\n", gone.Calls, gone.Bytes)
			}
			return err
		},
	}
	c.Flags().StringVar(&session, "session", "", "of this session alone")
	lone.flag(c)
	return c
}

// diffCmd shows what a call changed.
func diffCmd() *cobra.Command {
	var lone loneExec
	c := &cobra.Command{
		Use: "diff CALL", Short: "Show what a call changed", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, done, err := lone.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			var d struct {
				Diff string `json:"diff"`
			}
			err = api.Do(cmd.Context(), http.MethodGet, "/calls/"+url.PathEscape(args[0])+"/diff", nil, &d)
			if err == nil {
				_, err = io.WriteString(results(cmd), d.Diff)
			}
			return err
		},
	}
	lone.flag(c)
	return c
}

// changesCmd lists the calls of a session that changed files.
func changesCmd() *cobra.Command {
	var session string
	var asJSON bool
	var lone loneExec
	c := &cobra.Command{
		Use: "changes", Short: "List calls of the session of this directory that changed files", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, done, err := lone.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			id, err := lone.session(cmd, api, session)
			if err != nil {
				return err
			}
			return showChanges(cmd, api, "/sessions/"+url.PathEscape(id)+"/changes?limit=100", asJSON)
		},
	}
	c.Flags().StringVar(&session, "session", "", "session id (default: the session of this directory)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	lone.flag(c)
	return c
}

// historyCmd says which calls changed a file.
func historyCmd() *cobra.Command {
	var asJSON bool
	var lone loneExec
	c := &cobra.Command{
		Use: "history PATH", Short: "List calls that changed a file, or anything in a directory",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := physical(args[0])
			if err != nil {
				return err
			}
			api, done, err := lone.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			return showChanges(cmd, api, "/changes?limit=100&path="+url.QueryEscape(path), asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	lone.flag(c)
	return c
}

// physical is an absolute path without links above the file, as the journal has it.
func physical(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path, nil
}

// shownPaths is how many changes of a call have a place in a row.
const shownPaths = 3

func showChanges(cmd *cobra.Command, api asker, at string, asJSON bool) error {
	var found []changedCall
	if err := api.Do(cmd.Context(), http.MethodGet, at, nil, &found); err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), found)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CALL\tWHEN\tTOOL\tSTATE\tCHANGES")
	for _, c := range found {
		state := "kept"
		switch {
		case c.UndoneBy != "":
			state = "undone"
		case !c.Undo.Kept:
			state = "partly kept"
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
