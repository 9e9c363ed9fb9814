package integration

import (
	"strings"
	"testing"
)

// TestWhatARuleKeepsFromReadIsKeptFromSearches: Grep and LSP show no line of a file that Read may not read, and say so.
func TestWhatARuleKeepsFromReadIsKeptFromSearches(t *testing.T) {
	d := newDaemon(t, `
sessions: {mode: auto}
policy: {rules: {deny: ["Read(*.secret.go)"], ask: ["Read(asked.go)"]}}
`)
	for _, name := range []string{"a.go", "sub/b.secret.go", "asked.go"} {
		d.write("ws/"+name, "package m\n\nfunc Token() string { return \"of "+name+"\" }\n")
	}
	s := d.session()
	for _, tt := range []struct{ tool, args string }{
		{"Grep", `{"pattern":"func Token","output_mode":"content"}`},
		{"Grep", `{"pattern":"func Token"}`},
		{"Grep", `{"pattern":"func Token","output_mode":"count"}`},
		{"LSP", `{"operation":"workspaceSymbol","query":"Token"}`},
	} {
		got := d.good(s, tt.tool, tt.args)
		if !strings.Contains(got, "a.go") || strings.Contains(got, "secret.go") || strings.Contains(got, "asked.go") ||
			!strings.Contains(got, "that policies deny or ask to read: 2") {
			t.Errorf("%s %s: %s", tt.tool, tt.args, got)
		}
	}
}
