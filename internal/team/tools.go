package team

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// one is a tool of this package: what it is, and what it does.
type one struct {
	spec tool.Spec
	run  func(context.Context, tool.In, tool.Session) (tool.Output, error)
	f    *feature
}

// Spec implements [tool.Tool].
func (o one) Spec() tool.Spec { return o.spec }

// Uses implements [tool.Tool].
func (one) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// Run implements [tool.Tool].
func (o one) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	_, s, err := o.f.placeOf(ctx, in.Account, in.Session)
	if err != nil {
		return tool.Output{}, err
	}
	return o.run(ctx, in, s)
}

// changing returns a tool that changes what agents share.
func changing(name, description, properties, required string) tool.Spec {
	return tool.Spec{
		Name: name, Description: description, Class: tool.ClassState, Annotations: &tool.Annotations{}, NoCache: true,
		Schema: json.RawMessage(`{"type":"object","properties":{` + properties + `}` + required +
			`,"additionalProperties":false}`),
	}
}

// reading returns a tool that changes nothing.
func reading(name, description, properties, required string) tool.Spec {
	s := changing(name, description, properties, required)
	s.Class, s.ReadOnly, s.Annotations = tool.ClassRead, true, &tool.Annotations{ReadOnly: true}
	return s
}

// authors returns those of the arguments of a call.
func authors(in tool.In) provenance.Authors {
	by := provenance.ByModel
	for _, origins := range in.Origins.Args {
		by |= provenance.Of(origins...)
	}
	return by
}

const (
	statusProperty = `"status":{"type":"string","description":"pending, inProgress, completed, failed or cancelled"}`
	ownerProperty  = `"owner":{"type":"string","description":"name of the agent that works on it"}`
	idProperty     = `"id":{"type":"string","description":"id of the task, such as task_1"}`
	jobProperties  = `"task_id":{"type":"string","description":"id of a task (task_1), or of a job (job_…)"},
"id":{"type":"string","description":"the same; give one of them"}`
)

// tasks returns the tools of tasks. Those that jobs have too take the ids of both.
func (f *feature) tasks() catalog.Group {
	make := func(s tool.Spec, run func(context.Context, tool.In, tool.Session) (tool.Output, error)) tool.Tool {
		return one{s, run, f}
	}
	output := reading("TaskOutput", "Returns the output of a task, or says what became of a job and what it printed.",
		jobProperties+`,
"block":{"type":"boolean","description":"wait until the task or the job has ended (default false)"},
"timeout":{"type":"integer","minimum":0,"maximum":600000,
	"description":"milliseconds to wait with block (default 30000)"},
"offset":{"type":"integer","minimum":0,
	"description":"of a job: byte to read from, the next_offset of the last answer"}`, "")
	output.OutputLimit, output.NoCache = outputLimit, false
	return catalog.Group{Name: "tasks", Tools: []tool.Tool{
		make(changing("TaskCreate", "Creates a task that all agents of this tree see.",
			`"subject":{"type":"string","minLength":1,"description":"in a few words"},
"description":{"type":"string","description":"what is to be done"},`+ownerProperty+`,`+statusProperty,
			`,"required":["subject"]`), f.taskCreate),
		make(reading("TaskList",
			"Lists the tasks of this tree of agents, then the jobs of this session, one line each.",
			statusProperty+`,`+ownerProperty, ""), f.taskList),
		make(reading("TaskGet", "Returns one task with all its fields.", idProperty, `,"required":["id"]`), f.taskGet),
		make(changing("TaskUpdate", "Changes a task. With expected_status or expected_owner it changes nothing unless "+
			"the task is as expected: claim a task so, and only one agent gets it.",
			idProperty+`,`+statusProperty+`,"description":{"type":"string"},`+ownerProperty+`,
"output":{"type":"string","description":"what came of it"},
"expected_status":{"type":"string","description":"the status that the task must have"},
"expected_owner":{"type":"string","description":"the owner that the task must have; empty is nobody"}`,
			`,"required":["id"]`), f.taskUpdate),
		make(output, f.taskOutput),
		make(changing("TaskStop", "Cancels a task, or ends a job with everything that it started: SIGTERM, and "+
			"SIGKILL two seconds later.",
			jobProperties+`,"reason":{"type":"string","maxLength":1000,"description":"of a task: why"}`, ""),
			f.taskStop),
	}, RulePrompt: func([]string) string {
		return "Tasks are shared with the agents that work with you. Claim one with TaskUpdate, status inProgress, " +
			"your name as owner and expected_status pending. TaskOutput reads what a job printed, TaskStop ends it."
	}}
}

// outputLimit bounds the characters of tasks, messages and output of jobs that a model sees at once.
const outputLimit = 30_000

func (f *feature) taskCreate(ctx context.Context, in tool.In, s tool.Session) (tool.Output, error) {
	args, err := tool.Decode[struct{ Subject, Description, Owner, Status string }](in)
	if err != nil {
		return tool.Output{}, err
	}
	t := Task{Subject: args.Subject, Description: args.Description, Owner: args.Owner, Status: Pending}
	if args.Status != "" {
		if t.Status, err = ParseStatus(args.Status); err != nil {
			return tool.Output{}, err
		}
	}
	if t, err = f.create(ctx, s, t, authors(in)); err != nil {
		return tool.Output{}, err
	}
	return tool.Output{Data: t, Text: fmt.Sprintf(`Task created: %s - "%s" (%s)`, t.ID, t.Subject, t.Status)}, nil
}

