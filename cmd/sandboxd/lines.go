package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/policy"
)

// The lines of the record that people read as calls.
const (
	eventEnd     = "end"
	eventExecEnd = "exec_end" // of exec beside a daemon
	eventAsked   = "approval_asked"
)

// callLine is one call as people read it: a line of the record, with what the call
// does. The record holds no arguments, so that is taken from the decision about the
// call, as long as one is kept.
type callLine struct {
	Seq      uint64          `json:"seq"`
	Time     time.Time       `json:"time"`
	Event    string          `json:"event"`
	Account  string          `json:"account,omitempty"`
	Session  string          `json:"session_id,omitempty"`
	Call     string          `json:"call_id,omitempty"`
	Tool     string          `json:"tool"`
	What     string          `json:"what,omitempty"`
	Verdict  string          `json:"verdict,omitempty"`
	Approval *audit.Approval `json:"approval,omitempty"`
	Asked    string          `json:"approval_id,omitempty"` // of a call that waits
	Status   string          `json:"status,omitempty"`
	Code     string          `json:"code,omitempty"`
	Exit     *int            `json:"exit,omitempty"`
	Ended    string          `json:"ended,omitempty"`
	WallMS   *int64          `json:"wall_ms,omitempty"`
	DryRun   bool            `json:"dry_run,omitempty"`
	Role     tool.Role       `json:"role,omitempty"`
}

// explained reports whether an operator asked how a call would be judged, as policy explain
// does, and no agent called.
func (l callLine) explained() bool { return l.DryRun && l.Role == tool.RoleOperator }

// lineOf is the call of a line of the record; false if it is about something else.
func lineOf(e audit.Entry) (callLine, bool) {
	l := callLine{
		Seq: e.Seq, Time: e.Time, Event: e.Event, Account: e.Account, Session: e.Session, Call: e.Call, Tool: e.Tool,
		Verdict: e.Verdict, Approval: e.Approval, Status: e.Status, Code: e.ErrorCode, Exit: e.Exit, Ended: e.Ended,
		DryRun: e.DryRun, Role: tool.Role(e.Role),
	}
	if e.Usage != nil {
		l.WallMS = &e.Usage.WallMS
	}
	switch e.Event {
	case eventEnd:
	case eventExecEnd:
		l.Verdict, l.Status = e.Detail["said_verdict"], e.Detail["said_status"]
		if dir := e.Detail["said_dir"]; dir != "" {
			l.What = "in " + dir // the daemon is not told the command
		}
		if n, err := strconv.Atoi(e.Detail["said_exit"]); err == nil {
			l.Exit = &n
		}
		if n, err := strconv.ParseInt(e.Detail["said_wall_ms"], 10, 64); err == nil {
			l.WallMS = &n
		}
	case eventAsked:
		l.Verdict, l.Asked = "ask", e.Detail["approval"]
	default:
		return l, false
	}
	return l, true
}

// asks finds what calls do.
type asks func(ctx context.Context, callID string) (policy.Record, error)

// fill adds what the call does, where a decision says it.
func (l *callLine) fill(ctx context.Context, find asks) {
	rec, err := find(ctx, l.Call)
	var in struct {
		Params json.RawMessage `json:"params"`
	}
	if err == nil && json.Unmarshal(rec.Input, &in) == nil && in.Params != nil {
		l.What = review.What(in.Params)
	}
}

// verdict is one word for how it was judged, and by whom in the end.
func (l callLine) verdict() string {
	switch {
	case l.Asked != "":
		return "asks"
	case l.Approval == nil || l.Verdict == "deny":
		return cmp.Or(l.Verdict, "-")
	case l.Approval.Approved:
		return "approved"
	case l.Approval.By == "": // nobody answered
		return "ask"
	}
	return "refused"
}

// outcome is one word for what came of it.
func (l callLine) outcome() string {
	switch {
	case l.Asked != "":
		return "waits"
	case l.explained():
		return "explained"
	case l.Code != "":
		return l.Code
	case l.DryRun:
		return "judged"
	case l.Ended != "" && l.Ended != "exited":
		return l.Ended
	case l.Exit != nil:
		return fmt.Sprintf("exit %d", *l.Exit)
	case l.Status == string(tool.StatusSuccess):
		return "ok"
	}
	return strings.ToLower(l.Status)
}

// took is how long the call was, for people.
func (l callLine) took() string {
	if l.WallMS == nil {
		return "-"
	}
	d := time.Duration(*l.WallMS) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// print writes the call: one row, or two where the terminal is narrow. number shows
// the number of the line in the record.
func (l callLine) print(out io.Writer, s review.Screen, number bool) error {
	head := l.Time.Local().Format(time.TimeOnly)
	if number {
		head = fmt.Sprintf("%s %6d", l.Time.Local().Format(time.DateTime), l.Seq)
	}
	verdict, outcome := fmt.Sprintf("%-8s", l.verdict()), visible.Text(l.outcome())
	// Most codes and times fit into these columns together.
	took, gap := fmt.Sprintf("%*s", max(25-utf8.RuneCountInString(outcome), len(l.took())), l.took()), "  "
	room := s.Width - utf8.RuneCountInString(head+verdict+outcome+took) - len("   "+gap)
	if s.Terminal && room < 16 { // what it does comes on a row of its own
		room, gap, took = s.Width-2, "\n  ", l.took()
		head, verdict = l.Time.Local().Format(time.TimeOnly), l.verdict()
		if number {
			head += fmt.Sprintf(" %d", l.Seq)
		}
		outcome = review.Clip(outcome, max(s.Width-len(head+verdict+took)-3, 8))
	}
	switch v := l.verdict(); {
	case l.explained():
	case v == "deny", v == "refused":
		verdict = s.Red(verdict)
	case v == "asks":
		verdict = s.Yellow(verdict)
	}
	if o := l.outcome(); o != "ok" && o != "exit 0" && o != "judged" && o != "explained" {
		outcome = s.Yellow(outcome)
	}
	what, answer := fmt.Sprintf("%-6s %s", visible.Text(l.Tool), visible.Text(l.What)), ""
	if l.Asked != "" {
		answer = "  (sandboxd approvals approve " + l.Asked + ")"
	} else if v := l.verdict(); l.Call != "" && !l.explained() && // for policy explain
		(v == "deny" || v == "refused" || v == "ask") {
		answer = "  " + visible.Text(l.Call)
	}
	if s.Terminal {
		what = review.Clip(what, room)
		answer = strings.Replace(answer, "  ", "\n  ", 1) // whole, for copying
	}
	_, err := fmt.Fprintf(out, "%s %s %s %s%s%s%s\n", s.Dim(head), verdict, outcome, took, gap,
		strings.TrimRight(what, " "), answer)
	return err
}
