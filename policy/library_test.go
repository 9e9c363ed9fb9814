package policy

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestTheLibraryPassesItsOwnTests runs every _test.rego and every example in the
// metadata, for each profile.
func TestTheLibraryPassesItsOwnTests(t *testing.T) {
	for _, profile := range Profiles {
		t.Run(profile, func(t *testing.T) {
			report, err := Test(context.Background(), Options{Profile: profile})
			if err != nil {
				t.Fatal(err)
			}
			if report.Examples != "" {
				t.Error(report.Examples)
			}
			for _, r := range report.Tests {
				if !r.Pass {
					t.Errorf("%s:%d: %s: %s%s", r.File, r.Line, r.Name, r.Error, r.FailedAt)
				}
			}
			for _, c := range report.Coverage {
				if c.Percent < 95 {
					t.Errorf("%s: %.1f %% of the lines are covered by its tests, want 95; not lines %v", c.File, c.Percent, c.Missing)
				}
			}
		})
	}
}

// TestEveryRuleOfTheLibraryIsTested deletes one rule after the other: each time
// something must fail, the compiler, an example or a test.
func TestEveryRuleOfTheLibraryIsTested(t *testing.T) {
	ctx := context.Background()
	for _, profile := range Profiles {
		opts := Options{Profile: profile}
		_, modules, err := loadModules(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		if !survives(ctx, opts, "", -1) {
			t.Fatalf("profile %s fails with all its rules", profile)
		}
		for _, file := range sortedKeys(modules) {
			if profile != "developer" && !strings.Contains(file, "/"+profile+"/") {
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
	r, err := newRevision(ctx, opts, files, modules)
	if err != nil {
		return false
	}
	report, err := r.test(ctx, opts, modules, func(string) bool { return true })
	return err == nil && !report.Failed()
}
