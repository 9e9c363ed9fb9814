//go:build !race

// One goroutine and sixty compilations: under the race detector this shows
// nothing and takes a minute.

package policy

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"

	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestEveryRuleOfTheLibraryIsTested deletes one rule after the other: each time
// something must fail, the compiler, an example or a test. The gate deletes every sixteenth,
// make long each.
func TestEveryRuleOfTheLibraryIsTested(t *testing.T) {
	ctx := context.Background()
	step, n := 16, 0
	if tier.IsLong() {
		step = 1
	}
	for _, profile := range Profiles {
		opts := Options{Profile: profile, Facts: testFacts}
		_, modules, err := loadModules(ctx, opts, nil)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := readTests(opts)
		if err != nil {
			t.Fatal(err)
		}
		tests, err := parse(texts)
		if err != nil {
			t.Fatal(err)
		}
		if !survives(ctx, opts, modules, "") {
			t.Fatalf("profile %s fails with all its rules", profile)
		}
		for _, file := range slices.Sorted(maps.Keys(modules)) {
			if profile != ProfileDeveloper && !strings.Contains(file, "/"+string(profile)+"/") {
				continue // the others were mutated with the developer profile
			}
			beside := closure(modules, tests, modules[file].Package.Path)
			if failsBeside(ctx, t, beside, file) {
				t.Fatalf("%s fails with all its rules", file)
			}
			for i, rule := range modules[file].Rules {
				if n++; n%step != 0 {
					continue
				}
				module := modules[file].Copy()
				module.Rules = slices.Delete(module.Rules, i, i+1)
				beside[file] = module
				if failsBeside(ctx, t, beside, file) {
					continue
				}
				mutated := maps.Clone(modules)
				mutated[file] = module
				if survives(ctx, opts, mutated, file) {
					t.Errorf("%s:%d: nothing fails without this rule", file, rule.Location.Row)
				}
			}
		}
	}
}

// closure is a package, its tests, and every package that these name: what its tests need.
// Compiling all others for each rule would take most of the time.
func closure(modules, tests map[string]*ast.Module, pkg ast.Ref) map[string]*ast.Module {
	all := maps.Clone(tests)
	maps.Copy(all, modules)
	found := map[string]*ast.Module{}
	for open := []ast.Ref{pkg}; len(open) > 0; {
		named := open[0]
		open = open[1:]
		for name, m := range all {
			if found[name] != nil || !named.HasPrefix(m.Package.Path) && !m.Package.Path.HasPrefix(named) {
				continue
			}
			found[name] = m
			ast.WalkRefs(m, func(r ast.Ref) bool {
				if r.HasPrefix(ast.DefaultRootRef) {
					open = append(open, r.ConstantPrefix())
				}
				return false
			})
		}
	}
	return found
}

// failsBeside reports whether modules do not compile, or a test in the package of one of them
// fails. Most rules are found so, and few need all that survives looks at.
func failsBeside(ctx context.Context, t *testing.T, modules map[string]*ast.Module, file string) bool {
	t.Helper()
	caps, err := capabilities()
	if err != nil {
		t.Fatal(err)
	}
	data, err := permission.Tables(permission.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	store := inmem.NewFromObject(map[string]any{"sandboxd": map[string]any{"rules": data}})
	txn, err := store.NewTransaction(ctx, storage.TransactionParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Abort(ctx, txn)
	runner := tester.NewRunner().SetCompiler(ast.NewCompiler().WithCapabilities(caps)).SetStore(store).
		SetModules(modules).RaiseBuiltinErrors(true).SetTimeout(10 * time.Second).
		Filter("^" + regexp.QuoteMeta(modules[file].Package.Path.String()) + `\.`)
	results, err := runner.RunTests(ctx, txn)
	if err != nil {
		return true
	}
	failed := false
	for r := range results {
		failed = failed || !r.Pass() && !r.Skip
	}
	return failed
}

// survives reports whether these rules, of which one of a file is missing, pass everything.
func survives(ctx context.Context, opts Options, modules map[string]*ast.Module, file string) bool {
	files, err := readSources(opts)
	if err != nil {
		return false
	}
	c, err := compileModules(files, modules)
	if err != nil {
		return false
	}
	r, err := newRevision(ctx, opts, c, nil)
	if err != nil {
		return false
	}
	if err := r.checkExamples(ctx, testFacts, modules, func(f string) bool { return f == file }); err != nil {
		return false
	}
	report, err := r.test(ctx, opts, modules, func(string) bool { return true })
	return err == nil && !report.Failed()
}
