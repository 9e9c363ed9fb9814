package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/policy"
)

// followEvery is how soon log -f sees a call that has ended.
const followEvery = 250 * time.Millisecond

// logCmd shows calls as they happen.
func logCmd() *cobra.Command {
	var lines int
	var follow, asJSON bool
	c := &cobra.Command{
		Use: "log", Short: "Show the newest calls, or calls as they happen (operator)", Args: cobra.NoArgs,
		Long: `Shows the newest calls of all accounts, the oldest first: when each ended, how it was
judged, what came of it, how long it took, and its command line or file. A call that
waits for a person has a line of its own, with the command that answers. What policy
explain asks is no call, and is in audit tail alone.

The daemon answers, over the operator socket. What a call did is shown as long as
the decision about it is kept (policy.keepDecisions), masked as that is. audit tail
shows the same from the state directory, without a daemon, and everything else that
is recorded.`,
		Example: "  sandboxd log -f",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lines < 1 || lines > mostLines {
				return usageError{fmt.Errorf("-n %d: want 1 to %d", lines, mostLines)}
			}
			l := &calls{api: client.New(operatorSocket()), show: func(c callLine) error {
				if asJSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(c)
				}
				return c.print(cmd.OutOrStdout(), screenOf(cmd), false)
			}}
			if err := l.newest(cmd.Context(), lines); err != nil || !follow {
				return err
			}
			return l.follow(cmd.Context())
		},
	}
	c.Flags().IntVarP(&lines, "lines", "n", 20, "how many calls")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "wait for new calls and show them")
	c.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each")
	return c
}

// mostLines is how many lines of the record the daemon gives at once.
const mostLines = 1000

// calls reads calls from the record of a daemon, each once.
type calls struct {
	api  *client.Client
	show func(callLine) error
	last uint64 // number of the newest line that was read
}

// newest shows the last n calls.
func (l *calls) newest(ctx context.Context, n int) error {
	entries, err := l.read(ctx, min(5*n+20, mostLines)) // other lines are between the calls
	if err != nil {
		return err
	}
	var found []callLine
	for _, e := range entries {
		l.last = e.Seq
		if c, ok := lineOf(e); ok && c.Event != eventAsked && !c.explained() {
			found = append(found, c)
		}
	}
	for _, c := range found[max(0, len(found)-n):] {
		c.fill(ctx, l.decision)
		if err := l.show(c); err != nil {
			return err
		}
	}
	return nil
}

// follow shows calls until ctx ends.
func (l *calls) follow(ctx context.Context) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.since(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// since shows what has come to the record since the last time.
func (l *calls) since(ctx context.Context) error {
	var entries []audit.Entry
	for n := 20; ; n *= 10 {
		var err error
		if entries, err = l.read(ctx, min(n, mostLines)); err != nil {
			return err
		}
		if len(entries) == 0 || entries[0].Seq <= l.last+1 || n >= mostLines {
			break
		}
	}
	for _, e := range entries {
		if e.Seq <= l.last {
			continue
		}
		l.last = e.Seq
		c, ok := lineOf(e)
		if !ok || c.explained() {
			continue
		}
		if c.Event == eventAsked {
			item, err := operatorQueue().Get(ctx, c.Asked)
			if err == nil {
				c.What = review.Summary(item)
			}
		} else {
			c.fill(ctx, l.decision)
		}
		if err := l.show(c); err != nil {
			return err
		}
	}
	return nil
}

func (l *calls) read(ctx context.Context, n int) ([]audit.Entry, error) {
	var entries []audit.Entry
	err := l.api.Do(ctx, http.MethodGet, fmt.Sprintf("/audit?limit=%d", n), nil, &entries)
	return entries, err
}

func (l *calls) decision(ctx context.Context, callID string) (policy.Record, error) {
	var rec policy.Record
	err := l.api.Do(ctx, http.MethodGet, "/decisions/"+url.PathEscape(callID), nil, &rec)
	return rec, err
}
