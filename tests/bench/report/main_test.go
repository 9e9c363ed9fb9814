package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// TestWhatIsOverItsLimit: the table marks it, and the command fails; the baseline fails nothing.
func TestWhatIsOverItsLimit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		result bench.Result
		ok     bool
		want   string // of its row
	}{
		{"a ratio within", bench.Result{Limits: []bench.LimitResult{{Case: "a", Over: "b", Ratio: 2, AtMost: 3, OK: true}}}, true, "2 1.5 3"},
		{"a ratio over", bench.Result{Limits: []bench.LimitResult{{Case: "a", Over: "b", Ratio: 4, AtMost: 3}}}, false, "4 1.5 3 OVER THE LIMIT"},
		{"a value over", bench.Result{Values: []bench.ValueResult{{Name: "size", Value: 7, Unit: "B", AtMost: 6}}}, false, "7 - 6 OVER THE LIMIT"},
		{"no limit", bench.Result{Values: []bench.ValueResult{{Name: "size", Value: 7, Unit: "B", OK: true}}}, true, "7 - -"},
	} {
		tt.result.Name = "guard.X"
		var out strings.Builder
		now, ok := printLimits(&out, []bench.Result{tt.result}, map[string]float64{"guard.X a / b": 1.5})
		row := strings.Join(strings.Fields(out.String()), " ")
		if ok != tt.ok || !strings.HasSuffix(row, tt.want) || len(now) != 1 {
			t.Errorf("%s: ok %t, %d figures for a baseline, want %t, 1 and the row %q:\n%s", tt.name, ok, len(now), tt.ok, tt.want, row)
		}
	}
}

func TestAFileWithoutAResultIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(path, "", ""); err == nil {
		t.Error("an empty file is a run that passed")
	}
	if _, err := run(path+"x", "", ""); err == nil {
		t.Error("a file that does not exist is a run that passed")
	}
}
