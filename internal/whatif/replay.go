package whatif

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/replay"
)

// shownFlips is how many calls are named unless all are wanted.
const shownFlips = 20

// Recorded opens the decisions that a daemon keeps. Close the database.
type Recorded func(context.Context) (policy.Records, error)

// Replay judges recorded calls by the policies of o.
func Replay(ctx context.Context, o policy.Options, since time.Time, recorded Recorded) (replay.Report, error) {
	now, err := judgeOf(ctx, o)
	if err != nil {
		return replay.Report{}, err
	}
	records, err := recorded(ctx)
	if err != nil {
		return replay.Report{}, err
	}
	defer records.DB.Close()
	return replay.Run{Now: now, Since: since}.Of(ctx, records)
}

// Suggest proposes rules for questions that people answered alike, at least so many of them.
func Suggest(ctx context.Context, o policy.Options, least int, since time.Time, recorded Recorded) (
	replay.Suggested, error,
) {
	records, err := recorded(ctx)
	if err != nil {
		return replay.Suggested{}, err
	}
	defer records.DB.Close()
	return replay.Suggest{Least: least, Since: since, Options: o}.Of(ctx, records)
}

// Difference is how two sets of policies differ.
type Difference struct {
	policy.Changes
	Replay *replay.Report `json:"replay,omitempty"`
	Note   string         `json:"note,omitempty"` // why no recorded call was compared
}

// Compare judges recorded calls by the policies of both. Without records it leaves a Note.
func (d *Difference) Compare(ctx context.Context, a, b policy.Options, since time.Time, recorded Recorded) error {
	records, err := recorded(ctx)
	if err != nil {
		var said *tool.Error
		if errors.As(err, &said) {
			d.Note = said.Msg
			return nil
		}
		return err
	}
	defer records.DB.Close()
	was, err := judgeOf(ctx, a)
	if err != nil {
		return err
	}
	now, err := judgeOf(ctx, b)
	if err != nil {
		return err
	}
	report, err := replay.Run{Was: &was, Now: now, Since: since}.Of(ctx, records)
	d.Replay = &report
	return err
}

func judgeOf(ctx context.Context, o policy.Options) (policy.Judge, error) {
	e, err := policy.New(ctx, o)
	if err != nil {
		return policy.Judge{}, err
	}
	return e.Judge(), nil
}

// Print writes the difference for people.
func (d Difference) Print(w io.Writer, all bool) {
	if d.None() {
		fmt.Fprintln(w, "no rule and no setting differs")
	}
	for _, s := range d.Settings {
		fmt.Fprintln(w, s)
	}
	for _, p := range d.Packages {
		fmt.Fprintf(w, "%s %s\n", p.Change, p.Package)
		for _, r := range p.Rules {
			fmt.Fprintf(w, "  %-7s %s: %s (%s)\n", r.Change, r.Rule, r.What, r.At)
		}
	}
	if d.Replay == nil {
		fmt.Fprintf(w, "no recorded call was compared: %s\n", d.Note)
		return
	}
	PrintReplay(w, *d.Replay, "judged alike", all)
}

// PrintReplay writes a report for people. Same says how calls that do not flip are judged.
func PrintReplay(w io.Writer, r replay.Report, same string, all bool) {
	fmt.Fprintf(w, "%s judged by revision %s: %s %s", plural(r.Calls, "recorded call"), r.Now,
		plural(r.Calls-r.Looser-r.Tighter, "call"), same)
	fmt.Fprintf(w, ", %d stricter, %d looser\n", r.Tighter, r.Looser)
	for _, c := range r.Rules {
		fmt.Fprintf(w, "%7d  %-5s -> %-5s  %s\n", c.Calls, c.Was, c.Now, c.Rule)
	}
	for i, f := range r.Flips {
		if i == 0 {
			fmt.Fprintln(w)
		}
		if i == shownFlips && !all {
			fmt.Fprintf(w, "… and %d more; --all names them\n", len(r.Flips)-i)
			break
		}
		fmt.Fprintf(w, "%s  %s  %-5s -> %-5s  %s  %s\n", f.At.Local().Format(time.DateTime), f.CallID, f.Was.Verdict,
			f.Now.Verdict, f.Tool, oneLine(f.What))
	}
	for i, u := range r.Unknown {
		if i == 0 {
			fmt.Fprintln(w, "\nnot judged again, because the answer would be a guess:")
		}
		fmt.Fprintf(w, "%7d  %s\n", u.Calls, u.Why)
	}
	if r.Questions > 0 {
		fmt.Fprintf(w, "left out: %s, which nobody ran\n", plural(r.Questions, "dry run"))
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine returns a text on one line, cut where it is long.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 100 {
		return string(r[:99]) + "…"
	}
	return s
}
