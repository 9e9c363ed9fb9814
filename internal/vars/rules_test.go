package vars_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

func editRule(prompt string) map[string]catalog.Rule {
	return map[string]catalog.Rule{"edit": {Desc: "how to edit", Prompt: prompt}}
}

// declare makes the rules of one group those of every session.
func (f *fixture) declare(group string, rules map[string]catalog.Rule) {
	f.t.Helper()
	if err := f.Declare(catalog.Group{Name: group, Rules: rules}); err != nil {
		f.t.Fatal(err)
	}
}

func TestR01_RulesNeedDescAndPrompt(t *testing.T) {
	f := newFixture(t, vars.Options{MaxValue: 20_000})
	for _, tt := range []struct {
		name, group, rule string
		r                 catalog.Rule
		code, msg         string
	}{
		{
			"no prompt", "fs", "x",
			catalog.Rule{Desc: "d"},
			"validation_error",
			`skill rule "x" of group "fs" needs desc and prompt`,
		},
		{
			"no desc", "fs", "x",
			catalog.Rule{Prompt: "p"},
			"validation_error",
			`skill rule "x" of group "fs" needs desc and prompt`,
		},
		{
			"a name of a built-in rule", "Agent", "TODO",
			catalog.Rule{Desc: "d", Prompt: "p"},
			"validation_error",
			"skill rule Rule/Agent/TODO is declared twice",
		},
		{"a name that ends a reference", "fs", "a}}", catalog.Rule{Desc: "d", Prompt: "p"}, "validation_error", ""},
		{"a long prompt", "fs", "x", catalog.Rule{Desc: "d", Prompt: strings.Repeat("p", 20_001)}, "value_too_large", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantError(t, f.Declare(catalog.Group{Name: tt.group, Rules: map[string]catalog.Rule{tt.rule: tt.r}}), tt.code, tt.msg)
		})
	}
	if page, err := f.List(t.Context(), "s", vars.Filter{Type: vars.TypeRule}); err != nil || page.Total != 2 {
		t.Errorf("refused rules left %d rules, %v; want the two that are built in", page.Total, err)
	}
}

