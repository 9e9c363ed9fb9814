package tools

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tool"
)

var update = flag.Bool("update", false, "rewrite docs/tools.md")

func TestDocs_ToolsPageIsOfTheseDefinitions(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Tools\n\nMade from the definitions by `go test ./tools -update`; do not edit. " +
		"Every tool also takes `_limit`, how many characters of the result the model is shown (0 or -1 shows all); " +
		"tools that have no `limit` of their own take it under that name, too.\n")
	for _, g := range append(Groups(), SessionGroup(&memorySessions{}, tool.NewRegistry())) {
		fmt.Fprintf(&b, "\n## %s\n", g.Name)
		for _, tl := range g.Tools {
			b.WriteString("\n" + Describe(tl.Spec()))
		}
	}
	const page = "../docs/tools.md"
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Error("docs/tools.md is not what the definitions say; run go test ./tools -update")
	}
}
