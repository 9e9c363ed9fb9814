package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// Conditions of rules in every form that could mislead a prefilter or the list of fields
// that a package is given. LIST is a list of the input, WORD a text, SET a set, and x
// a variable of the rule's own.
var someConditions = []string{
	// forms that prefilters read
	`input.LIST[0]`, `some x in input.LIST`, `"WORD" in input.LIST`, `some x in input.LIST; x in SET`,
	`some x in input.paths; x.op == "WORD"`,
	`some x in input.LIST; x in SET; x in SET`, `input["LIST"][_]`, `some i, x in input.LIST; i >= 0`, `input.LIST[1]`,
	`some x in input.LIST; x in {1, "WORD"}`,
	// and near relations of them
	`not "WORD" in input.LIST`, `some x in input.LIST; not x in SET`, `input.paths[_].op == "WORD"`,
	`some x in input.paths; x.op != "WORD"`, `"WORD" == input.paths[_].op`,
	`some x in input.LIST; w := x; w in SET`, `x := input.LIST; "WORD" in x`, `some x in input.paths; x["op"] in SET`,
	`input.LIST[_] == "WORD"`, `"WORD", 0 in [input.LIST[0]]`,
	`some x in input.LIST; x in (SET | {"WORD"})`, `some x in input.LIST; x in {w | some w in SET}`,
	`some x in SET; x in input.LIST`, `x := input.LIST[_]; x in SET`,
	`some x in input.LIST with input.LIST as ["WORD"]; x in SET`,
	`some x in input.LIST; x in names with data.sandboxd.policies.acme.x.names as {"WORD"}`,
	`some x; input.LIST[x] in SET`, `some w in input.LIST; some x in input.LIST; w in SET; x in SET`,
	`[x, _] := [input.LIST, 1]; "WORD" in x`,
	// names that mean something else here
	`names := {"WORD"}; some x in input.LIST; x in names`, `some names in [SET]; some x in input.LIST; x in names`,
	`lib := {"names": {"WORD"}}; some x in input.LIST; x in lib.names`,
	`every names in [{"WORD"}] { names != SET }; some x in input.LIST; x in names`,
	`x := [w | names := {"WORD"}; some w in input.LIST; w in names]; count(x) > 0`,
	`some k in ["names", "words"]; some x in input.LIST; x in lib[k]`, `some k; some x in input.LIST; x in sets[k]`,
	`names = {"WORD"}; some x in input.LIST; x in names`,
	// the input by other ways
	`some x in first; x == "WORD"`, `"WORD" in second.LIST`, `x := second; "WORD" in x.LIST`,
	`some k in ["LIST"]; input[k][0] == "WORD"`, `"WORD" in object.get(input, "LIST", [])`,
	`x := input; w := x; w.LIST[0]`, `count(input) > 13`, `x := object.union(input, {}); "WORD" in x.LIST`,
	`contains(sprintf("%v", [input]), "WORD")`, `x := [v | some k, v in input; k == "LIST"]; count(x[0]) > 0`,
	`some k, v in input; k == "LIST"; "WORD" in v`, `{"LIST": x} := object.filter(input, ["LIST"]); x[0]`,
	`every x in input.LIST { x in SET }`, `x := [w | some w in input.LIST; w in SET]; count(x) == 0`,
	`x := {w | w := input.LIST[_]}; count(x & SET) > 0`, `every k, v in input { k != "WORD" }; "WORD" in input.LIST`,
	`count([y | x := input; w := x.LIST[_]]) > 1`,
	// helpers
	`helper`, `not helper`, `reads(input)`, `reads({"LIST": ["WORD"]})`, `texts(input.LIST)`, `some x in grown`,
	`object_of.LIST[0]`, `choice == "WORD"`, `not choice == "WORD"`, `lib.texts(input.LIST)`,
	`helper with input as {"LIST": ["WORD"]}`, `helper with input.LIST as ["WORD"]`,
	`x := count([]) with count as own_count; x > 0`, `reads(input) with reads as own_reads`,
	`some x in data.sandboxd.policies.acme.y.findings; x.effect == "ask"`,
	`count(data.sandboxd.policies.acme.y.findings) == 0`,
	`some k in ["helper", "names"]; data.sandboxd.policies.acme.y[k]`,
	`"WORD" in input.LIST or input.hosts[0]`, `"WORD" in input.LIST and helper`, `helper or reads(input)`,
	`not { some x in input.LIST; x in SET }`, `not { input.LIST[0] }`,
	`choice == "WORD" with input.mode as "WORD"`, `not helper with input.LIST as []`,
	`reads(second) with input.tool.name as "WORD"; second.tool.name != "WORD"`,
	`x := input with input.tool.name as "WORD"; x.tool.name != input.tool.name`,
	`helper with input.origins.session as ["WORD"] with input.LIST as []`,
	`some x in data.sandboxd.policies.acme.y.findings with input.LIST as ["WORD"]; x.id == "acme.y.0"`,
}

