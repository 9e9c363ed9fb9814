package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const maxLines = 500

// longFiles are over the limit for a reason.
var longFiles = map[string]string{}

// sources calls visit with every Go file of the repository.
func sources(t *testing.T, visit func(path string, text []byte, f *ast.File)) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), rel, text, parser.ParseComments)
		if err != nil {
			return err
		}
		n++
		visit(rel, text, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Fatal("no Go file was found")
	}
}

// A folder is read at one glance: its tests are beside it, and do not count.
func TestAFolderHoldsAtMost25FilesOfCode(t *testing.T) {
	files := map[string]int{}
	sources(t, func(path string, _ []byte, _ *ast.File) {
		if !strings.HasSuffix(path, "_test.go") {
			files[filepath.Dir(path)]++
		}
	})
	for dir, n := range files {
		if n > 25 {
			t.Errorf("%s holds %d files of code", dir, n)
		}
	}
}

func TestOnePackageDocEach(t *testing.T) {
	docs := map[string][]string{}
	sources(t, func(path string, _ []byte, f *ast.File) {
		dir := filepath.Dir(path)
		if _, seen := docs[dir]; !seen {
			docs[dir] = nil
		}
		if f.Doc == nil {
			return
		}
		if strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s: a package doc stands in a test file", path)
			return
		}
		docs[dir] = append(docs[dir], path)
		want := "Package " + f.Name.Name + " "
		if f.Name.Name == "main" {
			want = "The command " + filepath.Base(dir) + " "
		}
		text := f.Doc.Text()
		if !strings.HasPrefix(text, want) && !strings.HasPrefix(text, "Command "+filepath.Base(dir)+" ") {
			t.Errorf("%s: the package doc does not begin with %q", path, want)
		}
	})
	for dir, files := range docs {
		if len(files) != 1 {
			t.Errorf("%s: the package doc stands in %d files, want one: %q", dir, len(files), files)
		}
	}
}

func TestNothingRunsByItself(t *testing.T) {
	sources(t, func(path string, _ []byte, f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function; construct it where it is used", path)
			}
		}
	})
}

// A skip that a run in CI does not see hides a test that never runs: package needs
// says which may. Besides it, tier.Long, golden.Slow and flaky.Mark skip: make long runs those.
func TestTestsSkipByPackageNeeds(t *testing.T) {
	sources(t, func(path string, _ []byte, f *ast.File) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && (sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf" || sel.Sel.Name == "SkipNow") {
				t.Errorf("%s calls %s; use package needs", path, sel.Sel.Name)
			}
			return true
		})
	})
}

func TestFilesStayShort(t *testing.T) {
	sources(t, func(path string, text []byte, _ *ast.File) {
		lines := bytes.Count(text, []byte("\n"))
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		if lines > maxLines && longFiles[path] == "" {
			t.Errorf("%s has %d lines, at most %d", path, lines, maxLines)
		}
		if lines <= maxLines && longFiles[path] != "" {
			t.Errorf("%s has %d lines and needs no exception", path, lines)
		}
	})
}

// Somebody reads the agent in an evening: it makes room before it grows.
const maxAgentLines = 3000

func TestTheAgentStaysSmall(t *testing.T) {
	n := 0
	sources(t, func(path string, text []byte, _ *ast.File) {
		if strings.HasPrefix(path, "agent/") && !strings.HasSuffix(path, "_test.go") {
			n += bytes.Count(text, []byte("\n"))
		}
	})
	if n == 0 || n > maxAgentLines {
		t.Errorf("agent/ has %d lines without its tests, at most %d", n, maxAgentLines)
	}
}
