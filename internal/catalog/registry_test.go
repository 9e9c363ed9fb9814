package catalog_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestT02_LastOfOneNameWins(t *testing.T) {
	r := catalog.NewRegistry(group("a", "X"), catalog.Group{
		Name: "b", Tools: []tool.Tool{stub{tool.Spec{Name: "X", Description: "second"}}},
	})
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	got, err := r.Lookup(tool.Session{}, "X")
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec().Description != "second" {
		t.Errorf("got %q, want the tool registered last", got.Spec().Description)
	}
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], `"X"`) {
		t.Errorf("got warnings %q, want one that names X", w)
	}
	if n := names(r.Enabled(tool.Session{})); !cmp.Equal(n, []string{"X"}) {
		t.Errorf("got %v, want X once", n)
	}
}

// TestT55_LaterGroupsReplaceThenFilter: built-in, custom and gateway tools are
// registered in this order, and lists of names apply to what is left.
func TestT55_LaterGroupsReplaceThenFilter(t *testing.T) {
	from := func(group string, names ...string) catalog.Group {
		g := catalog.Group{Name: group}
		for _, name := range names {
			g.Tools = append(g.Tools, stub{tool.Spec{Name: name, Description: group}})
		}
		return g
	}
	r := catalog.NewRegistry()
	r.Restrict(nil, []string{"Bash"})
	r.SetDefaults(catalog.Defaults{Groups: map[string]bool{"built-in": true, "custom": true, "gateway": true}})
	for _, g := range []catalog.Group{
		from("built-in", "Read", "Bash"), from("custom", "Read", "Deploy", "Bash"), from("gateway", "Deploy"),
	} {
		r.Register(g)
	}
	var got []string
	for _, found := range r.Enabled(tool.Session{}) {
		got = append(got, found.Spec().Description+" "+found.Spec().Name)
	}
	slices.Sort(got)
	if want := []string{"custom Read", "gateway Deploy"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestT02_ReplacedGroupTakesItsToolsAlong(t *testing.T) {
	r := catalog.NewRegistry(group("a", "X", "Y"))
	r.Register(group("a", "Z"))
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	if n := names(r.Enabled(tool.Session{})); !cmp.Equal(n, []string{"Z"}) {
		t.Errorf("got %v, want only the tools of the second registration", n)
	}
}

func TestT04_NewGroupIsOffWithItsToolsOn(t *testing.T) {
	r := catalog.NewRegistry(group("g", "X"), group("empty"))
	var s tool.Session
	if !r.ToolEnabled(s, "X") || r.GroupEnabled(s, "g") || len(r.Enabled(s)) != 0 {
		t.Errorf("tool on %v, group on %v, definitions %v; want true, false, none", r.ToolEnabled(s, "X"),
			r.GroupEnabled(s, "g"), names(r.Enabled(s)))
	}
	if len(r.Groups()) != 1 {
		t.Errorf("got %d groups, want the empty one ignored", len(r.Groups()))
	}
}

func TestT05_ToggleTwiceIsWhereItBegan(t *testing.T) {
	r := catalog.NewRegistry(group("g", "X"))
	var s tool.Session
	for _, want := range []bool{true, false} {
		over, err := r.ToggleGroup(s, "g", nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Groups = over
		if r.GroupEnabled(s, "g") != want {
			t.Errorf("got %v, want %v", !want, want)
		}
	}
	off := false
	if over, err := r.ToggleGroup(s, "g", &off); err != nil || over["g"] {
		t.Errorf("got %v, %v, want g set to off", over, err)
	}
	over, err := r.SetTool(s, "X", false)
	if err != nil || r.ToolEnabled(tool.Session{Tools: over}, "X") {
		t.Errorf("got %v, %v, want X off", over, err)
	}
	if r.GroupEnabled(s, "nope") || r.ToolEnabled(s, "nope") {
		t.Error("unknown names count as enabled")
	}
	_, err = r.ToggleGroup(s, "nope", nil)
	wantCode(t, err, "group_not_found")
	_, err = r.SetTool(s, "nope", true)
	wantCode(t, err, "tool_not_found")
}

func TestT06_V18_InjectedToolsComeWithAnyOther(t *testing.T) {
	r := catalog.NewRegistry(group("web", "A", "B"), group("vars", "ReadVar", "ListVars", "WriteVar"))
	vars := r.Groups()[1].Tools
	r.Inject(vars[0], vars[1])
	on := func(groups ...string) tool.Session {
		s := tool.Session{Groups: map[string]bool{}}
		for _, g := range groups {
			s.Groups[g] = true
		}
		return s
	}
	oneOff := on("web")
	oneOff.Tools = map[string]bool{"B": false}
	allOff := on("web")
	allOff.Tools = map[string]bool{"A": false, "B": false}
	for _, tt := range []struct {
		name string
		s    tool.Session
		want []string
	}{
		{"nothing on, nothing injected", on(), []string{}},
		{"one of two tools off", oneOff, []string{"A", "ListVars", "ReadVar"}},
		{"CX-11: a group on with all its tools off injects nothing", allOff, []string{}},
		{"no duplicate when their own group is on", on("web", "vars"), []string{
			"A", "B", "ListVars", "ReadVar", "WriteVar",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := names(r.Enabled(tt.s)); !cmp.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			_, err := r.Lookup(tt.s, "ReadVar")
			if (err == nil) != (len(tt.want) > 0) {
				t.Errorf("ReadVar can be called: %v, listed: %v", err == nil, len(tt.want) > 0)
			}
		})
	}
}

func TestT07_T14_LookupRefuses(t *testing.T) {
	r := catalog.NewRegistry(group("g", "Read", "Grep"), group("off", "Cut"))
	r.SetDefaults(catalog.Defaults{Groups: map[string]bool{"g": true}})
	for _, tt := range []struct{ name, tool, code, msg, hint string }{
		{"unknown", "Nope", "tool_not_found", "Tool Nope not found", "list"},
		{"empty", "", "tool_not_found", "Tool  not found", "list"},
		{"CX-70: names are exact, the hint has the right one", "read", "tool_not_found", "Tool read not found", "Read"},
		{"CX-26: its group is off", "Cut", "tool_disabled", "disabled", "group off"},
		{"its agent was started without it", "Grep", "tool_disabled", "started without it", "answer what is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.Lookup(tool.Session{Parent: "p", Without: []string{"Grep"}}, tt.tool)
			e := wantCode(t, err, tt.code)
			if !strings.Contains(e.Msg, tt.msg) || !strings.Contains(e.Hint, tt.hint) || e.Stage != "lookup" {
				t.Errorf("got %q, hint %q, stage %q; want %q, %q", e.Msg, e.Hint, e.Stage, tt.msg, tt.hint)
			}
		})
	}
}

func TestT34_DefaultsThenOverrides(t *testing.T) {
	r := catalog.NewRegistry(group("web", "X", "Y"), group("files", "Read"))
	r.SetDefaults(catalog.Defaults{Groups: map[string]bool{"web": true}, Tools: map[string]bool{"X": false}})
	if got := names(r.Enabled(tool.Session{ID: "1"})); !cmp.Equal(got, []string{"Y"}) {
		t.Errorf("got %v, want web on and X off", got)
	}
	second := tool.Session{ID: "2", Groups: map[string]bool{"files": true}, Tools: map[string]bool{"X": true}}
	if got := names(r.Enabled(second)); !cmp.Equal(got, []string{"Read", "X", "Y"}) {
		t.Errorf("got %v, want the overrides of the second session", got)
	}
}

func TestT33_T35_T36_Definitions(t *testing.T) {
	schema := json.RawMessage(`{"type":"object",  "x-order":[2,1],"properties":{}}`)
	plain := stub{tool.Spec{Name: "A", Description: "does a", Schema: schema}}
	full := stub{tool.Spec{
		Name: "B", Description: "does b", Returns: &tool.Returns{Type: "string", Note: "the text"},
		Annotations: &tool.Annotations{ReadOnly: true},
	}}
	for _, tt := range []struct{ format, want string }{
		{"openai", `[{"type":"function","function":{"name":"A","description":"does a","parameters":SCHEMA}},
			{"type":"function","function":{"name":"B","description":"does b\n\nReturns: string (the text)","parameters":{"type":"object"}}}]`},
		{"anthropic", `[{"name":"A","description":"does a","input_schema":SCHEMA},
			{"name":"B","description":"does b\n\nReturns: string (the text)","input_schema":{"type":"object"}}]`},
		{"mcp", `[{"name":"A","description":"does a","inputSchema":SCHEMA},
			{"name":"B","description":"does b\n\nReturns: string (the text)","inputSchema":{"type":"object"},
			"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}]`},
	} {
		t.Run(tt.format, func(t *testing.T) {
			defs, err := catalog.Definitions([]tool.Tool{plain, full}, tt.format)
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(defs)
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(strings.ReplaceAll(tt.want, "SCHEMA", string(schema))), &want); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(got, want); d != "" {
				t.Error(d)
			}
		})
	}
	_, err := catalog.Definitions(nil, "xml")
	wantCode(t, err, "unknown_format")
	if !(tool.Spec{}).Destructive() {
		t.Error("a tool without annotations must count as destructive")
	}
}

func TestT50_DeferredToolsAreNotListed(t *testing.T) {
	names := func(list []tool.Tool) string {
		var all []string
		for _, tl := range list {
			all = append(all, tl.Spec().Name)
		}
		return strings.Join(all, " ")
	}
	r := catalog.NewRegistry(group("g", "A", "B", "C"), group("finders", "Find"))
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	r.SetDeferred("Find", "B", "C", "Nope")
	for _, tt := range []struct {
		name   string
		s      tool.Session
		listed string
		line   string // of the prompt
	}{
		{"nothing found", tool.Session{}, "A Find", "Tools: A, B, C\nDeferred, Find gives their definitions: B, C\n"},
		{
			"one found",
			tool.Session{Found: []string{"C"}},
			"A C Find",
			"Tools: A, B, C\nDeferred, Find gives their definitions: B\n",
		},
		{"all found", tool.Session{Found: []string{"B", "C"}}, "A B C Find", "Tools: A, B, C\n</tool-group-rule>"},
		{
			"found and switched off",
			tool.Session{Found: []string{"B"}, Tools: map[string]bool{"B": false}},
			"A Find", "Deferred, Find gives their definitions: C\n",
		},
		{
			"nothing to find with",
			tool.Session{Tools: map[string]bool{"Find": false}},
			"A B C",
			"Tools: A, B, C\n</tool-group-rule>",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := names(r.Listed(tt.s)); got != tt.listed {
				t.Errorf("listed %q, want %q", got, tt.listed)
			}
			if got := r.Prompt(tt.s); !strings.Contains(got, tt.line) {
				t.Errorf("the prompt is\n%s\nwithout %q", got, tt.line)
			}
		})
	}
	if _, err := r.Lookup(tool.Session{}, "B"); err != nil {
		t.Errorf("a deferred tool cannot be called: %v", err)
	}
}

