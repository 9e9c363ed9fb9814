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
)

// TestEveryRuleOfTheLibraryIsTested deletes one rule after the other: each time
// something must fail, the compiler, an example or a test.
func TestEveryRuleOfTheLibraryIsTested(t *testing.T) {
	ctx := context.Background()
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
		if !survives(ctx, opts, modules, "") || failsBeside(ctx, t, modules, tests, "") {
			t.Fatalf("profile %s fails with all its rules", profile)
		}
		for _, file := range slices.Sorted(maps.Keys(modules)) {
			if profile != ProfileDeveloper && !strings.Contains(file, "/"+string(profile)+"/") {
				continue // the others were mutated with the developer profile
			}
			for i, rule := range modules[file].Rules {
				mutated := maps.Clone(modules)
				mutated[file] = modules[file].Copy()
				mutated[file].Rules = slices.Delete(mutated[file].Rules, i, i+1)
				if !failsBeside(ctx, t, mutated, tests, file) && survives(ctx, opts, mutated, file) {
					t.Errorf("%s:%d: nothing fails without this rule", file, rule.Location.Row)
				}
			}
		}
	}
}

// failsBeside reports whether the rules do not compile, or a test in the package of a file
// fails; "" is every package. Most rules are found so, and few need all that survives looks at.
func failsBeside(ctx context.Context, t *testing.T, modules, tests map[string]*ast.Module, file string) bool {
	t.Helper()
	caps, err := capabilities()
	if err != nil {
		t.Fatal(err)
	}
	data, err := permission.Tables(permission.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(tests)
	maps.Copy(all, modules)
	store := inmem.NewFromObject(map[string]any{"sandboxd": map[string]any{"rules": data}})
	txn, err := store.NewTransaction(ctx, storage.TransactionParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Abort(ctx, txn)
	runner := tester.NewRunner().SetCompiler(ast.NewCompiler().WithCapabilities(caps)).SetStore(store).
		SetModules(all).RaiseBuiltinErrors(true).SetTimeout(10 * time.Second)
	if file != "" {
		runner.Filter("^" + regexp.QuoteMeta(modules[file].Package.Path.String()) + `\.`)
	}
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
	r, err := newRevision(ctx, opts, files, modules, nil)
	if err != nil {
		return false
	}
	if err := r.checkExamples(ctx, testFacts, modules, func(f string) bool { return f == file }); err != nil {
		return false
	}
	report, err := r.test(ctx, opts, modules, func(string) bool { return true })
	return err == nil && !report.Failed()
}
