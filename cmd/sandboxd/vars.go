package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/vars"
)

// varsCmd shows and changes the variables of a session.
func varsCmd() *cobra.Command {
	var session string
	c := &cobra.Command{
		Use:   "vars",
		Short: "List, read and write the variables of a session",
		Long: `Results and arguments of calls are kept as variables of their session. Without
--session these commands speak of the session of this directory.`,
	}
	c.PersistentFlags().StringVar(&session, "session", "", "session id (default: the session of this directory)")
	at := func(cmd *cobra.Command, tail string) (*client.Client, string, error) {
		api := client.New(agentSocketPath())
		id, err := sessionID(cmd.Context(), api, session)
		return api, "/sessions/" + url.PathEscape(id) + "/vars" + tail, err
	}
	c.AddCommand(varsListCmd(at), varsGetCmd(at), varsSetCmd(at), varsRemoveCmd(at))
	return c
}

// varsAt is the client and the path of the variables of the session in question.
type varsAt func(cmd *cobra.Command, tail string) (*client.Client, string, error)

func varsListCmd(at varsAt) *cobra.Command {
	var search string
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List variables", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, path, err := at(cmd, "?limit=100&search="+url.QueryEscape(search))
			if err != nil {
				return err
			}
			var found []vars.Var
			if err := api.Do(cmd.Context(), http.MethodGet, path, nil, &found); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), found)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tTYPE\tLENGTH\tDESCRIPTION")
			for _, v := range found {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", safeLine(v.Name), v.Type, v.Length, clip(safeLine(v.Desc), 60))
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&search, "search", "", "only names and descriptions that hold this text")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func varsGetCmd(at varsAt) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Print the value of a variable", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, path, err := at(cmd, "/"+url.PathEscape(args[0]))
			if err != nil {
				return err
			}
			var v vars.Var
			if err := api.Do(cmd.Context(), http.MethodGet, path, nil, &v); err != nil {
				return err
			}
			if v.Value != nil {
				_, err = io.WriteString(cmd.OutOrStdout(), *v.Value)
			}
			return err
		},
	}
}

func varsSetCmd(at varsAt) *cobra.Command {
	var desc string
	var tags []string
	c := &cobra.Command{
		Use: "set NAME VALUE", Short: "Write a variable; - reads the value from stdin", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, path, err := at(cmd, "/"+url.PathEscape(args[0]))
			if err != nil {
				return err
			}
			value := args[1]
			if value == "-" {
				b, err := io.ReadAll(cmd.InOrStdin())
				if err != nil {
					return err
				}
				value = strings.ToValidUTF8(string(b), "\uFFFD")
			}
			text, err := json.Marshal(value)
			if err != nil {
				return err
			}
			in := map[string]any{"value": json.RawMessage(text)}
			if desc != "" {
				in["desc"] = desc
			}
			if len(tags) > 0 {
				in["tags"] = tags
			}
			return api.Do(cmd.Context(), http.MethodPut, path, in, nil)
		},
	}
	c.Flags().StringVar(&desc, "desc", "", "description")
	c.Flags().StringSliceVar(&tags, "tag", nil, "tags")
	return c
}

func varsRemoveCmd(at varsAt) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Short: "Remove variables; rules stay", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, path, err := at(cmd, "/remove")
			if err != nil {
				return err
			}
			var done struct{ Removed, Failed []string }
			if err := api.Do(cmd.Context(), http.MethodPost, path, map[string]any{"names": args}, &done); err != nil {
				return err
			}
			if len(done.Failed) > 0 {
				return fmt.Errorf("not removed, for they are missing or rules: %s", strings.Join(done.Failed, ", "))
			}
			return nil
		},
	}
}
