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

// jobsCmd returns the command for jobs: calls that go on after their answer.
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

// jobState returns the state of a job in a few words.
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
				if j.Terminal { // a program on a terminal draws, so its output is no text
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

// sayJob writes to w how a job ended.
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

// cronLine holds the fields of a cron job that are shown.
type cronLine struct {
	ID       string      `json:"id"`
	Session  string      `json:"session_id"`
	Name     string      `json:"name"`
	Schedule string      `json:"schedule"`
	Command  string      `json:"command"`
	Created  time.Time   `json:"created_at"`
	Next     time.Time   `json:"next_at"`
	Last     *cronRun    `json:"last,omitempty"`
	Missed   *cronMissed `json:"missed,omitempty"`
}

type cronRun struct {
	At     time.Time `json:"at"`
	Status string    `json:"status"`
	Call   string    `json:"call_id,omitempty"`
	Code   string    `json:"code,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

type cronMissed struct {
	Count  int       `json:"count"`
	Last   time.Time `json:"last_at"`
	Reason string    `json:"reason"`
}

// cronCmd returns the command for cron jobs.
func cronCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "cron", Short: "List and delete commands that sessions run by the clock",
		Long: `Agents make cron jobs with CronCreate:

  sandboxd call CronCreate '{"name": "tests", "schedule": "0 * * * *", "command": "make test"}'

Each run is a call of Bash in the session that made the job, with what that may do then. A job
ends with its session.`,
	}
	var operator bool
	c.PersistentFlags().BoolVar(&operator, "operator", false, "use the operator socket: jobs of every account")
	c.AddCommand(cronListCmd(&operator), cronDeleteCmd(&operator))
	return c
}

func cronListCmd(operator *bool) *cobra.Command {
	var session string
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List cron jobs, with when they run and how the last run ended",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/cron"
			if session != "" {
				path = sessionPath(session, "/cron")
			}
			var all []cronLine
			if err := cronAPI(*operator).Do(cmd.Context(), http.MethodGet, path, nil, &all); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "SESSION\tID\tSCHEDULE\tNEXT\tLAST\tMISSED\tNAME\tCOMMAND")
			for _, j := range all {
				last, missed := "", ""
				if j.Last != nil {
					last = strings.TrimSpace(j.Last.Status + " " + j.Last.Code)
				}
				if j.Missed != nil {
					missed = fmt.Sprint(j.Missed.Count)
				}
				command, _, _ := strings.Cut(j.Command, "\n")
				visible.Row(w, j.Session, j.ID, j.Schedule, j.Next.Local().Format(time.DateTime), last, missed, j.Name,
					command)
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&session, "session", "", "only those of this session")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func cronDeleteCmd(operator *bool) *cobra.Command {
	var session string
	c := &cobra.Command{
		Use: "delete ID", Aliases: []string{"rm"}, Short: "Delete a cron job, and end its run",
		Args: cobra.ExactArgs(1),
		Long: `Without --session this is a job of the session of this directory.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			api := cronAPI(*operator)
			if session == "" {
				var err error
				if session, err = sessionID(cmd.Context(), client.New(agentSocket()), ""); err != nil {
					return err
				}
			}
			path := sessionPath(session, "/cron/"+url.PathEscape(args[0]))
			return api.Do(cmd.Context(), http.MethodDelete, path, nil, nil)
		},
	}
	c.Flags().StringVar(&session, "session", "", "the session of an agent (default that of this directory)")
	return c
}

// cronAPI returns a client of the operator socket or of the agent socket.
func cronAPI(operator bool) *client.Client {
	if operator {
		return client.New(operatorSocket())
	}
	return client.New(agentSocket())
}

// taskLine holds the fields of a task that are shown.
type taskLine struct {
	ID        string            `json:"id"`
	Subject   string            `json:"subject"`
	Text      string            `json:"description,omitempty"`
	Status    string            `json:"status"`
	Owner     string            `json:"owner,omitempty"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	Output    string            `json:"output,omitempty"`
	BlockedBy []string          `json:"blocked_by,omitempty"`
	Blocks    []string          `json:"blocks,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// tasksCmd returns the command that lists the tasks of agents.
func tasksCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "tasks", Short: "Show what the agents of a session have to do",
		Long: `Tasks are shared by all agents of a tree of sessions. Agents make and change them with
TaskCreate and TaskUpdate.

Without --session these commands use the session of this directory.`,
	}
	c.AddCommand(tasksListCmd())
	return c
}

func tasksListCmd() *cobra.Command {
	var session string
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tasks, by number", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api := client.New(agentSocket())
			session, err := sessionID(cmd.Context(), api, session)
			if err != nil {
				return err
			}
			all := []taskLine{}
			for offset := 0; ; {
				var some []taskLine
				path := fmt.Sprintf("%s?limit=100&offset=%d", sessionPath(session, "/tasks"), offset)
				if err := api.Do(cmd.Context(), http.MethodGet, path, nil, &some); err != nil {
					return err
				}
				all = append(all, some...)
				if offset += len(some); len(some) < 100 {
					break
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tSTATUS\tOWNER\tCHANGED\tSUBJECT")
			for _, t := range all {
				visible.Row(w, t.ID, t.Status, t.Owner, t.UpdatedAt.Local().Format(time.DateTime), t.Subject)
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&session, "session", "", "the session of an agent (default that of this directory)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
