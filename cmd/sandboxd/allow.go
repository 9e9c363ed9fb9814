package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/projects"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// allowCmd changes the directories in which agents may work.
func allowCmd() *cobra.Command {
	var list, remove, asJSON bool
	c := &cobra.Command{
		Use:   "allow [DIR]",
		Short: "Let agents work in a directory (operator)",
		Long: `Lets agents work in DIR, or in the current directory: sessions may start there and
below, and may write there and in no other project. A running daemon takes the
change at once. Where none runs, the next one has it.

A link is resolved, and the directory that it leads to is allowed. The whole system,
a home, what belongs to another user and what holds files of sandboxd itself cannot
be allowed.

With --remove the directory is taken back: calls that run there are ended, waiting
questions of such calls are withdrawn, and sessions there are refused until it is
allowed again. With --list the directories are printed; one that cannot be used, for
it was moved or removed, begins with "!".`,
		Example: `  cd ~/src/project && sandboxd allow
  sandboxd allow --list
  sandboxd allow --remove ~/src/project`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				if len(args) > 0 {
					return usageError{errors.New("--list takes no directory")}
				}
				return listProjects(cmd, asJSON)
			}
			dir, err := filepath.Abs(append(args, ".")[0])
			if err != nil {
				return err
			}
			p := allowing(dir)
			if remove {
				p = removing(dir)
			}
			a, running, err := p.make(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), a)
			}
			fmt.Fprintln(cmd.OutOrStdout(), p.said(a, remove))
			if !running && !remove {
				fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: hint: no daemon runs;", client.StartHint())
			}
			return nil
		},
	}
	c.Flags().BoolVar(&list, "list", false, "print the directories that are allowed")
	c.Flags().BoolVar(&remove, "remove", false, "take the directory back")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("list", "remove")
	return c
}

// change is one change of the list.
type change struct {
	dir, route string
	do         func(l *projects.List, dir, by string, record projects.Record) (projects.Answer, error)
}

func allowing(dir string) change { return change{dir, "/projects", (*projects.List).Allow} }

func removing(dir string) change { return change{dir, "/projects/remove", (*projects.List).Remove} }

// make asks the daemon for the change, or makes it where none runs.
func (c change) make(ctx context.Context) (a projects.Answer, running bool, err error) {
	err = client.New(operatorSocket()).Do(ctx, http.MethodPost, c.route, map[string]string{"dir": c.dir}, &a)
	if err == nil || !nobodyListens() {
		return a, true, err
	}
	site, err := daemon.Load(version, nil)
	if err != nil {
		return a, false, err
	}
	a, err = site.ChangeProjects(ctx, func(l *projects.List, record projects.Record) (projects.Answer, error) {
		return c.do(l, c.dir, fmt.Sprintf("uid:%d", os.Getuid()), record)
	})
	return a, false, err
}

// nobodyListens reports whether there is no daemon behind the operator socket. One that
// may not be reached is there.
func nobodyListens() bool {
	conn, err := net.Dial("unix", operatorSocket())
	if err == nil {
		conn.Close()
		return false
	}
	return !errors.Is(err, os.ErrPermission)
}

// said is what became of the directory.
func (c change) said(a projects.Answer, remove bool) string {
	name := visible.Text(a.Dir)
	if a.Dir != c.dir {
		name += ", which is where " + visible.Text(c.dir) + " leads,"
	}
	switch {
	case remove && a.Ended > 0:
		return fmt.Sprintf("%s is taken back; %d calls there were ended", name, a.Ended)
	case remove:
		return name + " is taken back"
	case a.Change:
		return name + " is allowed"
	case a.In != a.Dir:
		return fmt.Sprintf("%s was allowed before, as a part of %s", name, visible.Text(a.In))
	}
	return name + " was allowed before"
}

func listProjects(cmd *cobra.Command, asJSON bool) error {
	var all []projects.Status
	err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodGet, "/projects", nil, &all)
	if err != nil && nobodyListens() {
		var site *daemon.Site
		if site, err = daemon.Load(version, nil); err == nil {
			all, err = site.Projects()
		}
	}
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), all)
	}
	if len(all) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: hint: nothing is allowed; allow a directory with:",
			tool.CommandLine("sandboxd", "allow", "DIR"))
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DIRECTORY\tALLOWED\tBY\t")
	for _, p := range all {
		note := ""
		if p.Problem != "" {
			note = "! " + p.Problem
		}
		visible.Row(w, p.Dir, p.Allowed.Local().Format(time.DateTime), p.By, note)
	}
	return w.Flush()
}
