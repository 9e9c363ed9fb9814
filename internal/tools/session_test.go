package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
)

// memorySessions is one session in memory.
type memorySessions struct {
	mu sync.Mutex
	s  tool.Session
}

func (m *memorySessions) Session(_ context.Context, _, id string) (tool.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id != m.s.ID {
		return tool.Session{}, &tool.Error{Code: "session_not_found"}
	}
	return m.s, nil
}

func (m *memorySessions) Patch(_ context.Context, _, id string, change func(*tool.Session) error) (tool.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.s
	if err := change(&s); err != nil {
		return tool.Session{}, err
	}
	m.s = s
	return s, nil
}

// sessionEnv has the tools of the session group by name.
func sessionEnv(t *testing.T, mode tool.Mode) (*toolstest.Env, *memorySessions, map[string]tool.Tool) {
	t.Helper()
	s := &memorySessions{s: tool.Session{ID: "s", Mode: mode, Dir: "/src", Title: "old"}}
	r := catalog.NewRegistry(Groups()...)
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	r.SetDeferred("ToolSearch", Deferred()...)
	r.Register(SessionGroup(s, r))
	byName := map[string]tool.Tool{}
	for _, tl := range r.Enabled(tool.Session{}) {
		byName[tl.Spec().Name] = tl
	}
	return toolstest.New(t), s, byName
}

func TestTodoWriteKeepsAList(t *testing.T) {
	e, s, tools := sessionEnv(t, "default")
	s.s.Metadata = json.RawMessage(`{"client":{"a":1}}`)
	todo := tools["TodoWrite"]
	for _, tt := range []struct {
		args m
		want string
	}{
		{m{"action": "list"}, "nothing to do"},
		{m{"action": "add", "text": "read", "priority": "high"}, "1. [ ] read (high)"},
		{m{"action": "add", "text": "write"}, "1. [ ] read (high)\n2. [ ] write"},
		{m{"action": "toggle", "id": 1}, "1. [x] read (high)\n2. [ ] write"},
		{m{"action": "toggle", "id": 1}, "1. [ ] read (high)\n2. [ ] write"},
		{m{"action": "remove", "id": 1}, "2. [ ] write"},
		{m{"action": "add", "text": "test"}, "2. [ ] write\n3. [ ] test"},
		{m{"action": "clear"}, "nothing to do"},
		{m{"todos": []m{{"content": "a", "status": "in_progress", "activeForm": "doing a"}, {"content": "b", "status": "completed"}}}, "1. [~] a\n2. [x] b"},
		{m{"todos": []m{}}, "nothing to do"},
	} {
		if got := e.OK(todo, tt.args); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.args, got, tt.want)
		}
	}
	_, out, err := e.Call(todo, m{"action": "add", "text": "write"})
	if b, _ := json.Marshal(out.Data); err != nil || !strings.Contains(string(b), `"priority":"medium"`) {
		t.Errorf("an entry without a priority is %s, %v", b, err)
	}
	e.OK(todo, m{"action": "clear"})
	if !strings.Contains(string(s.s.Metadata), `"client":{"a":1}`) {
		t.Errorf("the client's metadata is gone: %s", s.s.Metadata)
	}
	e.Fails(todo, m{}, "invalid_arguments")
	e.Fails(todo, m{"action": "add"}, "invalid_arguments")
	e.Fails(todo, m{"action": "toggle", "id": 99}, "todo_not_found")
	e.Fails(todo, m{"action": "list", "todos": []m{}}, "invalid_arguments")
	for i := range maxTodos {
		e.OK(todo, m{"action": "add", "text": fmt.Sprint(i)})
	}
	e.Fails(todo, m{"action": "add", "text": "one more"}, "too_many_todos")
	s.s.Metadata = json.RawMessage(`[1]`)
	e.Fails(todo, m{"action": "list"}, "metadata_not_object")
}

func TestPlanModeOnlyTightensWithoutAPerson(t *testing.T) {
	for _, mode := range []tool.Mode{
		tool.ModeDefault, tool.ModeAcceptEdits, tool.ModeAuto,
		tool.ModeBypassPermissions,
	} {
		e, s, tools := sessionEnv(t, mode)
		e.OK(tools["EnterPlanMode"], m{})
		if s.s.Mode != tool.ModePlan {
			t.Errorf("got mode %q after EnterPlanMode from %s", s.s.Mode, mode)
		}
		e.OK(tools["EnterPlanMode"], m{}) // again: nothing
		e.OK(tools["ExitPlanMode"], m{"plan": "do it"})
		if s.s.Mode != mode {
			t.Errorf("got mode %q after ExitPlanMode, want %s back", s.s.Mode, mode)
		}
		e.Fails(tools["ExitPlanMode"], m{"plan": "do it"}, "not_planning")
	}
	e, s, tools := sessionEnv(t, "dontAsk")
	e.Fails(tools["EnterPlanMode"], m{}, "mode_not_tightened")
	if s.s.Mode != "dontAsk" {
		t.Errorf("got mode %q", s.s.Mode)
	}
	// A session that began in plan mode, or one from before a restart, ends in
	// the mode that asks about everything.
	e, s, tools = sessionEnv(t, "plan")
	s.s.Metadata = json.RawMessage(`{"sandboxd":{"mode":"bypassPermissions","left":"bypassPermissions"}}`)
	e.OK(tools["ExitPlanMode"], m{"plan": "do it"})
	if s.s.Mode != "default" {
		t.Errorf("got mode %q, want default", s.s.Mode)
	}
	if p := tools["ExitPlanMode"].Spec().Execution; p != tool.ExecAskAlways {
		t.Errorf("ExitPlanMode has execution policy %q: it loosens and must ask a person every time", p)
	}
	e.Fails(tools["ExitPlanMode"], m{"plan": ""}, "invalid_arguments")
}

