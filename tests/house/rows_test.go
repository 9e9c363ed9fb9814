package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	// rowID is a requirement as texts write it, such as V-10. CX-10 is none.
	rowID = regexp.MustCompile(`\b([A-HK-NPR-TV-X])-(\d\d)\b`)
	// textID is one in the name of a subtest, where the hyphen may be left out.
	textID = regexp.MustCompile(`\b([A-HK-NPR-TV-X])-?(\d\d)\b`)
	// nameID is one in the name of a function, where it stands between underscores.
	nameID = regexp.MustCompile(`^([A-HK-NPR-TV-X])(\d\d)$`)

	regoTest = regexp.MustCompile(`(?m)^test_(\w+)`)
	hashLine = regexp.MustCompile(`(?m)^\s*#.*$`)
)

// A requirement that stands in a comment of a test looks as if it were shown.
// What counts is the name that a run prints: of a test, a subtest or a script.
func TestARowInACommentIsInTheNameOfATest(t *testing.T) {
	named := map[string]bool{}
	comments := map[string][]string{} // by row, the files
	addComment := func(path, text string) {
		for _, id := range rowID.FindAllString(text, -1) {
			if !slices.Contains(comments[id], path) {
				comments[id] = append(comments[id], path)
			}
		}
	}
	sources(t, func(path string, _ []byte, f *ast.File) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, id := range rowsNamed(f) {
			named[id] = true
		}
		for _, c := range f.Comments {
			addComment(path, c.Text())
		}
	})
	others(t, func(path, text string) {
		switch {
		case strings.HasSuffix(path, ".txtar"):
			for _, id := range rowID.FindAllString(strings.ReplaceAll(filepath.Base(path), "_", " "), -1) {
				named[id] = true
			}
			script, _, _ := strings.Cut(text, "\n-- ")
			text = script
		case strings.HasSuffix(path, "_test.rego"):
			for _, m := range regoTest.FindAllStringSubmatch(text, -1) {
				for _, id := range inName(strings.ToUpper(m[1])) {
					named[id] = true
				}
			}
		default:
			return
		}
		addComment(path, strings.Join(hashLine.FindAllString(text, -1), "\n"))
	})
	if len(named) < 100 || len(comments) == 0 {
		t.Fatalf("only %d rows in names and %d in comments were found", len(named), len(comments))
	}
	for id, files := range comments {
		if !named[id] {
			t.Errorf("%s stands in comments of %q and in the name of no test", id, files)
		}
	}
}

func TestARowCountsInANameAlone(t *testing.T) {
	// @ is 0 here, so that this file names no row.
	text := strings.ReplaceAll(`package x
// TestC@1 is a comment, C-@1.
func TestV1@_T2@_Update(t *testing.T) {
	for _, tt := range []struct{ name, in string }{{"A-@1: a table", "x"}, {in: "y", name: "A@2 by key"}} {
		t.Run("B-@3 in place", nil)
		t.Error("D-@4 in a message")
		t.Run(tt.name, nil)
	}
}
func helperE@5() { _ = "F-@6 in a text" }
`, "@", "0")
	got := strings.Join(slices.Sorted(slices.Values(rowsNamed(parse(t, text)))), " ")
	if want := strings.ReplaceAll("A-@1 A-@2 B-@3 T-2@ V-1@", "@", "0"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// rowsNamed are the rows in the names of tests and subtests of a file. The names of
// subtests are texts in tables, and those that are given to Run.
func rowsNamed(f *ast.File) []string {
	var all []string
	text := func(e ast.Expr) {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			e = kv.Value
		}
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				for _, m := range textID.FindAllStringSubmatch(s, -1) {
					all = append(all, m[1]+"-"+m[2])
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
				all = append(all, inName(strings.TrimPrefix(n.Name.Name, "Test"))...)
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				text(e)
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Run" && len(n.Args) == 2 {
				text(n.Args[0])
			}
		}
		return true
	})
	return all
}

// inName are the rows in a name such as V10_T44_Update.
func inName(name string) []string {
	var all []string
	for part := range strings.SplitSeq(name, "_") {
		if m := nameID.FindStringSubmatch(part); m != nil {
			all = append(all, m[1]+"-"+m[2])
		}
	}
	return all
}

// others calls visit with every file of tests that is not Go.
func others(t *testing.T, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != "../.." && (strings.HasPrefix(name, ".") || name == "bin") {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(path); d.IsDir() || ext != ".txtar" && ext != ".rego" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			visit(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T, text string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "x_test.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
