package house

import (
	"go/ast"
	"strings"
	"testing"
	"unicode/utf8"
)

const maxColumns = 120

func TestLinesStayNarrow(t *testing.T) {
	sources(t, func(path string, text []byte, _ *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if got := columns(strings.TrimRight(line, "\n")); got > maxColumns {
				t.Errorf("%s:%d has %d columns, at most %d", path, n, got, maxColumns)
			}
		}
	})
}

// columns is how wide a line is when a tab counts as 4.
func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

func TestColumns(t *testing.T) {
	for line, want := range map[string]int{"": 0, "\t\tx := 1": 14, "// …": 4, "x\t// y": 9} {
		if got := columns(line); got != want {
			t.Errorf("columns(%q): got %d, want %d", line, got, want)
		}
	}
}
