// The command sandboxd judges, confines, runs and records the tool calls of AI agents. It is the
// daemon (sandboxd serve), the commands that talk to it, the commands that need none (exec, check,
// setup and others), and the launcher that sandboxd starts for sandboxed programs.
//
// main.go lists the commands of the top level; each of them adds its own subcommands. Most are one
// function that returns a cobra.Command. A command has flags and prints; what it does is a package.
// A command returns its error. main.go prints it with its hint, and exits with the status that belongs
// to it. exec and hook have statuses of their own, and print their errors themselves.
//
// Results go to OutOrStdout of the command, which escapes invisible characters, everything else to
// ErrOrStderr. Output of programs goes to results (print.go). A new command gets rows in run_test.go,
// for what it does without a daemon. What it does with one is tested in tests/integration.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/paths"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/child"
)

// version is set by the linker.
var version = "dev"

// The exit statuses that scripts can rely on. exec has its own.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitDenied   = 3 // by the guard, a policy or a hook; of check also: a person would be asked
	exitRejected = 4 // a person did not allow the call or its result
)

func main() {
	if child.IsChild() {
		child.Main()
		return
	}
	// The HTTP client of the standard library logs unexpected bytes from a host, which may hold a secret of
	// network.secrets. No code of this program uses this logger.
	log.SetOutput(io.Discard)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300) // streamed output is garbage at once: with 100 the collector took half of the time
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // after the first signal a second one ends the process
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with its arguments and streams as parameters. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCmd()
	root.SetArgs(args)
	root.SetIn(&input{ctx: ctx, file: os.Stdin, err: stderr})
	out, errOut := newOutput(stdout), newOutput(stderr)
	root.SetOut(out)
	root.SetErr(errOut)
	root.InitDefaultCompletionCmd(args...)
	wrapUsage(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(ctx) // names the signal
	}
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	complain(errOut, err)
	if usage := new(usageError); errors.As(err, usage) || strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	return exitFailed
}

// complain prints an error with its code, and its hint. Of joined errors it prints each on a line of its own.
func complain(w io.Writer, err error) {
	for _, one := range several(err) {
		fmt.Fprintf(w, "sandboxd: error: %v%s\n", one, code(one))
	}
	if e, ok := toolError(err); ok && e.Hint != "" {
		fmt.Fprintln(w, "sandboxd: hint:", e.Hint)
	}
}

// code returns the code of err in brackets, by which docs/troubleshooting.md lists errors.
func code(err error) string {
	if e, ok := toolError(err); ok && e.Code != "" {
		return " (" + e.Code + ")"
	}
	return ""
}

// several returns the errors that err joins, or err alone.
func several(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() { // err says more than the errors that it joins
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, several(one)...)
	}
	return all
}

// toolError returns the [tool.Error] that err is or wraps. An error of the daemon becomes one.
func toolError(err error) (*tool.Error, bool) {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return (*tool.Error)(e), true
	}
	e := tool.ErrorOf(err)
	return e, e != nil
}

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitStatus is an exit status without a message.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func rootCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "sandboxd",
		Short: "Judge, confine, run and record the tool calls of AI agents",
		Long: `sandboxd runs beside an agent and runs its tools. Policies and a guard, which reads
the shell command, judge every call. A person approves it when the rules ask. It
runs in a kernel sandbox, and it is recorded.

  sandboxd serve                                   the daemon
  sandboxd allow                                   let agents work in this directory
  sandboxd call Bash '{"command": "ls"}'           one call, as an agent makes it
  sandboxd exec -- npm test                        one command, without a daemon`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	configFlags(c)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{&tool.Error{Msg: flagError(err), Hint: c.CommandPath() + " --help lists the flags"}}
	})
	c.AddCommand(
		serveCmd(), allowCmd(), execCmd(), callCmd(), checkCmd(), policyCmd(), networkCmd(), approvalsCmd(), varsCmd(),
		skillsCmd(), sessionsCmd(), agentsCmd(), tasksCmd(), cronCmd(), scopesCmd(), jobsCmd(), undoCmd(), diffCmd(),
		changesCmd(), historyCmd(), toolsCmd(), mcpCmd(), logCmd(),
		auditCmd(auditPlace), hookCmd(), hooksCmd(), configCmd(), statusCmd(), reloadCmd(), stopAllCmd(), docsCmd(),
		doctorCmd(), setupCmd(), storeCmd(), webCmd(), shareCmd(), versionCmd(),
	)
	return c
}