// What the names in conditions can be.
var someHelpers = [][]string{
	{
		`names := {"WORD"}`, `names := {"WORD", 1}`, `names contains "WORD" if input.LIST[0]`,
		"names := {\"WORD\"} if input.LIST[0]\n\ndefault names := {\"WORD\"}", `names := {"WORD"} if input.LIST[0]`,
		`names := {n | some n in input.LIST}`, `names := {"WORD"} if false else := {"WORD"}`, `names := lib.words`,
		"names := {\"WORD\"}\n\nnames := {\"WORD\"}", `default names := {"WORD"}`, `names := set()`,
	},
	{
		`sets.a := {"WORD"}`, `sets[k] := {"WORD"} if some k in input.LIST`,
		"sets.a contains \"WORD\"\n\nsets.b := {\"WORD\"}", `sets := {"a": {"WORD"}, "b": {x | some x in input.LIST}}`,
	},
	{
		`helper if "WORD" in input.LIST`,
		"helper if {\n\tsome x in input.LIST\n\tx in names\n}\n\nhelper if input.LIST[0]",
		`helper if not input.LIST[0]`, "default helper := false\n\nhelper if \"WORD\" in input.LIST",
	},
	{`reads(i) if "WORD" in i.LIST`, "reads(i) if i.LIST[0]\n\nreads(i) if {\n\tsome x in i.LIST\n\tx == \"WORD\"\n}"},
	{
		`texts(l) if "WORD" in l`, "texts(l) if {\n\tcount(l) > 0\n\tinput.LIST[0]\n}",
		"default texts(_) := false\n\ntexts(l) if count(l) == 0",
	},
	{`grown contains x if some x in input.LIST`, "grown contains x if {\n\tsome x in input.LIST\n\tx in names\n}"},
	{`object_of[k] := v if some k, v in input`, `object_of := {"LIST": input.LIST}`, `object_of := second`},
	{`choice := "WORD" if input.LIST[0] else := "WORD" if "WORD" in input.LIST else := input.mode`},
	{`own_count(_) := count(input.LIST)`},
	{`own_reads(i) if i.LIST[0]`},
}

var (
	someLists = []string{"paths", "hosts", "commands", "opaque", "starts", "authors", "rule_kinds", "origins.session"}
	someWords = []string{"git push", "git", "ls", "rm", "write", "read", "web", "model", "tighten.tools", "names"}
	someSets  = []string{
		`{"WORD"}`, `{"WORD", "WORD"}`, "names", "lib.names", "sets.a", "sets[_]", "grown", "first",
		"data.sandboxd.policies.acme.lib.names", "lib.words", `{"WORD", input.mode}`, `["WORD", "WORD"]`,
	}
)

