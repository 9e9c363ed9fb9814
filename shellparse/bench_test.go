package shellparse

import (
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// typical are lines that agents send.
var typical = map[string]string{
	"status":  "git status",
	"pipe":    "go test ./... 2>&1 | grep -v ok | tail -20",
	"heredoc": "cat > main.go <<'EOF'\npackage main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(1)\n\tfmt.Println(2)\n\tfmt.Println(3)\n\tfmt.Println(4)\n\tfmt.Println(5)\n\tfmt.Println(6)\n\tfmt.Println(7)\n\tfmt.Println(8)\n\tfmt.Println(9)\n}\nEOF\ngo build ./... && go vet ./...\n",
}

func BenchmarkParse(b *testing.B) {
	for name, line := range typical {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(line, Options{Dir: "/home/dev/app", Home: "/home/dev"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBareParse is the parser alone, for the ratio.
func BenchmarkBareParse(b *testing.B) {
	for name, line := range typical {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			p := syntax.NewParser(syntax.Variant(syntax.LangBash))
			for b.Loop() {
				if _, err := p.Parse(strings.NewReader(line), ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
