package rego_test

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/rego"
)

// A rule of another package would never be asked.
func TestRulesAreInThePackageOfTheirFile(t *testing.T) {
	for _, dir := range []string{"core", "developer", "observe", "strict"} {
		files, err := fs.Glob(rego.Files, dir+"/*.rego")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", dir, files, err)
		}
		for _, file := range files {
			text, err := fs.ReadFile(rego.Files, file)
			if err != nil {
				t.Fatal(err)
			}
			want := "\npackage sandboxd.policies." + dir + "." + strings.TrimSuffix(path.Base(file), ".rego") + "\n"
			if !strings.HasSuffix(file, "_test.rego") && !strings.Contains("\n"+string(text), want) {
				t.Errorf("%s is not in %s", file, strings.TrimSpace(want))
			}
		}
	}
}
