package main

import (
	"fmt"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// taskLine is what is shown of a task.
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

// tasksCmd shows what agents have to do.
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
