package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/tests/golden"
)

// tools holds the committed list of the tools of a client against what its package publishes
// and what it has offered its model. A test of internal/clients holds the table against the list.
func (d *day) tools(pkg string, published map[string][]string) {
	d.T.Helper()
	all := maps.Clone(d.model.offered)
	for name, fields := range published {
		fields = append(slices.Clone(fields), all[name]...)
		slices.Sort(fields)
		all[name] = slices.Compact(fields)
	}
	var p struct{ Version string }
	if err := json.Unmarshal(d.packaged(pkg, "package.json"), &p); err != nil {
		d.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# The tools of %s %s, with their arguments: what the package publishes, and what it\n"+
		"# offers its model. make test-clients holds this against the package.\n", pkg, p.Version)
	n := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "mcp_") || strings.HasPrefix(name, "notes_") { // of the server of this test
			continue
		}
		n++
		fmt.Fprintln(&b, strings.Join(append([]string{name}, all[name]...), " "))
	}
	if n < 10 {
		d.Errorf("only %d tools are known", n)
	}
	golden.Check(d.T, "../../internal/clients/testdata/"+d.client+".txt", b.String())
}

// packaged is a file of an installed package.
func (d *day) packaged(pkg, file string) []byte {
	d.T.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv(clientPackages), pkg, file))
	if err != nil {
		d.Fatal(err)
	}
	return text
}

// ofType are the tools whose type has another name.
var ofType = map[string]string{
	"FileEdit": "Edit", "FileRead": "Read", "FileWrite": "Write", "ListMcpResources": "ListMcpResourcesTool",
	"ReadMcpResource": "ReadMcpResourceTool", "ReadMcpResourceDir": "ReadMcpResourceDirTool",
	"Mcp": "", // of any server
}

var (
	inputType  = regexp.MustCompile(`(?ms)^export (?:interface|type) (\w+)Input (?:= )?\{(\}|.*?^\})`)
	inputField = regexp.MustCompile(`(?m)^  "?([A-Za-z_-]+)"?\??:`)
)

// claudeTypes are the types of the inputs that the package of Claude Code declares.
func (d *day) claudeTypes() map[string][]string {
	out := map[string][]string{}
	for _, m := range inputType.FindAllSubmatch(d.packaged("@anthropic-ai/claude-code", "sdk-tools.d.ts"), -1) {
		name := string(m[1])
		if tool, ok := ofType[name]; ok {
			name = tool
		}
		if name == "" {
			continue
		}
		out[name] = []string{}
		for _, f := range inputField.FindAllSubmatch(m[2], -1) {
			out[name] = append(out[name], string(f[1]))
		}
	}
	if len(out) < 40 || !slices.Contains(out["Bash"], "command") {
		d.Errorf("the types are not understood: %v", out)
	}
	return out
}

// toolName is a constant that names a tool of Gemini.
var toolName = regexp.MustCompile(`(?m)^export const \w+_TOOL_NAME = '([a-z_]+)';`)

// geminiNames are the tools that the packages of Gemini CLI name; the fields are those that
// it offers.
func (d *day) geminiNames() map[string][]string {
	out := map[string][]string{}
	for _, file := range []string{"tools/tool-names.js", "tools/definitions/base-declarations.js"} {
		for _, m := range toolName.FindAllSubmatch(d.packaged("@google/gemini-cli-core", "dist/src/"+file), -1) {
			out[string(m[1])] = []string{}
		}
	}
	if len(out) < 20 {
		d.Errorf("the names are not understood: %v", out)
	}
	return out
}
