package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestM28_ADayWithServersOfTheRegistry uses three servers that others have written, as an agent does: each in its cage.
func TestM28_ADayWithServersOfTheRegistry(t *testing.T) {
	modules := os.Getenv(npmModules)
	if modules == "" {
		needs.Elsewhere(t, "make test-mcp-servers runs it, with the servers installed")
	}
	d := newPlaces(t, "")
	own := filepath.Join(d.ws, "node_modules") // the cage shows the workspace
	if err := os.CopyFS(own, os.DirFS(modules)); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(d.ws, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	server := func(name, more string) string {
		return fmt.Sprintf(`{command: node, args: [%q%s`, filepath.Join(own, "@modelcontextprotocol/server-"+name+"/dist/index.js"), more)
	}
	d.write("config.yaml", "approvals: {approver: false}\npolicy: {profile: observe, rules: {allow: [ListMcpResources, ReadMcpResource, mcp__everything, mcp__filesystem, mcp__memory]}}\n"+
		"mcp:\n  servers:\n    everything: "+server("everything", `], limits: {memoryBytes: 2147483648}}`)+
		"\n    filesystem: "+server("filesystem", fmt.Sprintf(`, %q], limits: {memoryBytes: 2147483648}, sandbox: {allowedWritePaths: [%q]}}`, data, data))+
		"\n    memory: "+server("memory", fmt.Sprintf(`], limits: {memoryBytes: 2147483648}, env: {MEMORY_FILE_PATH: %q}, sandbox: {allowedWritePaths: [%q]}}`,
		filepath.Join(data, "memory.json"), data))+"\n")
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.start()
	s := d.session()
	for _, name := range []string{"everything", "filesystem", "memory"} {
		state := d.mcpIs(s, name, "connected")
		t.Logf("%s: %d tools, %d withheld: %s", name, len(state.Tools), len(state.Withheld), state.Error)
		if len(state.Tools) < 5 {
			t.Errorf("%s offers %q", name, state.Tools)
		}
	}
	for range 20 {
		for _, tt := range []struct{ tool, args, want string }{
			{"mcp__everything__echo", `{"message":"hello"}`, "hello"},
			{"mcp__everything__get-sum", `{"a":2,"b":40}`, "42"},
			{"mcp__filesystem__write_file", fmt.Sprintf(`{"path":%q,"content":"line one\n"}`, filepath.Join(data, "a.txt")), "uccess"},
			{"mcp__filesystem__read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(data, "a.txt")), "line one"},
			{"mcp__filesystem__list_directory", fmt.Sprintf(`{"path":%q}`, data), "a.txt"},
			{"mcp__memory__create_entities", `{"entities":[{"name":"Ann","entityType":"person","observations":["writes Go"]}]}`, ""},
			{"mcp__memory__read_graph", `{}`, "writes Go"},
		} {
			if got := d.good(s, tt.tool, tt.args); !strings.Contains(got, tt.want) {
				t.Fatalf("%s %s: %s", tt.tool, tt.args, got)
			}
		}
	}
	if got := d.good(s, "ListMcpResources", `{"server":"everything"}`); !strings.Contains(got, "everything: ") {
		t.Errorf("resources: %s", got)
	}
	if r := d.call(s, "mcp__filesystem__read_text_file", fmt.Sprintf(`{"path":%q}`, d.home+"/.ssh/id_rsa")); r.Status == client.StatusSuccess {
		t.Error("a key is read")
	}
	if e := d.bad(s, "mcp__everything__get-sum", `{"a":"two"}`); e.Code != "invalid_arguments" {
		t.Errorf("arguments of another type: %+v", e)
	}
}