// wrapUsage makes unexpected arguments a usage error for all commands. A command with subcommands takes no arguments
// and prints its help.
func wrapUsage(c *cobra.Command) {
	if c.HasParent() && c.HasSubCommands() && !c.Runnable() {
		c.Args, c.DisableFlagsInUseLine = cobra.NoArgs, true
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{&tool.Error{Msg: err.Error(), Hint: usageHint(cmd)}}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapUsage(sub)
	}
}

// usageHint returns the hint about the arguments of a command.
func usageHint(c *cobra.Command) string {
	if !c.HasAvailableSubCommands() {
		return "usage: " + c.UseLine()
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return c.CommandPath() + " has the commands " + strings.Join(names, ", ")
}

func versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "sandboxd", version) },
	}
}

// configFlags adds --config to all commands.
func configFlags(root *cobra.Command) {
	var file string
	root.PersistentFlags().StringVar(&file, "config", "", "configuration file (default: $SANDBOXD_CONFIG, or none)")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if file == "" {
			return nil
		}
		return os.Setenv("SANDBOXD_CONFIG", file)
	}
}

// overrideFlags adds a flag for each key of config.Overrides to a command:
// sessions.maxMode is --sessions-max-mode.
func overrideFlags(c *cobra.Command) {
	for _, key := range config.Overrides {
		c.PersistentFlags().String(flagName(key), "", "sets "+key+", over "+config.Variable(key)+" and the file")
	}
}

// flagsOf returns the overrides that were given on the command line of c, by key.
func flagsOf(c *cobra.Command) map[string]string {
	out := map[string]string{}
	for _, key := range config.Overrides {
		if f := c.Flag(flagName(key)); f != nil && f.Changed {
			out[key] = f.Value.String()
		}
	}
	return out
}

func flagName(key string) string {
	var b strings.Builder
	for _, r := range key {
		switch {
		case r == '.':
			b.WriteByte('-')
		case unicode.IsUpper(r):
			b.WriteByte('-')
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// flagError returns the message about a wrong flag without the names of Go functions.
func flagError(err error) string {
	var value *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &value) || !errors.As(err, &number) {
		return err.Error()
	}
	what := "is not a number"
	switch {
	case errors.Is(number, strconv.ErrRange):
		what = "is out of range"
	case value.GetFlag().Value.Type() == "bool":
		what = "is neither true nor false"
	}
	return fmt.Sprintf("--%s: %q %s", value.GetFlag().Name, value.GetValue(), what)
}

// agentSocket and operatorSocket return the sockets of the daemon that the environment names.
func agentSocket() string    { return paths.AgentSocket(os.Getenv) }
func operatorSocket() string { return paths.OperatorSocket(os.Getenv) }

// docsCmd returns the command that writes man pages and completions, for packages. make man calls it.
func docsCmd() *cobra.Command {
	c := &cobra.Command{Use: "docs", Short: "Write generated documents", Hidden: true}
	man := &cobra.Command{
		Use: "man DIR", Short: "Write the man pages into a directory", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			epoch := time.Unix(0, 0).UTC() // so that every build writes the same pages
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(
				cmd.Root(), &doc.GenManHeader{Section: "1", Source: "sandboxd " + version, Date: &epoch}, args[0],
			)
		},
	}
	openapi := &cobra.Command{
		Use: "openapi", Short: "Print the OpenAPI document of the HTTP interface", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := daemon.OpenAPI()
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
			}
			return err
		},
	}
	page := &cobra.Command{
		Use: "tools", Short: "Print the page that describes the tools", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), toolsPage())
			return err
		},
	}
	c.AddCommand(man, openapi, page)
	return c
}
