package catalog_test

import (
	"slices"
	"strings"
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

// Where a tool is off, so are the names that other agents have for it.
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
		{"given to the agent by its own name", nil, tool.Session{Groups: on, Parent: "p", Only: []string{"OTHER"}}, true},
	} {
		for other, name := range map[string]string{
			"exec_command": "Bash", "write_stdin": "TaskInput", "BashOutput": "TaskOutput", "KillShell": "TaskStop",
		} {
			s := tt.session
			s.Tools = map[string]bool{}
			for of, on := range tt.session.Tools {
				s.Tools[strings.ReplaceAll(of, "Bash", name)] = on
			}
			renamed := func(list []string) (out []string) {
				for _, of := range list {
					out = append(out, strings.NewReplacer("Bash", name, "OTHER", other).Replace(of))
				}
				return out
			}
			s.Without, s.Only = renamed(s.Without), renamed(s.Only)
			r := catalog.NewRegistry()
			r.Restrict(nil, renamed(tt.deny))
			r.Register(catalog.Group{Name: "g", Tools: []tool.Tool{named(name), named(other)}})
			if _, err := r.Lookup(s, other); (err == nil) != tt.found {
				t.Errorf("%s, %s: %v", tt.name, other, err)
			}
			listed := slices.ContainsFunc(r.Enabled(s), func(t tool.Tool) bool { return t.Spec().Name == other })
			if listed != tt.found {
				t.Errorf("%s, %s: listed is %v", tt.name, other, listed)
			}
		}
	}
}

// What is said of when people are asked about a tool holds for the names of other agents, if it is stricter.
func TestAToolByAnotherNameIsAskedAboutWithIt(t *testing.T) {
	for _, tt := range []struct {
		name     string
		own, has catalog.Permission
		want     catalog.Permission
	}{
		{"nothing", catalog.Permission{}, catalog.Permission{}, catalog.Permission{}},
		{
			"the other alone",
			catalog.Permission{},
			catalog.Permission{tool.ExecAskAlways, tool.ResultAlways},
			catalog.Permission{tool.ExecAskAlways, tool.ResultAlways},
		},
		{
			"the other is stricter",
			catalog.Permission{tool.ExecAuto, tool.ResultNever},
			catalog.Permission{tool.ExecAskOnce, tool.ResultOnError},
			catalog.Permission{tool.ExecAskOnce, tool.ResultOnError},
		},
		{
			"its own is stricter",
			catalog.Permission{tool.ExecAskAlways, tool.ResultOnError},
			catalog.Permission{tool.ExecAskOnce, tool.ResultNever},
			catalog.Permission{tool.ExecAskAlways, tool.ResultOnError},
		},
		{
			"the other loosens nothing",
			catalog.Permission{},
			catalog.Permission{tool.ExecAuto, tool.ResultNever},
			catalog.Permission{},
		},
	} {
		r := catalog.NewRegistry()
		r.SetPermissions(map[string]catalog.Permission{"TaskInput": tt.has, "write_stdin": tt.own})
		s := r.Spec(named("write_stdin"))
		if got := (catalog.Permission{Execution: s.Execution, Results: s.Results}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
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
