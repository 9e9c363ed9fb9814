package vars_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tool"
	"github.com/sandboxd/sandboxd/vars"
)

func editRule(prompt string) map[string]tool.Rule {
	return map[string]tool.Rule{"edit": {Desc: "how to edit", Prompt: prompt}}
}

func TestR01_RulesNeedDescAndPrompt(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for _, r := range []tool.Rule{{Desc: "d"}, {Prompt: "p"}} {
		wantError(t, f.RegisterRules(t.Context(), "s", "fs", map[string]tool.Rule{"x": r}), "validation_error", "")
	}
}

func TestR02_R03_RulesAreKeptVariables(t *testing.T) {
	f := newFixture(t, vars.Options{Capacity: 10})
	if err := f.RegisterRules(t.Context(), "s", "fs", editRule("the text")); err != nil {
		t.Fatal(err)
	}
	for i := range 510 {
		f.put(fmt.Sprint(i), "")
	}
	v, ok := f.get("Rule/fs/edit")
	if !ok || *v.Value != "the text" || v.Type != vars.TypeRule || v.Desc != "Skill rule for fs: how to edit" || !v.Keep || fmt.Sprint(v.Origins) != "[rule]" {
		t.Errorf("got %+v", v)
	}
	no := false
	for _, c := range []vars.Change{{Keep: &no}, {Type: ptr(vars.TypeUser)}, {Value: ptr("x")}, {Desc: ptr("x")}} {
		_, _, err := f.Update(t.Context(), "s", "Rule/fs/edit", c, tool.OriginPerson)
		wantError(t, err, "variable_protected", "")
	}
	_, _, err := f.Put(t.Context(), "s", "Rule/fs/edit", vars.Change{Value: ptr("x")}, tool.OriginPerson)
	wantError(t, err, "variable_protected", "")
}

func TestR04_RulesCannotBeRemoved(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.mustCall("RemoveVars", `{"names":["Rule/Agent/TODO"]}`)
	if _, ok := f.get("Rule/Agent/TODO"); !ok {
		t.Error("the rule is gone")
	}
}

func TestR05_BuiltInRules(t *testing.T) {
	f := newFixture(t, vars.Options{})
	page, total, err := f.List(t.Context(), "fresh", vars.Filter{})
	if err != nil || total != 2 || page[0].Name != "Rule/Agent/TODO" && page[1].Name != "Rule/Agent/TODO" {
		t.Errorf("got %+v, %d, %v", page, total, err)
	}
}

func TestR06_VarRefDocument(t *testing.T) {
	f := newFixture(t, vars.Options{})
	doc := f.mustCall("ReadVar", `{"name":"Rule/Agent/VarRef"}`).Text
	for _, want := range []string{"$VAR_REF{{name}}", "$VAR_REF{{name:start:length}}", "always gives text", "In any string of the arguments", "Pipe"} {
		if !strings.Contains(doc, want) {
			t.Errorf("the document does not mention %q", want)
		}
	}
}

// The calls of the document are run as they stand in it.
func TestR07_TheTodoDocumentWorks(t *testing.T) {
	f := newFixture(t, vars.Options{})
	doc := f.mustCall("ReadVar", `{"name":"Rule/Agent/TODO"}`).Text
	ran := map[string]int{}
	var lists []string
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		name, rest, ok := strings.Cut(line, "(")
		if !ok || !strings.HasPrefix(rest, "{") {
			continue
		}
		args, _, _ := strings.Cut(rest, "})")
		out := f.mustCall(name, args+"}")
		ran[name]++
		if name == "ListVars" {
			lists = append(lists, out.Text)
		}
	}
	if ran["WriteVar"] != 3 || ran["ListVars"] != 2 || ran["RemoveVars"] != 1 {
		t.Errorf("ran %v", ran)
	}
	for _, text := range lists {
		if !strings.Contains(text, "TODO_1_parser") {
			t.Errorf("the item is not listed: %s", text)
		}
	}
	if got := f.list(vars.Filter{Tag: "TODO"}); len(got) != 0 {
		t.Errorf("left over: %v", got)
	}
}

