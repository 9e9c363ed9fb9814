package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/worktree"
	"github.com/sandboxd/sandboxd/sandbox"
)

// world is a daemon with the session up, which starts agents. It writes down what it is told.
type world struct {
	part.Sessions
	up     tool.Session
	made   tool.Session
	fired  []part.Happening
	joined []string
	ran    tool.AgentProgram
	says   string // the answer of the program
	stderr string // what it writes beside that
	fails  error  // how it ends
	lost   error  // that of reading the session of the agent
	block  part.Event
	heard  []tool.Origin
}

func (w *world) Session(_ context.Context, account, id string) (tool.Session, error) {
	switch {
	case account != w.up.Account:
	case id == "up":
		return w.up, nil
	case id == "agent" && w.lost != nil:
		return tool.Session{}, w.lost
	case id == "agent" && w.made.ID != "":
		return w.made, nil
	}
	return tool.Session{}, &tool.Error{Code: "session_not_found", Msg: id}
}

func (w *world) All(context.Context, string) ([]tool.Session, error) {
	return []tool.Session{w.up, w.made}, nil
}

func (w *world) Join(_ context.Context, s tool.Session, team, agent string) error {
	w.joined = append(w.joined, s.ID+" "+team+" "+agent)
	return nil
}

func (w *world) Of(_ context.Context, s tool.Session) ([]string, error) { return []string{"crew"}, nil }

// newWorld is a daemon whose program answers with a text.
func newWorld() (*world, *feature) {
	w := &world{says: `{"text":"found it"}`, up: tool.Session{
		ID: "up", Account: "a", Dir: "/w", Home: "/home/a", Mode: tool.ModePlan, Profile: "strict",
	}}
	f := newFeature(part.Host{
		Sessions: w, Teams: w, Events: &events.Broker{}, Log: slog.New(slog.DiscardHandler),
		NewSession: func(_ context.Context, s tool.Session) (tool.Session, error) {
			s.ID, w.made = "agent", s
			w.made.ID = "agent"
			return s, nil
		},
		RunAgent: func(_ context.Context, p tool.AgentProgram) ([]byte, string, error) {
			w.ran = p
			return []byte(w.says), w.stderr, w.fails
		},
		Hooked: func(part.Event) bool { return true },
		Fire: func(_ context.Context, h part.Happening) (tool.Advice, error) {
			w.fired = append(w.fired, h)
			return tool.Advice{Block: h.Event == w.block, Reason: "not here"}, nil
		},
		Model: func(string) string { return "" },
		Heard: func(context.Context, string) ([]tool.Origin, error) { return w.heard, nil },
		Busy:  func(string) map[string]bool { return map[string]bool{"up": true} },
	})
	c := defaults()
	c.Spawner.Command, c.Spawner.PassEnv = []string{"/opt/agent"}, []string{"KEY"}
	c.Types = map[string]Type{"Mine": {Tools: []string{"Read"}, DisallowedTools: []string{"Bash"}}}
	f.config.Store(c)
	return w, f
}

func (f *feature) start(ctx context.Context, args string) (tool.Output, error) {
	in := tool.In{
		Account: "a", Session: "up", CallID: "c1", Args: json.RawMessage(args), By: &tool.Identity{UID: 7, GID: 8},
	}
	return agentTool{f}.Run(ctx, in, nil)
}