// fill draws what the capitals stand for: LIST once for the whole text, the others for
// each place.
func fill(t *rapid.T, text string) string {
	text = strings.ReplaceAll(text, "LIST", rapid.SampledFrom(someLists).Draw(t, "list"))
	for _, f := range []struct {
		name  string
		words []string
	}{{"SET", someSets}, {"WORD", someWords}} {
		for strings.Contains(text, f.name) {
			text = strings.Replace(text, f.name, rapid.SampledFrom(f.words).Draw(t, f.name), 1)
		}
	}
	return text
}

// drawPackage is a package with rules that can hold when all of one or two conditions do.
func drawPackage(t *rapid.T, name string, asked bool) string {
	var b strings.Builder
	as := rapid.SampledFrom([]string{"words", "names", "sets"}).Draw(t, "import")
	b.WriteString(fill(t, "package sandboxd.policies.acme."+name+
		"\n\nimport input as second\nimport input.LIST as first\nimport future.keywords.or\nimport "+
		"future.keywords.and\nimport future.keywords.not\n"))
	if name == "lib" {
		b.WriteString("\nuses := [first, second]\n\nwords := {\"git push\", \"ls\"}\n")
	} else {
		b.WriteString("import data.sandboxd.policies.acme.lib\nimport data.sandboxd.policies.acme.lib.words as " + as +
			"\n\nuses := [first, second, lib.words, " + as + "]\n")
	}
	for _, forms := range someHelpers {
		b.WriteString("\n" + fill(t, rapid.SampledFrom(forms).Draw(t, "helper")) + "\n")
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "rules") {
		if !asked {
			break
		}
		fmt.Fprintf(&b, "\nfindings contains {\"id\": \"acme.%s.%d\", \"effect\": \"ask\", \"message\": \"m\"} if {\n", name, i)
		for j := range rapid.IntRange(1, 2).Draw(t, "conditions") {
			condition := fill(t, rapid.SampledFrom(someConditions).Draw(t, "condition"))
			condition = regexp.MustCompile(`\b[xikvw]\b`).ReplaceAllString(condition, fmt.Sprintf("${0}%d", j))
			b.WriteString("\t" + strings.ReplaceAll(condition, "; ", "\n\t") + "\n")
		}
		b.WriteString("}\n")
	}
	switch name {
	case "lib":
		return strings.ReplaceAll(b.String(), "lib.words", "words")
	case "y": // no rule may ask itself
		return strings.ReplaceAll(b.String(), "acme.y.", "acme.lib.")
	}
	return b.String()
}

// TestNamesMeanWhatTheCompilerSays: each policy denies a push, though a part of it
// looks like a condition that does not hold.
func TestNamesMeanWhatTheCompilerSays(t *testing.T) {
	const names, push = "names := {\"none\"}\n\n", "\tsome name in input.starts\n\tname in names\n}"
	deny := strings.Replace(rule, "allow", "deny", 1) + " if {\n"
	lib := "package sandboxd.policies.acme.lib\n\nnames := {\"none\"}\n\npushes := {\"git push\"}\n"
	for _, tt := range []struct{ name, text string }{
		{"a variable hides a rule", names + "uses := names\n\n" + deny + "\tnames := {\"git push\"}\n" + push},
		{"an element hides a rule", names + "uses := names\n\n" + deny + "\tsome names in [{\"git push\"}]\n" + push},
		{"a variable hides an import", "import data.sandboxd.policies.acme.lib\n\nuses := lib.names\n\n" + deny +
			"\tlib := {\"names\": {\"git push\"}}\n" + strings.Replace(push, "in names", "in lib.names", 1)},
		{"an import hides a rule", "import data.sandboxd.policies.acme.lib.pushes as names\n\n" + names + deny + push},
		{"another rule replaces a list", "none if count(input.starts) == 0\n\n" + strings.Replace(deny, "acme.x", "acme.first", 1) +
			"\tnone with input.starts as []\n}\n\nnames := {\"git push\"}\n\n" + deny + push},
		{"another rule replaces a field of an object", strings.Replace(deny, "acme.x", "acme.first", 1) +
			"\tx := input.tool.name with input.tool.name as \"none\"\n\tx == \"none\"\n}\n\n" + deny +
			"\tinput.tool.name == \"Bash\"\n}"},
	} {
		e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(tt.text), lib)}})
		d := decide(t, e, bash(t, tool.ModeAuto, "git push origin main"))
		if !slices.ContainsFunc(d.Reasons, func(r tool.Reason) bool { return r.Rule == "acme.x" }) {
			t.Errorf("%s: %s by %+v, want acme.x", tt.name, d.Verdict, d.Reasons)
		}
	}
}