// TestV18_ToolsOfOneSessionBringTheInjectedOnes: a session whose only tools are its own has the injected ones too,
// listed, found and explained.
func TestV18_ToolsOfOneSessionBringTheInjectedOnes(t *testing.T) {
	r := catalog.NewRegistry(catalog.Group{Name: "mcp", Of: func(s tool.Session) map[string]tool.Tool {
		if s.ID == "has" {
			return map[string]tool.Tool{"mcp__x__read": named("mcp__x__read")}
		}
		return nil
	}})
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	r.Inject(named("ReadVar"))
	for session, want := range map[string][]string{"has": {"ReadVar", "mcp__x__read"}, "has none": {}} {
		s := tool.Session{ID: session}
		if got := names(r.Enabled(s)); !slices.Equal(got, want) {
			t.Errorf("%s: enabled are %q, want %q", session, got, want)
		}
		if _, err := r.Lookup(s, "ReadVar"); (err == nil) != (len(want) > 0) {
			t.Errorf("%s: ReadVar is found with error %v", session, err)
		}
		if got := r.Prompt(s); (got != "") != (len(want) > 0) {
			t.Errorf("%s: the prompt is %q", session, got)
		}
	}
}

// TestV18_AnInjectedToolIsKeptFromAnAgentThatWasStartedWithoutIt: it comes with any other, and cannot be had that way.
func TestV18_AnInjectedToolIsKeptFromAnAgentThatWasStartedWithoutIt(t *testing.T) {
	r := catalog.NewRegistry(group("g", "A"))
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	r.Inject(named("ReadVar"), named("ListVars"))
	s := tool.Session{Parent: "up", Above: []tool.Session{{}}, Without: []string{"ReadVar"}}
	if got := names(r.Enabled(s)); !slices.Equal(got, []string{"A", "ListVars"}) {
		t.Errorf("enabled are %q", got)
	}
	if _, err := r.Lookup(s, "ListVars"); err != nil {
		t.Error(err)
	}
	_, err := r.Lookup(s, "ReadVar")
	wantCode(t, err, "tool_disabled")
}