// TestN10_AnAgentHasNoMoreThanItsParent: its session is of the same account, with the same mode, profile and
// directory, and with the tools of its type; its program acts with the rights of the caller, for that session alone.
func TestN10_AnAgentHasNoMoreThanItsParent(t *testing.T) {
	w, f := newWorld()
	out, err := f.start(t.Context(), `{"prompt":"p","description":"look","subagent_type":"Mine","name":"ann"}`)
	if err != nil || out.Text != "found it" {
		t.Fatalf("%+v, %v", out, err)
	}
	want := tool.Session{
		ID: "agent", Account: "a", Parent: "up", Dir: "/w", Home: "/home/a", Mode: tool.ModePlan, Profile: "strict",
		Only: []string{"Read"}, Without: []string{"Bash"}, Type: "Mine", Title: "look", Agent: "ann",
	}
	if !reflect.DeepEqual(w.made, want) {
		t.Errorf("made\n%+v, want\n%+v", w.made, want)
	}
	as := tool.Actor{Identity: tool.Identity{UID: 7, GID: 8}, Account: "a", Session: "agent"}
	if !reflect.DeepEqual(w.ran.As, as) || !reflect.DeepEqual(w.ran.Argv, []string{"/opt/agent"}) ||
		!reflect.DeepEqual(w.ran.PassEnv, []string{"KEY"}) {
		t.Errorf("ran %+v, want it as %+v", w.ran, as)
	}
}

// printed is a job that notes what its agent prints, and as whose.
type printed struct {
	tool.JobStreams
	text bytes.Buffer
}

func (*printed) ID() string             { return "job_1" }
func (p *printed) Author(o tool.Origin) { fmt.Fprintf(&p.text, "[%s]", o) }
func (p *printed) Output() io.Writer    { return &p.text }
func (p *printed) Ended(sandbox.Exit)   { p.text.WriteString("[end]") }

// Whoever reads a job while it ends knows already who has written the answer.
func TestTheJobOfAnAgentNamesItsAuthorFirst(t *testing.T) {
	w, f := newWorld()
	w.heard = []tool.Origin{tool.OriginWeb}
	j := &printed{}
	in := tool.In{
		Account: "a", Session: "up", CallID: "c1", Args: json.RawMessage(`{"prompt":"p","description":"d"}`),
		By: &tool.Identity{UID: 7, GID: 8}, Job: j,
	}
	if _, err := (agentTool{f}).Run(t.Context(), in, nil); err != nil || j.text.String() != "[web]found it[end]" {
		t.Errorf("it printed %s, %v", &j.text, err)
	}
}

// TestHooksAndTeamsHearOfAnAgent: of its begin, its end and its teams, with the session where it happened.
func TestHooksAndTeamsHearOfAnAgent(t *testing.T) {
	w, f := newWorld()
	if _, err := f.start(t.Context(), `{"prompt":"p","description":"d","name":"ann","team_name":"crew"}`); err != nil {
		t.Fatal(err)
	}
	want := []part.Happening{
		{Event: part.SubagentStart, Session: w.up, Agent: w.made},
		{Event: part.SubagentStop, Session: w.up, Agent: w.made},
		{Event: part.TeammateIdle, Session: w.up, Agent: w.made, Team: "crew"},
	}
	if !reflect.DeepEqual(w.fired, want) {
		t.Errorf("fired\n%+v, want\n%+v", w.fired, want)
	}
	// Whether there is the team is known before the session is made.
	if got := strings.Join(w.joined, ", "); got != "up crew , up crew ann" {
		t.Errorf("joined %s", got)
	}
	w.block, w.ran, w.fired = part.SubagentStart, tool.AgentProgram{}, nil
	_, err := f.start(t.Context(), `{"prompt":"p","description":"d"}`)
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != "hook_blocked" || e.Msg != "not here" || w.ran.Argv != nil || len(w.fired) != 1 {
		t.Errorf("a block of subagentStart: %v, ran %v, fired %+v", err, w.ran.Argv, w.fired)
	}
}

// TestWatchersHearOfAnAgent: of which session, by which call, and how it ended.
func TestWatchersHearOfAnAgent(t *testing.T) {
	for says, status := range map[string]string{
		`{"text":"x"}`: "success", `{"text":"x","is_error":true}`: "error", `{}`: "error",
	} {
		synctest.Test(t, func(t *testing.T) {
			w, f := newWorld()
			w.says = says
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			go func() {
				synctest.Wait()
				_, _ = f.start(ctx, `{"prompt":"p","description":"d","name":"ann"}`)
			}()
			got := routetest.Stream(ctx, f.host.Events.Routes(), tool.RoleAgent, "GET /events")
			const who = `"account":"a","session_id":"agent","call_id":"c1","agent":"ann"`
			if strings.Count(got, who) != 2 || !strings.Contains(got, who+`,"status":"`+status+`"`) {
				t.Errorf("%s: got %s, want %s with %s", says, got, who, status)
			}
		})
	}
}