func TestR09_R10_IndexOfTheBuiltInRules(t *testing.T) {
	g := vars.AgentRules()
	want := "**On-Demand Documentation (Stored as Variables):**\n" +
		"| Var | Description | When to Use |\n|---|---|---|\n" +
		"| `Rule/Agent/TODO` | How to keep a TODO list in variables | When a task has several steps |\n" +
		"| `Rule/Agent/VarRef` | How to use variables in arguments with $VAR_REF | Before you pass a long or earlier text to a tool |\n" +
		"*Access via: ReadVar({\"name\": \"<VarName>\"})*"
	got := tool.RuleIndex(g.Name, g.Rules)
	if strings.ReplaceAll(got, "\n\n", "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestR12_ReadVarGivesTheWholeRule(t *testing.T) {
	f := newFixture(t, vars.Options{})
	prompt := strings.Repeat("line $VAR_REF{{x}} ü\n", 5000)
	if err := f.RegisterRules(t.Context(), "s", "g", editRule(prompt)); err != nil {
		t.Fatal(err)
	}
	if got := f.mustCall("ReadVar", `{"name":"Rule/g/edit"}`).Data; got != any(prompt) {
		t.Error("the document is not the one registered")
	}
}

func TestR14_RulesOfGroupsAreInEverySession(t *testing.T) {
	f := newFixture(t, vars.Options{Groups: []tool.Group{{Name: "fs", Rules: editRule("off or on")}}})
	if v, ok := f.get("Rule/fs/edit"); !ok || *v.Value != "off or on" {
		t.Errorf("got %+v", v)
	}
}

func TestR16_RegisteringAgainReplaces(t *testing.T) {
	f := newFixture(t, vars.Options{})
	two := editRule("old")
	two["gone"] = tool.Rule{Desc: "d", Prompt: "p"}
	for _, rules := range []map[string]tool.Rule{two, editRule("new")} {
		if err := f.RegisterRules(t.Context(), "s", "fs", rules); err != nil {
			t.Fatal(err)
		}
	}
	if v, _ := f.get("Rule/fs/edit"); *v.Value != "new" || !v.Keep {
		t.Errorf("got %+v", v)
	}
	if _, ok := f.get("Rule/fs/gone"); ok {
		t.Error("a rule that is not declared any more is there")
	}
	if _, ok := f.get("Rule/Agent/TODO"); !ok {
		t.Error("the rules of another group are gone")
	}
}

func TestRulesOfANewProgramReachOldSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	old := openFixture(t, path, vars.Options{Groups: []tool.Group{{Name: "fs", Rules: editRule("old")}}})
	old.put("x", "v")
	next := openFixture(t, path, vars.Options{Groups: []tool.Group{{Name: "fs", Rules: editRule("new")}}})
	if v, _ := next.get("Rule/fs/edit"); *v.Value != "new" {
		t.Errorf("got %+v", v)
	}
	if v, ok := next.get("x"); !ok || *v.Value != "v" {
		t.Errorf("got %+v", v)
	}
}

func TestASessionThatIsDeletedLeavesNothing(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.put("x", "secret")
	c := f.remember(tool.Spec{Name: "WebFetch", Origin: tool.OriginWeb}, `{}`, "page", true)
	f.deleteSession()
	for name, err := range map[string]error{
		"publish":  f.Publish(t.Context(), c),
		"remember": f.Remember(t.Context(), c, false),
		"read":     func() error { _, _, err := f.Get(t.Context(), "s", "x"); return err }(),
		"list":     func() error { _, _, err := f.List(t.Context(), "s", vars.Filter{}); return err }(),
	} {
		if e, ok := err.(*tool.Error); !ok || e.Code != "session_not_found" {
			t.Errorf("%s: got %v, want session_not_found", name, err)
		}
	}
	f.createSession()
	if got := f.list(vars.Filter{}); len(got) != 0 {
		t.Errorf("the session begins with %v", got)
	}
	if got, _ := f.Released(t.Context(), "s"); len(got) != 0 {
		t.Errorf("the session begins with origins %v", got)
	}
}
