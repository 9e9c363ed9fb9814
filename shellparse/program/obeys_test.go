package program

import (
	"slices"
	"strings"
	"testing"
)

// TestLooksFor: versions and subcommands, and what no table has.
func TestLooksFor(t *testing.T) {
	for _, tt := range []struct {
		name, sub string
		first     string // the first list
		runs      string // a part
		known     bool
	}{
		{"make", "", "GNUmakefile makefile Makefile", "", true},
		{"npm", "run", "^package.json", "node_modules", true},
		{"npm", "install", "", "may change itself", true},
		{"npm", "", "", "", true},
		{"git", "push", "^.git/hooks/pre-push", "core.hooksPath", true},
		{"git", "log", "", "configuration of git", true},
		{"python3.12", "", "", "modules", true},
		{"cat", "", "", "", true},
		{"cd", "", "", "", true},
		{"frobnicate", "", "", "", false},
		{"frobnicate", "run", "", "", false},
	} {
		o, known := LooksFor(tt.name, tt.sub)
		first := ""
		if len(o.First) > 0 {
			first = strings.Join(o.First[0], " ")
		}
		runs := strings.Join(o.Runs, "\n")
		if known != tt.known || first != tt.first || !strings.Contains(runs, tt.runs) || tt.runs == "" && runs != "" {
			t.Errorf("%s %s: %q, %q, known %v", tt.name, tt.sub, o.First, o.Runs, known)
		}
	}
}

// TestObeysHasKnownPrograms: a name that no other table has is probably misspelled. Some
// programs have no words that the guard must know.
func TestObeysHasKnownPrograms(t *testing.T) {
	LooksFor("make", "")
	alone := strings.Fields("remake lerna wireit pre-commit lefthook overcommit bunx pnpx gradlew mvnw")
	for name := range obeys.table {
		name, _, _ = strings.Cut(name, " ")
		if find(name) == nil && !slices.Contains(alone, name) {
			t.Errorf("%s is in no table of programs", name)
		}
	}
}

// TestObeysIsReadStrictly: what is not in the format is an error with its line.
func TestObeysIsReadStrictly(t *testing.T) {
	for _, tt := range []struct{ text, err string }{
		{"a, b\n\tfirst x ^y\n\truns text\n\nc\n\tfirst z\n", ""},
		{"# comment\n\na\n# another\n\tfirst x\n", ""},
		{"\tfirst x\n", `1: "first x" belongs to no program, or says nothing`},
		{"a\n\tfirst\n", `2: "first" belongs to no program, or says nothing`},
		{"a\n\tlast x\n", `2: "last x" is no fact`},
		{"a\n\tfirst x\nb\n", `3: "b" is no name, or stands there twice`},
		{"a\n\tfirst x\n\na\n", `4: "a" is no name, or stands there twice`},
	} {
		_, err := readObeys(tt.text)
		if err == nil && tt.err != "" || err != nil && err.Error() != tt.err {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.err)
		}
	}
}
