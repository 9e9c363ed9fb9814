package house

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// keyed is a key of the configuration in a message.
	keyed = regexp.MustCompile(`\b(?:workspace|sessions|sandbox|network|limits|policy|approvals|tools|vars|store|` +
		`audit|metrics|api|operators|accounts|agents|cron|jobs|lsp|mcp|skills|undo)\.[a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)*`)
	keyRow = regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)` \\|")
	// regoHint is the hint of a rule of the library.
	regoHint = regexp.MustCompile(`"hint": "([^"]*)"`)
	// notSettings look like keys and are names of files, routes or rules.
	notSettings = regexp.MustCompile(`\.(?:json|jsonl|db|sock|md|rego|sql|key|head|yaml|mask|lib)$|^policy\.(?:go|test)$|` +
		`^workspace\.(?:deny|ask|rule)$|^mcp\.internal|^api\.(?:search\.brave|anthropic|openai)|^network\.(?:allowManaged|allow.*UnixSockets|httpProxy|socksProxy)`)
)

// opensNothing are the settings to which no message may lead: they have no effect, or the
// cage makes that of little use.
var opensNothing = []string{"enableWeakerNestedSandbox", "allowNestedSandbox"}

// TestMessagesNameSettingsThatThereAre: whoever follows a message finds the key, and it
// does something.
func TestMessagesNameSettingsThatThereAre(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	keys, found := map[string]bool{}, 0
	for _, m := range keyRow.FindAllSubmatch(page, -1) {
		for key := string(m[1]); key != "."; key = strings.TrimSuffix(key, filepath.Ext(key)) {
			keys[key] = true
			if filepath.Ext(key) == "" {
				break
			}
		}
	}
	if len(keys) < 60 {
		t.Fatalf("only %d keys are in the table", len(keys))
	}
	check := func(where, text string, hint bool) {
		for _, key := range keyed.FindAllString(text, -1) {
			if notSettings.MatchString(key) {
				continue
			}
			if found++; !keys[key] && !keys["sandbox."+key] {
				t.Errorf("%s: %q names %s, which is no setting", where, text, key)
			}
		}
		for _, key := range opensNothing {
			if hint && strings.Contains(text, key) {
				t.Errorf("%s: the hint %q leads to %s, which opens nothing", where, text, key)
			}
		}
	}
	sources(t, func(path string, _ []byte, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "tests/") || strings.HasPrefix(path, "shellparse/") {
			return
		}
		hints := map[ast.Node]bool{}
		mark := func(list ...ast.Expr) {
			for _, e := range list {
				ast.Inspect(e, func(m ast.Node) bool { hints[m] = true; return true })
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok && id.Name == "Hint" {
					mark(n.Value)
				}
			case *ast.AssignStmt:
				if to, ok := n.Lhs[0].(*ast.SelectorExpr); ok && to.Sel.Name == "Hint" {
					mark(n.Rhs...)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Forbidden" {
					mark(n.Args[2:]...)
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					if text, err := strconv.Unquote(n.Value); err == nil {
						check(path, text, hints[n])
					}
				}
			}
			return true
		})
	})
	rules, err := filepath.Glob("../../rego/*/*.rego")
	if err != nil || len(rules) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	for _, name := range rules {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regoHint.FindAllSubmatch(text, -1) {
			check(name, string(m[1]), true)
		}
	}
	if found < 20 {
		t.Errorf("only %d settings are named in messages", found)
	}
}
