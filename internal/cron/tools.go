package cron

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// one is a tool of this package: what it is, and what it does.
type one struct {
	spec tool.Spec
	run  func(context.Context, tool.In) (tool.Output, error)
}

// Spec implements [tool.Tool].
func (o one) Spec() tool.Spec { return o.spec }

// Uses implements [tool.Tool]. What a run touches is judged when it runs.
func (one) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// Run implements [tool.Tool].
func (o one) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	return o.run(ctx, in)
}

func spec(name, description, schema string, a tool.Annotations) tool.Spec {
	s := tool.Spec{
		Name: name, Description: description, Class: tool.ClassState, Annotations: &a, NoCache: true,
		Schema: json.RawMessage(`{"type":"object",` + schema + `,"additionalProperties":false}`),
	}
	if a.ReadOnly {
		s.Class, s.ReadOnly = tool.ClassRead, true
	}
	return s
}

func (f *feature) group() catalog.Group {
	return catalog.Group{Name: "cron", Tools: []tool.Tool{
		one{spec("CronCreate", "Makes a cron job: a command that Bash runs in this session by the clock, also while "+
			"nobody calls. Each run is judged when it comes, with the rights of the session then. Jobs end with "+
			"the session.",
			`"properties":{
"name":{"type":"string","minLength":1,"description":"what the job is for, in a few words"},
"schedule":{"type":"string","minLength":1,"description":
	"minute, hour, day of month, month, day of week, as in */15 9-17 * * mon-fri, in daemon time; or @daily"},
"command":{"type":"string","minLength":1,"description":"command line for Bash"}},
"required":["name","schedule","command"]`, tool.Annotations{}), f.cronCreate},
		one{spec("CronDelete", "Deletes a cron job of this session. A run that is going on is ended.",
			`"properties":{"id":{"type":"string","description":"id of the job, such as cron_1"}},"required":["id"]`,
			tool.Annotations{Destructive: true}), f.cronDelete},
		one{spec("CronList", "Lists the cron jobs of this session: when each runs next, how its last run ended, and "+
			"what it missed.", `"properties":{}`, tool.Annotations{ReadOnly: true}), f.cronList},
	}}
}

const (
	maxName    = 200       // bytes of a name
	maxCommand = 32 * 1024 // bytes of a command
)

// checkName refuses a name that would not be one line of a list.
func checkName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return bad("name is empty", "say in a few words what the job is for")
	case len(name) > maxName:
		return bad(fmt.Sprintf("name has %d bytes, %d at most", len(name), maxName), "")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return bad("name has a character that is not printed", "a name is one line of text")
	}
	return nil
}

func checkCommand(command string) error {
	switch {
	case strings.TrimSpace(command) == "":
		return bad("command is empty", "")
	case len(command) > maxCommand:
		return bad(fmt.Sprintf("command has %d bytes, %d at most", len(command), maxCommand), "put it into a script")
	case !utf8.ValidString(command) || strings.ContainsRune(command, 0):
		return bad("command is not text", "")
	}
	return nil
}

func bad(msg, hint string) error { return &tool.Error{Code: "invalid_arguments", Msg: msg, Hint: hint} }

func (f *feature) cronCreate(ctx context.Context, in tool.In) (tool.Output, error) {
	args, err := tool.Decode[struct{ Name, Schedule, Command string }](in)
	if err != nil {
		return tool.Output{}, err
	}
	if err := checkName(args.Name); err != nil {
		return tool.Output{}, err
	}
	if err := checkCommand(args.Command); err != nil {
		return tool.Output{}, err
	}
	line, err := ParseLine(args.Schedule)
	if err != nil {
		return tool.Output{}, err
	}
	if in.By == nil {
		return tool.Output{}, bad("no process made this call, so the runs would have nobody's rights", "")
	}
	s, err := f.host.Sessions.Session(ctx, in.Account, in.Session)
	if err != nil {
		return tool.Output{}, err
	}
	now := time.Now()
	j := Job{
		Session: s.ID, Name: args.Name, Schedule: strings.Join(strings.Fields(args.Schedule), " "),
		Command: args.Command, Created: now.UTC().Truncate(time.Millisecond), Next: line.After(now).UTC(),
		account: s.Account, authors: authors(in), sessionCreated: s.Created, maker: makerOf(*in.By),
	}
	if _, err := j.maker.user(s.Account, f.host.Account); err != nil {
		return tool.Output{}, err
	}
	if j, err = f.table.create(ctx, j, *f.config.Load()); err != nil {
		return tool.Output{}, err
	}
	f.wake()
	f.publish(events.CronCreated, j, "", "")
	return tool.Output{Data: j, Text: fmt.Sprintf(`Cron job created: %s "%s"`, j.ID, j.Name)}, nil
}

// authors returns the authors of a job: those of its arguments, and those of the text that its model had seen, as for a
// variable.
func authors(in tool.In) provenance.Authors {
	by := provenance.ByModel | provenance.Of(in.Origins.Session...)
	for _, origins := range in.Origins.Args {
		by |= provenance.Of(origins...)
	}
	return by
}

func (f *feature) cronDelete(ctx context.Context, in tool.In) (tool.Output, error) {
	args, err := tool.Decode[struct{ ID string }](in)
	if err != nil {
		return tool.Output{}, err
	}
	j, err := f.delete(ctx, in.Session, args.ID, "the agent")
	if err != nil {
		return tool.Output{}, err
	}
	return tool.Output{Data: j, Text: fmt.Sprintf(`Cron job deleted: %s "%s"`, j.ID, j.Name)}, nil
}

func (f *feature) cronList(ctx context.Context, in tool.In) (tool.Output, error) {
	all, err := f.table.ofSession(ctx, in.Session)
	if err != nil {
		return tool.Output{}, err
	}
	if len(all) == 0 {
		return tool.Output{Data: map[string]any{"jobs": all}, Text: "No cron jobs found."}, nil
	}
	var lines []string
	var by provenance.Authors
	for _, j := range all {
		lines, by = append(lines, j.line()), by|j.authors
	}
	return tool.Output{Data: map[string]any{"jobs": all}, Text: strings.Join(lines, "\n"), Origin: by.Worst()}, nil
}

// line returns a job as a model reads it.
func (j Job) line() string {
	text := fmt.Sprintf(`[%s] "%s" %s - %s (next %s`, j.ID, j.Name, j.Schedule, j.Command, stamp(j.Next))
	if r := j.Last; r != nil {
		text += fmt.Sprintf("; last %s: %s", stamp(r.At), r.Status)
		for _, more := range []string{r.Code, r.Reason, r.Call} {
			if more != "" {
				text += " " + more
			}
		}
	}
	if m := j.Missed; m != nil {
		text += fmt.Sprintf("; missed %d, the last time because %s", m.Count, m.Reason)
	}
	return text + ")"
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04 -0700") }
