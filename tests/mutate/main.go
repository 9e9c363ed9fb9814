// Command mutate finds behaviours that the tests of a package do not notice (mutation testing). It
// makes one small change after another to the code, and runs the tests of the package with each. No
// file is changed: the go command gets each change as an overlay. Run it at the root of the module,
// with packages as folders:
//
//	go run ./tests/mutate [-n 20] [-seed 1] [-kinds guard,part,…] ./hooks ./approvals
//	survived part  hooks/definition.go:163  u.Scheme != "http"
//
// The changes:
//   - guard: the condition of an if becomes false, except one that begins with err !=
//   - part: the right operand of && becomes true, of || false
//   - field: a key of a composite literal is left out, with its value
//   - member: an element of a list is left out, or one of the values of a case
//   - call: a statement that only calls is left out, also a deferred one; one that sets a field sets nothing
//   - number: an integer in a constant is doubled
//
// The outcomes: noticed (a test failed, or took much longer than without the change), no build, and
// survived. A change that survives is a question: it may be a behaviour without a test, or change
// nothing, or cost time alone. Code that no test of the package executes is counted and left out.
// Files that are not built here are not looked at. The order is drawn from -seed, so that -n of a large
// package is a sample.
//
// The exit status is 0 whatever survives. It is 1 if a package has no Go files, does not pass its tests or
// cannot be read, and then the packages behind it are not tried. It is 2 for wrong flags, or no package. A test
// that is missing goes beside the code that survived, never here. A new kind of change is a case in mutants, a word
// of everyKind, a line above, and a test like the one in main_test.go.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

type mutant struct {
	kind, file string // from the directory of the module
	line       int
	from, to   int // the bytes that are replaced
	with       string
	text       string
	outside    bool // of functions: no profile has it
}

type span struct{ first, last int }

const everyKind = "guard,part,field,member,call,number"

func main() {
	most := flag.Uint("n", 20, "changes of each package")
	seed := flag.Uint64("seed", 1, "the order of the changes")
	kinds := flag.String("kinds", everyKind, "which changes")
	flag.Parse()
	chosen, err := kindsOf(*kinds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Args(), chosen, int(*most), *seed); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// kindsOf returns the words of -kinds.
func kindsOf(list string) ([]string, error) {
	kinds := strings.Split(list, ",")
	for _, k := range kinds {
		if !slices.Contains(strings.Split(everyKind, ","), k) {
			return nil, fmt.Errorf("-kinds: %q is none of %s", k, everyKind)
		}
	}
	return kinds, nil
}

func run(dirs, kinds []string, most int, seed uint64) error {
	temp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	for _, dir := range dirs {
		dir = filepath.Clean(dir)
		begin := time.Now()
		covered, err := coverage(dir, filepath.Join(temp, "cover"))
		if err != nil {
			return fmt.Errorf("the tests of %s: %w", dir, err)
		}
		patience := 4*time.Since(begin) + 20*time.Second
		all, err := mutants(dir, kinds)
		if err != nil {
			return err
		}
		left := all[:0]
		for _, m := range all {
			if m.outside {
				left = append(left, m)
				continue
			}
			for _, s := range covered[filepath.Base(m.file)] {
				if s.first <= m.line && m.line <= s.last {
					left = append(left, m)
					break
				}
			}
		}
		fmt.Printf("# %s: %d changes, %d of them in code that no test of it executes\n",
			dir, len(all), len(all)-len(left))
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		for _, m := range left[:min(max(most, 0), len(left))] {
			outcome, err := try(dir, temp, m, patience)
			if err != nil {
				return err
			}
			fmt.Printf("%-8s %-5s  %s:%d  %s\n", outcome, m.kind, m.file, m.line, m.text)
		}
	}
	return nil
}

// test runs the tests of a package. It uses the flags of make test, so Go's build cache is reused.
func test(ctx context.Context, dir string, more ...string) ([]byte, error) {
	args := append([]string{"test", "-trimpath", "-vet=off", "-count=1"}, more...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+dir)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "RAPID_SEED=1")
	return cmd.CombinedOutput()
}

