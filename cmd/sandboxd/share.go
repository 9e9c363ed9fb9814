package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/internal/web"
)

// shareCmd returns the command that creates and revokes links for viewers.
func shareCmd() *cobra.Command {
	var to, passwordFile string
	var hours int
	var asJSON bool
	c := &cobra.Command{
		Use: "share SESSION", Short: "Let others look at a session by a link",
		Long: `Prints a link by which others look at one session on the page of the daemon: its calls,
with secrets masked, as they happen. Who has the link can do nothing else. It ends after
--hours, when it is revoked, or with its session. sandboxd share list says who looked, and
when. The page is off until web.listen says where it listens; docs/web.md says more.`,
		Example: `  sandboxd share ses_… --for Grace --hours 2
  sandboxd share list
  sandboxd share revoke shr_…`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := map[string]any{"for": to, "hours": hours}
			if passwordFile != "" {
				password, err := readPassword(cmd, passwordFile)
				if err != nil {
					return err
				}
				in["password"] = password
			}
			var made web.Shared
			path := "/sessions/" + url.PathEscape(args[0]) + "/shares"
			if err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodPost, path, in, &made); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), made)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), made.URL)
			return err
		},
	}
	c.Flags().StringVar(&to, "for", "", "whom the link is for, which the list shows")
	c.Flags().IntVar(&hours, "hours", 24, "hours that the link works, 1 to 720")
	c.Flags().StringVar(&passwordFile, "password-file", "",
		"file whose first line viewers are asked for, 8 to 256 bytes; - is stdin")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(shareListCmd(), shareRevokeCmd())
	return c
}

// readPassword returns the first line of a file.
func readPassword(cmd *cobra.Command, name string) (string, error) {
	text, err := []byte(nil), error(nil)
	if name == "-" {
		text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), 4<<10))
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", &tool.Error{
			Msg: "the first line of " + name + " is empty", Hint: "without --password-file no password is asked for",
		}
	}
	return line, nil
}

func shareListCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the links, and who looked when", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []web.Share{}
			for {
				var some []web.Share
				path := fmt.Sprintf("/shares?limit=100&offset=%d", len(all))
				if err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodGet, path, nil, &some); err != nil {
					return err
				}
				if all = append(all, some...); len(some) < 100 {
					break
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tSESSION\tFOR\tENDS\tOPEN\tLOOKED")
			for _, x := range all {
				ends := x.Ends.Local().Format(time.DateTime)
				if !x.Ended.IsZero() {
					ends = "ended " + x.Ended.Local().Format(time.DateTime)
				}
				looked := []string{"nobody"}
				for i, l := range x.Looks {
					said := fmt.Sprintf("%s to %s from %s by %s", l.First.Local().Format(time.DateTime),
						l.Last.Local().Format(time.TimeOnly), l.Address, l.Browser)
					if looked = append(looked, said); i == 0 {
						looked = looked[1:]
					}
				}
				for _, one := range looked {
					visible.Row(w, x.ID, x.Session, x.For, ends, fmt.Sprint(x.Open), one)
				}
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func shareRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a link, and what is open on it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/shares/" + url.PathEscape(args[0])
			err := client.New(operatorSocket()).Do(cmd.Context(), http.MethodDelete, path, nil, nil)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s ended\n", args[0])
			}
			return err
		},
	}
}
