package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	library "github.com/sandboxd/sandboxd/rego"
	"github.com/sandboxd/sandboxd/tests/golden"
)

// TestTheReferenceIsGenerated keeps the tables of docs/policies.md equal to what
// they describe.
func TestTheReferenceIsGenerated(t *testing.T) {
	for name, table := range map[string]string{
		"modes":   modesTable(t),
		"rules":   rulesTable(t),
		"fields":  schemaTable(t, "schemas/input.json"),
		"finding": schemaTable(t, "schemas/finding.json"),
	} {
		golden.Section(t, "../docs/policies.md", name, table)
	}
}

// TestThePoliciesOfThePageLoad loads each whole policy that the page shows, with its
// examples.
func TestThePoliciesOfThePageLoad(t *testing.T) {
	page, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	loaded := 0
	for _, block := range strings.Split(string(page), "\n```rego\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		switch {
		case strings.HasPrefix(text, "# METADATA"):
			text = acme(text)
		case !strings.HasPrefix(text, "package "):
			continue // a part of one
		}
		loaded++
		dir := t.TempDir()
		writePolicy(t, filepath.Join(dir, "a.rego"), text)
		if _, err := New(t.Context(), Options{Dirs: []string{dir}, Facts: testFacts}); err != nil {
			t.Errorf("%v:\n%s", err, text)
		}
	}
	if loaded < 3 {
		t.Errorf("%d policies are shown whole, want 3", loaded)
	}
}

func modesTable(t *testing.T) string {
	var b strings.Builder
	for i, row := range modeTable(t) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("| --- ", len(row)) + "|\n")
		}
	}
	return b.String()
}

func rulesTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| rule | effect | what it is about |\n| --- | --- | --- |\n")
	for _, profile := range Profiles {
		r, err := load(context.Background(), Options{Profile: profile}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range r.rules {
			if profile == "developer" || strings.HasPrefix(x.ID, string(profile)+".") {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", x.ID, x.Effect,
					strings.TrimSuffix(cmp.Or(x.Title+": "+x.Description, x.Title), ": "))
			}
		}
	}
	return b.String()
}

// node is the part of a JSON Schema that the tables show, with its fields in the
// order of the file.
type node struct {
	Type        string
	Description string
	Enum        []string
	Properties  json.RawMessage
	Items       *node
}

func schemaTable(t *testing.T, file string) string {
	raw, err := library.Files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var root node
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| field | type | meaning |\n| --- | --- | --- |\n")
	writeFields(t, &b, "", root)
	return b.String()
}

func writeFields(t *testing.T, b *strings.Builder, prefix string, n node) {
	if n.Properties == nil {
		return
	}
	dec := json.NewDecoder(strings.NewReader(string(n.Properties)))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var child node
		if err := dec.Decode(&child); err != nil {
			t.Fatal(err)
		}
		if child.Description == "" {
			t.Errorf("field %s%s has no description", prefix, key)
		}
		meaning := child.Description
		if len(child.Enum) > 0 {
			meaning += ": " + strings.Join(child.Enum, ", ")
		}
		name := prefix + key.(string)
		kind := child.Type
		if child.Items != nil && child.Items.Type != "object" {
			kind += " of " + child.Items.Type
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, kind, meaning)
		if strings.Contains(child.Description, "; fields as in ") {
			continue
		}
		writeFields(t, b, name+".", child)
		if child.Items != nil {
			writeFields(t, b, name+"[].", *child.Items)
		}
	}
}
