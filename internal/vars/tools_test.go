package vars_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

func TestV14_ReadVar(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.put("x", "abcdéf")
	for args, want := range map[string]string{
		`{"name":"x"}`: "abcdéf", `{"name":"x","start":2,"length":3}`: "cdé", `{"name":"x","start":4}`: "éf",
		`{"name":"x","length":0}`: "", `{"name":"x","start":99}`: "", `{"name":"x","start":5,"length":99}`: "f",
	} {
		out := f.mustCall("ReadVar", args)
		if out.Data != any(want) || out.Text != want {
			t.Errorf("%s: got %#v and text %q, want %q", args, out.Data, out.Text, want)
		}
	}
	_, err := f.call("ReadVar", `{"name":"nope"}`)
	if err == nil || err.Error() != "Variable 'nope' not found." {
		t.Errorf("got %v", err)
	}
}

func TestV15_ListVars(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for i := range 28 { // and two rules
		f.put(fmt.Sprintf("v%02d", i), "secret value")
	}
	out := f.mustCall("ListVars", `{}`)
	b, err := json.Marshal(out.Data)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Variables                        []map[string]any
		Page, PageSize, Total, TotalPage int
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Variables) != 25 || got.Page != 1 || got.PageSize != 25 || got.Total != 30 || got.TotalPage != 2 {
		t.Errorf("got %d of %+v", len(got.Variables), got)
	}
	if !strings.Contains(out.Text, "page 1/2") || !strings.Contains(out.Text, `"page": 2`) {
		t.Errorf("the text does not tell the pages: %s", out.Text)
	}
	if strings.Contains(string(b)+out.Text, "secret") {
		t.Error("the list shows a value")
	}
	if v := got.Variables[0]; v["name"] != "v27" || v["length"] != 12.0 || v["type"] != "USER_ADD" || v["created"] == "" {
		t.Errorf("got %v", v)
	}
	last := f.mustCall("ListVars", `{"page":2}`).Text
	if !strings.Contains(last, "page 2/2") || strings.Contains(last, "Next page") ||
		!strings.Contains(last, "Rule/Agent/TODO (RULE") {
		t.Errorf("got %s", last)
	}
	if got := f.mustCall("ListVars", `{"filter":{"type":"RULE"},"pageSize":1}`).Text; !strings.Contains(got,
		"2 variables, page 1/2") {
		t.Errorf("got %s", got)
	}
}

func TestV16_WriteVar(t *testing.T) {
	f := newFixture(t, vars.Options{})
	_, err := f.call("WriteVar", `{"name":"x","desc":"d"}`)
	wantError(t, err, "value_required", "Cannot create new variable 'x' without a value.")
	f.mustCall("WriteVar", `{"name":"x","value":""}`)
	if v, ok := f.get("x"); !ok || *v.Value != "" || v.Type != vars.TypeModel {
		t.Errorf("got %+v, want an empty value of type LLMAdd", v)
	}
	f.mustCall("WriteVar", `{"name":"x","value":"v","desc":"d","tags":["a"]}`)
	f.mustCall("WriteVar", `{"name":"x","tags":["b","c"]}`)
	if v, _ := f.get("x"); *v.Value != "v" || v.Desc != "d" || fmt.Sprint(v.Tags) != "[b c]" {
		t.Errorf("got %+v, want only the tags changed", v)
	}
	_, err = f.call("WriteVar", `{"name":"x","tags":["d\ne"]}`)
	wantError(t, err, "validation_error", "tag ")
	_, _, err = f.Update(t.Context(), "s", "x", vars.Change{Tags: &[]string{"d\ne"}}, tool.OriginPerson)
	wantError(t, err, "validation_error", "tag ")
	if v, _ := f.get("x"); fmt.Sprint(v.Tags) != "[b c]" {
		t.Errorf("tags that were refused made it %q", v.Tags)
	}
	before, _ := f.get("Rule/Agent/TODO")
	for _, args := range []string{
		`{"name":"Rule/Agent/TODO","value":"obey"}`,
		`{"name":"Rule/Agent/TODO","desc":"obey"}`, `{"name":"Rule/Agent/TODO","tags":[]}`,
	} {
		_, err := f.call("WriteVar", args)
		wantError(t, err, "variable_protected", "")
	}
	if after, _ := f.get("Rule/Agent/TODO"); *after.Value != *before.Value || after.Desc != before.Desc {
		t.Error("the rule changed")
	}
	for _, name := range []string{"", "a}}b", "a}", "a\nb", "$VAR_REF{{", strings.Repeat("n", 257)} {
		b, _ := json.Marshal(map[string]string{"name": name, "value": "v"})
		_, err := f.call("WriteVar", string(b))
		wantError(t, err, "validation_error", "")
	}
}

