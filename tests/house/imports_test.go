package house

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sandboxd/sandboxd"

// internal is the import graph: package to the packages of this module that its
// code, tests aside, may import. Stages never import each other, and a package
// that is not here may not exist.
var internal = map[string][]string{
	"shellparse/source":   {},
	"shellparse/program":  {"shellparse/source"},
	"shellparse/effect":   {"internal/lazyregexp", "shellparse/program"},
	"shellparse":          {"shellparse/source", "shellparse/program", "shellparse/effect"},
	"rego":                {},
	"internal/strictjson": {},
	"internal/lazyregexp": {},
	"internal/store":      {},
	"guard/obeyed":        {},
	"guard/gitindex":      {},
	"guard/gitobject":     {},
	"guard":               {"internal/lazyregexp", "guard/obeyed", "guard/gitindex", "internal/strictjson", "shellparse"},
	"sandbox/egress":      {"guard", "sandbox/egress/authority", "sandbox/egress/mask"},

	"sandbox/egress/authority": {},
	"sandbox/egress/mask":      {},
	"internal/secrets":         {"guard", "sandbox/egress/mask"},

	"sandbox/identity": {},
	"sandbox/wire":     {"sandbox/identity"},
	"sandbox/ctime":    {},
	"sandbox/bound":    {},
	"sandbox/seccomp":  {"sandbox/bound", "sandbox/wire"},
	"sandbox/limit":    {},
	"sandbox/stdio":    {"sandbox/script"},
	"sandbox/later":    {"guard", "guard/obeyed", "internal/lazyregexp", "sandbox/ctime"},
	"sandbox/view":     {"guard", "sandbox/ctime", "sandbox/wire"},
	"sandbox/launch":   {"sandbox/bound", "sandbox/identity", "sandbox/wire", "sandbox/script", "sandbox/ctime", "sandbox/limit"},
	"sandbox/script":   {"sandbox/wire"},
	"sandbox/reaper":   {"sandbox/identity"},
	"sandbox/child":    {"sandbox/bound", "sandbox/identity", "sandbox/reaper", "sandbox/wire", "sandbox/script"},
	"sandbox": {
		"guard", "sandbox/bound", "sandbox/egress", "sandbox/identity", "sandbox/later", "sandbox/launch", "sandbox/limit", "sandbox/script", "sandbox/seccomp",
		"sandbox/stdio", "sandbox/view", "sandbox/wire",
	},
	"internal/output":     {},
	"internal/tool":       {"internal/lazyregexp", "internal/jsonout", "internal/output", "guard", "sandbox", "sandbox/egress", "shellparse"},
	"internal/catalog":    {"internal/strictjson", "internal/tool"},
	"internal/provenance": {"internal/tool"},
	"internal/tools": {
		"internal/lazyregexp", "internal/tools/search", "internal/tools/toolkit", "internal/tools/web", "internal/tools/toolstest",
		"guard/obeyed", "internal/tool", "guard", "sandbox", "shellparse", "internal/catalog",
	},
	"internal/tools/toolkit":   {"internal/budget", "internal/strictjson", "internal/tool", "guard", "sandbox"},
	"internal/tools/search":    {"internal/tools/toolkit", "internal/tools/toolstest", "internal/budget", "internal/tool", "guard", "sandbox"},
	"internal/tools/web":       {"internal/tools/toolkit", "internal/tools/toolstest", "internal/secrets", "internal/tool", "guard", "sandbox", "sandbox/egress", "sandbox/egress/mask", "internal/catalog"},
	"internal/tools/toolstest": {"internal/catalog", "internal/tool", "guard", "sandbox", "sandbox/egress"},

	"policy/input":      {"internal/tool", "guard", "sandbox/egress", "shellparse"},
	"policy/permission": {"internal/lazyregexp", "policy/input", "guard"},
	"policy/callback":   {"internal/strictjson", "internal/tool"},
	"policy/recent":     {"policy/input", "internal/tool"},
	"policy/replay":     {"policy", "policy/input", "policy/permission", "policy/recent", "internal/tool"},
	"policy": {
		"internal/budget",
		"policy/input", "policy/permission", "policy/callback", "internal/strictjson", "internal/part", "internal/route",
		"rego", "internal/store", "internal/tool", "guard", "sandbox/egress", "shellparse",
	},
	"hooks":                  {"internal/lazyregexp", "internal/strictjson", "internal/part", "internal/route", "internal/store", "internal/tool", "guard", "sandbox", "sandbox/identity", "sandbox/reaper", "sandbox/wire"},
	"approvals":              {"internal/budget", "internal/strictjson", "internal/catalog", "internal/events", "internal/part", "internal/route", "internal/store", "internal/tool", "guard", "sandbox", "shellparse"},
	"internal/vars":          {"internal/budget", "internal/jsonout", "internal/part", "internal/route", "internal/provenance", "internal/store", "internal/tool", "guard", "sandbox", "internal/catalog"},
	"internal/transcript":    {"internal/store", "internal/tool"},
	"internal/transfer":      {"internal/sessions", "internal/store", "internal/tool"},
	"internal/sessions":      {"internal/transcript", "internal/part", "internal/store", "internal/tool", "guard", "sandbox"},
	"internal/audit":         {"internal/lazyregexp", "internal/part", "internal/route", "internal/store", "internal/tool", "sandbox/egress"},
	"internal/projects":      {"internal/part", "internal/route", "internal/strictjson", "internal/tool", "guard"},
	"internal/undo":          {"guard/gitindex", "guard/gitobject", "internal/tools/search", "internal/undo/conflict", "sandbox/egress", "internal/budget", "internal/catalog", "internal/part", "internal/route", "internal/store", "internal/tool", "guard", "sandbox", "sandbox/ctime"},
	"internal/undo/ask":      {"internal/undo/conflict", "internal/tool", "internal/visible"},
	"internal/undo/conflict": {},
	"internal/scopes":        {"internal/budget", "internal/catalog", "internal/part", "internal/provenance", "internal/route", "internal/store", "internal/strictjson", "internal/tool", "guard", "sandbox"},
	"metrics":                {"internal/budget", "internal/diskspace", "internal/tool", "sandbox", "sandbox/egress"},

	"pipeline":        {"internal/lazyregexp", "internal/budget", "internal/output", "internal/strictjson", "internal/tool", "guard", "sandbox", "sandbox/egress", "internal/catalog"},
	"internal/config": {"internal/lazyregexp", "internal/paths", "internal/store", "internal/budget", "internal/clients", "internal/part", "internal/secrets", "internal/strictjson", "sandbox/egress", "internal/tool", "policy", "policy/callback", "policy/permission", "hooks", "approvals", "internal/vars", "internal/catalog", "internal/tools", "guard", "sandbox"},
	"internal/api":    {"internal/lazyregexp", "internal/budget", "internal/idspace", "internal/jsonout", "internal/output", "internal/part", "pipeline", "internal/events", "internal/route", "policy", "policy/input", "hooks", "internal/sessions", "internal/tool", "guard", "sandbox", "sandbox/egress", "internal/catalog"},
	"client":          {},

	"internal/budget":    {"internal/tool"},
	"internal/diskspace": {"internal/tool", "sandbox/limit"},
	"internal/idspace":   {"sandbox/identity"},
	"internal/jsonout":   {},
	"internal/route":     {"internal/jsonout", "internal/budget", "internal/strictjson", "internal/tool"},
	"internal/events":    {"internal/budget", "internal/route", "internal/tool", "sandbox/egress"},
	"internal/jobs":      {"internal/budget", "internal/catalog", "internal/events", "internal/output", "internal/part", "internal/route", "internal/tool", "guard", "sandbox"},
	"internal/skills":    {"internal/lazyregexp", "internal/catalog", "internal/events", "internal/part", "internal/route", "internal/skills/front", "internal/tool", "guard", "sandbox"},
	"internal/agents":    {"internal/catalog", "internal/events", "internal/part", "internal/provenance", "internal/route", "internal/strictjson", "internal/tool", "internal/worktree", "guard", "sandbox"},
	"internal/cron":      {"internal/catalog", "internal/events", "internal/part", "internal/provenance", "internal/route", "internal/store", "internal/tool", "guard", "sandbox"},
	"internal/lsp":       {"internal/lazyregexp", "internal/budget", "internal/catalog", "internal/part", "internal/strictjson", "internal/tool", "internal/tools/search", "internal/tools/toolkit", "guard", "sandbox"},
	"internal/team":      {"internal/catalog", "internal/events", "internal/part", "internal/provenance", "internal/route", "internal/store", "internal/tool", "guard", "sandbox"},
	"internal/textcall":  {"internal/lazyregexp", "internal/events", "internal/part", "internal/route", "internal/store", "internal/strictjson", "internal/tool", "guard", "sandbox", "sandbox/egress"},
	"internal/web":       {"approvals", "internal/events", "hooks", "metrics", "policy", "sandbox/egress", "internal/part", "internal/vars", "internal/review", "internal/route", "internal/store", "internal/tool", "internal/visible"},
	"internal/part":      {"internal/catalog", "internal/events", "internal/route", "internal/store", "internal/tool", "guard", "sandbox"},

	"internal/worktree":         {"internal/lazyregexp", "internal/part", "internal/tool", "guard", "sandbox"},
	"internal/worktree/entered": {"internal/catalog", "internal/part", "internal/store", "internal/tool", "internal/worktree", "guard", "sandbox", "shellparse"},

	"internal/mcp/vet":      {"internal/lazyregexp", "internal/strictjson"},
	"internal/mcp/kept":     {"internal/store"},
	"internal/mcp/listen":   {"internal/lazyregexp", "internal/route", "internal/tool"},
	"internal/mcp/servers":  {"internal/mcp/listen", "internal/mcp/vet", "internal/strictjson", "internal/tool", "guard"},
	"internal/mcp/upstream": {"internal/mcp/frame", "internal/mcp/vet", "sandbox", "sandbox/egress", "sandbox/egress/mask"},
	"internal/mcp/gateway": {
		"internal/lazyregexp",
		"internal/mcp/kept", "internal/mcp/listen", "internal/mcp/servers", "internal/mcp/upstream", "internal/mcp/vet", "internal/budget", "internal/catalog",
		"internal/events", "internal/part", "internal/route", "internal/secrets", "internal/tool", "guard", "sandbox",
		"sandbox/egress",
	},
	"internal/adapter":   {"internal/lazyregexp", "internal/clients", "internal/strictjson", "client", "internal/tool"},
	"internal/clients":   {"internal/lazyregexp"},
	"internal/mcp/frame": {},
	"internal/mcp/serve": {"client", "internal/mcp/frame", "internal/route", "internal/tool"},
	"internal/review":    {"internal/lazyregexp", "approvals", "client", "guard", "internal/strictjson", "internal/tool", "internal/visible", "shellparse"},
	"internal/visible":   {},
	"internal/paths":     {},
	"internal/setup":     {"deploy"},
	"deploy":             {},
	"internal/doctor":    {"internal/part", "guard", "sandbox"},
	"internal/whatif":    {"internal/strictjson", "internal/tool", "policy", "policy/input", "policy/replay"},
	"internal/runner":    {"internal/tool", "internal/visible", "guard", "sandbox", "sandbox/egress", "shellparse"},
	"internal/daemon":    {"*"},
	"cmd/sandboxd-child": {"sandbox/child"},
	"cmd/sandboxd":       {"*"},

	"internal/skills/front":    {},
	"internal/skills/check":    {"internal/lazyregexp", "internal/skills/front", "internal/visible"},
	"internal/store/storetest": {"internal/store", "tests/needs", "tests/pgtest"},
	"internal/route/routetest": {"internal/jsonout", "internal/route", "internal/tool"},
	"tests/house":              {},
	"internal/flaky":           {},
	"tests/needs":              {},
	"tests/mutate":             {},
	"tests/report":             {},
	"tests/tier":               {},
	"tests/pgtest":             {"tests/needs"},
	"tests/operate":            {"tests/needs"},
	"tests/prebuilt":           {},
	"tests/pty":                {"tests/needs"},
	"tests/golden":             {"tests/tier"},
	"tests/integration":        {"client"},
	"tests/attack":             {"client"},
	"tests/bench":              {},
	"tests/bench/report":       {"tests/bench"},

	"agent/provider":           {"internal/strictjson"},
	"agent/loop":               {"agent/provider", "client"},
	"agent/host":               {"agent/loop", "client", "internal/paths"},
	"agent/terminal":           {"agent/loop", "internal/visible"},
	"agent/integration":        {"*"},
	"agent/cmd/sandboxd-agent": {"agent/host", "agent/loop", "agent/provider", "agent/terminal", "client"},
}