// TestN05_TheAnswerOfAnAgent: what a client gets, what a model reads, and who wrote it.
func TestN05_TheAnswerOfAnAgent(t *testing.T) {
	for _, tt := range []struct {
		name, says, text, code string
		heard                  []tool.Origin
		origin                 tool.Origin
		want                   data
	}{
		{
			"a text and tools", `{"text":"x","tool_calls":["Read","Grep","Read"]}`,
			"x\n[Tools used: Read, Grep]", "",
			[]tool.Origin{tool.OriginWeb},
			tool.OriginWeb,
			data{Text: "x", Calls: []string{"Read", "Grep", "Read"}},
		},
		{
			"no text", `{"text":""}`, "(Subagent completed with no text output)", "", nil, tool.OriginModel,
			data{Text: "(Subagent completed with no text output)", Calls: []string{}},
		},
		{
			"an error", `{"text":"cannot","is_error":true}`, "", "agent_failed", nil, tool.OriginModel,
			data{Text: "cannot", Calls: []string{}, IsError: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, f := newWorld()
			w.says, w.heard = tt.says, tt.heard
			out, err := f.start(t.Context(), `{"prompt":"p","description":"d","name":"ann"}`)
			tt.want.Session, tt.want.Agent = "agent", "ann"
			if !reflect.DeepEqual(out.Data, tt.want) || out.Text != tt.text || out.Origin != tt.origin {
				t.Errorf("got %+v, want %+v, %q of %q", out, tt.want, tt.text, tt.origin)
			}
			e, _ := errors.AsType[*tool.Error](err)
			if tt.code == "" && err != nil || tt.code != "" && (e == nil || e.Code != tt.code ||
				!reflect.DeepEqual(e.Details, tt.want) || !strings.Contains(e.Hint, "resume agent")) {
				t.Errorf("got %+v, want %s", err, tt.code)
			}
		})
	}
}

// TestAProgramThatFailsIsInTheLog: the answer says what went wrong, and the log has what the program wrote.
func TestAProgramThatFailsIsInTheLog(t *testing.T) {
	for _, tt := range []struct {
		says  string
		fails error
		want  string
	}{
		{"", errors.New("exit status 3"), "the program that runs agents failed: exit status 3"},
		{"", context.DeadlineExceeded, "did not answer within 2s (agents.spawner.timeout)"},
		{"no JSON", nil, "its answer is not one JSON object"},
		{"{}", nil, "its answer has no text"},
	} {
		w, f := newWorld()
		var log strings.Builder
		f.host.Log = slog.New(slog.NewTextHandler(&log, nil))
		w.says, w.fails, w.stderr = tt.says, tt.fails, "it has no key"
		f.config.Load().Spawner.Timeout = 2 * time.Second
		_, err := f.start(t.Context(), `{"prompt":"p","description":"d","name":"ann"}`)
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != "spawner_failed" || !strings.Contains(e.Msg, tt.want) {
			t.Errorf("%q, %v: got %v, want %q", tt.says, tt.fails, err, tt.want)
		}
		if !strings.Contains(log.String(), `session=agent agent=ann stderr="it has no key"`) {
			t.Errorf("%q, %v: the log has %q", tt.says, tt.fails, &log)
		}
	}
}