func TestV17_RemoveVars(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.put("a", "")
	out := f.mustCall("RemoveVars", `{"names":["a","a","Rule/Agent/VarRef","nope"]}`)
	b, _ := json.Marshal(out.Data)
	if string(b) != `{"failed":["a","Rule/Agent/VarRef","nope"],"removed":["a"]}` {
		t.Errorf("got %s", b)
	}
}

func TestV18_V19_Groups(t *testing.T) {
	f := newFixture(t, vars.Options{})
	names := func(tools []tool.Tool) (list []string) {
		for _, tl := range tools {
			sp := tl.Spec()
			if !sp.NoCache || sp.Class != tool.ClassState || !json.Valid(sp.Schema) {
				t.Errorf("spec of %s: %+v", sp.Name, sp)
			}
			if uses, err := tl.Uses(context.Background(), tool.In{}); err != nil ||
				len(uses.Paths)+len(uses.Hosts) != 0 {
				t.Errorf("%s uses %+v (%v)", sp.Name, uses, err)
			}
			want := tool.Annotations{ReadOnly: sp.ReadOnly, Destructive: sp.Name == "RemoveVars", Idempotent: true}
			if *sp.Annotations != want {
				t.Errorf("%s says %+v, want %+v", sp.Name, *sp.Annotations, want)
			}
			list = append(list, fmt.Sprint(sp.Name, sp.ReadOnly))
		}
		return list
	}
	if got := fmt.Sprint(names(f.Group().Tools)); got != "[ReadVartrue ListVarstrue WriteVarfalse RemoveVarsfalse]" ||
		f.Group().Name != "vars" {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(names(f.Injected())); got != "[ReadVartrue ListVarstrue]" {
		t.Errorf("got %s", got)
	}
	r := catalog.NewRegistry(catalog.Group{Name: "web", Tools: f.Group().Tools[3:]})
	r.Inject(f.Injected()...)
	r.Register(f.Group())
	if got := len(r.Enabled(tool.Session{})); got != 0 {
		t.Errorf("nothing is enabled, got %d definitions", got)
	}
}

func TestV31_V32_NamesOfCalls(t *testing.T) {
	f := newFixture(t, vars.Options{})
	c := f.remember(tool.Spec{Name: "Read"}, `{"file_path":"x"}`, "text", false)
	if c.Result.VarResult != "Read_"+c.NodeID+"_result" || c.Result.VarArgs != "Read_"+c.NodeID+"_args" {
		t.Errorf("got %q and %q", c.Result.VarResult, c.Result.VarArgs)
	}
	got, err := f.resolve(`["$VAR_REF{{` + c.Result.VarResult + `}}","$VAR_REF{{` + c.Result.VarArgs + `}}"]`)
	if err != nil || got != `["text","{\"file_path\":\"x\"}"]` {
		t.Errorf("got %s (%v)", got, err)
	}
	for name, want := range map[string]string{
		c.Result.VarArgs: "Arguments of Read", c.Result.VarResult: "Call Read with args: file_path=x",
	} {
		if v, _ := f.get(name); v.Desc != want {
			t.Errorf("%s is described as %q, want %q", name, v.Desc, want)
		}
	}
	c = f.remember(tool.Spec{Name: "Write"}, `{"file_path":"`+strings.Repeat("ä", 4<<10)+`"}`, "text", false)
	v, _ := f.get(c.Result.VarResult)
	if len(v.Desc) > 4<<10 || !utf8.ValidString(v.Desc) || !strings.HasSuffix(v.Desc, "ä…") {
		t.Errorf("%d bytes describe a long argument: …%q", len(v.Desc), v.Desc[max(0, len(v.Desc)-10):])
	}
	seen := map[string]bool{}
	for range 10_000 {
		id := tool.NewCall(tool.Request{}).NodeID
		if seen[id] || strings.ContainsAny(id, ":{}$") {
			t.Fatalf("id %q is not new or not fit for a reference", id)
		}
		seen[id] = true
	}
}

// Lists and the record show the description of a variable; what is a secret in the arguments is masked there.
func TestADescriptionHoldsNoSecret(t *testing.T) {
	f := newFixture(t, vars.Options{Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }})
	f.remember(tool.Spec{Name: "Bash"}, `{"command":"login hunter2"}`, "ok", false)
	page, err := f.List(t.Context(), f.session, vars.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	masked := false
	for v, err := range page.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		masked = masked || strings.Contains(v.Desc, "login ***")
		if strings.Contains(v.Desc, "hunter2") {
			t.Errorf("%s is described as %q", v.Name, v.Desc)
		}
	}
	if !masked {
		t.Error("no description has the masked argument")
	}
}

