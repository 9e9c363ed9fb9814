package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// jobsCmd looks after calls that go on when they have been answered.
func jobsCmd() *cobra.Command {
	var session string
	var asJSON bool
	c := &cobra.Command{
		Use: "jobs", Short: "List and use calls that run in the background", Args: cobra.NoArgs,
		Long: `Without a command, lists the jobs of this account: those that run, and those that
ended lately. A job begins with a call such as

  sandboxd call Bash '{"command": "npm run dev", "run_in_background": true}'

and ends by itself, with sandboxd jobs stop, with its session, or with the daemon.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := client.New(agentSocket()).Jobs(cmd.Context(), session)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tSTATE\tSTARTED\tPRINTED\tCOMMAND")
			for _, j := range all {
				command, _, _ := strings.Cut(j.Command, "\n")
				visible.Row(w, j.ID, jobState(j), j.Started.Local().Format(time.DateTime),
					fmt.Sprint(j.Printed), command)
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&session, "session", "", "only those of this session")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(jobsOutputCmd(), jobsInputCmd(), jobsStopCmd(), jobsResizeCmd(), jobsForwardCmd())
	return c
}

// jobState is what became of a job, in a few words.
func jobState(j client.Job) string {
	s := j.State
	if j.By != "" {
		s += " by " + j.By
	}
	if j.ExitCode != nil {
		s += fmt.Sprintf(" (%d)", *j.ExitCode)
	}
	if j.State == "running" && j.Forbidden != "" {
		s += ", forbidden now"
	}
	if j.OutOfReach != "" {
		s += ", ports out of reach"
	}
	return s
}

func jobsOutputCmd() *cobra.Command {
	var follow bool
	var offset int64
	c := &cobra.Command{
		Use: "output JOB", Short: "Print what a job printed, as far as it is kept", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, out := client.New(agentSocket()), results(cmd)
			if onTerminal(cmd) {
				j, err := api.Job(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if j.Terminal { // it draws
					out = visible.NewScreen(raw(cmd))
				}
			}
			if follow {
				j, err := api.FollowJob(cmd.Context(), args[0], offset, func(o client.Output) {
					_, _ = io.WriteString(out, o.Text)
				})
				if err == nil {
					sayJob(cmd.ErrOrStderr(), j)
				}
				return err
			}
			for {
				r, err := api.ReadJob(cmd.Context(), args[0], offset)
				if err != nil {
					return err
				}
				if _, err := io.WriteString(out, r.Output); err != nil {
					return err
				}
				if r.Next <= offset || r.Next >= r.Printed {
					sayJob(cmd.ErrOrStderr(), r.Job)
					return nil
				}
				offset = r.Next
			}
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print what comes until the job ends; Ctrl-C leaves it running")
	c.Flags().Int64Var(&offset, "offset", 0, "begin at this byte")
	return c
}

// sayJob says on stderr what became of a job.
func sayJob(w io.Writer, j client.Job) {
	if j.Withheld {
		fmt.Fprintln(w, "sandboxd: note: what the job prints is withheld until its result is released")
	}
	fmt.Fprintf(w, "sandboxd: job %s: %s\n", j.ID, jobState(j))
}

func jobsInputCmd() *cobra.Command {
	var end, raw bool
	c := &cobra.Command{
		Use: "input JOB [TEXT]", Short: "Type a line into a job", Args: cobra.RangeArgs(1, 2),
		Long: `Sends the text and a line feed to the standard input, or the terminal, of a job. A
TEXT of - is read from stdin and sent as it is.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text := ""
			switch {
			case len(args) == 1:
				if !end {
					return usageError{fmt.Errorf("there is nothing to send: give a TEXT, or --end")}
				}
			case args[1] == "-":
				b, err := io.ReadAll(cmd.InOrStdin())
				if err != nil {
					return err
				}
				text = string(b)
			default:
				text = args[1]
				if !raw {
					text += "\n"
				}
			}
			return client.New(agentSocket()).TypeIntoJob(cmd.Context(), args[0], text, end)
		},
	}
	c.Flags().BoolVar(&end, "end", false, "end the input behind the text")
	c.Flags().BoolVarP(&raw, "no-newline", "n", false, "send the text without a line feed")
	return c
}

func jobsStopCmd() *cobra.Command {
	return &cobra.Command{
		Use: "stop JOB...", Short: "End jobs with everything that they started", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				j, err := client.New(agentSocket()).StopJob(cmd.Context(), id)
				if err != nil {
					return err
				}
				sayJob(cmd.ErrOrStderr(), j)
			}
			return nil
		},
	}
}

func jobsForwardCmd() *cobra.Command {
	at, end := -1, false
	c := &cobra.Command{
		Use: "forward JOB PORT", Short: "Offer a port of a job on the loopback of this host", Args: cobra.ExactArgs(2),
		Long: `Connections to 127.0.0.1 at the port reach what listens there in the session of the
job, until the job ends or --end is given. Only operators may do this, and it is
recorded. Everybody on the host can connect.

An agent has written what answers. Open it in a browser that is logged in nowhere on
127.0.0.1 or localhost, because cookies do not know ports.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			port, err := strconv.Atoi(args[1])
			if err != nil {
				return usageError{fmt.Errorf("PORT %q is no number", args[1])}
			}
			api := client.New(operatorSocket())
			if end {
				return api.EndForward(cmd.Context(), args[0], port)
			}
			if at < 0 {
				at = port
			}
			f, err := api.ForwardJob(cmd.Context(), args[0], port, at)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), f.Address)
			return nil
		},
	}
	c.Flags().IntVar(&at, "at", -1, "the port of this host, 0 for one that is free (default PORT)")
	c.Flags().BoolVar(&end, "end", false, "offer it no longer")
	return c
}

func jobsResizeCmd() *cobra.Command {
	var rows, columns int
	c := &cobra.Command{
		Use: "resize JOB", Short: "Set the size of the terminal of a job", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := map[string]int{"rows": rows, "columns": columns}
			return client.New(agentSocket()).Do(cmd.Context(), http.MethodPost,
				"/jobs/"+url.PathEscape(args[0])+"/resize", in, nil)
		},
	}
	c.Flags().IntVar(&rows, "rows", 24, "from 1 to 1000")
	c.Flags().IntVar(&columns, "columns", 80, "from 1 to 1000")
	return c
}
