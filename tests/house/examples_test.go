package house

import (
	"go/ast"
	"go/doc"
	"path/filepath"
	"strings"
	"testing"
)

// noExample are packages whose doc shows code that no Example runs, with the reason.
var noExample = map[string]string{
	"internal/route/routetest": "it is called with a testing.TB",
	"internal/store/storetest": "it is called with a *testing.T",
	"internal/tools/toolstest": "it is called with a *testing.T",
	"tests/pgtest":             "it is called with a testing.TB",
	"tests/bench":              "it is called with a *testing.B",
	"tests/golden":             "it is called with a *testing.T",
	"tests/needs":              "it is called with a *testing.T",
	"tests/pty":                "it is called with a *testing.T",
	"tests/tier":               "it is called with a *testing.T",
	"internal/flaky":           "it is called with a *testing.T",
	"internal/transfer":        "it needs a PostgreSQL",
	"tests/prebuilt":           "it is called in a TestMain",
}

// Code in a package doc that nothing runs is wrong one day, and nobody notices.
func TestCodeInAPackageDocIsAnExample(t *testing.T) {
	shows := map[string]bool{}
	examples := map[string]bool{}
	sources(t, func(path string, _ []byte, f *ast.File) {
		dir := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") {
			examples[dir] = examples[dir] || runsAnExample(f)
			return
		}
		shows[dir] = shows[dir] || showsCode(f)
	})
	if len(examples) == 0 {
		t.Fatal("no test was found")
	}
	for dir := range shows {
		switch {
		case shows[dir] && !examples[dir] && noExample[dir] == "":
			t.Errorf("the package doc of %s shows code; make it an Example function with its Output", dir)
		case (!shows[dir] || examples[dir]) && noExample[dir] != "":
			t.Errorf("%s needs no exception", dir)
		}
	}
	for dir := range noExample {
		if _, ok := shows[dir]; !ok {
			t.Errorf("%s is no package and needs no exception", dir)
		}
	}
}

// showsCode reports whether the package doc has a block of code, which is indented.
// That of a command shows how it is called.
func showsCode(f *ast.File) bool {
	return f.Name.Name != "main" && f.Doc != nil && strings.Contains("\n"+f.Doc.Text(), "\n\t")
}

// runsAnExample reports whether a file has an Example that go test runs: one
// without an Output is only compiled.
func runsAnExample(f *ast.File) bool {
	for _, e := range doc.Examples(f) {
		if e.Output != "" || e.EmptyOutput {
			return true
		}
	}
	return false
}

func TestExamplesAreTold(t *testing.T) {
	for _, tt := range []struct {
		name, text  string
		shows, runs bool
	}{
		{"code and an output", "// Package x shows.\n//\n//\tx.Do()\npackage x\n\n" +
			"func Example() {\n\tx.Do()\n\t// Output:\n\t// done\n}\n", true, true},
		{"no output", "// Package x does not.\npackage x\n\nfunc Example() { x.Do() }\n", false, false},
		{"a test", "package x\n\nfunc TestX(t *testing.T) {\n\t// Output:\n\t// done\n}\n", false, false},
	} {
		f := parse(t, tt.text)
		if shows, runs := showsCode(f), runsAnExample(f); shows != tt.shows || runs != tt.runs {
			t.Errorf("%s: got %v and %v, want %v and %v", tt.name, shows, runs, tt.shows, tt.runs)
		}
	}
}