func TestConfigHasAClosedListOfKeys(t *testing.T) {
	e, s, tools := sessionEnv(t, "plan")
	config := tools["Config"]
	e.OK(config, m{"action": "set", "key": "title", "value": "new"})
	e.OK(config, m{"action": "set", "key": "metadata", "value": m{"n": []int{1}}})
	if s.s.Title != "new" || string(s.s.Metadata) != `{"n":[1]}` {
		t.Errorf("got title %q, metadata %s", s.s.Title, s.s.Metadata)
	}
	var list map[string]any
	if err := json.Unmarshal([]byte(e.OK(config, m{"action": "list"})), &list); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"title": "new", "tag": "", "metadata": map[string]any{"n": []any{1.0}}, "mode": "plan", "profile": "", "cwd": "/src"}
	if d := cmp.Diff(list, want); d != "" {
		t.Error(d)
	}
	if got := e.OK(config, m{"action": "get", "key": "mode"}); got != "{\n  \"mode\": \"plan\"\n}" {
		t.Errorf("got %s", got)
	}
	before := s.s
	for _, key := range []string{"mode", "profile", "cwd"} {
		e.Fails(config, m{"action": "set", "key": key, "value": "bypassPermissions"}, "config_read_only")
	}
	for _, args := range []m{
		{"action": "set", "key": "sandbox", "value": m{}},
		{"action": "set", "key": "title", "value": 1},
		{"action": "set", "key": "title"},
		{"action": "set", "key": "metadata", "value": "text"},
		{"action": "set", "key": "tag", "value": strings.Repeat("x", 300)},
		{"action": "get"},
		{"action": "drop", "key": "title"},
	} {
		e.Fails(config, args, "invalid_arguments")
	}
	if d := cmp.Diff(s.s, before); d != "" {
		t.Errorf("a refused set changed the session: %s", d)
	}
}

func TestT50_ToolSearch(t *testing.T) {
	e, _, tools := sessionEnv(t, "default")
	search := tools["ToolSearch"]
	found := func(args m) []string {
		t.Helper()
		_, out, err := e.Call(search, args)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(out.Data)
		if err != nil {
			t.Fatal(err)
		}
		var defs []struct{ Name string }
		if err := json.Unmarshal(b, &defs); err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, d := range defs {
			names = append(names, d.Name)
		}
		return names
	}
	for _, tt := range []struct {
		args m
		want []string
	}{
		{m{"query": "select:Config"}, []string{"Config"}},
		{m{"query": "select:todowrite, Bash,Nope"}, []string{"Bash", "TodoWrite"}},
		{m{"query": "notebook"}, []string{"NotebookEdit", "Read"}},
		{m{"query": "notebook", "max_results": 1}, []string{"NotebookEdit"}},
		{m{"query": "zzz"}, []string{}},
		{m{"query": "select:"}, []string{}},
	} {
		if got := found(tt.args); !cmp.Equal(got, tt.want) {
			t.Errorf("%v: got %v, want %v", tt.args, got, tt.want)
		}
	}
	if got := found(m{"query": "file mode the a"}); len(got) != 5 {
		t.Errorf("got %v, want five at most", got)
	}
}

func TestT50_WhatIsFoundStaysFound(t *testing.T) {
	e, s, tools := sessionEnv(t, "default")
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"select:Bash,Read", nil}, // these were never deferred
		{"select:Nope", nil},
		{"select:TodoWrite,Config", []string{"Config", "TodoWrite"}},
		{"notebook", []string{"Config", "NotebookEdit", "TodoWrite"}},
		{"select:Config", []string{"Config", "NotebookEdit", "TodoWrite"}},
	} {
		if _, _, err := e.Call(tools["ToolSearch"], m{"query": tt.query}); err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(s.s.Found, tt.want) {
			t.Errorf("after %q the session has found %q, want %q", tt.query, s.s.Found, tt.want)
		}
	}
	if s.s.Mode != "default" || s.s.Title != "old" || s.s.Metadata != nil {
		t.Errorf("a search changed the session: %+v", s.s)
	}
}
