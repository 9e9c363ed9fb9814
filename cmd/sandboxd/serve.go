package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/doctor"
	"github.com/sandboxd/sandboxd/internal/idspace"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
)

// serveCmd returns the command that runs the daemon.
func serveCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Serves the directories that sandboxd allow has allowed, and the workspaces of the
configuration, on two sockets: agents call tools on one, operators answer and
configure on the other.

The signal TERM or INT ends it. It then takes no new calls, refuses the waiting
questions, and gives running calls api.stopGrace to finish; after that it ends
them with everything that they started. A second signal ends it at once. HUP reads
the configuration again; an invalid one changes nothing.

Started with CAP_SETUID and CAP_SETGID, and not by root, it goes into a user namespace
that has its own ids and those of the accounts, and gives tools the rights of the
account that calls.

For systemd it supports Type=notify, the watchdog and socket activation: see
deploy/sandboxd.service and deploy/sandboxd.socket; sandboxd setup installs them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := daemon.Serve(cmd.Context(), version, flagsOf(cmd), cmd.ErrOrStderr())
			if ended, ok := errors.AsType[idspace.Ended](err); ok {
				return exitStatus(ended)
			}
			return err
		},
	}
	overrideFlags(c)
	return c
}

// reloadCmd returns the command that makes the daemon read its configuration again.
func reloadCmd() *cobra.Command {
	var in policy.Reload
	c := &cobra.Command{
		Use: "reload", Short: "Make the daemon read its configuration again (operator)", Args: cobra.NoArgs,
		Long: `Reads the whole configuration again. New calls use it; running calls finish under
the old one. A configuration that is invalid, or that needs a restart, changes
nothing: the command then fails and says why.

A daemon that takes the rights of its accounts starts again for new accounts and their
groups if no call runs; the command waits for it. While calls run it says what it lacks.

Where the policies let calls pass that those before them did not, of the recorded
calls, that is said. With policy.guardReload such a reload needs --loosen.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var loaded api.ConfigStatus
			err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodPost, "/reload", in, &loaded)
			if err != nil {
				return err
			}
			said := "configuration loaded: " + visible.Text(loaded.File)
			if loaded.File == "" {
				said = "the daemon has no configuration file: defaults, variables and flags hold"
			}
			fmt.Fprintln(cmd.ErrOrStderr(), said)
			if loaded.Loosens != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "it "+loaded.Loosens.Words())
			}
			return startedAgain(cmd, loaded)
		},
	}
	c.Flags().BoolVar(&in.Loosen, "loosen", false, "let calls pass that did not pass before")
	return c
}

// startedAgain waits until a daemon has restarted for new accounts, or returns why it did not.
func startedAgain(cmd *cobra.Command, loaded api.ConfigStatus) error {
	if len(loaded.Lacking) == 0 {
		return nil
	}
	ids := strings.Join(loaded.Lacking, ", ")
	if !loaded.StartsAgain {
		fmt.Fprintln(cmd.ErrOrStderr(), "the daemon must start again for "+ids+", and calls run: "+
			"reload once more when none runs, or restart it, which ends them")
		return nil
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "the daemon starts again for "+ids)
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
	defer cancel()
	for {
		var now api.Status
		err := client.New(operatorSocket()).Do(ctx, http.MethodGet, "/status", nil, &now)
		if err == nil && now.Config.Loaded.After(loaded.Loaded) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("the daemon does not answer since it started again; its log says why"), err)
		case <-time.After(50 * time.Millisecond): // it is not reachable until it opens its sockets
		}
	}
}

// stopAllCmd returns the command that ends all calls at once.
func stopAllCmd() *cobra.Command {
	return &cobra.Command{
		Use: "stop-all", Short: "End every call and the daemon, now (operator)", Args: cobra.NoArgs,
		Long: `Cancels every call of every account, ends everything that they started, refuses
every waiting question, and ends the daemon. Nothing gets time to finish. If a
service manager opens the sockets, stop the sockets as well: otherwise the next
call starts the daemon again.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out struct {
				Cancelled int `json:"cancelled"`
			}
			err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodPost, "/stop-all", nil, &out)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the daemon stops; cancelled %d calls\n", out.Cancelled)
			return nil
		},
	}
}

