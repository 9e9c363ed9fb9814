package main

import (
	"strings"
	"testing"
)

func report(t *testing.T, lines ...string) (string, bool) {
	t.Helper()
	r := newRun()
	if err := r.read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	ok := r.print(&out, 2)
	return out.String(), ok
}

const pkg = `"Package":"github.com/sandboxd/sandboxd/guard"`

func TestTheReportCounts(t *testing.T) {
	out, ok := report(t,
		`{"Action":"run",`+pkg+`,"Test":"TestA"}`,
		`{"Action":"pass",`+pkg+`,"Test":"TestA","Elapsed":1.5}`,
		`{"Action":"run",`+pkg+`,"Test":"TestB"}`,
		`{"Action":"output",`+pkg+`,"Test":"TestB","Output":"    b_test.go:7: flaky: seen once\n"}`,
		`{"Action":"output",`+pkg+`,"Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}`,
		`{"Action":"skip",`+pkg+`,"Test":"TestB"}`,
		`{"Action":"pass",`+pkg+`,"Elapsed":2}`,
	)
	if !ok {
		t.Errorf("a run without a failure failed:\n%s", out)
	}
	for _, want := range []string{
		"1.5s guard TestA\n", "  guard TestB: flaky: seen once\n", "1 of 2 top-level tests ran (50.0 %)\n",
		"\n1 passed, 0 failed, 1 skipped\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
}

func TestTheReportFails(t *testing.T) {
	passes := []string{`{"Action":"pass",` + pkg + `,"Test":"TestA"}`, `{"Action":"pass",` + pkg + `}`}
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a test fails", []string{`{"Action":"fail",` + pkg + `,"Test":"TestB"}`, `{"Action":"fail",` + pkg + `}`}, "1 passed, 1 failed, 0 skipped"},
		{"a test never ends", []string{`{"Action":"run",` + pkg + `,"Test":"TestB"}`}, "guard TestB (never ended)"},
		{"a package does not compile", []string{
			`{"Action":"output","Package":"x","Output":"FAIL x [build failed]\n"}`, `{"Action":"fail","Package":"x"}`,
		}, "failed: package x: FAIL x [build failed]"},
		{"a package never ends", []string{`{"Action":"start","Package":"x"}`}, "failed: package x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, ok := report(t, append(passes, tt.lines...)...)
			if ok || !strings.Contains(out, tt.want) {
				t.Errorf("ok %v, want %q:\n%s", ok, tt.want, out)
			}
		})
	}
	if out, ok := report(t, passes[1]); ok {
		t.Errorf("a run without a test passed:\n%s", out)
	}
}
