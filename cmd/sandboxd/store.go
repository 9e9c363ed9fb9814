package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transfer"
)

// storeCmd returns the command that inspects databases, migrates them, and copies one to another.
func storeCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "store",
		Short: "Look at the database, bring it up to date, and copy it to PostgreSQL or back",
		Long: `A DATABASE is a state directory, or an address that begins with postgres://. The
password of an address comes from store.passwordFile alone. Without a DATABASE the
commands are about the state directory of the configuration, and about store.url if
that is set. They need no daemon; run them as the user of the daemon.
docs/fleet.md shows how to move a daemon to PostgreSQL.`,
	}
	overrideFlags(c)
	c.AddCommand(storeStatusCmd(), storeMigrateCmd(), storeCopyCmd())
	return c
}

// siteFor returns the configuration. An argument that is an address of PostgreSQL replaces store.url.
func siteFor(cmd *cobra.Command, where ...string) (*daemon.Site, error) {
	flags, address := flagsOf(cmd), ""
	for _, one := range where {
		if !daemon.IsURL(one) {
			continue
		}
		if address != "" {
			return nil, usageError{&tool.Error{
				Msg: "two addresses of PostgreSQL", Hint: "a copy is between a state directory and PostgreSQL",
			}}
		}
		address = one
	}
	if address != "" {
		flags["store.url"] = address
	}
	return daemon.LoadFile(version, "", flags)
}

func storeStatusCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "status [DATABASE]", Short: "Print what is in the database, and who uses it", Args: cobra.MaximumNArgs(1),
		Long: `Print which database it is, who uses it, how many bytes it has, the versions of its
tables, and how many rows each has. It changes nothing.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			site, err := siteFor(cmd, args...)
			if err != nil {
				return err
			}
			all, err := site.StoreStatus(cmd.Context(), append(args, "")[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			for i, s := range all {
				if i > 0 {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				if err := printStore(cmd.OutOrStdout(), s); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printStore(out io.Writer, s daemon.StoreState) error {
	users := "nobody"
	if len(s.UsedBy) > 0 {
		users = strings.Join(s.UsedBy, ", ")
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "database\t%s %s\nused by\t%s\nbytes\t%d\n", s.Kind, s.Database, users, s.Bytes)
	if s.Transcripts != nil {
		fmt.Fprintf(w, "transcripts\t%d files, %d bytes\n", s.Transcripts.Files, s.Transcripts.Bytes)
	}
	if s.Unfinished != "" {
		fmt.Fprintf(w, "unfinished\ta copy from %s: run it again\n", s.Unfinished)
	}
	fmt.Fprintln(w, "\nSCHEMA\tVERSION")
	for _, v := range s.Schemas {
		note := ""
		switch {
		case v.Version < v.Known:
			note = fmt.Sprintf(" of %d: sandboxd store migrate", v.Known)
		case v.Version > v.Known:
			note = fmt.Sprintf(", this program knows %d: update it", v.Known)
		}
		fmt.Fprintf(w, "%s\t%d%s\n", v.Name, v.Version, note)
	}
	fmt.Fprintln(w, "\nTABLE\tROWS\tOF")
	for _, t := range s.Tables {
		of := "this daemon"
		if t.Shared {
			of = "all that share it"
		} else if s.Kind == "postgresql" {
			of = "the database"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", t.Name, t.Rows, of)
	}
	return w.Flush()
}

func storeMigrateCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "migrate [DATABASE]", Short: "Bring the tables of the database to this version",
		Args: cobra.MaximumNArgs(1),
		Long: `Bring the tables to those of this version of sandboxd, as a daemon does when it starts.
No daemon may use the state directory. Over PostgreSQL daemons may run, and several
programs may do this at once.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			site, err := siteFor(cmd, args...)
			if err != nil {
				return err
			}
			all, err := site.StoreMigrate(cmd.Context(), append(args, "")[0])
			if asJSON && err == nil {
				return printJSON(cmd.OutOrStdout(), all)
			}
			for _, m := range all {
				if len(m.Changed) == 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: up to date\n", m.Database)
				}
				for _, v := range m.Changed {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s from version %d to %d\n", m.Database, v.Name, v.Have, v.Want)
				}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func storeCopyCmd() *cobra.Command {
	var asJSON bool
	var o daemon.StoreCopy
	c := &cobra.Command{
		Use: "copy FROM TO", Short: "Copy what daemons share from a state directory to PostgreSQL, or back",
		Args: cobra.ExactArgs(2),
		Example: `  sandboxd store copy /var/lib/sandboxd postgres://sandboxd@db.example/sandboxd
  sandboxd store copy --replace postgres://sandboxd@db.example/sandboxd /var/lib/sandboxd`,
		Long: `Copy the sessions, variables, transcripts, questions, grants, tasks, teams, MCP pins and
what hooks said of permissions. What is a daemon's own stays in its state directory: the
record, recorded decisions, jobs, undo, callables and logins.

No daemon may use either side. The destination must be empty. A copy that was
interrupted goes on when the same command runs again; no daemon starts on its
destination until then. At the end both sides are read again and compared by the
number of rows and a hash of each table. The source keeps what it has.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			site, err := siteFor(cmd, args...)
			if err != nil {
				return err
			}
			o.From, o.To = args[0], args[1]
			show := progressOf(cmd)
			o.Told = show.told
			copied, err := site.StoreCopy(cmd.Context(), o)
			show.end()
			if err != nil {
				if cmd.Context().Err() != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: note: the same command goes on with the copy")
				}
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), copied)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TABLE\tROWS\tSHA-256 ON BOTH SIDES")
			for _, t := range copied {
				fmt.Fprintf(w, "%s\t%d\t%s\n", t.Table, t.Rows, t.SHA256)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&o.Replace, "replace", false, "into a state directory: remove what it has of before")
	c.Flags().StringVar(&o.Daemon, "daemon", "", "into a new state directory: the id of the daemon that it becomes")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// progress shows how far a copy is: on a terminal in one line, elsewhere with a line for each table.
type progress struct {
	out      io.Writer
	terminal *os.File // nil: out is no terminal
	drawn    time.Time
	resumed  bool
}

// drawEvery is the time between two changes of the line on a terminal.
const drawEvery = 100 * time.Millisecond

func progressOf(cmd *cobra.Command) *progress {
	p := &progress{out: cmd.ErrOrStderr()}
	if o, ok := p.out.(output); ok {
		if f, ok := o.file.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			p.terminal = f
		}
	}
	return p
}

func (p *progress) told(now transfer.Progress) {
	if now.Resumed && !p.resumed {
		p.resumed = true
		fmt.Fprintln(p.out, "sandboxd: note: this goes on with the copy that was interrupted")
	}
	line := fmt.Sprintf("%s %s: %d of %d", now.Step, now.Table, now.Rows, now.Of)
	switch {
	case p.terminal == nil && now.Done:
		fmt.Fprintln(p.out, line)
	case p.terminal != nil && (now.Done || time.Since(p.drawn) > drawEvery):
		p.drawn = time.Now()
		fmt.Fprint(p.terminal, "\r\x1b[K"+line) // names of tables and numbers only, so no escapes are needed
	}
}

// end moves to the next line.
func (p *progress) end() {
	if p.terminal != nil && !p.drawn.IsZero() {
		fmt.Fprintln(p.out)
	}
}
