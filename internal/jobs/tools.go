package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Group returns the tools of a model's own jobs. Without jobs they can only be described.
func (js *Jobs) Group() catalog.Group {
	return catalog.Group{Name: "jobs", Tools: []tool.Tool{
		taskInput{js}, bashOutput{js}, killShell{js}, writeStdin{js},
	}, RulePrompt: func([]string) string {
		return "Start servers and long work with Bash and run_in_background; later commands of the session reach its " +
			"ports. TaskOutput reads what a job printed, TaskStop ends it. Jobs end with the session."
	}}
}

// own returns the job that a tool names, of its session.
func (js *Jobs) own(in tool.In, id string) (*Job, error) {
	return js.Find(Caller{Account: in.Account, Session: in.Session}, id)
}

func spec(name, description, properties, required string) tool.Spec {
	return tool.Spec{
		Name: name, Description: description, Class: tool.ClassState,
		Schema: json.RawMessage(`{"type":"object","properties":{` + properties + `}` + required +
			`,"additionalProperties":false}`),
		OutputLimit: outputLimit, Annotations: &tool.Annotations{},
	}
}

func reading(s tool.Spec) tool.Spec {
	s.Class, s.ReadOnly = tool.ClassRead, true
	s.Annotations = &tool.Annotations{ReadOnly: true}
	return s
}

// outputLimit is how much of the output of a job a model is shown at once.
const outputLimit = 30_000

const taskID = `"task_id":{"type":"string","description":"the job_id of the job"},
"id":{"type":"string","description":"the same; give one of them"}`

// named is the job that two fields name, of which exactly one is given.
type named struct {
	TaskID string `json:"task_id"`
	ID     string `json:"id"`
}

func (n named) one() (string, error) {
	if (n.TaskID == "") == (n.ID == "") {
		return "", &tool.Error{
			Code: "invalid_arguments", Msg: "exactly one of task_id and id is needed",
			Hint: "both mean the job_id that the call answered which began the job",
		}
	}
	return n.TaskID + n.ID, nil
}

// ownNamed returns the job of the session that two fields name.
func (js *Jobs) ownNamed(in tool.In, n named) (*Job, error) {
	id, err := n.one()
	if err != nil {
		return nil, err
	}
	return js.own(in, id)
}

// report is what a model is told of a job.
type report struct {
	Info
	Output string `json:"output"`
	Offset int64  `json:"offset"` // of the output
	Next   int64  `json:"next_offset"`

	note string
}

// text returns the report as a model reads it.
func (r report) text() string {
	var b strings.Builder
	b.WriteString(r.line())
	if r.note != "" {
		b.WriteString("\n" + r.note)
	}
	if r.Output != "" {
		b.WriteString("\n" + r.Output)
	}
	return b.String()
}

// line says in one line what became of a job.
func (i Info) line() string {
	s := fmt.Sprintf("%s %s", i.ID, i.State)
	if i.By != "" {
		s += " by " + i.By
	}
	if i.ExitCode != nil {
		s += fmt.Sprintf(", exit code %d", *i.ExitCode)
	}
	if i.Signal != "" {
		s += ", " + i.Signal
	}
	if i.Error != "" {
		s += ": " + i.Error
	}
	if i.OutOfReach != "" {
		s += "; its ports are out of reach: " + i.OutOfReach
	}
	return s
}

// readBytes is how much output one answer holds at most; its model sees less of it.
const readBytes = 256 << 10

// report reads the output from an offset on. The end of a character that is cut is left for
// the next read.
func (j *Job) report(from int64) (report, error) {
	r := report{Info: j.Info()}
	if r.Withheld {
		r.note = "[what it printed is withheld until its result is released]"
		if r.State != Running {
			r.note = "[what it printed was not released]"
		}
		return r, nil
	}
	text, at, next, err := j.text(from, r.State != Running)
	if err != nil {
		return r, err
	}
	if at > from {
		r.note = fmt.Sprintf("[%d bytes before this are no longer kept]", at-from)
	}
	if at == from && from > 0 && from != j.lastRead() { // who reads on knows it
		r.note = fmt.Sprintf("[from byte %d on]", from)
	}
	r.Output, r.Offset, r.Next, r.Origin = text, at, next, j.Info().Origin // as it was named before the text came
	return r, nil
}