func (f *feature) taskList(ctx context.Context, in tool.In, s tool.Session) (tool.Output, error) {
	args, err := tool.Decode[struct{ Status, Owner string }](in)
	if err != nil {
		return tool.Output{}, err
	}
	filter := Filter{Owner: args.Owner}
	if args.Status != "" {
		if filter.Status, err = ParseStatus(args.Status); err != nil {
			return tool.Output{}, err
		}
	}
	all, _, err := f.store.List(ctx, PlaceOf(s), filter)
	if err != nil {
		return tool.Output{}, err
	}
	var lines []string
	var by provenance.Authors
	for _, t := range all {
		lines, by = append(lines, t.line()), by|t.authors
	}
	if len(all) == 0 {
		lines = append(lines, "No tasks found.")
	}
	data := map[string]any{"tasks": all}
	if args.Status == "" && args.Owner == "" {
		jobs, ran := f.host.TaskJobs.List(in)
		if len(ran) > 0 {
			data["jobs"], lines = jobs, append(lines, ran...)
		}
	}
	return tool.Output{Data: data, Text: strings.Join(lines, "\n"), Origin: origin(by)}, nil
}

// origin names the authors of a shared text; without an author it is the tool.
func origin(by provenance.Authors) tool.Origin {
	if by == 0 {
		return ""
	}
	return by.Worst()
}

func (f *feature) taskGet(ctx context.Context, in tool.In, s tool.Session) (tool.Output, error) {
	args, err := tool.Decode[struct{ ID string }](in)
	if err != nil {
		return tool.Output{}, err
	}
	t, err := f.store.Get(ctx, PlaceOf(s), args.ID)
	return tool.Output{Data: t, Origin: origin(t.authors)}, err
}

func (f *feature) taskUpdate(ctx context.Context, in tool.In, s tool.Session) (tool.Output, error) {
	args, err := tool.Decode[struct {
		ID             string
		Status         *string
		Description    *string
		Owner          *string
		Output         *string
		ExpectedStatus *string `json:"expected_status"`
		ExpectedOwner  *string `json:"expected_owner"`
	}](in)
	if err != nil {
		return tool.Output{}, err
	}
	c := Change{Status: args.Status, Description: args.Description, Owner: args.Owner, Output: args.Output}
	if args.ExpectedStatus != nil || args.ExpectedOwner != nil {
		c.Expect = &Expect{args.ExpectedStatus, args.ExpectedOwner}
	}
	t, err := f.update(ctx, s, args.ID, c, authors(in))
	if err != nil {
		return tool.Output{}, asText(err)
	}
	return tool.Output{Data: t, Text: fmt.Sprintf(`Task updated: %s - %s - "%s"`, t.ID, t.Status, t.Subject)}, nil
}

// asText is an error as a model reads it in the words of the source document.
func asText(err error) error {
	e, ok := err.(*tool.Error)
	if !ok || e.Code != "invalid_status_transition" {
		return err
	}
	with := *e
	with.Msg = "Error: " + e.Msg
	return &with
}

// named is the task or the job that two fields name, of which exactly one is given.
type named struct {
	TaskID string `json:"task_id"`
	ID     string `json:"id"`
}

// task returns the id of a task; "" if a job is meant.
func (n named) task() (string, error) {
	if (n.TaskID == "") == (n.ID == "") {
		return "", &tool.Error{
			Code: "invalid_arguments", Msg: "exactly one of task_id and id is needed",
			Hint: "both mean the id of a task, or the job_id of a job",
		}
	}
	if id := n.TaskID + n.ID; strings.HasPrefix(id, "task_") {
		return id, nil
	}
	return "", nil
}

const (
	waitTime    = 30 * time.Second
	maxWaitTime = 10 * time.Minute
)

func (f *feature) taskOutput(ctx context.Context, in tool.In, s tool.Session) (tool.Output, error) {
	args, err := tool.Decode[struct {
		named
		Block   bool   `json:"block"`
		Timeout *int64 `json:"timeout"`
		Offset  *int64 `json:"offset"`
	}](in)
	if err != nil {
		return tool.Output{}, err
	}
	id, err := args.task()
	switch {
	case err != nil:
		return tool.Output{}, err
	case id == "":
		return f.host.TaskJobs.Output(ctx, in)
	case args.Offset != nil:
		return tool.Output{}, &tool.Error{Code: "invalid_arguments", Msg: "offset is of jobs; a task has one output"}
	}
	wait := time.Duration(0)
	if args.Block {
		wait = waitTime
		if args.Timeout != nil {
			wait = min(time.Duration(*args.Timeout)*time.Millisecond, maxWaitTime)
		}
		defer tool.YieldSlot(ctx)()
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	t, err := f.store.Await(ctx, PlaceOf(s), id)
	if err != nil {
		return tool.Output{}, err
	}
	text := t.Output
	if text == "" {
		text = fmt.Sprintf("(task %s has no output; it is %s)", t.ID, t.Status)
	}
	return tool.Output{Data: t, Text: text, Origin: origin(t.authors)}, nil
}

func (f *feature) taskStop(ctx context.Context, in tool.In, s tool.Session) (tool.Output, error) {
	args, err := tool.Decode[struct {
		named
		Reason string `json:"reason"`
	}](in)
	if err != nil {
		return tool.Output{}, err
	}
	id, err := args.task()
	switch {
	case err != nil:
		return tool.Output{}, err
	case id == "" && args.Reason != "":
		return tool.Output{}, &tool.Error{Code: "invalid_arguments", Msg: "reason is of tasks; a job ends without one"}
	case id == "":
		return f.host.TaskJobs.Stop(ctx, in)
	}
	status := string(Cancelled)
	c := Change{Status: &status}
	if args.Reason != "" {
		said := "Stopped: " + args.Reason
		c.Output = &said
	}
	t, err := f.update(ctx, s, id, c, authors(in))
	if err != nil {
		return tool.Output{}, asText(err)
	}
	return tool.Output{Data: t, Text: "Task stopped: " + t.ID}, nil
}
