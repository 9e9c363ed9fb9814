package policy

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/loader"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// TestWhatIsExportedDecidesAlike: OPA finds in the files what the engine finds.
func TestWhatIsExportedDecidesAlike(t *testing.T) {
	opts := Options{Profile: "developer", Rules: permission.Rules{Deny: []string{"Bash(ls *)"}}}
	dir := filepath.Join(t.TempDir(), "rego")
	if err := Export(dir, opts); err != nil {
		t.Fatal(err)
	}
	files, err := loader.NewFileLoader().Filtered([]string{dir + "/library", dir + "/data.json", dir + "/judge.rego"},
		func(_ string, info os.FileInfo, _ int) bool { return strings.HasSuffix(info.Name(), "_test.rego") })
	if err != nil {
		t.Fatal(err)
	}
	store, err := files.Store()
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, opts)
	for _, line := range []string{"ls -a", "git push -f", "true"} {
		d, x := explain(t, e, bash(t, tool.ModeAuto, line))
		var input any
		if err := json.Unmarshal(x.Input, &input); err != nil {
			t.Fatal(err)
		}
		r := []func(*rego.Rego){rego.Query("data.sandboxd.judge.findings"), rego.Store(store), rego.Input(input)}
		for _, m := range files.Modules {
			r = append(r, rego.ParsedModule(m.Parsed))
		}
		rs, err := rego.New(r...).Eval(context.Background())
		if err != nil || len(rs) != 1 {
			t.Fatalf("%v, %v", rs, err)
		}
		found := 0
		for _, set := range rs[0].Expressions[0].Value.([]any) {
			found += len(set.([]any))
		}
		if found != len(x.Findings) || found == 0 && d.By != tool.ByMode {
			t.Errorf("%s: OPA finds %d, the engine %d", line, found, len(x.Findings))
		}
	}
	if err := Export(dir, opts); err == nil {
		t.Error("files were written over")
	}
}

// TestAnExportIsWhole: with the tests and schemas that the tools of OPA take, and without the
// files of the operator; a directory that holds something is refused by its name.
func TestAnExportIsWhole(t *testing.T) {
	own := policyDir(t, acme(`findings contains {"id": "acme.x", "effect": "deny", "message": "m"} if false`))
	dir := filepath.Join(t.TempDir(), "a", "rego")
	if err := Export(dir, Options{Profile: "developer", Dirs: []string{own}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"schemas/input.json", "schemas/finding.json", "capabilities.json", "data.json", "judge.rego", "library/core",
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if judge, err := os.ReadFile(filepath.Join(dir, "judge.rego")); err != nil || !strings.Contains(string(judge), "acme") {
		t.Errorf("what is judged is %s, %v", judge, err)
	}
	if _, err := os.Stat(filepath.Join(dir, own)); err == nil {
		t.Error("the files of the operator are there again")
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := Export(full, Options{Profile: "developer"})
	if err == nil || !strings.Contains(err.Error(), full+`" is not an empty directory`) {
		t.Errorf("a directory that holds a file: %v", err)
	}
	if err := Export(filepath.Join(full, "x", "y"), Options{}); err == nil {
		t.Error("a directory below a file is made")
	}
}
