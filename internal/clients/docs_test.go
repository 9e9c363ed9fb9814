package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/golden"
)

// The page of clients has the tables, in words.
func TestTablesAreGenerated(t *testing.T) {
	for _, c := range All() {
		var b strings.Builder
		fmt.Fprintf(&b, "Made from %s %s.\n\n| tool | what happens | why, or with which arguments |\n| --- | --- | --- |\n",
			c.Package, c.Version)
		for _, tool := range c.Tools {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", tool.Name, happens(tool), notes(tool))
		}
		golden.Section(t, "../../docs/clients.md", c.Name, b.String())
	}
}

// happens is what happens to a call, for people.
func happens(t Tool) string {
	switch t.Act {
	case Pass:
		return "passes"
	case As:
		return "judged as " + t.Ours
	case Outside:
		return "judged as " + t.Ours + ", by its host"
	case Server:
		return "judged as `mcp__SERVER__" + t.Name + "`"
	}
	return "asks"
}

// notes are why, and what a call may hold.
func notes(t Tool) string {
	var parts, limits []string
	if t.Why != "" {
		parts = append(parts, t.Why)
	}
	for _, f := range t.Fields {
		switch {
		case f.Only != nil:
			limits = append(limits, fmt.Sprintf("`%s` is %s", f.Name, strings.Join(f.Only, ", ")))
		case f.ID:
			limits = append(limits, fmt.Sprintf("`%s` is an id", f.Name))
		case f.Uncage, f.Asks:
			limits = append(limits, fmt.Sprintf("with `%s` it asks", f.Name))
		}
	}
	if len(limits) > 0 {
		parts = append(parts, strings.Join(limits, "; "))
	}
	return strings.Join(parts, "; ")
}