func TestNoCacheLeavesNoVariables(t *testing.T) {
	f := newFixture(t, vars.Options{})
	c := f.remember(tool.Spec{Name: "Secret", NoCache: true, Origin: tool.OriginMCP}, `{}`, "s", false)
	if got := f.list(vars.Filter{}); len(got) != 0 || c.Result.VarResult != "" {
		t.Errorf("got %v, %q", got, c.Result.VarResult)
	}
	if got, err := f.Released(t.Context(), "s"); err != nil || fmt.Sprint(got.Session) != "[mcp]" {
		t.Errorf("got %v (%v), want it to count as shown", got, err)
	}
}

func TestCX22_PendingResultsCannotBeRead(t *testing.T) {
	f := newFixture(t, vars.Options{Capacity: 5})
	f.put("x", "")
	c := f.remember(tool.Spec{Name: "WebFetch", Origin: tool.OriginWeb}, `{"url":"u"}`, "secret", true)
	name := "WebFetch_" + c.NodeID + "_result"
	unseen := func(when string) {
		t.Helper()
		if _, ok := f.get(name); ok {
			t.Errorf("%s: Get reads it", when)
		}
		if _, err := f.resolve(`"$VAR_REF{{` + name + `}}"`); err == nil ||
			strings.Contains(err.Error(), "WebFetch_"+c.NodeID+"_args") {
			t.Errorf("%s: a reference finds it (%v)", when, err)
		}
		if got := f.list(vars.Filter{}); fmt.Sprint(got) != "[x]" {
			t.Errorf("%s: listed %v", when, got)
		}
		if got, _ := f.Released(t.Context(), "s"); len(got.Session) != 0 {
			t.Errorf("%s: counts as shown: %v", when, got)
		}
	}
	unseen("pending")
	if err := f.Discard(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	unseen("discarded")
	if c.Result.VarResult != "" || c.Result.VarArgs != "" {
		t.Error("the result names what was discarded")
	}
	if err := f.Publish(t.Context(), c); err == nil {
		t.Error("a discarded result was published")
	}
	unseen("published after it was discarded")

	c = f.remember(tool.Spec{Name: "WebFetch", Origin: tool.OriginWeb}, `{"url":"u"}`, "released", true)
	if err := f.Publish(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if v, ok := f.get(c.Result.VarResult); !ok || *v.Value != "released" {
		t.Errorf("got %+v after publish", v)
	}
	if got, _ := f.Released(t.Context(), "s"); fmt.Sprint(got.Session) != "[web]" {
		t.Errorf("got %v, want the web shown", got)
	}

	c = f.remember(tool.Spec{Name: "WebFetch"}, `{}`, "left behind", true)
	if err := f.DropPending(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Publish(t.Context(), c); err == nil {
		t.Error("a result that waited for a person outlived the daemon")
	}
}

// A result that was published and cannot be recorded is taken back.
func TestCX22_DiscardTakesPublishedResultsBack(t *testing.T) {
	f := newFixture(t, vars.Options{Capacity: 5})
	f.put("x", "")
	c := f.remember(tool.Spec{Name: "Bash"}, `{}`, "secret", false)
	name := c.Result.VarResult
	if err := f.Discard(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.get(name); ok || c.Result.VarResult != "" {
		t.Errorf("%s is still there", name)
	}
	f.put("y", "") // the room of the two is free again
	f.put("z", "")
	if got := fmt.Sprint(f.list(vars.Filter{})); got != "[z y x]" {
		t.Errorf("got %s", got)
	}
}

// Numbers out of range become the nearest that there is, and a line of the list says all of a variable but its value.
func TestV15_AListIsWithinItsBounds(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for _, args := range []string{
		`{"page":-3}`, `{"pageSize":0}`, `{"pageSize":100000}`, `{"page":2000000000,"pageSize":200}`,
	} {
		b, err := json.Marshal(f.mustCall("ListVars", args).Data)
		var got struct{ Page, PageSize, Total, TotalPage int }
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		if err != nil || got.Page < 1 || got.PageSize < 1 || got.PageSize > 200 || got.TotalPage < 1 {
			t.Errorf("%s: %+v, %v", args, got, err)
		}
	}
	text := f.mustCall("WriteVar", `{"name":"x","value":"ab","desc":" two\n  words ","tags":["t","u"]}`).Text
	if text != "Variable 'x' created (2 characters)." {
		t.Errorf("got %q", text)
	}
	text = f.mustCall("WriteVar", `{"name":"x","value":"abc"}`).Text
	if text != "Variable 'x' updated (3 characters)." {
		t.Errorf("got %q", text)
	}
	text = f.mustCall("ListVars", `{}`).Text
	if !strings.Contains(text, "\n- x (LLMAdd, 3 characters) [t, u]: two words\n") ||
		!strings.Contains(text, ", kept): Skill rule") {
		t.Errorf("got %q", text)
	}
	for args, want := range map[string]string{
		`{"name":"x","start":-5,"length":2}`: "ab", `{"name":"x","start":1,"length":-1}`: "",
		`{"name":"x","start":3}`: "",
	} {
		if got := f.mustCall("ReadVar", args).Text; got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
	text = f.mustCall("RemoveVars", `{"names":["x","none","Rule/Agent/TODO"]}`).Text
	if text != "Removed 1: x. Not removed, because missing or a rule: none, Rule/Agent/TODO." {
		t.Errorf("got %q", text)
	}
}

// A variable that is written again keeps the time at which it was made.
func TestAVariableKeepsTheTimeOfItsMaking(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.put("x", "1")
	before := f.mustCall("ListVars", `{"filter":{"search":"x"}}`)
	f.now = f.now.Add(time.Hour)
	f.put("x", "2")
	f.put("y", "2")
	if after := f.mustCall("ListVars", `{"filter":{"search":"x"}}`); !reflect.DeepEqual(after.Data, before.Data) {
		t.Errorf("got %+v, before %+v", after.Data, before.Data)
	}
}

// A part of the filter that is not passed on would list variables that were not asked for.
func TestListVarsListsWhatEachPartOfTheFilterAsksFor(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.mustCall("WriteVar", `{"name":"alpha","value":"","tags":["red"]}`)
	f.mustCall("WriteVar", `{"name":"beta","value":"","tags":["blue"],"desc":"of Red wood"}`)
	f.put("gamma", "")
	for args, want := range map[string]string{
		`{"filter":{"tag":"red"}}`:                           "1 variables, page 1/1\n- alpha ",
		`{"filter":{"search":"rED"}}`:                        "1 variables, page 1/1\n- beta ",
		`{"filter":{"type":"USER_ADD"}}`:                     "1 variables, page 1/1\n- gamma ",
		`{"filter":{"type":"LLMAdd"},"pageSize":1}`:          "2 variables, page 1/2\n- beta ",
		`{"filter":{"tag":"blue","search":"alpha"}}`:         "0 variables, page 1/1\n",
		`{"filter":{"type":"LLMAdd","tag":"gamma"}}`:         "0 variables, page 1/1\n",
		`{"filter":{"type":"LLMAdd"},"pageSize":1,"page":2}`: "2 variables, page 2/2\n- alpha ",
	} {
		if got := f.mustCall("ListVars", args).Text; !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}