// TestAProgramThatFailsLeavesItsSession: the error names it, for resume, and the worktree that stays.
func TestAProgramThatFailsLeavesItsSession(t *testing.T) {
	w, f := newWorld()
	w.fails = errors.New("exit status 3")
	r := &run{
		f: f, config: f.config.Load(), in: tool.In{By: &tool.Identity{}}, box: &box{},
		parent: w.up, session: tool.Session{ID: "agent", Agent: "ann"},
		tree: &worktree.Tree{Path: "/w/.worktrees/ann", Branch: "worktree-ann"},
	}
	_, err := r.work(t.Context())
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != "spawner_failed" {
		t.Fatal(err)
	}
	want := data{
		Session: "agent", Agent: "ann", Calls: []string{}, IsError: true,
		Worktree: &kept{"/w/.worktrees/ann", "worktree-ann"},
	}
	if !reflect.DeepEqual(e.Details, want) || !strings.HasSuffix(e.Msg, "[Worktree kept: /w/.worktrees/ann (branch: worktree-ann)]") {
		t.Errorf("got %q with %+v, want %+v", e.Msg, e.Details, want)
	}
}

// TestAnAgentIsResumedByItsParent: it keeps its session and its type, and no session is made.
func TestAnAgentIsResumedByItsParent(t *testing.T) {
	w, f := newWorld()
	f.config.Load().Types["Mine"] = Type{SystemPrompt: "Be strict."}
	w.made = tool.Session{ID: "agent", Account: "a", Parent: "up", Agent: "ann", Type: "Mine", Title: "before"}
	if _, err := f.start(t.Context(), `{"prompt":"p","description":"d","resume":"agent"}`); err != nil {
		t.Fatal(err)
	}
	if w.made.Title != "before" || !strings.Contains(string(w.ran.Stdin), `"system_prompt":"Be strict."`) {
		t.Errorf("made %+v, told %s", w.made, w.ran.Stdin)
	}
	w.made.Parent = "other"
	_, err := f.start(t.Context(), `{"prompt":"p","description":"d","resume":"agent"}`)
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "agent_not_found" {
		t.Errorf("an agent of another session: %v", err)
	}
	w.lost = &tool.Error{Code: "store_unavailable"}
	_, err = f.start(t.Context(), `{"prompt":"p","description":"d","resume":"agent"}`)
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "store_unavailable" {
		t.Errorf("the session cannot be read: %v", err)
	}
}

// TestTheListOfAgentsHasAllOfEach: people see there who runs, with which mode, and at what cost.
func TestTheListOfAgentsHasAllOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := newWorld()
		made := time.Now()
		w.made = tool.Session{
			ID: "agent", Account: "a", Parent: "up", Agent: "ann", Type: "Mine", Mode: tool.ModeAuto, Dir: "/w/x",
			Created: made,
		}
		for range 2 {
			c := &tool.Call{Started: time.Now(), Target: tool.Target{Session: w.made}}
			c.Result.Usage = &tool.Usage{CPUMS: 20}
			time.Sleep(100 * time.Millisecond)
			f.part().Ended(c)
		}
		list := func() []Agent {
			r := httptest.NewRequest("GET", "/agents", nil)
			all, err := f.list(r.WithContext(route.WithCaller(r.Context(), route.Caller{Account: "a"})))
			if err != nil {
				t.Fatal(err)
			}
			return all.([]Agent)
		}
		want := []Agent{
			{Session: "up", Mode: tool.ModePlan, State: "running", Dir: "/w"},
			{
				Session: "agent", Agent: "ann", Parent: "up", Mode: tool.ModeAuto, Type: "Mine", State: "idle",
				Dir: "/w/x", Created: made, Used: Usage{Calls: 2, CPUMS: 40, WallMS: 200},
			},
		}
		if got := list(); !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%+v, want\n%+v", got, want)
		}
		leave, err := f.enter("agent", func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		if got := list(); got[1].State != "running" {
			t.Errorf("an agent whose program runs is %s", got[1].State)
		}
		leave()
		if err := f.part().Forget(t.Context(), w.made); err != nil || list()[1].Used != (Usage{}) {
			t.Errorf("a session of the same id has used %+v, %v", list()[1].Used, err)
		}
	})
}
