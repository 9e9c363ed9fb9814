package team

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// host is a daemon with the sessions root and a, the second below the first. It writes down what it is told.
type host struct {
	part.Sessions
	fired []part.Happening
	used  []string
	block bool
}

func (*host) Session(_ context.Context, account, id string) (tool.Session, error) {
	top := tool.Session{ID: "root", Account: account}
	switch id {
	case "root":
		return top, nil
	case "a":
		return tool.Session{ID: id, Account: account, Agent: "a", Parent: "root", Above: []tool.Session{top}}, nil
	}
	return tool.Session{}, &tool.Error{Code: "session_not_found", Msg: id}
}

// newFeature is the feature in that daemon, and the events that it publishes.
func newFeature(t *testing.T, h *host) *feature {
	t.Helper()
	return &feature{store: open(t, ":memory:"), host: part.Host{
		Sessions: h, Log: slog.New(slog.DiscardHandler), Events: &events.Broker{},
		Used:   func(id string) { h.used = append(h.used, id) },
		Hooked: func(part.Event) bool { return true },
		Fire: func(_ context.Context, x part.Happening) (tool.Advice, error) {
			h.fired = append(h.fired, x)
			return tool.Advice{Block: h.block}, nil
		},
	}}
}

// TestHooksHearOfTasks: one that a hook blocks is not made, and a task is completed once.
func TestHooksHearOfTasks(t *testing.T) {
	h := &host{block: true}
	f := newFeature(t, h)
	s, _ := h.Session(t.Context(), "u", "a")
	if _, err := f.create(t.Context(), s, Task{Subject: "no", Status: Pending}, 0); codeOf(err) != "hook_blocked" {
		t.Errorf("got %v", err)
	}
	if _, total, err := f.store.List(t.Context(), PlaceOf(s), Filter{}); err != nil || total != 0 {
		t.Errorf("a blocked task is made: %d, %v", total, err)
	}
	h.block = false
	made, err := f.create(t.Context(), s, Task{Subject: "yes", Status: Pending}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Change{{Owner: ptr("a")}, {Status: ptr("completed")}, {Output: ptr("done")}} {
		if _, err := f.update(t.Context(), s, made.ID, c, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.create(t.Context(), s, Task{Subject: "ready", Status: Completed}, 0); err != nil {
		t.Fatal(err)
	}
	want := []part.Happening{
		{Event: part.TaskCreated, Session: s, Task: "task_1", Subject: "no"},
		{Event: part.TaskCreated, Session: s, Task: "task_2", Subject: "yes"},
		{Event: part.TaskCompleted, Session: s, Task: "task_2", Subject: "yes"},
		{Event: part.TaskCreated, Session: s, Task: "task_3", Subject: "ready"},
		{Event: part.TaskCompleted, Session: s, Task: "task_3", Subject: "ready"},
	}
	if !reflect.DeepEqual(h.fired, want) {
		t.Errorf("fired\n%+v, want\n%+v", h.fired, want)
	}
}

// TestWatchersHearOfTasks: of which session and account, and with which status.
func TestWatchersHearOfTasks(t *testing.T) {
	storetest.FileOnly(t) // a server does not live by the clock of the test
	synctest.Test(t, func(t *testing.T) {
		f := newFeature(t, &host{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			synctest.Wait()
			s, _ := f.host.Sessions.Session(ctx, "a", "a")
			made, err := f.create(ctx, s, Task{Subject: "x", Status: Pending}, 0)
			if err == nil {
				_, err = f.update(ctx, s, made.ID, Change{Status: ptr("failed")}, 0)
			}
			if err != nil {
				t.Error(err)
			}
		}()
		got := routetest.Stream(ctx, f.host.Events.Routes(), tool.RoleAgent, "GET /events")
		for _, want := range []string{
			`"account":"a","session_id":"a","task_id":"task_1","status":"pending"`,
			`"account":"a","session_id":"a","task_id":"task_1","status":"failed"`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

// TestTheRoutesOfTeams: each field of a request is kept, and each request uses its session.
func TestTheRoutesOfTeams(t *testing.T) {
	h := &host{}
	f := newFeature(t, h)
	routes := f.part().Routes
	step := func(role tool.Role, line, body, want string) {
		t.Helper()
		if got := routetest.Call(t, routes, role, line, body); !strings.Contains(got, want) {
			t.Errorf("%s %s: %s, want %s", line, body, got, want)
		}
	}
	agent, person := tool.RoleAgent, tool.RoleOperator
	step(agent, "POST /sessions/root/tasks", `{"subject":"s","description":"d","owner":"o","status":"in_progress",
		"blocked_by":["task_8"],"blocks":["task_9"],"metadata":{"k":"v"}}`, `created {"id":"task_1"`)
	step(agent, "POST /sessions/a/tasks", `{"subject":"plain"}`, `"status":"pending"`)
	step(agent, "POST /sessions/a/tasks", `{"subject":"x","status":"done"}`, "validation_error: unknown status")
	step(agent, "GET /sessions/a/tasks/task_1", "",
		`"subject":"s","description":"d","status":"inProgress","owner":"o"`)
	step(agent, "GET /sessions/a/tasks/task_1", "", `"blocked_by":["task_8"],"blocks":["task_9"],"metadata":{"k":"v"}`)
	step(agent, "GET /sessions/a/tasks?status=in_progress", "", `1 [{"id":"task_1"`)
	step(agent, "GET /sessions/a/tasks?owner=nobody", "", `0 []`)
	step(agent, "GET /sessions/a/tasks?limit=1&offset=1", "", `2 [{"id":"task_2"`)
	step(agent, "GET /sessions/a/tasks?status=done", "", "validation_error: unknown status")
	step(agent, "PATCH /sessions/a/tasks/task_2", `{"owner":"a","expect":{"owner":"b"}}`, "task_changed: ")
	step(agent, "PATCH /sessions/a/tasks/task_2", `{"owner":"a","expect":{"owner":""}}`, `"owner":"a"`)

	done(f.store.CreateTeam(t.Context(), Place{Space: "root", Session: "root", Agent: self}, "n", "", []string{"a"}))
	step(agent, "GET /sessions/a/teams", "", `[{"id":"team_1"`)
	step(agent, "GET /sessions/a/teams/team_1", "", `"name":"n"`)
	step(agent, "POST /sessions/a/teams/team_1/members", `{"name":"b"}`, "not_the_leader: ")
	step(agent, "POST /sessions/root/teams/team_1/members", `{"name":"b","role":"leader"}`, `created {"id":"team_1"`)
	if got := done(f.store.Team(t.Context(), lead, "team_1")); got.Members[1] != (Member{Name: "b", Role: RoleLeader}) {
		t.Errorf("the new member is %+v", got.Members)
	}
	step(person, "POST /sessions/a/teams/team_1/members", `{"name":"c"}`, `created {"id":"team_1"`)
	step(agent, "DELETE /sessions/a/teams/team_1/members/c", "", "not_the_leader: ")
	step(person, "DELETE /sessions/a/teams/team_1/members/c", "", `"id":"team_1"`)

	step(agent, "POST /sessions/root/mailbox", `{"to":"a","message":"hi","type":"shutdownRequest"}`,
		`created {"to":["a"]}`)
	step(agent, "GET /sessions/a/mailbox", "", `"from":"self","to":"a","content":"hi"`)
	step(agent, "POST /sessions/a/mailbox/read", `{}`, `"type":"shutdownRequest"`)
	step(agent, "GET /sessions/a/mailbox", "", `[]`)
	step(agent, "GET /sessions/other/mailbox", "", "session_not_found: other")
	for _, id := range h.used {
		if id != "root" && id != "a" {
			t.Errorf("the session %q counts as used", id)
		}
	}
	if len(h.used) < 10 {
		t.Errorf("used are %q", h.used)
	}
}

// TestWhatWasWrittenByHTTPHasAnAuthor: a person on the operator socket, and a model on the other.
func TestWhatWasWrittenByHTTPHasAnAuthor(t *testing.T) {
	for role, want := range map[tool.Role]tool.Origin{
		tool.RoleAgent: tool.OriginModel, tool.RoleOperator: tool.OriginPerson,
	} {
		f := newFeature(t, &host{})
		routetest.Call(t, f.routes(), role, "POST /sessions/root/tasks", `{"subject":"s"}`)
		out, err := f.taskGet(t.Context(), tool.In{Args: json.RawMessage(`{"id":"task_1"}`)}, tool.Session{ID: "root"})
		if err != nil || out.Origin != want {
			t.Errorf("%s: the task is of %q, %v, want %q", role, out.Origin, err, want)
		}
	}
}

// jobs are the jobs of a session.
type jobs struct{ part.TaskJobs }

func (jobs) List(tool.In) (any, []string) { return []string{"job_1"}, []string{"job_1 running"} }

func (jobs) Output(context.Context, tool.In) (tool.Output, error) {
	return tool.Output{Text: "of a job"}, nil
}

func (jobs) Stop(context.Context, tool.In) (tool.Output, error) {
	return tool.Output{Text: "ended"}, nil
}

// dataOf is in the data of each tool of tasks and teams, as a client gets it.
var dataOf = map[string]string{
	"TaskCreate": `{"id":"task_1","subject":"s","description":"d","status":"inProgress","owner":"o"`,
	"TaskList":   `"tasks":[`, "TaskGet": `{"id":"task_1"`, "TaskUpdate": `"owner":"me"`,
	"TaskOutput": `{"id":"task_1"`, "TaskStop": `"status":"cancelled"`, "TeamCreate": `{"id":"team_1"`,
	"TeamDelete": `"status":"disbanded"`, "SendMessage": `{"to":["a","b"]}`, "ReadMailbox": `[]`,
}

// TestTheToolsOfTasksAndTeams: what they do, what they say, and that what others wrote keeps its author.
func TestTheToolsOfTasksAndTeams(t *testing.T) {
	f := newFeature(t, &host{})
	f.host.TaskJobs = jobs{}
	tools := map[string]tool.Tool{}
	for _, g := range f.part().Groups {
		for _, x := range g.Tools {
			tools[x.Spec().Name] = x
		}
	}
	run := func(session, name, args string, web bool) (tool.Output, error) {
		in := tool.In{Account: "u", Session: session, Args: json.RawMessage(args)}
		if web {
			in.Origins.Args = map[string][]tool.Origin{"x": {tool.OriginWeb}}
		}
		return tools[name].Run(t.Context(), in, nil)
	}
	for _, tt := range []struct {
		session, name, args string
		web                 bool
		text                string
		origin              tool.Origin
		code                string
	}{
		{
			"a", "TaskCreate", `{"subject":"s","description":"d","owner":"o","status":"in_progress"}`, true,
			`Task created: task_1 - "s" (inProgress)`, "", "<nil>",
		},
		{"a", "TaskCreate", `{"subject":"s","status":"done"}`, false, "", "", "validation_error"},
		{"a", "TaskCreate", `{"subject":1}`, false, "", "", "invalid_arguments"},
		{"root", "TaskList", `{}`, false, "[task_1] INPROGRESS - s (owner: o)\njob_1 running", "web", "<nil>"},
		{"root", "TaskList", `{"status":"inProgress"}`, false, "[task_1] INPROGRESS - s (owner: o)", "web", "<nil>"},
		{"root", "TaskList", `{"owner":"none"}`, false, "No tasks found.", "", "<nil>"},
		{"root", "TaskList", `{"status":"done"}`, false, "", "", "validation_error"},
		{"root", "TaskGet", `{"id":"task_1"}`, false, "", "web", "<nil>"},
		{"root", "TaskUpdate", `{"id":"task_1","owner":"me","expected_owner":""}`, false, "", "", "task_changed"},
		{"root", "TaskUpdate", `{"id":"task_1","expected_status":"pending"}`, false, "", "", "task_changed"},
		{
			"root", "TaskUpdate", `{"id":"task_1","output":"out","description":"e","owner":"me"}`, false,
			`Task updated: task_1 - inProgress - "s"`, "", "<nil>",
		},
		{"a", "TaskOutput", `{"id":"task_1"}`, false, "out", "web", "<nil>"},
		{"a", "TaskOutput", `{"id":"job_1"}`, false, "of a job", "", "<nil>"},
		{"a", "TaskStop", `{"id":"job_1"}`, false, "ended", "", "<nil>"},
		{"a", "TaskStop", `{"id":"task_1","reason":"late"}`, false, "Task stopped: task_1", "", "<nil>"},
		{"a", "TaskOutput", `{"task_id":"task_1"}`, false, "Stopped: late", "web", "<nil>"},
		{"a", "TaskStop", `{"id":"task_1"}`, false, "", "", "invalid_status_transition"},
		{"none", "TaskList", `{}`, false, "", "", "session_not_found"},
		{
			"root", "TeamCreate", `{"name":"n","members":["a","b"],"task_description":"what"}`, false,
			`Team created: team_1 "n" with 2 members`, "", "<nil>",
		},
		{"root", "SendMessage", `{"to":"*","message":"hi"}`, true, "Message sent to a, b", "", "<nil>"},
		{"a", "TeamDelete", `{"id":"team_1"}`, false, "", "", "not_the_leader"},
		{"root", "TeamDelete", `{"id":"team_1"}`, false, "Team disbanded: team_1", "", "<nil>"},
		{"root", "ReadMailbox", `{}`, false, "No messages.", "", "<nil>"},
	} {
		out, err := run(tt.session, tt.name, tt.args, tt.web)
		if codeOf(err) != tt.code || err == nil && (tt.text != "" && out.Text != tt.text || out.Origin != tt.origin) {
			t.Errorf("%s %s: got %q of %q, %v, want %q of %q",
				tt.name, tt.args, out.Text, out.Origin, err, tt.text, tt.origin)
		}
		data, _ := json.Marshal(out.Data)
		ofJob := strings.Contains(tt.args, "job_")
		if err == nil && !ofJob && !strings.Contains(string(data), dataOf[tt.name]) {
			t.Errorf("%s %s: the data is %s", tt.name, tt.args, data)
		}
		listed := tt.name == "TaskList" && tt.args == "{}"
		if err == nil && listed != strings.Contains(string(data), `"jobs":["job_1"]`) {
			t.Errorf("%s %s: jobs in %s", tt.name, tt.args, data)
		}
	}
	out, err := run("a", "ReadMailbox", `{}`, false)
	if err != nil || !strings.HasSuffix(out.Text, "self to a (text): hi") || out.Origin != tool.OriginWeb {
		t.Errorf("got %q of %q, %v", out.Text, out.Origin, err)
	}
	if got := done(f.store.Team(t.Context(), lead, "team_1")); got.Task != "what" {
		t.Errorf("the team is for %q", got.Task)
	}
	got := done(f.store.Get(t.Context(), lead, "task_1"))
	if got.Description != "e" || got.Owner != "me" || got.Status != Cancelled ||
		got.authors != provenance.ByModel|provenance.ByWeb {
		t.Errorf("the task is %+v", got)
	}
}

// TestWhatToolsOfTasksMayDo: what reads changes nothing, and an answer is in no variable unless it may be long.
func TestWhatToolsOfTasksMayDo(t *testing.T) {
	reads := "TaskList TaskGet TaskOutput"
	var got []string
	for _, g := range newFeature(t, &host{}).part().Groups {
		for _, x := range g.Tools {
			s := x.Spec()
			reading := strings.Contains(reads, s.Name)
			class := tool.ClassState
			if reading {
				class = tool.ClassRead
			}
			long := s.Name == "TaskOutput" || s.Name == "ReadMailbox"
			if s.Class != class || s.ReadOnly != reading || s.Annotations.ReadOnly != reading ||
				s.Annotations.Destructive != (s.Name == "TeamDelete") ||
				s.NoCache == long || (s.OutputLimit == 30_000) != long {
				t.Errorf("%s: %+v, %+v", s.Name, s, *s.Annotations)
			}
			got = append(got, s.Name)
		}
	}
	want := "[TaskCreate TaskList TaskGet TaskUpdate TaskOutput TaskStop TeamCreate TeamDelete SendMessage ReadMailbox]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestWhichTeamsAnAgentIsIn: those that are active, where it is a member or the leader.
func TestWhichTeamsAnAgentIsIn(t *testing.T) {
	f := newFeature(t, &host{})
	top := tool.Session{ID: "root"}
	p := PlaceOf(top)
	for _, name := range []string{"first", "gone", "last"} {
		done(f.store.CreateTeam(t.Context(), p, name, "", []string{"a"}))
	}
	done(f.store.DeleteTeam(t.Context(), p, "team_2"))
	done(f.store.RemoveMember(t.Context(), p, "team_3", "a"))
	s, _ := f.host.Sessions.Session(t.Context(), "u", "a")
	if got, err := f.Of(t.Context(), s); err != nil || fmt.Sprint(got) != "[first]" {
		t.Errorf("got %v, %v", got, err)
	}
}
