package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	library "github.com/sandboxd/sandboxd/rego"
	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tool"
)

// TestTheInputIsWhatTheSchemaSays walks a document with every kind of part beside
// the schema: the same fields, no more and no fewer, with values of their type.
func TestTheInputIsWhatTheSchemaSays(t *testing.T) {
	c := bash(t, ModeAuto, "FOO=1 git -C sub push -f origin main > out.txt && cat /src/a | wc -l")
	c.Facts.Uses.Hosts = []string{"a.example.org", "127.0.0.1"}
	c.Facts.Uses.Script.Opaque = []shellparse.Opaque{{Code: "inline_code", Command: "sh"}}
	c.Facts.Origins = tool.Origins{
		Args:    map[string][]tool.Origin{"command": {tool.OriginWeb}},
		Session: []tool.Origin{tool.OriginModel},
	}
	in, err := NewInput(c)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := in.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	b, err := library.Files.ReadFile("schemas/input.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(b, &schema); err != nil {
		t.Fatal(err)
	}
	compare(t, "input", doc, schema)

	// The Go type says the same, in the same words.
	var again Input
	if err := strictJSON(raw, &again); err != nil {
		t.Errorf("the document does not fit the Go type: %v", err)
	}
}

func compare(t *testing.T, at string, doc any, schema map[string]any) {
	switch v := doc.(type) {
	case map[string]any:
		props, _ := schema["properties"].(map[string]any)
		if extra, ok := schema["additionalProperties"].(map[string]any); ok {
			for k, x := range v {
				compare(t, at+"."+k, x, extra)
			}
			return
		}
		if schema["additionalProperties"] == true {
			return
		}
		got, want := slices.Sorted(maps.Keys(v)), slices.Sorted(maps.Keys(props))
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s: fields (-document +schema):\n%s", at, diff)
		}
		for k, x := range v {
			if p, ok := props[k].(map[string]any); ok {
				compare(t, at+"."+k, x, p)
			}
		}
	case []any:
		if schema["type"] != "array" {
			t.Errorf("%s is a list, the schema says %v", at, schema["type"])
			return
		}
		for _, x := range v {
			compare(t, at+"[]", x, schema["items"].(map[string]any))
		}
	case string:
		if schema["type"] != "string" {
			t.Errorf("%s is text, the schema says %v", at, schema["type"])
		}
		if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, any(v)) {
			t.Errorf("%s is %q, the schema says one of %v", at, v, enum)
		}
	case bool:
		if schema["type"] != "boolean" {
			t.Errorf("%s is a boolean, the schema says %v", at, schema["type"])
		}
	case float64:
		if schema["type"] != "integer" {
			t.Errorf("%s is a number, the schema says %v", at, schema["type"])
		}
	default:
		t.Errorf("%s is %T", at, doc)
	}
}
