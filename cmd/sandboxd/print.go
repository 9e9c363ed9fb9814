package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/policy"
)

// output is the output of a command for people: it writes invisible characters as escapes. [raw] and [results]
// bypass it for everything else.
type output struct {
	io.Writer
	file io.Writer
}

func newOutput(file io.Writer) output { return output{visible.NewWriter(file), file} }

// raw returns the output of a command for text that is known to be visible, and for control sequences of the command
// itself.
func raw(cmd *cobra.Command) io.Writer {
	if o, ok := cmd.OutOrStdout().(output); ok {
		return o.file
	}
	return cmd.OutOrStdout()
}

// results returns the output of a command for the output of programs. A file or a pipe gets the bytes unchanged, a
// terminal gets escapes for what is invisible.
func results(cmd *cobra.Command) io.Writer {
	if onTerminal(cmd) {
		return cmd.OutOrStdout()
	}
	return raw(cmd)
}

// onTerminal reports whether a command prints on a terminal.
func onTerminal(cmd *cobra.Command) bool {
	f, ok := raw(cmd).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// screenOf returns the layout of a command's output.
func screenOf(cmd *cobra.Command) review.Screen {
	if f, ok := raw(cmd).(*os.File); ok {
		return review.ScreenOf(f)
	}
	return review.Screen{Width: 80}
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// The events of the record that end a call.
const (
	eventEnd     = "end"
	eventExecEnd = "exec_end" // of exec beside a daemon
	eventAsked   = "approval_asked"
)

// callLine is a line of the record about one call. The record holds no arguments; they come from the decision about
// the call, as long as that is kept.
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
	Asked    string          `json:"approval_id,omitempty"` // if the call waits for a person
	Status   string          `json:"status,omitempty"`
	Code     string          `json:"code,omitempty"`
	Exit     *int            `json:"exit,omitempty"`
	Ended    string          `json:"ended,omitempty"`
	WallMS   *int64          `json:"wall_ms,omitempty"`
	DryRun   bool            `json:"dry_run,omitempty"`
	Role     tool.Role       `json:"role,omitempty"`
}

// explained reports whether an operator asked with policy explain how a call would be judged. No agent made the
// call.
func (l callLine) explained() bool { return l.DryRun && l.Role == tool.RoleOperator }

// lineOf returns the call that a line of the record is about. It returns false if the line is about something else.
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
			l.What = "in " + dir // the daemon does not know the command
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

// asks returns the decision about a call.
type asks func(ctx context.Context, callID string) (policy.Record, error)

// fill adds what the call does, if its decision is kept.
func (l *callLine) fill(ctx context.Context, find asks) {
	rec, err := find(ctx, l.Call)
	var in struct {
		Params json.RawMessage `json:"params"`
	}
	if err == nil && json.Unmarshal(rec.Input, &in) == nil && in.Params != nil {
		l.What = review.What(in.Params)
	}
}

// verdict returns one word for the decision, or for the answer of the person who was asked.
func (l callLine) verdict() string {
	switch {
	case l.Asked != "":
		return "asks"
	case l.Approval == nil || l.Verdict == "deny":
		return cmp.Or(l.Verdict, "-")
	case l.Approval.Approved:
		return "approved"
	case l.Approval.By == "": // no person answered
		return "ask"
	}
	return "refused"
}

// outcome returns one word for the result.
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

// took returns the duration of the call for people.
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

// print prints the call on one line, or on two if the terminal is narrow. number adds the number of the line in the
// record.
func (l callLine) print(out io.Writer, s review.Screen, number bool) error {
	head := l.Time.Local().Format(time.TimeOnly)
	if number {
		head = fmt.Sprintf("%s %6d", l.Time.Local().Format(time.DateTime), l.Seq)
	}
	verdict, outcome := fmt.Sprintf("%-8s", l.verdict()), visible.Text(l.outcome())
	// Wide enough for most codes and durations together.
	took, gap := fmt.Sprintf("%*s", max(25-utf8.RuneCountInString(outcome), len(l.took())), l.took()), "  "
	room := s.Width - utf8.RuneCountInString(head+verdict+outcome+took) - len("   "+gap)
	if s.Terminal && room < 16 { // what the call does goes to a line of its own
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
	} else if v := l.verdict(); l.Call != "" && !l.explained() && // the id is for policy explain
		(v == "deny" || v == "refused" || v == "ask") {
		answer = "  " + visible.Text(l.Call)
	}
	if s.Terminal {
		what = review.Clip(what, room)
		answer = strings.Replace(answer, "  ", "\n  ", 1) // on one line, so that it can be copied
	}
	_, err := fmt.Fprintf(out, "%s %s %s %s%s%s%s\n", s.Dim(head), verdict, outcome, took, gap,
		strings.TrimRight(what, " "), answer)
	return err
}

// pager prints lines. If a person types and reads on a terminal, it stops after each screen.
type pager struct {
	out, raw io.Writer
	keys     *os.File // nil: it does not stop
	size     func() (columns, rows int)
	used     int // rows printed on this screen
	left     bool
}

func newPager(cmd *cobra.Command) *pager {
	p := &pager{out: cmd.OutOrStdout(), raw: raw(cmd)}
	screen, ok := p.raw.(*os.File)
	if !ok || !onTerminal(cmd) || !term.IsTerminal(int(os.Stdin.Fd())) {
		return p
	}
	p.keys = os.Stdin
	p.size = func() (int, int) {
		columns, rows, err := term.GetSize(int(screen.Fd()))
		if err != nil || columns <= 0 || rows <= 1 {
			return 80, 24
		}
		return columns, rows
	}
	return p
}

// say prints one line. It returns false if the person has left, or the output is closed.
func (p *pager) say(line string) bool {
	if p.left {
		return false
	}
	if p.keys != nil {
		columns, rows := p.size()
		need := 1 + max(0, utf8.RuneCountInString(line)-1)/columns
		if p.used > 0 && p.used+need >= rows && !p.ask() {
			p.left = true
			return false
		}
		p.used += need
	}
	_, err := fmt.Fprintln(p.out, line)
	p.left = err != nil
	return err == nil
}

// ask waits for a key. It returns false if the key means to leave.
func (p *pager) ask() bool {
	old, err := term.MakeRaw(int(p.keys.Fd()))
	if err != nil {
		return true
	}
	fmt.Fprint(p.raw, "-- more: Enter, or q to leave --")
	var key [1]byte
	_, err = p.keys.Read(key[:])
	fmt.Fprint(p.raw, "\r\x1b[K")
	_ = term.Restore(int(p.keys.Fd()), old) // if it fails, the person can reset the terminal
	p.used = 0
	const ctrlC, ctrlD = 3, 4
	return err == nil && key[0] != 'q' && key[0] != ctrlC && key[0] != ctrlD
}

// input is the standard input of a command. On a terminal it first prints that it waits. A read ends with ctx, so
// that an interrupted command does not stay alive.
type input struct {
	ctx  context.Context
	file *os.File
	err  io.Writer
	once sync.Once
}

// Read implements [io.Reader].
func (i *input) Read(p []byte) (int, error) {
	i.once.Do(func() {
		if term.IsTerminal(int(i.file.Fd())) {
			fmt.Fprintln(i.err, "waiting for input on the terminal: Ctrl-D ends it, Ctrl-C leaves")
		}
	})
	type result struct {
		n   int
		err error
	}
	// The read gets a buffer of its own, because after ctx has ended the caller uses p again.
	own := make([]byte, len(p))
	done := make(chan result, 1)
	go func() {
		n, err := i.file.Read(own)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return copy(p, own[:max(r.n, 0)]), r.err
	case <-i.ctx.Done():
		return 0, context.Cause(i.ctx)
	}
}

// printer shows the output of a call while it runs.
type printer struct {
	out, err io.Writer // invisible characters come out as escapes
	shown    bool
	ends     byte // the last byte that was printed
}

// hear handles one event.
func (p *printer) hear(e client.Progress) {
	if e.Output == nil {
		sayWaiting(p.err)(e)
		return
	}
	to := p.out
	if e.Output.Stream == "stderr" {
		to = p.err
	}
	if text := e.Output.Text; text != "" {
		p.shown, p.ends = true, text[len(text)-1]
		_, _ = io.WriteString(to, text)
	}
}

// end removes from a result the output that was printed. It reports whether any is left.
func (p *printer) end(r *tool.Result) bool {
	if !p.shown {
		return true
	}
	if p.ends != '\n' {
		_, _ = io.WriteString(p.out, "\n")
	}
	if r.Error != nil {
		r.Error.Msg, _, _ = strings.Cut(r.Error.Msg, "; until then it wrote\n")
		return true
	}
	data, _ := r.Data.(map[string]any)
	notes, _ := data["notes"].([]any)
	var lines []string
	for _, n := range notes {
		if s, ok := n.(string); ok {
			lines = append(lines, s)
		}
	}
	r.FinalText = strings.Join(lines, "\n")
	return r.FinalText != "" || len(r.SystemMessages) > 0
}
