package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	library "github.com/sandboxd/sandboxd/rego"
)

// TestTheReferenceIsGenerated keeps the tables of docs/policies.md equal to what
// they describe.
func TestTheReferenceIsGenerated(t *testing.T) {
	const file = "../docs/policies.md"
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(old)
	for name, table := range map[string]string{
		"modes":   modesTable(t),
		"rules":   rulesTable(t),
		"fields":  schemaTable(t, "schemas/input.json"),
		"finding": schemaTable(t, "schemas/finding.json"),
	} {
		text = replaceBetween(t, text, "<!-- "+name+": ", table)
	}
	if text == string(old) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the code says; run go test ./policy -run Reference -args -update", file)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func replaceBetween(t *testing.T, text, begin, table string) string {
	head, rest, ok := strings.Cut(text, begin)
	if !ok {
		t.Fatalf("no %q in the page", begin)
	}
	line, rest, _ := strings.Cut(rest, "\n")
	_, tail, ok := strings.Cut(rest, "<!-- end -->")
	if !ok {
		t.Fatalf("no end after %q", begin)
	}
	return head + begin + line + "\n" + table + "<!-- end -->" + tail
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
			if profile == "developer" || strings.HasPrefix(x.ID, profile+".") {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", x.ID, x.Effect, strings.TrimSuffix(cmp.Or(x.Title+": "+x.Description, x.Title), ": "))
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
		writeFields(t, b, name+".", child)
		if child.Items != nil {
			writeFields(t, b, name+"[].", *child.Items)
		}
	}
}
