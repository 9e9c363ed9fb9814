package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/policy"
)

// followEvery is the time between two looks of log -f at the record.
const followEvery = 250 * time.Millisecond

// logCmd returns the command that shows calls as they end.
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

// mostLines is the number of lines of the record that the daemon returns at most in one answer.
const mostLines = 1000

// calls reads calls from the record of a daemon. It returns each call once.
type calls struct {
	api  *client.Client
	show func(callLine) error
	last uint64 // number of the last line that was read
}

// newest shows the last n calls.
func (l *calls) newest(ctx context.Context, n int) error {
	entries, err := l.read(ctx, min(5*n+20, mostLines)) // the record has other lines between the calls
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

// follow shows new calls until ctx ends, which is no error.
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

// since shows the calls that were added to the record since the last read.
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

// auditCmd returns the command that reads the record in the state directory. It needs no daemon.
func auditCmd(place func() (audit.Options, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show and check the record of every call and decision",
	}
	cmd.AddCommand(auditTailCmd(place), auditVerifyCmd(place), auditAcceptCmd())
	return cmd
}

func auditTailCmd(place func() (audit.Options, error)) *cobra.Command {
	var lines int
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the newest lines",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := place()
			if err != nil {
				return err
			}
			r := recordReader{cmd.OutOrStdout(), screenOf(cmd), o.Dir}
			show := func(line []byte) error { return r.printEntry(cmd.Context(), line) }
			if asJSON {
				show = func(line []byte) error { _, err := results(cmd).Write(line); return err }
			}
			err = audit.Tail(cmd.Context(), o.Path(), lines, follow, show)
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("no record in %q yet", o.Dir)
			}
			return err
		},
	}
	cmd.Flags().IntVarP(&lines, "lines", "n", 20, "how many lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for new lines and print them")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the lines as they are recorded")
	return cmd
}

// printEntry prints one line of the record for people.
func (r recordReader) printEntry(ctx context.Context, line []byte) error {
	var e audit.Entry
	if err := json.Unmarshal(line, &e); err != nil {
		_, err := fmt.Fprintf(r.out, "(not a line of the log: %d bytes)\n", len(line))
		return err
	}
	if c, ok := lineOf(e); ok && c.Event != eventAsked {
		for c.fill(ctx, r.decision); c.What == "" && time.Since(c.Time) < writtenWithin; c.fill(ctx, r.decision) {
			if !pause(ctx, followEvery) {
				break
			}
		}
		return c.print(r.out, r.screen, true)
	}
	words := []string{e.Event, e.Tool}
	if a := e.Approval; a != nil {
		answer := "refused"
		if a.Approved {
			answer = "approved"
		}
		words = append(words, answer+" by "+a.By)
	}
	words = append(words, e.Detail["approval"], e.Call, joined(e.Message))
	var shown []string
	for _, word := range words {
		if word != "" {
			shown = append(shown, visible.Text(word))
		}
	}
	head := fmt.Sprintf("%s %6d", e.Time.Local().Format(time.DateTime), e.Seq)
	text := strings.Join(shown, "  ")
	if r.screen.Terminal {
		text = review.Clip(text, max(r.screen.Width-len(head)-1, 20))
	}
	_, err := fmt.Fprintf(r.out, "%s %s\n", r.screen.Dim(head), text)
	return err
}

// writtenWithin is the time after the end of a call within which its decision is in the database.
const writtenWithin = time.Second

// pause waits for d. It returns false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// recordReader reads the record of a state directory.
type recordReader struct {
	out    io.Writer
	screen review.Screen
	dir    string
}

// decision reads the decision about a call from the database. It opens the database for this read only, because a
// daemon may be using it.
func (r recordReader) decision(ctx context.Context, callID string) (rec policy.Record, err error) {
	path := filepath.Join(r.dir, "state.db")
	if _, err := os.Stat(path); err != nil {
		return rec, err // opening a missing database would create it
	}
	db, err := store.Open(ctx, store.Options{Path: path})
	if err != nil {
		return rec, err
	}
	rec, err = policy.Kept(ctx, db, "", callID)
	return rec, errors.Join(err, db.Close())
}

// auditPlace returns where the record is, for commands that only read it.
func auditPlace() (audit.Options, error) {
	h, err := daemon.Load(version, nil)
	if err != nil {
		return audit.Options{}, err
	}
	return h.AuditOptions(), nil
}

func auditVerifyCmd(place func() (audit.Options, error)) *cobra.Command {
	var asJSON bool
	var anchor string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that nobody changed the record",
		Long: `Checks every line against its hash, the line before it and the signed checkpoints,
and the whole against the database, the head beside the key and the anchor. It
names the first bad line. A crash can cut the last line short. That is reported
and is no failure: the daemon accounts for it when it starts.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := place()
			if err != nil {
				return err
			}
			if anchor != "" {
				if _, err := os.Stat(anchor); err != nil {
					return fmt.Errorf("read the anchor: %w", err)
				}
				o.Anchor.File = anchor
			}
			rep, err := audit.Verify(cmd.Context(), o, audit.MirrorAt(filepath.Join(o.Dir, "state.db")))
			if err != nil {
				return err
			}
			if err := printReport(cmd.OutOrStdout(), rep, asJSON); err != nil {
				return err
			}
			if rep.Bad != nil {
				return fmt.Errorf("audit %v", rep.Bad)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	cmd.Flags().StringVar(&anchor, "anchor", "",
		"file with a head that an anchor has kept, in place of the configured one")
	return cmd
}

func auditAcceptCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Begin again after a file of the record was lost",
		Long: `Makes a record usable again that the daemon refuses: a file of it was lost, moved
away or restored from an older copy. Lines that are in order are continued; a log
that is not is moved aside. What did not fit, what was known of the lines that are
gone, the reason and your uid become a line of the record, which audit verify shows
from then on. The daemon must not run. A database that is damaged has to be moved
away first.`,
		Example: `  sandboxd audit accept --reason "restored from the backup of Monday"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := daemon.Load(version, nil)
			if err != nil {
				return err
			}
			a, err := h.AcceptRecord(cmd.Context(), reason)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "accepted, and recorded in line %d: %s\n", a.Line, a.Problem)
			if a.Moved != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "the log before is in %s\n", a.Moved)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever reads the record (required)")
	_ = cmd.MarkFlagRequired("reason") // the flag exists
	return cmd
}

func printReport(w io.Writer, rep audit.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(rep)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "good lines\t%d\n", rep.Lines)
	fmt.Fprintf(t, "signed checkpoints\t%d\n", rep.Checkpoints)
	fmt.Fprintf(t, "known to the database\t%d\n", rep.Mirrored)
	fmt.Fprintf(t, "known beside the key\t%d\n", rep.Kept)
	if rep.Anchored > 0 {
		fmt.Fprintf(t, "known to the anchor\t%d\n", rep.Anchored)
	}
	for _, a := range rep.Accepted {
		fmt.Fprintf(t, "accepted in line %d\t%s by %s: %s (%s)\n", a.Line, a.Time.Local().Format(time.DateTime),
			visible.Text(a.By), visible.Text(a.Reason), visible.Text(a.Problem))
	}
	if rep.TornBytes > 0 {
		fmt.Fprintf(t, "torn by a crash\t%d bytes of line %d\n", rep.TornBytes, rep.Lines+1)
	}
	return t.Flush()
}
