package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/runner"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/undo"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// The exit statuses of exec that are not the command's own, as other runners
// have them.
const (
	execFailed   = 125
	execRefused  = 126
	execNotFound = 127
)

// execCmd runs one command through the same path as the daemon, in this process.
func execCmd() *cobra.Command {
	var settings, profile, mode, report, call string
	var terminal bool
	c := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARG...]",
		Short: "Judge, confine and run one command, without a daemon",
		Long: `Runs one command; no shell reads its words. It uses the same policies, guard,
sandbox and record as the daemon, and this directory is the workspace. When a
person must decide, it asks on the terminal; without a terminal it refuses the
command.

Output that does not go to a terminal is passed on up to outputBytes: 16 MiB unless
the settings name another limit. The rest is left out, and exec says so; with
outputAction kill the command is ended instead.

With -t the command has a terminal of its own: the keys that you type go there, and
what it draws is shown, without anything that makes your terminal do more. It may run
until it ends, unless the settings limit it.

With --call it runs a command that the daemon judged for the hook of another
agent: once, within 10 minutes, in the same directory, in a sandbox with the
settings of that judgement. Before it runs, the daemon judges it again.

What the command changes is kept, and sandboxd undo --exec puts it back; with --call
nothing is kept.

The exit status is the command's own, or 125 when sandboxd failed, 126 when the
command was refused, 127 when it was not found.`,
		Example: "  sandboxd exec -- npm test",
		Args: func(cmd *cobra.Command, args []string) error {
			if call == "" {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			if len(args) > 0 || settings+profile+mode != "" || terminal {
				return errors.New("--call names what runs and how: only --report may be given with it, and no command")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			x := runner.New(os.Stdin, os.Stdout, os.Stderr)
			if terminal {
				var err error
				if x, err = runner.NewTerminal(os.Stdin, os.Stdout); err != nil {
					complain(cmd.ErrOrStderr(), err)
					return exitStatus(execFailed)
				}
			}
			x.Child = daemon.ChildPath()
			var r tool.Result
			var err error
			if call != "" {
				r, err = runLease(cmd.Context(), x, call, cmd.ErrOrStderr())
			} else {
				o := daemon.StandaloneOptions{
					Settings: settings, Profile: sandbox.Profile(profile), Mode: tool.Mode(mode), Terminal: terminal,
				}
				r, err = daemon.Standalone(cmd.Context(), version, x, &review.Terminal{Err: cmd.ErrOrStderr()}, args, o)
			}
			if err != nil {
				complain(cmd.ErrOrStderr(), err)
				return exitStatus(execFailed)
			}
			if report != "" {
				if err := writeReport(report, r); err != nil {
					complain(cmd.ErrOrStderr(), err)
					return exitStatus(execFailed)
				}
			}
			if r.Sandbox != nil && r.Sandbox.Isolation == "landlock" {
				fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: warning: the command ran without namespaces, "+
					"held by Landlock and seccomp alone (sandboxd doctor says why)")
			}
			if call == "" && r.Undo != nil && !r.Undo.Kept && r.Undo.Why != undo.Off {
				why := visible.Text(r.Undo.Why)
				fmt.Fprintln(cmd.ErrOrStderr(), "sandboxd: warning: not everything can be undone:", why)
			}
			return execStatus(cmd.ErrOrStderr(), x, r)
		},
	}
	c.Flags().BoolVarP(&terminal, "tty", "t", false, "give the command a terminal of its own")
	c.Flags().StringVar(&settings, "settings", "", "file with sandbox settings, JSON or YAML, merged over the defaults")
	c.Flags().StringVar(&profile, "profile", "", "sandbox profile: strict or light")
	c.Flags().StringVar(&mode, "mode", "", "permission mode (default: as configured)")
	c.Flags().StringVar(&call, "call", "", "run the call with this id; the daemon has judged it")
	c.Flags().StringVar(&report, "report", "", "write the whole answer as JSON to this file")
	return c
}

func execStatus(errOut io.Writer, x *runner.Program, r tool.Result) error {
	switch {
	case x.Ended != nil && r.Status == tool.StatusSuccess:
		if x.Ended.TimedOut {
			fmt.Fprintln(errOut, "sandboxd: error: the time limit ended the command")
		} else if x.Ended.Limit != "" {
			fmt.Fprintf(errOut, "sandboxd: error: the command reached a limit of the sandbox: %s\n", x.Ended.Limit)
		}
		if x.Ended.Overflow > 0 {
			fmt.Fprintf(errOut, "sandboxd: warning: the command wrote more than %d bytes; the rest was left out; "+
				"limits.outputBytes of --settings sets it\n", x.Ended.Overflow)
		}
		if x.Ended.Code == 0 {
			return nil
		}
		return exitStatus(x.Ended.Code)
	case x.NotStarted != nil:
		complain(errOut, x.NotStarted)
		return exitStatus(x.NotStarted.Code)
	}
	printResult(io.Discard, errOut, r)
	return failedStatus(r)
}

// writeReport replaces what is at the path. The command may have put a link there that
// leads out of its cage, or a FIFO that nobody reads.
func writeReport(path string, r tool.Result) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if guard.Within(filepath.Clean(path), "/dev") {
		return os.WriteFile(path, b, 0o600)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".report-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// runLease runs a call that the daemon judged before.
func runLease(ctx context.Context, x *runner.Program, id string, errOut io.Writer) (tool.Result, error) {
	open := &leaseConnections{ended: map[client.Closed]chan struct{}{}}
	start := func(ctx context.Context, call client.Lease) client.LeaseEnd {
		var end tool.LeaseEnd
		l, err := as[tool.Lease](call)
		if err == nil {
			end = x.Leased(ctx, l, open.judge(l.CallID))
		}
		out, bad := as[client.LeaseEnd](end)
		if err = errors.Join(err, bad); err != nil {
			out.Failure = err.Error()
		}
		return out
	}
	answer, err := client.New(agentSocket()).RunLease(ctx, id, start, open.hear(sayWaiting(errOut)))
	if err != nil {
		return tool.Result{}, err
	}
	return as[tool.Result](answer)
}

// leaseConnections are those of a call that this process runs, and the daemon judges.
type leaseConnections struct {
	mu    sync.Mutex
	ended map[client.Closed]chan struct{} // closed when the daemon forbids what it allowed
}

// judge asks the daemon about the connections of a call.
func (l *leaseConnections) judge(id string) egress.Judge {
	return func(ctx context.Context, c egress.Connection) egress.Verdict {
		defer egress.Pause(ctx)()                                    // the daemon may ask a person
		ended := l.opened(client.Closed{Host: c.Host, Port: c.Port}) // before: it may be forbidden at once
		v, err := client.New(agentSocket()).LeaseConnects(ctx, id, client.LeaseConnection(c))
		if err != nil {
			return egress.Verdict{Rule: "core.connection", Reason: "the daemon could not be asked: " + err.Error()}
		}
		return egress.Verdict{Allow: v.Allow, Rule: v.Rule, Reason: v.Reason, Hint: v.Hint, Ended: ended}
	}
}

func (l *leaseConnections) opened(at client.Closed) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[at] == nil {
		l.ended[at] = make(chan struct{})
	}
	return l.ended[at]
}

// hear ends what the daemon forbids, and passes all else on.
func (l *leaseConnections) hear(next func(client.Progress)) func(client.Progress) {
	return func(p client.Progress) {
		if p.Closed == nil {
			next(p)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if ended := l.ended[*p.Closed]; ended != nil {
			close(ended)
			delete(l.ended, *p.Closed)
		}
	}
}
