package main

import (
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// agentLine is what is shown of an agent.
type agentLine struct {
	Session string `json:"session_id"`
	Agent   string `json:"agent,omitempty"`
	Parent  string `json:"parent,omitempty"`
	Mode    string `json:"mode"`
	State   string `json:"state"`
	Dir     string `json:"cwd"`
	Used    struct {
		Calls  int   `json:"calls"`
		CPUMS  int64 `json:"cpu_ms"`
		WallMS int64 `json:"wall_ms"`
	} `json:"used"`
}

// agentsCmd shows agents.
func agentsCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "agents", Short: "Show which agents work, and under whom",
		Long: `An agent works in a session. A session whose agent another one started has that as its
parent: it may do at most what its parent may, and ends with it.`,
	}
	c.AddCommand(agentsTreeCmd())
	return c
}

func agentsTreeCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "tree", Short: "Show who runs under whom, in which mode, and what each has used", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []agentLine
			err := client.New(agentSocket()).Do(cmd.Context(), http.MethodGet, "/agents", nil, &all)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "SESSION\tAGENT\tMODE\tSTATE\tCALLS\tCPU\tDIRECTORY")
			depth := map[string]int{}
			for _, a := range all {
				if a.Parent != "" {
					depth[a.Session] = depth[a.Parent] + 1
				}
				visible.Row(w, strings.Repeat("  ", depth[a.Session])+a.Session, a.Agent, a.Mode, a.State,
					fmt.Sprint(a.Used.Calls), (time.Duration(a.Used.CPUMS) * time.Millisecond).String(), a.Dir)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
