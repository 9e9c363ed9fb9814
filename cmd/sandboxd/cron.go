package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// cronLine is what is shown of a cron job.
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

// cronCmd looks after commands that run by the clock.
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

// cronAPI is the daemon as an operator, or as an agent, sees it.
func cronAPI(operator bool) *client.Client {
	if operator {
		return client.New(operatorSocket())
	}
	return client.New(agentSocket())
}