// owners are the only importers of what is dangerous or large.
var owners = map[string][]string{
	"os/exec": {"agent/host", "sandbox/launch", "hooks", "internal/idspace", "internal/secrets", "cmd/sandboxd", "internal/tools/toolstest", "tests/needs", "tests/mutate", "tests/pgtest", "tests/prebuilt"},

	"github.com/open-policy-agent/opa": {"policy", "policy/input"},
	"mvdan.cc/sh":                      {"shellparse", "shellparse/source"},
	"github.com/prometheus":            {"metrics"},
	"modernc.org/sqlite":               {"internal/store"},
	"github.com/jackc/pgx":             {"internal/store"},
	"github.com/spf13":                 {"cmd/sandboxd"},
	"github.com/modelcontextprotocol":  {"internal/mcp/frame", "internal/mcp/serve", "internal/mcp/upstream", "internal/mcp/gateway"},
	"github.com/robfig/cron":           {"internal/cron"},
	"github.com/creack/pty":            {"internal/jobs", "internal/runner", "tests/pty"},

	"github.com/anthropics/anthropic-sdk-go": {"agent/provider"},
	"github.com/openai/openai-go":            {"agent/provider"},
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
	return listIn(t, ".", patterns...)
}

// everything is the packages of both modules.
func everything(t *testing.T) []listed {
	t.Helper()
	return append(list(t, "./..."), listIn(t, "agent", "./...")...)
}

