package tool_test

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// An agent has what every session above it may have, of these the tools that it was given, and starts nobody. The
// tools for variables (MayHave) stay unless they are taken away.
func TestN04_WhichToolsAnAgentMayHave(t *testing.T) {
	up := tool.Session{ID: "up"}
	below := func(s tool.Session) tool.Session {
		s.Parent, s.Above = "up", []tool.Session{up}
		return s
	}
	deep := func(narrow tool.Session) tool.Session {
		return tool.Session{Parent: narrow.ID, Above: []tool.Session{narrow, up}}
	}
	narrow := tool.Session{ID: "narrow", Parent: "up", Only: []string{"Read"}, Without: []string{"Bash", "GetVar"}}
	for _, tt := range []struct {
		name          string
		s             tool.Session
		tool          string
		may, variable bool
	}{
		{"who was not started starts others", up, "Agent", true, true},
		{"an agent does not", below(tool.Session{}), "Agent", false, true},
		{"by neither name", below(tool.Session{}), "Task", false, true},
		{"nor if its list has it", below(tool.Session{Only: []string{"Agent"}}), "Agent", false, true},
		{"no list is all", below(tool.Session{}), "Read", true, true},
		{"an empty list is all", below(tool.Session{Only: []string{}}), "Read", true, true},
		{"a tool of the list, in any case", below(tool.Session{Only: []string{"read"}}), "Read", true, true},
		{"a tool that the list lacks", below(tool.Session{Only: []string{"Read"}}), "Bash", false, true},
		{"one that is taken away", below(tool.Session{Without: []string{"Read"}}), "Read", false, false},
		{
			"in the list and taken away",
			below(tool.Session{Only: []string{"Read"}, Without: []string{"read"}}), "Read", false, false,
		},
		{"one that a session above lacks", deep(narrow), "Grep", false, true},
		{"one that it has", deep(narrow), "Read", true, true},
		{"one taken away above", deep(narrow), "GetVar", false, false},
	} {
		if may, variable := tt.s.May(tt.tool), tt.s.MayHave(tt.tool); may != tt.may || variable != tt.variable {
			t.Errorf("%s: %s is %v, as one for variables %v", tt.name, tt.tool, may, variable)
		}
	}
}

// The name of the agent at the top belongs to it in every spelling.
func TestNobodyElseIsSelf(t *testing.T) {
	for name, want := range map[string]string{
		"self": "top of its tree", "SELF": "top of its tree", "": "agent is missing", "-a": "not a name", "a": "",
	} {
		err := tool.CheckAgent(name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
}
