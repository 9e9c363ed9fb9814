package policy

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// policyDir is a directory with one file per text, a.rego, b.rego, …
func policyDir(t testing.TB, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		writePolicy(t, filepath.Join(dir, string(rune('a'+i))+".rego"), text)
	}
	return dir
}

func writePolicy(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// acme is an operator's package with this body.
func acme(body string) string {
	return "package sandboxd.policies.acme.x\n\n" + body + "\n"
}

// made is a rule whose finding is computed, so that it is not seen before it is made.
func made(finding string) string {
	return "findings contains f if {\n\tsome f in made\n}\n\nmade := [" + finding + "]"
}

const rule = `findings contains {"id": "acme.x", "effect": "allow", "message": "m"}`

// TestAPolicyIsAFileOfItsDirectory: a link may lead to where agents write, and a
// pipe would be waited for.
func TestAPolicyIsAFileOfItsDirectory(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "a.rego")
	writePolicy(t, elsewhere, acme(rule))
	for _, tt := range []struct {
		name  string
		spoil func(file string) error
	}{
		{"a link to a file", func(file string) error { return os.Symlink(elsewhere, file) }},
		{"a link to nothing", func(file string) error { return os.Symlink("none", file) }},
		{"a pipe", func(file string) error { return syscall.Mkfifo(file, 0o600) }},
	} {
		dir := policyDir(t, acme(rule))
		if err := tt.spoil(filepath.Join(dir, "z.rego")); err != nil {
			t.Fatal(err)
		}
		_, err := readSources(Options{Profile: "developer", Dirs: []string{dir}})
		if err == nil || !strings.Contains(err.Error(), "z.rego is not a regular file") {
			t.Fatalf("%s: got %v", tt.name, err)
		}
	}
}

// TestDataBesideTheRulesIsRefused: other programs load it, and rules that count on it would
// never hold here.
func TestDataBesideTheRulesIsRefused(t *testing.T) {
	for _, name := range []string{"data.json", "sub/data.yaml"} {
		dir := policyDir(t, acme(rule))
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		before := fingerprint(Options{Dirs: []string{dir}})
		writePolicy(t, file, "{}")
		_, err := New(t.Context(), Options{Profile: "developer", Dirs: []string{dir}})
		if err == nil || !strings.Contains(err.Error(), file+`" would not be loaded`) {
			t.Errorf("%s: got %v", name, err)
		}
		if fingerprint(Options{Dirs: []string{dir}}) == before {
			t.Errorf("%s: taking it away would be no change", name)
		}
	}
}

func TestPoliciesThatDoNotLoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		text []string
		want string // part of the error
	}{
		{"a syntax error", []string{acme("findings contains {")}, "a.rego:4"},
		{
			"data that nothing defines", []string{acme(rule + ` if {
	some name in data.me.protected
	name == input.tool.name
}`)}, "a.rego:4: data.me.protected is defined nowhere",
		},
		{
			"a package that nothing defines",
			[]string{acme("import data.sandboxd.policies.me.list\n\n" + rule + ` if list.names[_] == "x"`)},
			"data.sandboxd.policies.me.list.names is defined nowhere",
		},
		{"an unknown function", []string{acme(`findings contains f(1)`)}, "a.rego:3"},
		{"a forbidden builtin", []string{acme(rule + ` if http.send({"method": "get", "url": "http://x"})`)}, "undefined function http.send"},
		{"the environment", []string{acme(rule + ` if opa.runtime().env.HOME`)}, "undefined function opa.runtime"},
		{"the clock", []string{acme(rule + ` if time.now_ns() > 0`)}, "undefined function time.now_ns"},
		{
			"a builtin that allocates",
			[]string{acme(rule + ` if count(numbers.range(1, 9e9)) > 0`)},
			"undefined function numbers.range",
		},
		{
			"a builtin that runs for hours",
			[]string{acme(rule + ` if bits.lsh(1, 3e9) > 0`)},
			"undefined function bits.lsh",
		},
		{
			"a misspelled field",
			[]string{acme(rule + ` if not input.tool.nmae == "Bash"`)},
			"undefined ref: input.tool.nmae",
		},
		{"a misspelled field of a list", []string{acme(rule + " if {\n\tsome c in input.commands\n\tc.flgas == []\n}")}, "undefined ref"},
		{"a value of another type", []string{acme(rule + ` if input.tool.read_only == "yes"`)}, "a.rego:3"},
		{"an effect that there is not", []string{acme(`findings contains {"id": "acme.x", "effect": "log", "message": "m"}`)}, `effect "log"`},
		{"a finding without a message", []string{acme(`findings contains {"id": "acme.x", "effect": "deny"}`)}, "a.rego:3: finding acme.x has no message"},
		{"a finding with an empty message", []string{acme(`findings contains {"id": "acme.x", "effect": "deny", "message": ""}`)}, "no message"},
		{"a finding without an id", []string{acme(`findings contains {"effect": "deny", "message": "m"}`)}, "no id"},
		{"a finding without an effect", []string{acme(`findings contains {"id": "acme.x", "message": "m"}`)}, "want deny, ask, rewrite, allow or count"},
		{"a finding with an unknown key", []string{acme(`findings contains {"id": "acme.x", "effect": "deny", "message": "m", "mesage": "n"}`)}, `unknown field "mesage"`},
		{"a finding with a number for text", []string{acme(`findings contains {"id": "acme.x", "effect": "deny", "message": 1}`)}, `"message" of a finding is not text`},
		{"a finding that is text", []string{acme(`findings contains "no"`)}, "want an object"},
		{"an allow with a patch", []string{acme(`findings contains {"id": "acme.x", "effect": "allow", "message": "m", "patch": {"a": 1}}`)}, "has a patch"},
		{"a rewrite without a patch", []string{acme(`findings contains {"id": "acme.x", "effect": "rewrite", "message": "m"}`)}, "without a patch"},
		{"a patch that is a list", []string{acme(`findings contains {"id": "acme.x", "effect": "rewrite", "message": "m", "patch": [1]}`)}, "patch of a finding is [1]"},
		{"an unknown obligation", []string{acme(`findings contains {"id": "acme.x", "effect": "allow", "message": "m", "obligations": {"no_net": true}}`)}, "no_net"},
		{"an obligation of no time", []string{acme(`findings contains {"id": "acme.x", "effect": "allow", "message": "m", "obligations": {"wall_seconds": 0}}`)}, "want 1 or more"},
		{
			"a mistake beside what is computed",
			[]string{acme("findings contains {\"id\": \"acme.x\", \"effect\": \"log\", \"message\": sprintf(\"%s\", [input.mode])}")},
			`the effect "log"`,
		},
		{
			"a mistake in a variable",
			[]string{acme("findings contains f if {\n\tinput.mode == \"auto\"\n\tf := {\"id\": \"acme.x\", \"effect\": \"deny\"}\n}")},
			"a.rego:3: finding acme.x has no message",
		},
		{
			"a mistake in obligations that are computed in part",
			[]string{acme("findings contains {\"id\": \"acme.x\", \"effect\": \"allow\", \"message\": \"m\", " +
				"\"obligations\": {\"no_network\": input.mode == \"auto\", \"wall_second\": 1}}")},
			"wall_second",
		},
		{"an id in the reserved range", []string{acme(`findings contains {"id": "core.x", "effect": "deny", "message": "m"}`)}, "reserved"},
		{"one id in two files", []string{acme(rule), "package sandboxd.policies.acme.y\n\n" + rule}, "is used by"},
		{"findings that are no partial set", []string{acme(`findings := []`)}, "partial set"},
		{"a package without findings", []string{acme(`finding contains 1`)}, "judge nothing"},
		{"findings among helpers", []string{"package sandboxd.policies.acme.lib\n\n" + rule}, "never asked"},
		{"a rule that conflicts with itself", []string{acme(rule + "\n\nfindings := 1")}, "conflict"},
		{"an unused variable", []string{acme(rule + " if {\n\tx := 1\n}")}, "unused"},
		{"recursion", []string{acme(rule + " if p\n\np if q\n\nq if p")}, "recursive"},
		{"an empty directory", nil, "no .rego file"},
		{"a module that is too large", []string{"# " + strings.Repeat("x", maxModuleBytes)}, "at most"},
		{"a package of the library", []string{"package sandboxd.lib\n\nruns(_, _) if true"}, "belongs to sandboxd"},
		{"a package of a profile", []string{"package sandboxd.policies.developer.git\n\nforced(_) if true"}, "belongs to sandboxd"},
		{"a package outside", []string{"package acme\n\n" + rule}, "sandboxd.policies.OWNER.NAME"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(context.Background(), Options{Dirs: []string{policyDir(t, tt.text...)}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// What is computed may be anything that fits; it is read when a call is judged.
func TestFindingsThatAreComputedLoad(t *testing.T) {
	for name, text := range map[string]string{
		"every field": `findings contains {"id": concat(".", ["acme", "x"]), "effect": e, "message": input.mode,
	"subject": input.commands[0].id, "obligations": {"no_network": e == "ask", "wall_seconds": count(input.commands)}} if {
	some e in {"ask", "deny"}
}`,
		"a patch":               `findings contains {"id": "acme.x", "effect": "rewrite", "message": "m", "patch": {"a": input.mode}}`,
		"an effect":             `findings contains {"id": "acme.x", "effect": input.mode, "message": "m", "patch": {}}`,
		"the whole finding":     `findings contains object.union({"id": "acme.x", "effect": "deny"}, {"message": input.mode})`,
		"a key":                 `findings contains {"id": "acme.x", "effect": "deny", input.mode: "m"}`,
		"a variable of another": "findings contains f if {\n\tsome f in others\n}\n\nothers := [{\"id\": \"acme.x\", \"effect\": \"deny\", \"message\": \"m\"}]",
	} {
		if _, err := New(t.Context(), Options{Dirs: []string{policyDir(t, acme(text))}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPolicyWhoseTestFailsDoesNotLoad(t *testing.T) {
	ctx := context.Background()
	dir := policyDir(t, acme(rule))
	test := filepath.Join(dir, "a_test.rego")
	text := "package sandboxd.policies.acme.x_test\n\nimport data.sandboxd.policies.acme.x\n\ntest_findings if count(x.findings) == 1\n"
	writePolicy(t, test, text)
	e := newEngine(t, Options{Dirs: []string{dir}})
	before := e.Status().Revision
	for name, tt := range map[string]struct{ text, want string }{
		"it fails":      {strings.Replace(text, "== 1", "== 2", 1), "a_test.rego:5"},
		"it is no test": {"package sandboxd.policies.acme.x_test\n\ntest_x if", "a_test.rego:3"},
		"it asks a server": {
			strings.Replace(text, "count(x.findings) == 1", `http.send({"method": "get", "url": "http://x"}).status`, 1),
			"undefined function http.send",
		},
		"it has an error": {
			strings.Replace(text, "count(x.findings)", `count(x.findings) + to_number("x")`, 1), "to_number",
		},
	} {
		writePolicy(t, test, tt.text)
		if err := e.Reload(ctx, false); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
		if e.Status().Revision != before {
			t.Errorf("%s: another revision judges", name)
		}
	}
	writePolicy(t, test, text)
	if err := e.Reload(ctx, false); err != nil {
		t.Error(err)
	}
}

// Every rule here would allow, in a mode that allows; none may.
func TestPoliciesThatFailDeny(t *testing.T) {
	slow := `x := [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]

` + rule + ` if {
	count([1 | some a in x; some b in x; some c in x; some d in x; some e in x; some f in x; some g in x; some h in x; a+b+c+d+e+f+g+h == 99]) == 0
}`
	for _, tt := range []struct{ name, text, want string }{
		{"a builtin error in a rule", rule + ` if to_number(input.tool.name) == 1`, "core.evaluation"},
		{
			"a builtin error in a deny",
			`findings contains {"id": "acme.x", "effect": "deny", "message": sprintf("%d", [1])} if regex.match(input.tool.name, "(")` + "\n\n" + `findings contains {"id": "acme.y", "effect": "deny", "message": "m"} if regex.match(concat("", ["(", input.tool.name]), "x")`, "core.evaluation",
		},
		{"a function that conflicts with itself", rule +
			" if f(1) == 1\n\nf(_) := 1 if input.version > 0\n\nf(_) := 2 if input.version > 0", "core.evaluation"},
		{"a loop that takes too long", slow, "core.timeout"},
		{"a finding that is a number", made(`1`), "core.shape"},
		{"a finding without an id", made(`{"effect": "allow", "message": "m"}`), "core.shape"},
		{
			"obligations that are null",
			made(`{"id": "acme.x", "effect": "allow", "message": "m", "obligations": null}`), "core.shape",
		},
		{
			"an obligation that is null",
			made(`{"id": "acme.x", "effect": "allow", "message": "m", "obligations": {"no_network": null}}`), "core.shape",
		},
		{
			"a time below zero",
			made(`{"id": "acme.x", "effect": "allow", "message": "m", "obligations": {"wall_seconds": -1}}`), "core.shape",
		},
		{"no time at all", made(`{"id": "acme.x", "effect": "allow", "message": "m", "obligations": {"wall_seconds": 0}}`), "core.shape"},
		{"a finding without a message", made(`{"id": "acme.x", "effect": "allow"}`), "core.shape"},
		{
			"a misspelled field in a finding",
			made(`{"id": "acme.x", "effect": "allow", "message": "m", "obligation": {}}`), "core.shape",
		},
		{"a misspelled obligation", made(`{"id": "acme.x", "effect": "allow", "message": "m", "obligations": {"no_net": true}}`), "core.shape"},
		{
			"an obligation of another type",
			made(`{"id": "acme.x", "effect": "allow", "message": "m", "obligations": {"no_network": "yes"}}`), "core.shape",
		},
		{
			"an effect that is computed and none",
			`findings contains {"id": "acme.x", "effect": lower("LOG"), "message": "m"}`, "core.shape",
		},
		{"a field of another type", made(`{"id": "acme.x", "effect": "allow", "message": 1}`), "core.shape"},
		{"a rewrite without a patch", made(`{"id": "acme.x", "effect": "rewrite", "message": "m"}`), "core.shape"},
		{
			"a patch without a rewrite",
			made(`{"id": "acme.x", "effect": "allow", "message": "m", "patch": {}}`), "core.shape",
		},
		{
			"a patch that is a list",
			made(`{"id": "acme.x", "effect": "rewrite", "message": "m", "patch": [1]}`), "core.shape",
		},
		{
			"a computed id in the reserved range",
			`findings contains {"id": concat(".", ["core", "x"]), "effect": "allow", "message": "m"}`, "core.shape",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(tt.text))}, Deadline: DefaultDeadline})
			d := decide(t, e, newCall(t, tool.ModeBypassPermissions, "Todo", map[string]any{}))
			if d.Verdict != tool.Deny || d.By != tool.ByCore || d.Reasons[0].Rule != tt.want ||
				d.Reasons[0].Code != "policy_error" {
				t.Errorf("%s by %s: %+v, want a deny by %s", d.Verdict, d.By, d.Reasons, tt.want)
			}
			// The policy was loaded, so policy check passes it.
			if hint := d.Reasons[0].Hint; hint == "" || strings.Contains(hint, "policy check") {
				t.Errorf("the hint is %q", hint)
			}
		})
	}
}

// Every way in which judging fails has a row in the reference and says what to do.
func TestEveryFailureHasAHint(t *testing.T) {
	page, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(core\\.[a-z]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(coreHints) {
		t.Errorf("the reference has %d failures, the code %d", len(rows), len(coreHints))
	}
	for _, row := range rows {
		if hint := coreDeny("", row[1], "").Reasons[0].Hint; hint == "" {
			t.Errorf("%s has no hint", row[1])
		}
	}
}

// TestABusyMachineDeniesNothing: only time on a processor counts, and waiting has an end too.
func TestABusyMachineDeniesNothing(t *testing.T) {
	const deadline = 200 * time.Millisecond
	e, end := begin(t.Context(), deadline)
	defer end()
	time.Sleep(2 * deadline)
	if e.cancel.Cancelled() || e.used() > deadline {
		t.Errorf("an evaluation that had %s of its %s is ended", e.used(), deadline)
	}
	for start := time.Now(); !e.cancel.Cancelled(); {
		if time.Since(start) > time.Minute {
			t.Fatal("an evaluation that computes goes on")
		}
	}
	if e.used() < deadline {
		t.Errorf("it is ended after %s of its %s", e.used(), deadline)
	}
	starved, done := begin(t.Context(), 10*time.Millisecond)
	defer done()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !starved.cancel.Cancelled() {
			time.Sleep(time.Millisecond)
		}
	}()
	select { // this thread uses no time
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("an evaluation that gets no processor waits without end")
	}
}

func TestADeadlineEndsTheEvaluation(t *testing.T) {
	e := newEngine(t, Options{Profile: "observe", Deadline: time.Nanosecond}) // which has a rule for every call
	d := decide(t, e, newCall(t, tool.ModeBypassPermissions, "Todo", map[string]any{}))
	if d.Verdict != tool.Deny || d.Reasons[0].Rule != "core.timeout" {
		t.Errorf("%+v, want a deny by core.timeout", d)
	}
}

func TestACancelledCallIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d, err := newEngine(t, Options{}).Decide(ctx, newCall(t, tool.ModeBypassPermissions, "Todo", map[string]any{}))
	if err == nil || d.Verdict != tool.Deny {
		t.Errorf("decision %s and error %v, want a deny and the cancellation", d.Verdict, err)
	}
}

func TestArgumentsThatAreNoObjectDeny(t *testing.T) {
	e := newEngine(t, Options{})
	for _, args := range []string{`[]`, `1`, `{`, `{} {}`, `null`} {
		c := newCall(t, tool.ModeBypassPermissions, "Todo", nil)
		c.In.Args = []byte(args)
		if d := decide(t, e, c); d.Verdict != tool.Deny || d.Reasons[0].Rule != "core.input" {
			t.Errorf("arguments %s: %+v, want a deny by core.input", args, d)
		}
	}
}

func TestOptionsThatDoNotLoad(t *testing.T) {
	twice := policyDir(t, acme(rule))
	for _, tt := range []struct {
		name string
		opts Options
		want string
	}{
		{"an unknown profile", Options{Profile: "lax"}, `"lax"`},
		{"an unknown verdict", Options{Verdict: "maybe"}, `"maybe"`},
		{"an unknown list policy", Options{Policies: []callback.ListPolicy{{Kind: "allowList"}}}, `"allowList"`},
		{"a list policy with needless tools", Options{Policies: []callback.ListPolicy{{Kind: "readOnly", Tools: []string{"x"}}}}, "takes no tools"},
		{"a rule that can never match", Options{Rules: permission.Rules{Deny: []string{"Bash("}}}, "not closed"},
		{"an id to disable that nothing has", Options{Disable: []string{"developer.x"}}, `"developer.x"`},
		{"a core rule to disable", Options{Disable: []string{"core.nested_sandbox"}}, "cannot be switched off"},
		{"a directory that is missing", Options{Dirs: []string{"/nonexistent"}}, "/nonexistent"},
		{"a relative directory", Options{Dirs: []string{"policies"}}, `"policies" is not an absolute path`},
		{"a directory twice", Options{Dirs: []string{twice, twice}}, "a.rego is loaded twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(context.Background(), tt.opts)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestOnlyFilesThatChangedAreCompiled: settings may differ, and one other byte of a file counts.
func TestOnlyFilesThatChangedAreCompiled(t *testing.T) {
	load := func(o Options) *compiled {
		t.Helper()
		o.Profile = ProfileDeveloper
		if _, _, err := loadModules(t.Context(), o, nil); err != nil {
			t.Fatal(err)
		}
		return lastCompiled.Load()
	}
	rule := acme(`findings contains {"id": "one", "effect": "deny", "message": "no"}`)
	dir := policyDir(t, rule)
	first := load(Options{Dirs: []string{dir}})
	if load(Options{Dirs: []string{dir}, Rules: permission.Rules{Deny: []string{"Bash"}}}) != first {
		t.Error("the same files were compiled twice")
	}
	for name, text := range map[string]string{"the text": rule + "#", "the name": rule} {
		if other := load(Options{Dirs: []string{policyDir(t, text)}}); other == first || other.compiler == first.compiler {
			t.Errorf("%s is another, and the files were not compiled again", name)
		}
	}
}

func TestAReloadThatFailsKeepsTheLastGoodRevision(t *testing.T) {
	dir := policyDir(t, acme(`findings contains {"id": "acme.x", "effect": "deny", "message": "no"}`))
	e := newEngine(t, Options{Dirs: []string{dir}})
	good := e.Status().Revision
	call := newCall(t, tool.ModeBypassPermissions, "Todo", map[string]any{})

	writePolicy(t, filepath.Join(dir, "a.rego"), "package broken {")
	if err := e.Reload(context.Background(), false); err == nil {
		t.Fatal("a broken policy was loaded")
	}
	s := e.Status()
	if s.Revision != good || s.Failure == nil || !strings.Contains(s.Failure.Error, "a.rego") {
		t.Errorf("status %+v, want revision %s and the failure", s, good)
	}
	if d := decide(t, e, call); d.Verdict != tool.Deny || d.Revision != good {
		t.Errorf("%+v, want the deny of the last good revision", d)
	}

	writePolicy(t, filepath.Join(dir, "a.rego"), acme(rule))
	if err := e.Reload(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	if s := e.Status(); s.Revision == good || s.Failure != nil {
		t.Errorf("status %+v, want a new revision and no failure", s)
	}
	if d := decide(t, e, call); d.Verdict != tool.Allow {
		t.Errorf("%+v, want the allow of the new revision", d)
	}
}

func TestTheRevisionIsTheContent(t *testing.T) {
	a, b := newEngine(t, Options{}), newEngine(t, Options{})
	if a.Status().Revision != b.Status().Revision {
		t.Error("the same content has two revisions")
	}
	for _, opts := range []Options{
		{Profile: "strict"},
		{RelaxReads: true},
		{Rules: permission.Rules{Deny: []string{"Bash"}}},
		{Disable: []string{"developer.git.discard"}},
		{Policies: []callback.ListPolicy{{Kind: "readOnly"}}},
		{Dirs: []string{policyDir(t, acme(rule))}},
	} {
		if newEngine(t, opts).Status().Revision == a.Status().Revision {
			t.Errorf("options %+v do not show in the revision", opts)
		}
	}
}

func TestADisabledRuleIsSilent(t *testing.T) {
	e := newEngine(t, Options{Disable: []string{"developer.git.force_push"}})
	if d := decide(t, e, bash(t, tool.ModeAuto, "git push --force")); d.By != tool.ByMode {
		t.Errorf("%+v, want the mode to decide", d)
	}
}

func TestAnUndefinedResultDenies(t *testing.T) {
	e := newEngine(t, Options{})
	r := *e.current.Load()
	_, modules, err := loadModules(context.Background(), Options{Profile: "developer"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := compile(modules)
	if err != nil {
		t.Fatal(err)
	}
	gone := judgedPackage{name: "sandboxd.policies.gone.x", prefilter: prefilter{nil}}
	if gone.query, err = prepare(context.Background(), compiler, "data."+gone.name+".findings",
		newStore(nil)); err != nil {
		t.Fatal(err)
	}
	r.packages = append(slices.Clone(r.packages), gone)
	e.current.Store(&r)
	d := decide(t, e, newCall(t, tool.ModeBypassPermissions, "Todo", map[string]any{}))
	if d.Verdict != tool.Deny || d.Reasons[0].Rule != "core.shape" {
		t.Errorf("%+v, want a deny by core.shape", d)
	}
}
