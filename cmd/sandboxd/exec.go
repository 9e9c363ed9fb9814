package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/audit"
	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/store"
	"github.com/sandboxd/sandboxd/tool"
)

// The exit statuses of exec that are not the command's own, as other runners
// have them.
const (
	execFailed   = 125
	execRefused  = 126
	execNotFound = 127
)

// execOutputBytes is what one command may print in all unless the settings say.
const execOutputBytes = 16 << 20

// execCmd runs one command through the same path as the daemon, in this process.
func execCmd() *cobra.Command {
	var settings, profile, mode, report, call string
	c := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARG...]",
		Short: "Judge, confine and run one command; no daemon is needed",
		Long: `Runs one command with literal arguments: the same policies, guard, sandbox and
record as the daemon, with this directory as the workspace. Where a person is to
be asked, the question comes on the terminal; without one the command is refused.

Output that does not go to a terminal is cut at outputBytes, 16 MiB unless the
settings say otherwise, and the command ended.

With --call it runs a command that the daemon judged before for another agent's
hook: in the same directory, in a cage with the settings it was judged by, once,
within 10 minutes. The daemon judges it again first.

The exit status is the command's own, or 125 when sandboxd failed, 126 when the
command was refused, 127 when it was not found.`,
		Example: "  sandboxd exec -- npm test",
		Args: func(cmd *cobra.Command, args []string) error {
			if call == "" {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			if len(args) > 0 || settings+profile+mode != "" {
				return errors.New("--call says what runs, and how: give no command and no other flag but --report")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			x := &execTool{stdin: os.Stdin}
			x.stdout, x.stderr = execStreams(os.Stdout, os.Stderr)
			var r tool.Result
			var err error
			if call != "" {
				r, err = client.New(agentSocketPath()).RunHeld(cmd.Context(), call, x.lent)
			} else {
				r, err = execute(cmd.Context(), x, args, execOptions{settings: settings, profile: profile, mode: mode})
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
			return execStatus(cmd.ErrOrStderr(), x, r)
		},
	}
	c.Flags().StringVar(&settings, "settings", "", "file with sandbox settings, JSON or YAML, merged over the defaults")
	c.Flags().StringVar(&profile, "profile", "", "sandbox profile: strict or light")
	c.Flags().StringVar(&mode, "mode", "", "permission mode (default: as configured)")
	c.Flags().StringVar(&call, "call", "", "run the call with this id, which the daemon judged")
	c.Flags().StringVar(&report, "report", "", "write the whole answer as JSON to this file")
	return c
}

func execStatus(errOut io.Writer, x *execTool, r tool.Result) error {
	switch {
	case x.ended != nil && r.Status == tool.StatusSuccess:
		if x.ended.TimedOut {
			fmt.Fprintln(errOut, "sandboxd: error: the time limit ended the command")
		} else if x.ended.Limit != "" {
			fmt.Fprintf(errOut, "sandboxd: error: the command reached a limit of the sandbox: %s\n", x.ended.Limit)
		}
		if x.ended.Code == 0 {
			return nil
		}
		return exitStatus(x.ended.Code)
	case x.notStarted != nil:
		complain(errOut, x.notStarted)
		return exitStatus(x.notStarted.Code)
	}
	printResult(io.Discard, errOut, r)
	if s := resultStatus(r); s == exitStatus(exitDenied) || s == exitStatus(exitRejected) {
		return exitStatus(execRefused)
	}
	return exitStatus(execFailed)
}

// writeReport replaces what is at the path. The command may have put a link there that
// leads out of its cage, or a FIFO that nobody reads.
func writeReport(path string, r tool.Result) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if sandbox.Within(filepath.Clean(path), "/dev") {
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

type execOptions struct{ settings, profile, mode string }

func execute(ctx context.Context, x *execTool, argv []string, o execOptions) (tool.Result, error) {
	h, err := loadHouse(nil)
	if err != nil {
		return tool.Result{}, err
	}
	if err := h.applyExec(o); err != nil {
		return tool.Result{}, err
	}
	if err := h.makeState(); err != nil {
		return tool.Result{}, err
	}
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, schemas()...)
	if err != nil {
		return tool.Result{}, err
	}
	defer db.Close()
	p, err := h.build(ctx, db, "", tool.Group{Name: "exec", Tools: []tool.Tool{x}})
	if err != nil {
		return tool.Result{}, err
	}
	defer p.backend.Close()
	dir, err := os.Getwd()
	if err != nil {
		return tool.Result{}, err
	}
	if dir, err = sandbox.Resolve(dir, "/", p.home); err != nil {
		return tool.Result{}, err
	}
	const account = "default-admin"
	session, err := p.sessions.Create(ctx, tool.Session{Account: account, Dir: dir, Home: p.home, Mode: h.cfg.Sessions.Mode, Profile: h.cfg.Profile, Tag: "exec"})
	if err != nil {
		return tool.Result{}, err
	}
	args, err := json.Marshal(map[string]any{"argv": argv})
	if err != nil {
		return tool.Result{}, err
	}
	line := p.pipeline(askOnTerminal{}, execRecord{audit.Shared{Options: p.auditOptions(), OpenMirror: h.openMirror}, client.New(agentSocketPath())})
	return line.Do(ctx, tool.Request{Account: account, Role: tool.RoleAgent, Session: session.ID, Tool: "Exec", Args: args}), nil
}

// execRecord writes to the record of the daemon: by itself while no daemon holds
// it, else through the daemon.
type execRecord struct {
	local audit.Shared
	api   *client.Client
}

func (e execRecord) Begin(ctx context.Context, c *tool.Call) error {
	return e.orDaemon(ctx, "begin", c, e.local.Begin(ctx, c))
}

func (e execRecord) End(ctx context.Context, c *tool.Call) error {
	return e.orDaemon(ctx, "end", c, e.local.End(ctx, c))
}

func (e execRecord) orDaemon(ctx context.Context, phase string, c *tool.Call, err error) error {
	var held *audit.Held
	if !errors.As(err, &held) {
		return err
	}
	detail := map[string]string{"verdict": c.Decision.Verdict.String(), "status": string(c.Result.Status), "dir": c.Session.Dir}
	if len(c.Decision.Reasons) > 0 {
		detail["rule"] = c.Decision.Reasons[0].Rule
	}
	in := map[string]any{"phase": phase, "call_id": c.ID, "tool": c.Spec.Name, "digest": c.Digest, "detail": detail}
	return e.api.Do(ctx, http.MethodPost, "/records", in, nil)
}

// askOnTerminal asks whoever sits at the terminal. It reads /dev/tty, so that
// what is piped into the command cannot answer.
type askOnTerminal struct{}

func (askOnTerminal) Execution(ctx context.Context, c *tool.Call) (tool.Approval, error) {
	a := tool.Approval{Asked: time.Now()}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		a.Code, a.Reason = "no_approver", "a person is to be asked, and there is no terminal"
		return a, nil
	}
	defer tty.Close()
	stop := context.AfterFunc(ctx, func() { tty.Close() })
	defer stop()
	fmt.Fprintf(tty, "sandboxd: this asks before it runs:\n  %s\n", safeLine(string(c.In.Args)))
	for _, r := range c.Decision.Reasons {
		fmt.Fprintf(tty, "  because %s (%s)\n", safeLine(r.Message), r.Rule)
	}
	fmt.Fprint(tty, "run it? [y/N] ")
	line, err := bufio.NewReader(io.LimitReader(tty, 1024)).ReadString('\n')
	if err != nil {
		a.Code, a.Reason = "no_approver", "the terminal gave no answer"
		return a, nil
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	a.Approved = answer == "y" || answer == "yes"
	a.By, a.Answered = fmt.Sprintf("uid:%d", os.Getuid()), time.Now()
	if !a.Approved {
		a.Reason = "refused on the terminal"
	}
	return a, nil
}

func (a askOnTerminal) Result(ctx context.Context, c *tool.Call) (tool.Approval, error) {
	return a.Execution(ctx, c)
}

var _ pipeline.Approvals = askOnTerminal{}
