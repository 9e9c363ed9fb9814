package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAFirstPolicyPassesItsOwnTests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "policies")
	made, err := Init(dir, "acme")
	if err != nil {
		t.Fatal(err)
	}
	found, err := Files(dir)
	if err != nil || len(found) != 2 || !slices.Equal(found, made) {
		t.Fatalf("made %q, found %q, %v", made, found, err)
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Format(file, text); err != nil || string(again) != string(text) {
			t.Errorf("%s is not formatted: %v", file, err)
		}
	}
	report, err := Test(t.Context(), Options{Dirs: []string{dir}, Facts: testFacts})
	if err != nil || report.Failed() || len(report.Tests) != 3 {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := Init(dir, "acme"); err == nil {
		t.Error("a second policy overwrites the first")
	}
	for _, owner := range []string{"core", "developer", "a b", ""} {
		if _, err := Init(t.TempDir(), owner); err == nil || !strings.Contains(err.Error(), "owner") {
			t.Errorf("the owner %q: %v", owner, err)
		}
	}
	if _, err := Format("x.rego", []byte("package")); err == nil || !strings.Contains(err.Error(), "x.rego") {
		t.Errorf("text that is no Rego: %v", err)
	}
	if _, err := Files(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there has files")
	}
}

func TestATestThatFailsIsNamed(t *testing.T) {
	dir := t.TempDir()
	if _, err := Init(dir, "acme"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "branches_test.rego")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writePolicy(t, file, strings.Replace(string(text), `finding.effect == "ask"`, `finding.effect == "deny"`, 1))
	report, err := Test(t.Context(), Options{Dirs: []string{dir}, Facts: testFacts})
	if err != nil || !report.Failed() {
		t.Fatalf("%+v, %v", report, err)
	}
	if _, err := New(t.Context(), Options{Dirs: []string{dir}, Facts: testFacts}); err == nil ||
		!strings.Contains(err.Error(), "branches_test.test_main_asks fails: it is not true") {
		t.Errorf("a policy whose test fails: %v", err)
	}
}

// TestAnExampleThatDoesNotHoldIsAnError: of those that a rule is for, and of those that it is not for.
func TestAnExampleThatDoesNotHoldIsAnError(t *testing.T) {
	for key, want := range map[string]string{
		"match": "git pull: matches is false", "not_match": "git push: matches is true",
		"no_match": "git push: custom.no_match is unknown; want match or not_match", // nobody would run it
	} {
		command, _, _ := strings.Cut(want, ":")
		rule := "# METADATA\n# custom:\n#   " + key + ":\n#     - " + command + "\n" +
			`findings contains {"id": "acme.push", "effect": "ask", "message": "m"} if "git push" in input.starts`
		_, err := New(t.Context(), Options{Dirs: []string{policyDir(t, acme(rule))}, Facts: testFacts})
		if key == "no_match" {
			_, want, _ = strings.Cut(want, ": ")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

func TestExamplesThatSayNothingAreErrors(t *testing.T) {
	for _, tt := range []struct {
		example any
		want    string
	}{
		{"ls", ""},
		{map[string]any{"tool": "Read", "args": map[string]any{"file_path": "/x"}}, ""},
		{map[string]any{}, "name either a command or a tool"},
		{map[string]any{"command": "ls", "tool": "Read"}, "name either a command or a tool"},
		{map[string]any{"command": "ls", "args": map[string]any{}}, "a command has no args"},
		{map[string]any{"commands": "ls"}, "unknown field"},
		{func() {}, "unsupported"},
	} {
		_, err := NewExample(tt.example)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.example, err, tt.want)
		}
	}
}

func TestAPatchMergesObjects(t *testing.T) {
	for _, tt := range []struct{ doc, patch, want string }{
		{`{"a": 1, "b": {"c": 2, "d": 3}}`, `{"b": {"c": null, "e": 4}, "f": [1]}`, `{"a":1,"b":{"d":3,"e":4},"f":[1]}`},
		{`{"a": 1}`, `{"a": {"b": 2}}`, `{"a":{"b":2}}`},
		{``, `{"a": 1.50}`, `{"a":1.50}`},
		{`{}`, `[1]`, ""},
		{`{`, `{}`, ""},
		{`{}`, `{} {}`, ""},
	} {
		got, err := mergePatch([]byte(tt.doc), []byte(tt.patch))
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s with %s: %s, %v, want %s", tt.doc, tt.patch, got, err, tt.want)
		}
	}
}
