package jobs

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// TestAJobSaysWhoseItIs: in its info, in what is told of it and in what is recorded, also by the next daemon.
func TestAJobSaysWhoseItIs(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Forbidden = forbiddenMark })
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := call("work")
	c.ID, c.Started = "c1", began
	opened, err := w.Open(c, true)
	if err != nil {
		t.Fatal(err)
	}
	j := opened.(*Job)
	j.Started(&program{})
	j.Detach(func(error) {})
	want := Info{
		ID: j.ID(), Call: "c1", Session: "s", Account: "a", Tool: "Bash", Command: "work", State: Running,
		Started: began, Withheld: true,
	}
	if got := j.Info(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	told := events.Event{
		Type: events.JobStarted, Account: "a", Session: "s", Call: "c1", Tool: "Bash", Job: j.ID(), Status: "running",
	}
	if len(w.heard) != 1 || w.heard[0] != told {
		t.Errorf("heard %+v, want %+v", w.heard, told)
	}
	j.Forbid("a rule")
	again := *w.o.Config
	again.Forbidden = forbiddenEnd
	w.reload(&again)
	j.Forbid("another")
	w.open() // the daemon is gone
	note := func(name, message string, detail map[string]string) tool.Note {
		detail["job"] = j.ID()
		return tool.Note{
			Name: name, Account: "a", Session: "s", Call: "c1", Tool: "Bash", Message: message, Detail: detail,
		}
	}
	notes := []tool.Note{
		note("job_forbidden", "a rule", map[string]string{"ended": "false"}),
		note("job_forbidden", "another", map[string]string{"ended": "true"}),
		note("job_lost", "the daemon went away while job "+j.ID()+" ran", map[string]string{}),
	}
	if !reflect.DeepEqual(w.notes, notes) {
		t.Errorf("recorded\n%+v, want\n%+v", w.notes, notes)
	}
}

// TestTheAnswerNamesTheAgentOfAJob: a model waits for an agent by its name, and Codex types into a session.
func TestTheAnswerNamesTheAgentOfAJob(t *testing.T) {
	for _, tt := range []struct {
		name, tool, agent, session string
		want                       answer
		text                       string
	}{
		{
			"an agent", "Task", "ann", "s9",
			answer{Agent: "ann", Session: "s9"},
			"Agent ann works in the background as JOB.",
		},
		{"a command", "Bash", "", "", answer{}, "The command runs in the background as JOB."},
		{"of Codex", codexTool, "", "", answer{Session: "JOB"}, "session_id for write_stdin: JOB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			c := call("work")
			c.Spec.Name = tt.tool
			opened, err := w.Open(c, false)
			if err != nil {
				t.Fatal(err)
			}
			j := opened.(*Job)
			if tt.agent != "" {
				j.Agent(tt.agent, tt.session)
			}
			got, text := j.Detach(func(error) {})
			tt.want.ID, tt.want.TaskID, tt.want.State = j.ID(), j.ID(), Running
			tt.want.Session = strings.ReplaceAll(tt.want.Session, "JOB", j.ID())
			if got != tt.want || !strings.Contains(text, strings.ReplaceAll(tt.text, "JOB", j.ID())) {
				t.Errorf("got %+v, %q, want %+v, %q", got, text, tt.want, tt.text)
			}
			j.finish(c, sandbox.Exit{}, fine)
		})
	}
}

// TestAWithheldJobIsAnsweredWithoutItsOutput: a person or a hook has not released it.
func TestAWithheldJobIsAnsweredWithoutItsOutput(t *testing.T) {
	w := newWorld(t)
	opened, err := w.Open(call("work"), true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opened.(*Job).Output().Write([]byte("SECRET")); err != nil {
		t.Fatal(err)
	}
	got, text := opened.Detach(func(error) {})
	if got.(answer).Output != "" || strings.Contains(text, "SECRET") {
		t.Errorf("got %+v, %q", got, text)
	}
}

// TestWhoMayCallTheRoutesOfJobs: a port of a job on the host is for operators to give, and what a job printed is the
// result of a call, in which operators see no secrets.
func TestWhoMayCallTheRoutesOfJobs(t *testing.T) {
	operators, results := 0, 0
	for _, rt := range newWorld(t).routes() {
		want := tool.RoleAgent
		if strings.Contains(rt.Pattern, "/forwards") {
			want = tool.RoleOperator
			operators++
		}
		if printed := rt.Pattern == "GET /jobs/{id}/output"; printed != rt.Results {
			t.Errorf("%s answers results: %v", rt.Pattern, rt.Results)
		} else if printed {
			results++
		}
		if rt.Role != want {
			t.Errorf("%s is for %q, want %q", rt.Pattern, rt.Role, want)
		}
	}
	if operators != 2 || results != 1 {
		t.Errorf("%d routes of operators, %d of results", operators, results)
	}
}

// TestTheListOfARouteIsOfOneSession, if the request names one.
func TestTheListOfARouteIsOfOneSession(t *testing.T) {
	w := newWorld(t)
	j, _ := w.begin(false)
	for line, want := range map[string]string{
		"GET /jobs":                  j.ID(),
		"GET /jobs?session_id=s":     j.ID(),
		"GET /jobs?session_id=other": "[]",
	} {
		if got := routetest.Call(t, w.routes(), tool.RoleAgent, line, ""); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestWhatToolsOfJobsMayDo: what types into a program is judged as what runs one, and what reads changes nothing.
func TestWhatToolsOfJobsMayDo(t *testing.T) {
	want := map[string]tool.Class{
		"TaskInput": tool.ClassExec, "write_stdin": tool.ClassExec,
		"BashOutput": tool.ClassRead, "KillShell": tool.ClassState,
	}
	for _, x := range newWorld(t).Group().Tools {
		s := x.Spec()
		reads := s.Class == tool.ClassRead
		if s.Class != want[s.Name] || s.ReadOnly != reads || s.Annotations.ReadOnly != reads ||
			s.Annotations.Destructive != (s.Class == tool.ClassExec) ||
			s.Annotations.OpenWorld != (s.Class == tool.ClassExec) || s.OutputLimit != 30_000 {
			t.Errorf("%s: %+v with %+v, want the class %s", s.Name, s, *s.Annotations, want[s.Name])
		}
		delete(want, s.Name)
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
}

// TestTheDaemonCountsWhatJobsKeepAndEndsThem: for the budget of a session, the metrics and the shutdown.
func TestTheDaemonCountsWhatJobsKeepAndEndsThem(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	p := w.part()
	if _, err := j.Output().Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if kept := p.Kept(); kept["s"] < 4 || len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
	if g := p.Metrics[0]; g.Name != "jobs_running" || g.Value() != 1 {
		t.Errorf("%s is %v", g.Name, g.Value())
	}
	j.program.(*program).terminated = func(time.Duration) { go j.finish(c, sandbox.Exit{Code: 137}, fine) }
	if err := p.Close(); err != nil || j.Info().By != "the end of the daemon" {
		t.Errorf("%v: %+v", err, j.Info())
	}
}
