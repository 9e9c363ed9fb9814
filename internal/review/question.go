package review

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Field is one fact that a person needs to answer a question.
type Field struct {
	Label  string // "" goes on with the field before
	Text   string // unchanged; the code that shows it must escape it
	Block  bool   // may have any length, and stands below its label
	Marked bool   // a command line with risky [Words]
}

// Heading returns what the question asks.
func Heading(i approvals.Item) string {
	head := map[approvals.Type]string{
		approvals.TypeExecution: "may this call run?",
		approvals.TypeResult:    "may the model see this result?",
		approvals.TypeQuestion:  "the model asks you",
		approvals.TypeChanges:   "may its changes stay?",
	}[i.Type]
	if c := i.Connection; c != nil {
		head = fmt.Sprintf("may it connect to %s, port %d?", c.Host, c.Port)
		if c.Method != "" {
			head = fmt.Sprintf("may it send %s to %s, port %d?", c.Method, c.Host, c.Port)
		}
	}
	return i.Tool + ": " + head
}

// Fields returns everything that a person needs to answer a question, in reading order.
func Fields(i approvals.Item, now time.Time) []Field {
	var f fields
	f.row("id", i.ID)
	f.row("session", i.SessionID)
	if i.Agent != "" {
		f.row("agent", agentOf(i))
	}
	if i.RunsAs != "" {
		f.row("rights", "those of "+i.RunsAs)
	}
	f.row("tool is", Clip(i.Description, 200))
	if c := i.Connection; c != nil {
		f.row("connects", fmt.Sprintf("%s:%d, %s, %s", c.Host, c.Port, c.Protocol, c.Via))
		if c.Method != "" {
			f.row("request", Clip(c.Method+" "+c.Path, 1000))
		}
	}
	f.args(i.Args)
	if i.Type == approvals.TypeResult {
		f.row("status", string(i.ResultState))
		f.block("result", i.Result, false)
	}
	f.changes(i.Changes)
	f.facts(i.Facts)
	var why []string
	for _, r := range i.Why {
		why = append(why, r.Message+" ("+r.Rule+")")
	}
	f.list("why", why)
	f.row("sandbox", stillStops(i.Facts))
	if i.Waiting > 1 {
		what := "equal calls"
		if i.Connection != nil {
			what = "connections"
		}
		f.row("calls", fmt.Sprintf("%d %s wait for this answer", i.Waiting, what))
	}
	if callerGone(i) {
		f.row("calls", Gone)
	}
	switch {
	case i.ExpiresAt.IsZero(): // the question is in no queue
	case i.Status == approvals.StatusPending:
		f.row("waits", timeLeft(i, now)+" more, then it is refused")
	default:
		f.row("answer", fmt.Sprintf("%s by %s: %s", i.Status, cmp.Or(i.DecidedBy, "-"), i.Reason))
	}
	return f
}

// Rule returns the rule that a yes becomes when it is remembered for a scope. For a call, its arguments follow.
func Rule(i approvals.Item, scope string) string {
	where := "session " + i.SessionID
	if scope == approvals.RememberAlways {
		where = "every session of " + cmp.Or(i.Account, "-")
	}
	if i.RunsAs != "" {
		where += " as " + i.RunsAs
	}
	if c := i.Connection; c != nil {
		return fmt.Sprintf("programs may connect to %s in %s, for %s", c.Endpoint, cmp.Or(c.Workspace, "-"), where)
	}
	return fmt.Sprintf("allow %s in %s, for %s, where the arguments are exactly:", i.Tool,
		cmp.Or(i.Facts.Dir, "-"), where)
}

type fields []Field

// row adds a field, unless the text is empty.
func (f *fields) row(label, text string) {
	if text != "" {
		*f = append(*f, Field{Label: label, Text: text})
	}
}

func (f *fields) block(label, text string, marked bool) {
	*f = append(*f, Field{label, text, true, marked})
}

func (f *fields) list(label string, all []string) {
	for _, text := range all {
		f.row(label, text)
		label = ""
	}
}

// args adds the arguments: strings as text, other values as JSON.
func (f *fields) args(raw json.RawMessage) {
	all, err := orderedFields(raw)
	if err != nil {
		f.block("args", string(raw), false)
		return
	}
	for _, one := range all {
		var text string
		if json.Unmarshal(one.value, &text) != nil {
			text = string(one.value)
		}
		f.block(one.name, text, one.name == "command")
	}
}

// changes adds the changes of a call, with the part of the diff that was kept.
func (f *fields) changes(c *tool.Changing) {
	if c == nil {
		return
	}
	for _, x := range c.Changes {
		f.row(string(x.Kind), fmt.Sprintf("%s (%d bytes before, %d after)", x.Path, x.BytesBefore, x.BytesAfter))
	}
	if more := c.Total - len(c.Changes); more > 0 {
		f.row("changes", fmt.Sprintf("and %d more", more))
	}
	if !c.Kept {
		f.row("careful", strings.TrimSuffix("a no does not bring all of it back: "+c.Unkept, ": "))
	}
	f.block("diff", c.Diff, false)
}

func (f *fields) facts(x approvals.Facts) {
	var runs, unclear []string
	for _, c := range x.Commands {
		runs = append(runs, commandLine(c))
	}
	for _, o := range x.Opaque {
		unclear = append(unclear, o.Message)
	}
	f.list("runs", runs)
	f.list("unclear", unclear)
	f.list("reads", x.Reads)
	f.list("writes", x.Writes)
	f.list("hosts", x.Hosts)
	f.list("binds", binds(x))
	f.row("from", origins(x.Origins))
	var in []string
	for _, one := range []struct{ label, value string }{
		{"", x.Dir},
		{"mode ", string(x.Mode)},
		{"profile ", string(x.Profile)},
	} {
		if one.value != "" {
			in = append(in, one.label+one.value)
		}
	}
	f.row("in", strings.Join(in, ", "))
}
