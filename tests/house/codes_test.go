package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var codeOf = regexp.MustCompile(`(?:Code: |badRequest\(|forbidden\(|missing\(|tooMany\(\d+, )"([a-z_]+)"`)

// Every stable error code is explained in the documents. One that ends in _ is the
// beginning of several.
func TestEveryErrorCodeIsDocumented(t *testing.T) {
	var docs strings.Builder
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		docs.Write(text)
	}
	seen := map[string]bool{}
	sources(t, func(path string, text []byte, _ *ast.File) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "tests/") {
			return
		}
		for _, m := range codeOf.FindAllSubmatch(text, -1) {
			code := string(m[1])
			if seen[code] {
				continue
			}
			seen[code] = true
			want := "`" + code + "`"
			if strings.HasSuffix(code, "_") {
				want = "`" + code
			}
			if !strings.Contains(docs.String(), want) {
				t.Errorf("%s: the code %s is in no document; docs/troubleshooting.md has the table", path, code)
			}
		}
	})
	if len(seen) < 50 {
		t.Errorf("only %d codes are found in the source", len(seen))
	}
}
