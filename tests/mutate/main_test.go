package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// Only what the tests are built with is changed, and only where the change makes another program.
func TestMutantsAreOfTheProgramThatIsTested(t *testing.T) {
	dir := t.TempDir()
	other := map[bool]string{true: "arm64", false: "amd64"}[runtime.GOARCH == "amd64"]
	for name, text := range map[string]string{
		"a.go":               "package a\n\nconst (\n\ta = 0\n\tb = 0x0\n\tc = 10\n)\n",
		"a_" + other + ".go": "package a\n\nconst d = 11\n",
		"ignored.go":         "//go:build ignore\n\npackage a\n\nconst e = 12\n",
		"a_test.go":          "package a\n\nconst f = 13\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := mutants(dir, []string{"number"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, filepath.Base(m.file)+" "+m.text+" "+m.with)
	}
	if want := []string{"a.go 10 (2*10)"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A word that is no kind would choose nothing, and nothing would survive.
func TestAKindThatIsNoneIsAnError(t *testing.T) {
	for _, tt := range []struct {
		list string
		want []string
	}{
		{"part", []string{"part"}},
		{"guard,number", []string{"guard", "number"}},
		{everyKind, []string{"guard", "part", "field", "member", "call", "number"}},
		{"prat", nil},
		{"guard,prat", nil},
		{"guard, part", nil},
		{"partguard", nil},
		{"", nil},
	} {
		got, err := kindsOf(tt.list)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("%q: got %q, %v, want %q", tt.list, got, err, tt.want)
		}
	}
}
