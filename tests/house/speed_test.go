package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	goName   = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	command  = regexp.MustCompile(`^(GODEBUG=|/bin/)|: `) // what one types, or a setting
)

// What docs/speed.md says of how to remove a piece names code that is there: a benchmark, a file, or names of the
// code; an expression stands there as it is written.
func TestSpeedNamesCodeThatIsThere(t *testing.T) {
	var code strings.Builder
	files := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", "bin", "docs", "node_modules":
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".sql", ".rego", ".txt":
			files[d.Name()] = true
			text, err := os.ReadFile(path)
			code.Write(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, w := range goName.FindAllString(code.String(), -1) {
		words[w] = true
	}
	text, err := os.ReadFile("../../docs/speed.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range codeSpan.FindAllStringSubmatch(string(text), -1) {
		span := strings.Join(strings.Fields(m[1]), " ")
		bench, isBench := strings.CutPrefix(span, "make bench BENCH=")
		switch {
		case strings.Contains(span, "/") || command.MatchString(span) || files[span]:
			continue // paths are another test's
		case isBench:
			if strings.Contains(code.String(), "func Benchmark"+strings.TrimPrefix(bench, "Benchmark")) {
				n++
				continue
			}
		case strings.ContainsAny(span, "("):
			if strings.Contains(code.String(), span) {
				n++
				continue
			}
		default:
			missing := false
			for _, w := range goName.FindAllString(span, -1) {
				missing = missing || !words[w]
			}
			if !missing {
				n++
				continue
			}
		}
		t.Errorf("docs/speed.md names `%s`, which is nowhere in the code", span)
	}
	if n < 80 {
		t.Errorf("only %d names are found", n)
	}
}
