package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
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
					err = printJSON(cmd.OutOrStdout(), e)
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

// printConnection writes one line: when, what was decided, where, by which rule, for which call.
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

// connectionTo reads HOST or HOST:PORT. What a port carries is as the daemon takes it.
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
