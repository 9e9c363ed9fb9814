package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/secrets"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/internal/web"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

func networkCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "network", Short: "See what programs connect to, and why",
		Long: `Programs in the sandbox connect to the hosts of sandbox.network. The answer of each call,
and its record, say what it connected to.`,
	}
	c.AddCommand(networkTailCmd(), networkExplainCmd(), networkSecretsCmd())
	return c
}

func networkTailCmd() *cobra.Command {
	var sessions []string
	var asJSON bool
	c := &cobra.Command{
		Use: "tail", Short: "Show connections as they are decided, and what they carried when their call has ended",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := client.EventFilter{Types: []string{"connection"}, Sessions: sessions}
			events, err := client.New(operatorSocket()).Events(cmd.Context(), f)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "waiting for connections; Ctrl-C ends")
			for e, err := range events {
				if errors.Is(err, context.Canceled) {
					return nil
				}
				if err == nil && asJSON {
					err = json.NewEncoder(cmd.OutOrStdout()).Encode(e)
				} else if err == nil {
					printConnection(cmd.OutOrStdout(), e)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&sessions, "session", nil, "only of this session")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one event in a line")
	return c
}

// printConnection prints one line about a connection: time, verdict, destination, rule and call.
func printConnection(out io.Writer, e client.Event) {
	if e.Connection == nil {
		fmt.Fprintf(out, "%d events were lost\n", e.Dropped)
		return
	}
	r := e.Connection
	what := r.Via + ", " + cmp.Or(r.Rule, "-")
	if e.Status == "ended" {
		what = fmt.Sprintf("%s, %d times, %d bytes in, %d bytes out", r.Verdict, r.Count, r.BytesIn, r.BytesOut)
	}
	at, when := net.JoinHostPort(r.Host, strconv.Itoa(r.Port)), e.Time.Local().Format(time.TimeOnly)
	line := fmt.Sprintf("%s  %-5s  %s  %s, %s  (%s %s)", when, e.Status, at, r.Protocol, what, e.Tool, e.Call)
	fmt.Fprintln(out, visible.Text(line))
}

func networkExplainCmd() *cobra.Command {
	var f policyFlags
	var p policyCall
	var asJSON bool
	c := &cobra.Command{
		Use: "explain HOST[:PORT]", Short: "Say whether a program may connect to a host, and which rule decides",
		Long: `Judges a connection as the daemon does while a call runs, by the configuration and the
policies of this user. Without a port it is 443. Nothing is connected, and nobody is asked.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := connectionTo(args[0])
			if err != nil {
				return usageError{err}
			}
			judge, err := p.offline(cmd, &f, nil)
			if err != nil {
				return err
			}
			defer judge.Close()
			x, err := policy.NewExample(cmp.Or(p.command, "true"))
			if err != nil {
				return err
			}
			x.Mode = p.mode
			d, at, err := judge.Connection(cmd.Context(), x, conn)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), d)
			}
			policy.PrintDecision(cmd.OutOrStdout(), d, "")
			if d.Verdict == tool.Ask {
				fmt.Fprintln(cmd.OutOrStdout(), "  a person is asked when a program connects")
			}
			if at != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "  network.hosts: it is at %s\n", at)
			}
			return nil
		},
	}
	f.add(c)
	p.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// connectionTo parses HOST or HOST:PORT. It guesses the protocol from the port as the daemon does.
func connectionTo(text string) (egress.Connection, error) {
	c := egress.Connection{Port: 443, Protocol: egress.ProtocolTCP, Via: egress.ViaTransparent}
	name := text
	if host, port, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return c, fmt.Errorf("%q: the port is a number from 1 to 65535", text)
		}
		name, c.Port = host, int(n)
	}
	var err error
	if c.Host, err = guard.CanonicalHost(strings.Trim(name, "[]")); err != nil {
		return c, fmt.Errorf("%q: %w", text, err)
	}
	switch c.Port {
	case 443:
		c.Protocol = egress.ProtocolTLS
	case 80:
		c.Protocol, c.Method, c.Path = egress.ProtocolHTTP, "GET", "/"
	}
	return c, nil
}

// secretShown is what is shown of a secret: everything except its value.
type secretShown struct {
	Host   string `json:"host"`
	Header string `json:"header"`
	Source string `json:"source"` // file, credential or command
	Name   string `json:"name"`   // name of the file, the credential or the program
	Error  string `json:"error,omitempty"`
}

func networkSecretsCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "secrets", Short: "List the secrets that requests get, and whether each can be read",
		Long: `Reads each secret of network.secrets as the daemon does when a request needs it, runs the
programs that print one, and says what is wrong. No value is shown. Credentials of systemd are
in the daemon's unit alone.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			site, err := daemon.LoadFile(version, "", flagsOf(cmd))
			if err != nil {
				return err
			}
			reader := &secrets.Reader{Stderr: cmd.ErrOrStderr()}
			list := []secretShown{}
			for _, s := range site.Config.Sandbox.Network.Secrets {
				show := secretShown{Host: s.Host, Header: s.Name(), Source: s.Source(), Name: nameOf(s)}
				if _, err := reader.Value(cmd.Context(), s); err != nil {
					show.Error = err.Error()
				}
				list = append(list, show)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "HOST\tHEADER\tSOURCE\tSTATE")
			for _, s := range list {
				visible.Row(t, s.Host, s.Header, s.Source+" "+s.Name, cmp.Or(s.Error, "ready"))
			}
			return t.Flush()
		},
	}
	overrideFlags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func nameOf(s guard.Secret) string {
	if len(s.Command) > 0 {
		return s.Command[0]
	}
	return cmp.Or(s.File, s.Credential)
}

// webCmd returns the command that creates a link for a login to the page.
func webCmd() *cobra.Command {
	var as string
	var asJSON, open bool
	c := &cobra.Command{
		Use: "web", Short: "Print a link to the page on which people answer and watch",
		Long: `Print a link that logs in once, within a minute, on the page of the daemon. The page
is off until web.listen says where it listens, such as 127.0.0.1:3456; docs/web.md says
what it shows.`,
		Example: "  sandboxd web --as Ada --open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var made web.Link
			in := map[string]string{"as": cmp.Or(as, os.Getenv("USER"))}
			if err := client.New(operatorSocket()).Do(cmd.Context(), "POST", "/web/links", in, &made); err != nil {
				return err
			}
			if open {
				show := exec.CommandContext(cmd.Context(), "xdg-open", made.URL)
				show.Stderr = cmd.ErrOrStderr()
				if err := show.Run(); err != nil {
					return fmt.Errorf("open the link: %w", err)
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), made)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), made.URL)
			return err
		},
	}
	c.Flags().StringVar(&as, "as", "", "name of the person, which answers carry (default: $USER)")
	c.Flags().BoolVar(&open, "open", false, "open it in a browser, by xdg-open")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