func TestR02_R03_RulesAreKeptVariables(t *testing.T) {
	f := newFixture(t, vars.Options{Capacity: 10})
	f.declare("fs", editRule("the text"))
	for i := range 510 {
		f.put(fmt.Sprint(i), "")
	}
	v, ok := f.get("Rule/fs/edit")
	if !ok || *v.Value != "the text" || v.Type != vars.TypeRule || v.Desc != "Skill rule for fs: how to edit" ||
		!v.Keep || fmt.Sprint(v.Origins) != "[rule]" {
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
	page, err := f.List(t.Context(), "fresh", vars.Filter{})
	if err != nil || page.Total != 2 || page.Keys[0].ID != "Rule/Agent/TODO" && page.Keys[1].ID != "Rule/Agent/TODO" {
		t.Errorf("got %+v, %v", page, err)
	}
}

func TestR06_VarRefDocument(t *testing.T) {
	f := newFixture(t, vars.Options{})
	doc := f.mustCall("ReadVar", `{"name":"Rule/Agent/VarRef"}`).Text
	for _, want := range []string{
		"$VAR_REF{{name}}", "$VAR_REF{{name:start:length}}", "always gives text",
		"In any string of the arguments", "Pipe",
	} {
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
		"| `Rule/Agent/VarRef` | How to use variables in arguments with $VAR_REF | Before you pass a long or earlier " +
		"text to a tool |\n" +
		"*Access via: ReadVar({\"name\": \"<VarName>\"})*"
	got := catalog.RuleIndex(g.Name, g.Rules)
	if strings.ReplaceAll(got, "\n\n", "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestR12_ReadVarGivesTheWholeRule(t *testing.T) {
	f := newFixture(t, vars.Options{})
	prompt := strings.Repeat("line $VAR_REF{{x}} ü\n", 5000)
	f.declare("g", editRule(prompt))
	if got := f.mustCall("ReadVar", `{"name":"Rule/g/edit"}`).Data; got != any(prompt) {
		t.Error("the document is not the one registered")
	}
}

func TestR14_RulesOfGroupsAreInEverySession(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.declare("fs", editRule("off or on"))
	if v, ok := f.get("Rule/fs/edit"); !ok || *v.Value != "off or on" {
		t.Errorf("got %+v", v)
	}
}

func TestR16_DeclaringAgainReplaces(t *testing.T) {
	f := newFixture(t, vars.Options{Capacity: 10})
	two := editRule("old")
	two["gone"] = catalog.Rule{Desc: "d", Prompt: "p"}
	f.declare("fs", two)
	f.put("Rule/fs/mine", "a variable of the user")
	if _, ok := f.get("Rule/fs/gone"); !ok {
		t.Fatal("a declared rule is missing")
	}
	f.declare("fs", editRule("new"))
	if v, _ := f.get("Rule/fs/edit"); *v.Value != "new" || !v.Keep || v.Type != vars.TypeRule {
		t.Errorf("got %+v", v)
	}
	if _, ok := f.get("Rule/fs/gone"); ok {
		t.Error("a rule that is not declared any more is there")
	}
	for _, name := range []string{"Rule/Agent/TODO", "Rule/fs/mine"} {
		if _, ok := f.get(name); !ok {
			t.Errorf("%s is gone", name)
		}
	}
	// What counts the kept ones still holds: seven others fit beside the three rules.
	for i := range 20 {
		f.put(fmt.Sprint(i), "")
	}
	if page, err := f.List(t.Context(), "s", vars.Filter{}); err != nil || page.Total != 10 {
		t.Errorf("got %d variables, %v, want 10", page.Total, err)
	}
}

// A call that only writes, or only resolves, gets the new rules as well.
func TestR16_EveryWayIntoASessionHasTheNewRules(t *testing.T) {
	for name, use := range map[string]func(*fixture){
		"write":   func(f *fixture) { f.put("x", "v") },
		"resolve": func(f *fixture) { _, _ = f.resolve(`{"a":"plain"}`) },
		"read":    func(f *fixture) { f.get("x") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, vars.Options{})
			f.put("x", "v")
			f.declare("fs", editRule("new"))
			use(f)
			var value string
			err := f.db.Read(t.Context(), func(tx *sql.Tx) error {
				return tx.QueryRow(`SELECT value FROM vars WHERE session = 's' AND name = 'Rule/fs/edit'`).Scan(&value)
			})
			if err != nil || value != "new" {
				t.Errorf("got %q, %v", value, err)
			}
		})
	}
}

func TestRulesOfANewProgramReachOldSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	old := openFixture(t, path, vars.Options{})
	old.declare("fs", editRule("old"))
	old.put("x", "v")
	next := openFixture(t, path, vars.Options{})
	next.declare("fs", editRule("new"))
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
	page := strings.Repeat("words of a page, ", 10)
	f.remember(tool.Spec{Name: "WebFetch", Origin: tool.OriginWeb}, `{}`, page, false)
	c := f.remember(tool.Spec{Name: "WebFetch", Origin: tool.OriginWeb}, `{}`, "page", true)
	if f.rows("vars", "var_pending", "var_untrusted") == 0 {
		t.Fatal("nothing is kept of the session")
	}
	f.deleteSession()
	if n := f.rows("vars", "var_pending", "var_untrusted"); n != 0 {
		t.Errorf("%d rows are left of the session", n)
	}
	for name, err := range map[string]error{
		"publish":  f.Publish(t.Context(), c),
		"remember": f.Remember(t.Context(), c, false),
		"read":     func() error { _, _, _, err := f.Read(t.Context(), "s", "x"); return err }(),
		"list":     func() error { _, err := f.List(t.Context(), "s", vars.Filter{}); return err }(),
	} {
		if e, ok := err.(*tool.Error); !ok || e.Code != "session_not_found" {
			t.Errorf("%s: got %v, want session_not_found", name, err)
		}
	}
	f.createSession()
	if got := f.list(vars.Filter{}); len(got) != 0 {
		t.Errorf("the session begins with %v", got)
	}
	if got, _ := f.Released(t.Context(), "s"); len(got.Session) != 0 {
		t.Errorf("the session begins with origins %v", got)
	}
}