// shown is a report as an answer. Its author is the one that the tool of an ended job named, such as that of an agent.
func shown(r report) tool.Output { return tool.Output{Data: r, Text: r.text(), Origin: r.Origin} }

// await waits for the end of a job, but no longer than most.
func (j *Job) await(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	select {
	case <-j.done:
	case <-ctx.Done():
	}
}

// taskJobs are the jobs of a session for the tools of tasks, which take the ids of both.
type taskJobs struct{ jobs *Jobs }

var _ part.TaskJobs = taskJobs{}

const (
	waitTime    = 30 * time.Second
	maxWaitTime = 10 * time.Minute
)

// Output implements [part.TaskJobs]: what became of a job, and what it printed.
func (t taskJobs) Output(ctx context.Context, in tool.In) (tool.Output, error) {
	args, err := tool.Decode[struct {
		named
		Block   bool   `json:"block"`
		Timeout *int64 `json:"timeout"`
		Offset  *int64 `json:"offset"`
	}](in)
	if err != nil {
		return tool.Output{}, err
	}
	j, err := t.jobs.ownNamed(in, args.named)
	if err != nil {
		return tool.Output{}, err
	}
	if args.Block {
		wait := waitTime
		if args.Timeout != nil {
			wait = min(time.Duration(*args.Timeout)*time.Millisecond, maxWaitTime)
		}
		defer tool.YieldSlot(ctx)()
		j.await(ctx, wait)
	}
	from := max(0, j.out.written()-readBytes)
	if args.Offset != nil {
		from = *args.Offset
	}
	r, err := j.report(from)
	if err != nil {
		return tool.Output{}, err
	}
	j.read(r.Next)
	return shown(r), nil
}

// Stop implements [part.TaskJobs].
func (t taskJobs) Stop(ctx context.Context, in tool.In) (tool.Output, error) {
	args, err := tool.Decode[named](in)
	if err != nil {
		return tool.Output{}, err
	}
	j, err := t.jobs.ownNamed(in, args)
	return stop(ctx, j, err)
}

// stop ends a job that was found.
func stop(ctx context.Context, j *Job, err error) (tool.Output, error) {
	if err != nil {
		return tool.Output{}, err
	}
	info, err := j.Stop(ctx, "the agent")
	return tool.Output{Data: info, Text: info.line()}, err
}

// List implements [part.TaskJobs].
func (t taskJobs) List(in tool.In) (any, []string) {
	all := t.jobs.List(Caller{Account: in.Account, Session: in.Session})
	var lines []string
	for _, info := range all {
		lines = append(lines, info.line()+"  "+oneLine(info.Command))
	}
	return all, lines
}

func oneLine(command string) string {
	first, _, more := strings.Cut(command, "\n")
	if more {
		first += " …"
	}
	return first
}

// taskInput types into a job.
type taskInput struct{ jobs *Jobs }

func (taskInput) Spec() tool.Spec {
	s := spec("TaskInput",
		"Sends text to the standard input, or the terminal, of a job that was begun with run_in_background.",
		taskID+`,
"text":{"type":"string","description":"as it is: a line needs its line feed"},
"end":{"type":"boolean","description":"nothing more comes: the input ends behind the text"}`, "")
	s.Class, s.Annotations = tool.ClassExec, &tool.Annotations{Destructive: true, OpenWorld: true}
	return s
}

func (taskInput) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (t taskInput) Run(_ context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[struct {
		named
		Text string `json:"text"`
		End  bool   `json:"end"`
	}](in)
	if err != nil {
		return tool.Output{}, err
	}
	j, err := t.jobs.ownNamed(in, args.named)
	if err != nil {
		return tool.Output{}, err
	}
	if err := j.Type(args.Text, args.End); err != nil {
		return tool.Output{}, err
	}
	return tool.Output{Text: fmt.Sprintf("sent %d bytes to %s", len(args.Text), j.ID())}, nil
}

