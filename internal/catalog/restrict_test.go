package catalog_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestP22_RestrictedToolsAreNotListedAndNotCallable(t *testing.T) {
	s := tool.Session{Tools: map[string]bool{"Bash": true}, Groups: map[string]bool{"g": true}}
	for _, tt := range []struct {
		name              string
		allow, deny, want []string
	}{
		{"no lists", nil, nil, []string{"Bash", "Edit", "Read", "ReadVar"}},
		{"allowedTools", []string{"Read"}, nil, []string{"Read"}},
		{"disallowedTools", nil, []string{"Bash", "readvar"}, []string{"Edit", "Read"}},
		{"in both", []string{"Bash", "Read"}, []string{"Bash"}, []string{"Read"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := catalog.NewRegistry()
			r.Restrict(tt.allow, tt.deny)
			r.Register(catalog.Group{Name: "g", Tools: []tool.Tool{named("Read"), named("Bash"), named("Edit")}})
			r.Inject(named("ReadVar"))
			if got := names(r.Enabled(s)); !cmp.Equal(got, tt.want) {
				t.Errorf("listed %v, want %v", got, tt.want)
			}
			for _, name := range []string{"Bash", "Edit", "Read", "ReadVar"} {
				_, err := r.Lookup(s, name)
				if listed := slices.Contains(tt.want, name); (err == nil) != listed {
					t.Errorf("%s: callable is %v, want %v", name, err == nil, listed)
				}
			}
		})
	}
}

// Where Bash is off, so is the name that Codex has for it.
func TestAToolByAnotherNameIsOffWithIt(t *testing.T) {
	on := map[string]bool{"g": true}
	for _, tt := range []struct {
		name    string
		deny    []string
		session tool.Session
		found   bool
	}{
		{"on", nil, tool.Session{Groups: on}, true},
		{"denied for all", []string{"Bash"}, tool.Session{Groups: on}, false},
		{"off in the session", nil, tool.Session{Groups: on, Tools: map[string]bool{"Bash": false}}, false},
		{"taken from the agent", nil, tool.Session{Groups: on, Parent: "p", Without: []string{"Bash"}}, false},
	} {
		r := catalog.NewRegistry()
		r.Restrict(nil, tt.deny)
		r.Register(catalog.Group{Name: "g", Tools: []tool.Tool{named("Bash"), named("exec_command")}})
		if _, err := r.Lookup(tt.session, "exec_command"); (err == nil) != tt.found {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// What keeps a tool of all sessions out keeps out one that a session has beside them, such as a tool of an MCP server.
func TestP22_AToolOfOneSessionIsKeptOutAsOthersAre(t *testing.T) {
	const name = "mcp__x__read"
	for _, tt := range []struct {
		name        string
		allow, deny []string
		session     tool.Session
		code        string // of the error of a call; "" if it is callable
		set         string // the same of a switch
	}{
		{"nothing keeps it out", nil, nil, tool.Session{}, "", ""},
		{"denied", nil, []string{"MCP__x__read"}, tool.Session{}, "tool_not_found", "tool_not_found"},
		{"not allowed", []string{"Bash"}, nil, tool.Session{}, "tool_not_found", "tool_not_found"},
		{"allowed", []string{name}, nil, tool.Session{}, "", ""},
		{"off in the session", nil, nil, tool.Session{Tools: map[string]bool{name: false}}, "tool_disabled", ""},
		{
			"its group is off", nil, nil,
			tool.Session{Groups: map[string]bool{"mcp": false}},
			"tool_not_found", "tool_not_found",
		},
		{
			"off above", nil, nil,
			tool.Session{Parent: "up", Above: []tool.Session{{Tools: map[string]bool{name: false}}}},
			"tool_not_found", "tool_not_found",
		},
		{
			"its group is off above", nil, nil,
			tool.Session{Parent: "up", Above: []tool.Session{{Groups: map[string]bool{"mcp": false}}}},
			"tool_not_found", "tool_not_found",
		},
		{
			"taken from the agent", nil, nil,
			tool.Session{Parent: "up", Above: []tool.Session{{}}, Without: []string{name}},
			"tool_disabled", "tool_not_found",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := catalog.NewRegistry()
			r.Restrict(tt.allow, tt.deny)
			r.Register(catalog.Group{Name: "mcp", Of: func(tool.Session) map[string]tool.Tool {
				return map[string]tool.Tool{name: named(name)}
			}})
			r.SetDefaults(catalog.Defaults{AllGroups: true})
			if got := len(r.Enabled(tt.session)); (got == 1) != (tt.code == "") {
				t.Errorf("%d tools are listed", got)
			}
			_, err := r.Lookup(tt.session, name)
			if tt.code != "" {
				wantCode(t, err, tt.code)
			} else if err != nil {
				t.Error(err)
			}
			_, err = r.SetTool(tt.session, name, false)
			if tt.set != "" {
				wantCode(t, err, tt.set)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// While a skill runs, what it does not let be called is neither listed nor found, whatever is on.
func TestASkillThatRunsKeepsOtherToolsOut(t *testing.T) {
	r := catalog.NewRegistry(group("g", "Bash", "Read"))
	r.Register(catalog.Group{Name: "mcp", Of: func(tool.Session) map[string]tool.Tool {
		return map[string]tool.Tool{"mcp__x__read": named("mcp__x__read")}
	}})
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	r.Inject(named("ReadVar"))
	s := tool.Session{ID: "s", Skills: []tool.Skill{{Name: "look", Tools: []string{"Read"}}}}
	if got := names(r.Enabled(s)); !slices.Equal(got, []string{"Read"}) {
		t.Errorf("listed are %q", got)
	}
	if _, err := r.Lookup(s, "Read"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"Bash", "mcp__x__read", "ReadVar"} {
		_, err := r.Lookup(s, name)
		wantCode(t, err, "skill_restricted")
	}
}
