// The command sandboxd judges, confines, runs and records the tool calls of AI
// agents: the daemon and everything that talks to it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/sandbox/child"
	"github.com/sandboxd/sandboxd/tool"
)

// version is set by the linker.
var version = "dev"

// The exit statuses that scripts may rely on; exec has its own.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitDenied   = 3
	exitRejected = 4
)

func main() {
	if child.IsChild() {
		child.Main()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process as if nobody listened
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCmd()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	complain(stderr, err)
	if usage := new(usageError); errors.As(err, usage) || strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	return exitFailed
}

// complain prints an error and, where there is one, what to do about it.
func complain(w io.Writer, err error) {
	fmt.Fprintln(w, "sandboxd: error:", err)
	var e *tool.Error
	if errors.As(err, &e) && e.Hint != "" {
		fmt.Fprintln(w, "sandboxd: hint:", e.Hint)
	}
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

// exitStatus ends the program without another word.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func rootCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "sandboxd",
		Short: "Judge, confine, run and record the tool calls of AI agents",
		Long: `sandboxd sits beside an agent and runs its tools: every call is judged by
policies and by a guard that reads the shell command, approved by people where
the rules say so, run inside a kernel sandbox, remembered, and recorded.

  sandboxd serve                                   serve this directory
  sandboxd call Bash '{"command": "ls"}'           one call, as an agent makes it
  sandboxd exec -- npm test                        one command, no daemon needed`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	configFlags(c)
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	c.AddCommand(
		serveCmd(), execCmd(), callCmd(), checkCmd(), policyCmd(), approvalsCmd(), varsCmd(), sessionsCmd(), toolsCmd(),
		auditCmd(auditPlace), hookCmd(), hooksCmd(), configCmd(), statusCmd(), reloadCmd(), stopAllCmd(), docsCmd(), doctorCmd(), versionCmd(),
	)
	wrapUsage(c)
	return c
}

// wrapUsage makes a wrong number of arguments a usage error everywhere.
func wrapUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapUsage(sub)
	}
}

func versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "sandboxd", version) },
	}
}
