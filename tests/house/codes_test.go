package house

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	codeOf   = regexp.MustCompile(`(?:Code:\s+|\bCode(?:[A-Z]\w*)?(?:, \w+\.Msg)?\s*:?=\s*|nobody\(|badRequest\(|forbidden\(|missing\(|conflict\(|tooMany\(\d+, )"([a-z_]+)"`)
	unparsed = regexp.MustCompile(`\bError\{\s*Code:\s+"([a-z_]+)"`)
)

// Every stable error code is explained in the documents. One that ends in _ is the
// beginning of several: the whole names of those are listed here, or made of what the shell
// parser says.
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
	seen, parser := map[string]bool{}, map[string]bool{}
	sources(t, func(path string, text []byte, _ *ast.File) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "tests/") {
			return
		}
		if strings.HasPrefix(path, "shellparse/") {
			for _, m := range unparsed.FindAllSubmatch(text, -1) {
				parser["command_"+string(m[1])] = true
			}
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
	whole := slices.Concat([]string{"policy_deny", "policy_ask", "mode_deny", "mode_ask"}, slices.Collect(maps.Keys(parser)))
	for _, code := range whole {
		if !strings.Contains(docs.String(), "`"+code+"`") {
			t.Errorf("the code %s is in no document", code)
		}
	}
	if len(parser) < 4 {
		t.Errorf("only %d codes of the shell parser are found", len(parser))
	}
	if len(seen) < 50 {
		t.Errorf("only %d codes are found in the source", len(seen))
	}
}
