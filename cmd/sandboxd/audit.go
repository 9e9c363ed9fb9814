package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/policy"
)

// auditCmd reads the record from the state directory; no daemon is needed.
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

// printEntry writes one line of the record for people.
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

// writtenWithin is when the decision about a call that has ended is in the database.
const writtenWithin = time.Second

// pause waits; false means that ctx has ended.
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

// recordReader shows the record of a state directory.
type recordReader struct {
	out    io.Writer
	screen review.Screen
	dir    string
}

// decision is what was judged about a call, from the database. That is opened for a
// moment: a daemon may be using it.
func (r recordReader) decision(ctx context.Context, callID string) (rec policy.Record, err error) {
	path := filepath.Join(r.dir, "state.db")
	if _, err := os.Stat(path); err != nil {
		return rec, err // opening would make one
	}
	db, err := store.Open(ctx, store.Options{Path: path})
	if err != nil {
		return rec, err
	}
	rec, err = policy.Kept(ctx, db, "", callID)
	return rec, errors.Join(err, db.Close())
}

// auditPlace is where the record is, for commands that only read it.
func auditPlace() (audit.Options, error) {
	h, err := daemon.Load(version, nil)
	if err != nil {
		return audit.Options{}, err
	}
	return h.AuditOptions(), nil
}
