package house

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFiguresOfTheDocuments: a number in a document is that of the code. The tests of a package use the name of a
// bound, so they go on passing when its value changes.
func TestFiguresOfTheDocuments(t *testing.T) {
	text, err := os.ReadFile("testdata/figures.txt")
	if err != nil {
		t.Fatal(err)
	}
	var sentence string
	held := 0
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		row, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "#"):
		case indented:
			var dir, name string
			left, want, ok := strings.Cut(row, " = ")
			if _, err := fmt.Sscan(left, &dir, &name); err != nil || !ok {
				t.Fatalf("line %d: want PACKAGE NAME = VALUE: %s", i+1, line)
			}
			have, expected := constantOf(t, dir, name), figure(t, parsed(t, want), nil)
			if !equal(have, expected) {
				t.Errorf("%s of %s is %s, but the documents say %s: %s", name, dir, have, expected, sentence)
			}
			held++
		default:
			var doc, part string
			sentence = line
			doc, part, _ = strings.Cut(line, ": ")
			page, err := os.ReadFile(filepath.Join("../../docs", doc))
			if err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
			if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), part) {
				t.Errorf("line %d: docs/%s does not say %q", i+1, doc, part)
			}
		}
	}
	if held < 50 {
		t.Errorf("only %d figures are compared", held)
	}
}

func equal(a, b constant.Value) bool { return constant.Compare(a, token.EQL, b) }

func parsed(t *testing.T, text string) ast.Expr {
	t.Helper()
	e, err := parser.ParseExpr(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// constantOf returns the value of a constant, or variable, of a package of this module.
func constantOf(t *testing.T, dir, name string) constant.Value {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]ast.Expr{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
					for i, n := range v.Names {
						values[n.Name] = v.Values[i]
					}
				}
			}
		}
	}
	if values[name] == nil {
		t.Fatalf("%s has no constant %s", dir, name)
	}
	return figure(t, values[name], values)
}

var units = map[string]time.Duration{
	"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

// figure is the value of a constant expression. values are those of its package.
func figure(t *testing.T, e ast.Expr, values map[string]ast.Expr) constant.Value {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return figure(t, e.X, values)
	case *ast.BinaryExpr:
		x, y := figure(t, e.X, values), figure(t, e.Y, values)
		if e.Op == token.SHL {
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, token.SHL, uint(n))
		}
		return constant.BinaryOp(x, e.Op, y)
	case *ast.SelectorExpr:
		if unit := units[e.Sel.Name]; unit != 0 {
			return constant.MakeInt64(int64(unit))
		}
	case *ast.Ident:
		if v := values[e.Name]; v != nil {
			return figure(t, v, values)
		}
	}
	t.Fatalf("%T is no figure", e)
	return nil
}