// profileLine is a line of a profile: file, first line, last line, and how often.
var profileLine = regexp.MustCompile(`(?m)/([^/:]+):(\d+)\.\d+,(\d+)\.\d+ \d+ ([1-9]\d*)$`)

// coverage returns which lines of each file the tests of the package execute.
func coverage(dir, profile string) (map[string][]span, error) {
	if out, err := test(context.Background(), dir, "-coverprofile="+profile); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	all := map[string][]span{}
	for _, m := range profileLine.FindAllSubmatch(text, -1) {
		var s span
		if _, err := fmt.Sscan(string(m[2])+" "+string(m[3]), &s.first, &s.last); err != nil {
			return nil, err
		}
		all[string(m[1])] = append(all[string(m[1])], s)
	}
	return all, nil
}

func try(dir, temp string, m mutant, patience time.Duration) (outcome string, err error) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(temp, "changed.go"), filepath.Join(temp, "overlay.json")
	text := string(src[:m.from]) + m.with + string(src[m.to:])
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	err = errors.Join(err, os.WriteFile(changed, []byte(text), 0o600), os.WriteFile(overlay, list, 0o600))
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeout(context.Background(), patience+time.Minute)
	defer stop()
	out, err := test(ctx, dir, "-failfast", "-timeout="+patience.String(), "-overlay="+overlay)
	switch {
	case err == nil:
		return "survived", nil
	case bytes.Contains(out, []byte("[build failed]")):
		return "no build", nil
	}
	return "noticed", nil
}

// mutants returns the changes of all files of a package.
func mutants(dir string, kinds []string) (all []mutant, err error) {
	how := build.Default
	how.CgoEnabled = false // as in test
	built, err := how.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	for _, name := range built.GoFiles { // a change of another file would survive always
		file := filepath.Join(dir, name)
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, src, 0)
		if err != nil {
			return nil, err
		}
		offset := func(p token.Pos) int { return set.Position(p).Offset }
		add := func(kind string, n ast.Node, with string) {
			text := string(src[offset(n.Pos()):offset(n.End())])
			m := mutant{
				kind: kind, file: file, line: set.Position(n.Pos()).Line, from: offset(n.Pos()), to: offset(n.End()),
				with: strings.ReplaceAll(with, "$", text), text: strings.Join(strings.Fields(text), " "),
			}
			if with == "" && m.to < len(src) && src[m.to] == ',' {
				m.to++
			}
			m.outside = !within(tree, n)
			if slices.Contains(kinds, kind) {
				all = append(all, m)
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				if c, ok := n.Cond.(*ast.BinaryExpr); !ok || c.Op != token.NEQ || !isName(c.X, "err") {
					add("guard", n.Cond, "false && ($)")
				}
			case *ast.BinaryExpr:
				switch n.Op {
				case token.LAND:
					add("part", n.Y, "(true || ($))")
				case token.LOR:
					add("part", n.Y, "(false && ($))")
				}
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						add("field", kv, "")
					} else if len(n.Elts) > 1 {
						add("member", e, "")
					}
				}
			case *ast.CaseClause:
				for _, e := range n.List[:max(0, len(n.List)-1)] { // behind the last one is no comma
					add("member", e, "")
				}
			case *ast.ExprStmt, *ast.DeferStmt:
				add("call", n, "")
			case *ast.AssignStmt:
				if _, field := n.Lhs[0].(*ast.SelectorExpr); field && len(n.Lhs) == 1 && n.Tok == token.ASSIGN {
					add("call", n, "_ = "+string(src[offset(n.Rhs[0].Pos()):offset(n.Rhs[0].End())]))
				}
			case *ast.GenDecl:
				if n.Tok == token.CONST {
					ast.Inspect(n, func(n ast.Node) bool {
						if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.INT && !isZero(lit.Value) {
							add("number", lit, "(2*$)")
						}
						return true
					})
				}
			}
			return true
		})
	}
	return all, nil
}

// within reports whether a node is in a function.
func within(tree *ast.File, n ast.Node) bool {
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Pos() <= n.Pos() && n.End() <= f.End() {
			return true
		}
	}
	return false
}

// isZero reports whether a literal is 0, which doubled is the same.
func isZero(literal string) bool {
	return constant.Sign(constant.MakeFromLiteral(literal, token.INT, 0)) == 0
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
