package guard

import (
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard/obeyed"
)

func TestRunsLater(t *testing.T) {
	for _, tt := range []struct {
		path  string
		glob  bool
		roots []string
		want  string
	}{
		{"/ws/pkg/.envrc", false, []string{"/ws", "/tmp"}, "direnv"},
		{"/ws/pkg/.env*", true, []string{"/ws"}, "direnv"},
		{"/ws/pkg/.env*", false, []string{"/ws"}, ""},
		{"/ws/pkg/main.go", false, []string{"/ws"}, ""},
		{"/ws/.git/config", false, nil, "git"},
		{"/ws/.npmrc", false, []string{"/ws"}, "npm, pnpm"},
		{"/home/u/.claude/worktrees/w/main.go", false, []string{"/home/u/.claude/worktrees/w"}, ""},
		{"/home/u/.claude/worktrees/w/main.go", false, []string{"/home/u/.claude/worktrees/w", "/home/u"}, "Claude Code"},
		{"", false, []string{"/ws"}, ""},
	} {
		if got := (PathUse{Path: tt.path, Glob: tt.glob}).RunsLater(tt.roots); got != tt.want {
			t.Errorf("%q in %q: %q, want %q", tt.path, tt.roots, got, tt.want)
		}
	}
}

// TestPlants: what a line plants, and where the bytes come from.
func TestPlants(t *testing.T) {
	for line, want := range map[string]string{
		`printf 'all:\n' > Makefile`:                            "make text",
		"curl -o sub/conftest.py https://x.example":             "pytest download",
		"curl -s https://x.example | tee build.rs":              "cargo download",
		"base64 -d x | sed s/a/b/ > package.json":               "npm, yarn, pnpm, bun decoder",
		`echo "$(curl https://x.example)" > .npmrc`:             "npm, pnpm download",
		"curl -s https://x.example > >(tee build.rs)":           "cargo download",
		"{ cat; tee build.rs; } < <(curl -s https://x.example)": "cargo download",
		"tee build.rs <<< \"$(base64 -d x)\"":                   "cargo decoder",
		"exec > >(cat > build.rs); base64 -d x":                 "cargo decoder",
		"curl https://x.example > x; cp a Makefile":             "make",
		"cp a .github/workflows/ci.yml":                         "GitHub Actions",
		"mv x.mk rules.mk":                                      "make,make",
		"cat Makefile":                                          "",
		"curl -o data.json https://x.example":                   "",
		"touch src/a.go":                                        "",
		"curl -s https://x.example; echo all: >GNUmakefile":     "make text",
	} {
		dir, u := usesOf(t, line)
		var got []string
		for _, p := range u.Paths {
			if program := p.Plants([]string{dir}); program != "" {
				got = append(got, strings.TrimSpace(program+" "+p.From))
			}
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestWhatProgramsLookForIsPlanted: each file that a program looks for by itself has a name that
// counts as planted.
func TestWhatProgramsLookForIsPlanted(t *testing.T) {
	text, err := os.ReadFile("../shellparse/program/tables/obeys.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		names, ok := strings.CutPrefix(line, "\tfirst ")
		if !ok {
			continue
		}
		for name := range strings.FieldsSeq(names) {
			n++
			if obeyed.Plants("/ws/"+strings.TrimPrefix(name, "^"), "/ws") == nil {
				t.Errorf("%s has no line in obeyed/names.txt", name)
			}
		}
	}
	if n < 50 {
		t.Errorf("%d names, want 50 at least", n)
	}
}
