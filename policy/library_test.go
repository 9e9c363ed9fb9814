package policy

import (
	"context"
	"testing"
)

// TestTheLibraryPassesItsOwnTests runs every _test.rego and every example in the
// metadata, for each profile.
func TestTheLibraryPassesItsOwnTests(t *testing.T) {
	for _, profile := range Profiles {
		t.Run(string(profile), func(t *testing.T) {
			report, err := Test(context.Background(), Options{Profile: profile, Facts: testFacts})
			if err != nil {
				t.Fatal(err)
			}
			if report.Examples != "" {
				t.Error(report.Examples)
			}
			for _, r := range report.Tests {
				if !r.Pass {
					t.Errorf("%s:%d: %s: %s", r.File, r.Line, r.Name, r.Error)
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
