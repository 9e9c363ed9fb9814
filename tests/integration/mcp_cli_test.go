package integration

import (
	"strings"
	"testing"
)

func TestM15_TheCommandLineShowsServersPinsAndTries(t *testing.T) {
	t.Parallel()
	d := newMCP(t, allowMCP, map[string]string{
		"one": mcpConfig(t, mcpScript{Start: "late", Tools: plainTools("echo", "fails")}), "bad": `{command: /nonexistent/server}`,
	})
	out, err := d.exec("sandboxd", "mcp", "try", "one", "echo", `{"a":"b"}`)
	if err != nil || !strings.Contains(out, `echo {"a":"b"}`) {
		t.Errorf("try waits for a server that is pending: %v\n%s", err, out)
	}
	out, err = d.exec("sandboxd", "mcp", "servers")
	if err != nil || !strings.Contains(out, "one   stdio  connected  2") || !strings.Contains(out, "bad   stdio  ") {
		t.Errorf("servers: %v\n%s", err, out)
	}
	out, err = d.exec("sandboxd", "mcp", "pins")
	if err != nil || strings.Count(out, "first sight") != 2 {
		t.Errorf("pins: %v\n%s", err, out)
	}
	for _, args := range [][]string{{"one", "fails"}, {"one", "nothing"}, {"nobody", "x"}, {"one"}, {"one", "echo", "{"}} {
		if out, err := d.exec("sandboxd", append([]string{"mcp", "try"}, args...)...); err == nil {
			t.Errorf("try %q succeeds: %s", args, out)
		}
	}
}