// TestTheEngineFindsWhatOPAFinds: prefilters, fields, cache and index change no finding of
// any policy, however it is written.
func TestTheEngineFindsWhatOPAFinds(t *testing.T) {
	ctx := context.Background()
	caps, err := capabilities()
	if err != nil {
		t.Fatal(err)
	}
	loaded, found, passed := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		files := []source{
			{"lib.rego", []byte(drawPackage(rt, "lib", false))},
			{"x.rego", []byte(drawPackage(rt, "x", true))},
			{"y.rego", []byte(drawPackage(rt, "y", true))},
		}
		modules, err := parse(files)
		if err != nil {
			rt.Fatal(err)
		}
		c := ast.NewCompiler().WithCapabilities(caps) // of conditions that can never hold, the schemas refuse most
		c.Compile(modules)
		if c.Failed() {
			return // a combination that has no meaning
		}
		loaded++
		rules := drawRules(rt)
		data, err := permission.Tables(rules)
		if err != nil {
			rt.Fatal(err)
		}
		names := []string{"sandboxd.policies.acme.x", "sandboxd.policies.acme.y"}
		r := &revision{index: permission.NewIndex(data), replaces: replacesInput(c)}
		if r.packages, err = prepareAll(ctx, c, names, data); err != nil {
			rt.Fatal(err)
		}
		var whole []rego.PreparedEvalQuery
		for _, name := range names {
			q, err := prepare(ctx, c, "data."+name+".findings", newStore(data))
			if err != nil {
				rt.Fatal(err)
			}
			whole = append(whole, q)
		}
		for range 4 {
			call := drawCall(rt, t)
			call.Facts.Origins.Session = rapid.SliceOf(rapid.SampledFrom([]tool.Origin{
				tool.OriginModel, tool.OriginWeb,
			})).Draw(rt, "session")
			call.Facts.Origins.Args = map[string][]tool.Origin{"command": call.Facts.Origins.Session}
			in, err := input.New(call)
			if err != nil {
				rt.Fatal(err)
			}
			fs, err := r.evaluate(ctx, in, time.Minute)
			var got []string
			for _, f := range fs {
				got = append(got, f.ID)
			}
			want, wantErr := byOPA(ctx, rt, whole, in)
			if wantErr != nil {
				continue // a rule that fails behind a condition that does not hold is passed over
			}
			slices.Sort(got)
			found, passed = found+len(want), passed+1
			if diff := cmp.Diff(got, want); diff != "" || err != nil {
				for _, f := range files {
					rt.Logf("# %s\n%s", f.name, f.text)
				}
				rt.Fatalf("%s: error %v, findings (-engine +OPA):\n%s", in.Params, err, diff)
			}
		}
	})
	t.Logf("%d policies, %d decisions, %d findings", loaded, passed, found)
	if found == 0 {
		t.Error("nothing is shown")
	}
}

// byOPA gives the ids of all findings for the whole document.
func byOPA(ctx context.Context, t *rapid.T, queries []rego.PreparedEvalQuery, in *input.Document) (ids []string, err error) {
	b, err := in.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for _, q := range queries {
		rs, err := q.Eval(ctx, rego.EvalInput(doc))
		if err != nil {
			return nil, err
		}
		for _, f := range rs[0].Expressions[0].Value.([]any) {
			ids = append(ids, f.(map[string]any)["id"].(string))
		}
	}
	slices.Sort(ids)
	return ids, nil
}