// noteConfig prints a warning on stderr if a running daemon uses another configuration than this command, which asks
// no daemon. With --config it prints nothing, because the person has chosen the configuration.
func noteConfig(cmd *cobra.Command, site *daemon.Site) {
	if f := cmd.Flag("config"); f != nil && f.Changed {
		return
	}
	s, err := statusOfDaemon(cmd)
	if e, ok := toolError(err); ok && e.Code == "daemon_unreachable" {
		return
	}
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: note: which configuration the daemon uses is not known:", err)
		return
	}
	if s.Config.File == site.Config.File {
		return
	}
	theirs, ours, cure := "none", "the defaults", "name none"
	if s.Config.File != "" {
		theirs = visible.Text(s.Config.File)
		cure = "--config " + theirs
		if unix.Access(s.Config.File, unix.R_OK) != nil {
			cure = "this user may not read it"
		}
	}
	if site.Config.File != "" {
		ours = site.Config.File
	}
	if cmd.Flags().Lookup("live") != nil {
		cure += " or --live"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "sandboxd: note: the configuration of the daemon is %s, this used %s: %s\n",
		theirs, ours, cure)
}

// statusOfDaemon asks the running daemon for its status, over the socket that this user may use.
func statusOfDaemon(cmd *cobra.Command) (s api.Status, err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	if err = client.New(agentSocket()).Do(ctx, http.MethodGet, "/status", nil, &s); err == nil {
		return s, nil
	}
	if client.New(operatorSocket()).Do(ctx, http.MethodGet, "/status", nil, &s) == nil {
		return s, nil
	}
	return s, err
}

// daemonCounts returns the status of the running daemon. yes is false if there is none, or if the command names a
// configuration of its own.
func daemonCounts(cmd *cobra.Command) (s api.Status, yes bool) {
	if f := cmd.Flag("config"); f != nil && f.Changed {
		return s, false
	}
	s, err := statusOfDaemon(cmd)
	return s, err == nil
}

// doctorCmd returns the command that tries forbidden actions in a real sandbox.
func doctorCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Show what the sandbox stops on this host, by trying it",
		Long: `Starts a sandbox like that of a call and tries in it what it must stop. The exit
status is 0 when every row with NEEDED yes also has PROVED yes: the forbidden
acts, and the layers that sandbox.require names. The sandbox is one of this user with
the configuration that is named; whether roles are split is asked of the daemon, if
one runs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := examine(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), found)
			} else {
				err = printFindings(cmd.OutOrStdout(), screenOf(cmd), found)
			}
			if doctor.Failed(found) {
				return exitStatus(exitFailed)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// printFindings prints one line for each finding, or two if the terminal is narrow.
func printFindings(out io.Writer, s review.Screen, found []doctor.Finding) error {
	yes := map[bool]string{true: "yes", false: "no"}
	if s.Terminal && s.Width < 80 {
		for _, f := range found {
			needed, proved := yes[f.Needed], yes[f.Proved]
			_, err := fmt.Fprintf(out, "%s: needed %s, proved %s\n  %s\n", f.Layer, needed, proved, f.What)
			if err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LAYER\tNEEDED\tPROVED\tWHAT")
	for _, f := range found {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Layer, yes[f.Needed], yes[f.Proved], f.What)
	}
	return w.Flush()
}

func examine(cmd *cobra.Command) ([]doctor.Finding, error) {
	ctx := cmd.Context()
	site, err := daemon.Load(version, nil)
	if err != nil {
		return nil, err
	}
	if err := site.Here(); err != nil {
		return nil, err
	}
	backend, err := site.Backend("")
	if err != nil {
		return nil, err
	}
	defer backend.Close()
	h := doctor.Host{
		Settings: site.Settings, Profile: site.Config.Profile, Dir: site.Roots[0], RoleSplit: site.RoleSplit(),
		Idle: site.Idle(ctx, backend), TakesRights: sandbox.TakesRights(), Parts: site.Doctor(ctx),
	}
	if s, ok := daemonCounts(cmd); ok { // another user may run it
		h.RoleSplit, h.TakesRights = s.RoleSplit, s.Rights == "caller"
	}
	return doctor.Examine(ctx, backend, h)
}
