package house

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sandboxd/sandboxd"

// internal is the import graph: package to the packages of this module that its
// code, tests aside, may import. Stages never import each other, and a package
// that is not here may not exist.
var internal = map[string][]string{
	"shellparse":     {},
	"rego":           {},
	"store":          {},
	"sandbox/child":  {},
	"sandbox":        {"sandbox/child", "shellparse"},
	"sandbox/egress": {"sandbox"},
	"tool":           {"sandbox", "shellparse"},
	"tools":          {"tool", "sandbox", "shellparse"},

	"policy":    {"rego", "store", "tool", "sandbox", "shellparse"},
	"hooks":     {"store", "tool", "sandbox"},
	"approvals": {"store", "tool", "sandbox", "shellparse"},
	"vars":      {"store", "tool", "sandbox"},
	"scopes":    {"store", "tool", "sandbox"},
	"sessions":  {"store", "tool", "sandbox"},
	"audit":     {"store", "tool", "sandbox"},
	"metrics":   {"tool", "sandbox"},

	"pipeline": {"tool", "sandbox"},
	"config":   {"policy", "hooks", "approvals", "vars", "tools", "tool", "sandbox"},
	"api":      {"pipeline", "policy", "hooks", "approvals", "vars", "scopes", "sessions", "audit", "metrics", "tool", "sandbox"},
	"client":   {"tool"},

	"cmd/sandboxd-child": {"sandbox/child"},
	"cmd/sandboxd":       {"*"},

	"store/storetest":    {"store"},
	"tests/house":        {},
	"tests/integration":  {"client", "tool"},
	"tests/bench":        {},
	"tests/bench/report": {"tests/bench"},
}

// owners are the only importers of what is dangerous or large.
var owners = map[string][]string{
	"os/exec": {"sandbox", "sandbox/child", "hooks"},

	"github.com/open-policy-agent/opa": {"policy"},
	"mvdan.cc/sh":                      {"shellparse"},
	"github.com/prometheus":            {"metrics"},
	"modernc.org/sqlite":               {"store"},
	"github.com/spf13":                 {"cmd/sandboxd"},
}

type listed struct {
	ImportPath   string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
	Deps         []string
}

// list asks the go command, for Linux on both architectures that are built.
func list(t *testing.T, patterns ...string) []listed {
	t.Helper()
	args := append([]string{"list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,GoFiles,Deps"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var ee *exec.ExitError
		if errors.As(err, &ee) {
			t.Fatalf("go list: %v\n%s", err, ee.Stderr)
		}
		t.Fatal(err)
	}
	var pkgs []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) == 0 {
		t.Fatal("go list found no package")
	}
	return pkgs
}

func short(path string) string { return strings.TrimPrefix(path, module+"/") }

func TestImportsRunDownwards(t *testing.T) {
	for _, p := range list(t, "./...") {
		name := short(p.ImportPath)
		allowed, known := internal[name]
		if !known {
			t.Errorf("package %s has no row in the import graph", name)
			continue
		}
		for _, imp := range p.Imports {
			inside := strings.HasPrefix(imp, module+"/")
			if inside && !slices.Contains(allowed, short(imp)) && !slices.Contains(allowed, "*") {
				t.Errorf("%s imports %s; it may import %q", name, short(imp), allowed)
			}
		}
	}
}

// The graph itself has no way back up: what a package may import, directly or
// through others, never includes itself, and no stage reaches another stage.
func TestGraphHasNoCycle(t *testing.T) {
	stages := []string{"policy", "hooks", "approvals", "vars", "scopes", "sessions", "audit", "metrics"}
	for _, from := range slices.Sorted(maps.Keys(internal)) {
		reach := map[string]bool{}
		for todo := slices.Clone(internal[from]); len(todo) > 0; todo = todo[1:] {
			if !reach[todo[0]] {
				reach[todo[0]] = true
				todo = append(todo, internal[todo[0]]...)
			}
		}
		if reach[from] {
			t.Errorf("%s may import itself", from)
		}
		if !slices.Contains(stages, from) && from != "pipeline" {
			continue
		}
		for _, s := range stages {
			if reach[s] {
				t.Errorf("%s may reach the stage %s", from, s)
			}
		}
	}
}

func TestOwnersOfDangerousAndLargePackages(t *testing.T) {
	for _, p := range list(t, "./...") {
		for _, imp := range p.Imports {
			for owned, by := range owners {
				if (imp == owned || strings.HasPrefix(imp, owned+"/")) && !slices.Contains(by, short(p.ImportPath)) {
					t.Errorf("%s imports %s, which is for %q alone", short(p.ImportPath), imp, by)
				}
			}
		}
	}
}