// bashOutput is an older name of TaskOutput (package team): only what is new, filtered.
type bashOutput struct{ jobs *Jobs }

func (bashOutput) Spec() tool.Spec {
	return reading(spec("BashOutput", "An older name of TaskOutput: what a job printed since it was last read.",
		`"bash_id":{"type":"string","description":"the job_id of the job"},
"filter":{"type":"string","maxLength":1000,"description":"a regular expression: only the lines that match"}`,
		`,"required":["bash_id"]`))
}

func (bashOutput) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (t bashOutput) Run(_ context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[struct {
		ID     string `json:"bash_id"`
		Filter string `json:"filter"`
	}](in)
	if err != nil {
		return tool.Output{}, err
	}
	filter, err := regexp.Compile(args.Filter)
	if err != nil {
		return tool.Output{}, &tool.Error{Code: "invalid_arguments", Msg: "filter: " + err.Error()}
	}
	j, err := t.jobs.own(in, args.ID)
	if err != nil {
		return tool.Output{}, err
	}
	r, err := j.report(j.lastRead())
	if err != nil {
		return tool.Output{}, err
	}
	j.read(r.Next)
	if args.Filter != "" {
		var kept []string
		for line := range strings.Lines(r.Output) {
			if filter.MatchString(strings.TrimSuffix(line, "\n")) {
				kept = append(kept, line)
			}
		}
		r.Output = strings.Join(kept, "")
	}
	return shown(r), nil
}

// killShell is an older name of TaskStop (package team).
type killShell struct{ jobs *Jobs }

func (killShell) Spec() tool.Spec {
	return spec("KillShell", "An older name of TaskStop.",
		`"shell_id":{"type":"string","description":"the job_id of the job"}`, `,"required":["shell_id"]`)
}

func (killShell) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (t killShell) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[struct {
		ID string `json:"shell_id"`
	}](in)
	if err != nil {
		return tool.Output{}, err
	}
	j, err := t.jobs.own(in, args.ID)
	return stop(ctx, j, err)
}

// writeStdin is how Codex types into what its exec_command began, and reads it.
type writeStdin struct{ jobs *Jobs }

// The time that it waits for output.
const (
	yieldTime    = 250 * time.Millisecond
	maxYieldTime = 5 * time.Minute
)

func (writeStdin) Spec() tool.Spec {
	s := spec("write_stdin", "Sends characters to what exec_command began, and returns what it prints then.",
		`"session_id":{"type":"string","description":"of the answer of exec_command"},
"chars":{"type":"string","description":"to send; none only reads"},
"yield_time_ms":{"type":"integer","minimum":0,"description":"how long to wait for output (default 250)"},
"max_output_tokens":{"type":"integer","minimum":1,"description":"about four characters each"}`,
		`,"required":["session_id"]`)
	s.Class, s.Annotations = tool.ClassExec, &tool.Annotations{Destructive: true, OpenWorld: true}
	return s
}

func (writeStdin) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (t writeStdin) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[struct {
		ID    string `json:"session_id"`
		Chars string `json:"chars"`
		Yield *int64 `json:"yield_time_ms"`
		Most  int    `json:"max_output_tokens"`
	}](in)
	if err != nil {
		return tool.Output{}, err
	}
	j, err := t.jobs.own(in, args.ID)
	if err != nil {
		return tool.Output{}, err
	}
	from := j.lastRead()
	if args.Chars != "" {
		if err := j.Type(args.Chars, false); err != nil {
			return tool.Output{}, err
		}
	}
	wait := yieldTime
	if args.Yield != nil {
		wait = min(time.Duration(*args.Yield)*time.Millisecond, maxYieldTime)
	}
	defer tool.YieldSlot(ctx)()
	j.await(ctx, wait)
	r, err := j.report(from)
	if err != nil {
		return tool.Output{}, err
	}
	j.read(r.Next)
	if args.Most > 0 {
		r.Output, _ = tool.TruncateText(r.Output, 4*args.Most)
	}
	return shown(r), nil
}
