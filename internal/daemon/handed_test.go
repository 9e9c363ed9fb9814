package daemon

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// absent are options that the daemon leaves at their zero value, with the reason.
var absent = map[string]string{
	"approvals.Options.AlwaysGrant":  "how long grants hold is no setting",
	"approvals.Options.Max":          "likewise how many questions are kept",
	"approvals.Options.Reuse":        "likewise how long an answer is used again",
	"approvals.Options.SessionGrant": "likewise",
	"audit.Options.KeepEvery":        "for tests",
	"audit.Options.Progress":         "of those who verify",
	"audit.Options.SyncEvery":        "for tests",
	"hooks.Options.Env":              "for tests",
	"policy.DecisionOptions.Now":     "for tests",
	"sandbox.Options.NoCgroups":      "for tests",
	"sandbox.Options.NoNamespaces":   "for tests",
	"sandbox.Options.NoUserns":       "for tests",
	"sandbox.Options.OnMissing":      "what is missing is in each report",
	"store.SharedOptions.AsIs":       "of those who look, and change nothing",
	"vars.Options.MaxExpanded":       "for tests",
	"vars.Options.Now":               "for tests",
}

// The daemon puts the packages together: an option that it does not hand on is a setting without effect, which
// no package notices.
func TestEachOptionIsHandedOn(t *testing.T) {
	const module = "github.com/sandboxd/sandboxd/"
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	later := map[string]bool{} // fields that are set by themselves
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\b[oh]\.([A-Z]\w*)(?:, | = )`).FindAllStringSubmatch(string(text), -1) {
			later[m[1]] = true
		}
	}
	seen, used := 0, map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "standalone_undo.go" { // undo alone needs less
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dirs := map[string]string{} // by package name
		for _, i := range file.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err == nil && strings.HasPrefix(path, module) {
				dirs[filepath.Base(path)] = filepath.Join("../..", strings.TrimPrefix(path, module))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			of, ok := lit.Type.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := of.X.(*ast.Ident)
			const few = 4 // less is no wiring
			if !ok || dirs[pkg.Name] == "" || len(lit.Elts) < few || !strings.HasSuffix(of.Sel.Name, "Options") &&
				of.Sel.Name != "Host" {
				return true
			}
			seen++
			given := map[string]bool{}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					given[kv.Key.(*ast.Ident).Name] = true
				}
			}
			for _, field := range fieldsOf(t, dirs[pkg.Name], of.Sel.Name) {
				full := pkg.Name + "." + of.Sel.Name + "." + field
				if used[full] = true; !given[field] && !later[field] && absent[full] == "" {
					t.Errorf("%s does not set %s", name, full)
				}
			}
			return true
		})
	}
	for full := range absent {
		if !used[full] {
			t.Errorf("there is no %s", full)
		}
	}
	if seen < 8 {
		t.Errorf("only %d literals are options", seen)
	}
}

// fieldsOf are the exported fields of a struct of a package.
func fieldsOf(t *testing.T, dir, name string) (fields []string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range gen.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok || spec.Name.Name != name {
					continue
				}
				st, ok := spec.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range st.Fields.List {
					for _, id := range f.Names {
						if id.IsExported() {
							fields = append(fields, id.Name)
						}
					}
				}
			}
		}
	}
	if len(fields) == 0 {
		t.Fatalf("%s has no struct %s", dir, name)
	}
	return fields
}
