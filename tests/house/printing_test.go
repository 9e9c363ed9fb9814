package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"strings"
	"testing"
)

// pastTheFilter are the places that print past the writer of package visible, which every
// command has, and why nothing of others is printed there as it is.
var pastTheFilter = map[string]string{
	"cmd/sandboxd/main.go: os.Stdout":          "becomes the writer that makes text visible",
	"cmd/sandboxd/main.go: os.Stderr":          "becomes such a writer, and of the process while it waits for input",
	"cmd/sandboxd/approvals.go: os.Stdout":     "review.Watch makes each text visible and moves the cursor itself",
	"cmd/sandboxd/approvals.go: raw":           "review.Render has made each text visible, and colours the headings",
	"cmd/sandboxd/print.go: raw":               "defines it, and asks a question that it erases again",
	"cmd/sandboxd/call.go: os.Stdout":          "of the program that exec runs: bytes",
	"cmd/sandboxd/call.go: os.Stderr":          "of the program that exec runs: bytes",
	"cmd/sandboxd/mcp.go: os.Stdout":           "messages of MCP for a program: one line of JSON each",
	"cmd/sandboxd/call.go: results":            "the result of a program: bytes, unless it is for a terminal",
	"cmd/sandboxd/jobs.go: raw":                "what a program with a terminal of its own draws, through visible.NewScreen",
	"cmd/sandboxd/jobs.go: results":            "the output of a job: the same",
	"cmd/sandboxd/vars.go: results":            "the value of a variable or of a scoped one: the same",
	"cmd/sandboxd/undo.go: results":            "the lines of files: the same",
	"cmd/sandboxd/log.go: results":             "lines of the record, whose bytes are hashed: the same",
	"internal/daemon/site.go: os.Stderr":       "becomes a writer that makes text visible",
	"internal/review/terminal.go: /dev/tty":    "review.Render has made each text visible",
	"sandbox/child/main_linux.go: os.Stderr":   "of the launcher, which the daemon reads",
	"sandbox/child/spare_linux.go: os.Stderr":  "of the launcher, which the daemon reads",
	"internal/idspace/run_linux.go: os.Stdout": "given to this program itself, which filters",
	"internal/idspace/run_linux.go: os.Stderr": "given to this program itself, which filters",

	"agent/cmd/sandboxd-agent/main.go: os.Stdout":  "visible on a terminal; of its own text",
	"agent/cmd/sandboxd-agent/main.go: os.Stderr":  "the same",
	"agent/cmd/sandboxd-agent/spawn.go: os.Stdout": "the daemon reads it",
	"agent/cmd/sandboxd-agent/spawn.go: os.Stderr": "the same",
}

// Whoever prints text of others prints it through package visible. A new place that does
// not is found here.
func TestNothingIsPrintedPastTheFilter(t *testing.T) {
	left := maps.Clone(pastTheFilter)
	sources(t, func(path string, _ []byte, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "tests/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			what := ""
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "os" && (n.Sel.Name == "Stdout" || n.Sel.Name == "Stderr") {
					what = "os." + n.Sel.Name
				}
			case *ast.CallExpr:
				if name, ok := n.Fun.(*ast.Ident); ok && strings.HasPrefix(path, "cmd/") &&
					(name.Name == "raw" || name.Name == "results" || name.Name == "print" || name.Name == "println") {
					what = name.Name
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && strings.Trim(n.Value, "\"`") == "/dev/tty" && strings.HasPrefix(path, "internal/review") {
					what = "/dev/tty"
				}
			}
			if what == "" {
				return true
			}
			place := fmt.Sprintf("%s: %s", path, what)
			delete(left, place)
			if pastTheFilter[place] == "" {
				t.Errorf("%s prints past package visible; print to the output of the command, or say here why not", place)
			}
			return true
		})
	})
	for place := range left {
		t.Errorf("%s is listed, and is not there", place)
	}
}