func listIn(t *testing.T, dir string, patterns ...string) []listed {
	t.Helper()
	args := append([]string{"list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,GoFiles,Deps"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join("../..", dir)
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
	for _, p := range everything(t) {
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
		for _, imp := range allowed {
			all := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
			if imp != "*" && !slices.Contains(all, module+"/"+imp) {
				t.Errorf("%s does not import %s: take it out of its row", name, imp)
			}
		}
	}
}

// The graph itself has no way back up: what a package may import, directly or
// through others, never includes itself, and no stage reaches another stage.
func TestGraphHasNoCycle(t *testing.T) {
	stages := []string{
		"policy", "hooks", "approvals", "internal/vars", "internal/sessions", "internal/audit", "metrics",
	}
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

// A program that talks to the daemon links nothing of it, and no library.
func TestClientNeedsOnlyTheStandardLibrary(t *testing.T) {
	for _, p := range list(t, "./client") {
		for _, dep := range p.Deps {
			if first, _, _ := strings.Cut(dep, "/"); strings.Contains(first, ".") {
				t.Errorf("client links %s", dep)
			}
		}
	}
}

// Models are asked by the agent alone, and the agent needs nothing else of others.
func TestTheDaemonLinksNoModelClient(t *testing.T) {
	for _, p := range list(t, "./...") {
		for _, dep := range p.Deps {
			for _, of := range []string{"anthropic", "openai", module + "/agent"} {
				if strings.Contains(dep, of) {
					t.Errorf("%s links %s", short(p.ImportPath), dep)
				}
			}
		}
	}
	sdks, parts := 0, []string{"anthropics/anthropic-sdk-go", "openai/openai-go", "tidwall/", "sandboxd/sandboxd/"}
	for _, p := range listIn(t, "agent", "./cmd/sandboxd-agent") {
		for _, dep := range p.Deps {
			outside, rest, _ := strings.Cut(dep, "/")
			ours := slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(rest, part) })
			if strings.Contains(outside, ".") && !ours {
				t.Errorf("the agent links %s", dep)
			}
			if strings.HasSuffix(dep, "/packages/ssestream") {
				sdks++
			}
		}
	}
	if sdks != 2 {
		t.Errorf("the agent reads streams with %d of the two SDKs", sdks)
	}
}

func TestOwnersOfDangerousAndLargePackages(t *testing.T) {
	importers := map[string][]string{}
	for _, p := range everything(t) {
		for _, imp := range p.Imports {
			for owned, by := range owners {
				if imp != owned && !strings.HasPrefix(imp, owned+"/") {
					continue
				}
				importers[owned] = append(importers[owned], short(p.ImportPath))
				if !slices.Contains(by, short(p.ImportPath)) {
					t.Errorf("%s imports %s, which is for %q alone", short(p.ImportPath), imp, by)
				}
			}
		}
	}
	for owned, by := range owners {
		for _, name := range by {
			if !slices.Contains(importers[owned], name) {
				t.Errorf("%s does not import %s: take it out of the row", name, owned)
			}
		}
	}
}
