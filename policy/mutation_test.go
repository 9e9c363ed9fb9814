//go:build !race

// One goroutine and sixty compilations: under the race detector this shows
// nothing and takes a minute.

package policy

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
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
		if !survives(ctx, opts, "", -1) {
			t.Fatalf("profile %s fails with all its rules", profile)
		}
		for _, file := range slices.Sorted(maps.Keys(modules)) {
			if profile != ProfileDeveloper && !strings.Contains(file, "/"+string(profile)+"/") {
				continue // the others were mutated with the developer profile
			}
			for i, rule := range modules[file].Rules {
				if survives(ctx, opts, file, i) {
					t.Errorf("%s:%d: nothing fails without this rule", file, rule.Location.Row)
				}
			}
		}
	}
}

// survives reports whether all tests pass without rule i of a file; no file, no
// deletion.
func survives(ctx context.Context, opts Options, file string, i int) bool {
	files, err := readSources(opts)
	if err != nil {
		return false
	}
	modules, err := parse(files)
	if err != nil {
		return false
	}
	if m := modules[file]; m != nil {
		m.Rules = slices.Delete(m.Rules, i, i+1)
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
