package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// docPath is a path in a document: `pipeline/lease.go`, `internal/part`.
	docPath = regexp.MustCompile("`([A-Za-z_.-]+(?:/[A-Za-z0-9_.-]+)+/?)`")
	docLink = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlug = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// documents calls visit with every document of people, by its path from the root.
func documents(t *testing.T, visit func(path, text string)) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		visit(strings.TrimPrefix(file, "../../"), string(text))
	}
}

// A path whose first part is a folder of this repository names something in it.
func TestPathsInDocumentsExist(t *testing.T) {
	n := 0
	documents(t, func(doc, text string) {
		for _, m := range docPath.FindAllStringSubmatch(text, -1) {
			path := m[1]
			first, rest, _ := strings.Cut(path, "/")
			_, err := os.Stat(filepath.Join("../..", first))
			if err != nil || first == "bin" || strings.HasPrefix(first, ".") || strings.Contains(rest, "NAME") {
				continue // of another place, or made by a build
			}
			n++
			if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
				t.Errorf("%s names %s, which is not there", doc, path)
			}
		}
	})
	if n < 30 {
		t.Errorf("only %d paths are found in the documents", n)
	}
}

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	n := 0
	documents(t, func(doc, text string) {
		for _, m := range docLink.FindAllStringSubmatch(text, -1) {
			n++
			target := filepath.Join("../..", filepath.Dir(doc), m[1])
			to, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s links %s: %v", doc, m[1], err)
				continue
			}
			if m[2] != "" && !hasAnchor(string(to), m[2][1:]) {
				t.Errorf("%s links %s%s, and there is no such heading", doc, m[1], m[2])
			}
		}
	})
	if n < 50 {
		t.Errorf("only %d links are found in the documents", n)
	}
}

// hasAnchor reports whether a page has the heading that a link means.
func hasAnchor(page, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// Every package of the root and of internal/ has a row in the architecture.
func TestArchitectureHasEveryPackage(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range internal {
		parts := strings.Split(name, "/")
		first := "`" + parts[0] + "/`"
		if parts[0] == "internal" {
			first = "`" + parts[1] + "`"
		}
		rows := regexp.MustCompile(`(?m)^\| .*` + regexp.QuoteMeta(first) + `.* \| .+ \|$`)
		if !rows.Match(text) {
			t.Errorf("docs/architecture.md has no row for %s", name)
		}
	}
}

// The glossary stays as short as a reader can keep in mind.
func TestGlossaryIsShort(t *testing.T) {
	const most = 25
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, glossary, ok := strings.Cut(string(text), "\n## Glossary\n")
	terms := strings.Count(glossary, "\n| ") - 2 // the heading of the table and its line
	if !ok || terms < 10 || terms > most {
		t.Errorf("the glossary has %d terms, at most %d", terms, most)
	}
}
