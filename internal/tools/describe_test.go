package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestADescriptionNamesEveryArgument(t *testing.T) {
	for _, g := range Groups() {
		for _, own := range g.Tools {
			s := own.Spec()
			var schema struct {
				Properties map[string]any `json:"properties"`
				Required   []string       `json:"required"`
			}
			if err := json.Unmarshal(s.Schema, &schema); err != nil {
				t.Fatal(err)
			}
			text := Describe(s)
			if !strings.HasPrefix(text, "### "+s.Name+"\n") || !strings.Contains(text, "class "+string(s.Class)) {
				t.Errorf("%s: %s", s.Name, text)
			}
			for name := range schema.Properties {
				if !strings.Contains(text, "| `"+name+"` |") {
					t.Errorf("%s: the argument %s is missing", s.Name, name)
				}
			}
			if n := strings.Count(text, ", required |"); n != len(schema.Required) {
				t.Errorf("%s: %d arguments are required, want %d", s.Name, n, len(schema.Required))
			}
		}
	}
	text := Describe(tool.Spec{
		Name: "X", Returns: &tool.Returns{Type: "number", Note: "a count"},
		Schema: json.RawMessage(`{"properties": {"b": {"enum": ["x", "y"], "description": "this|that"}, "a": {}}, "required": ["b"]}`),
	})
	for _, want := range []string{"destructive", "returns number (a count)", "| `b` | x, y, required | this\\|that |\n| `a` | any |"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if text := Describe(tool.Spec{Name: "Y"}); !strings.Contains(text, "It takes no arguments.") {
		t.Error(text)
	}
}
