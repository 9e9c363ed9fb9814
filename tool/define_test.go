package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/tool"
)

type greetArgs struct {
	FirstName string `json:"first_name" jsonschema:"whom to greet"`
	Times     int    `json:"times,omitempty"`
}

func TestT54_FourForms(t *testing.T) {
	boom := errors.New("boom")
	fail := func(args any) error {
		switch args {
		case "fail":
			return boom
		case "panic":
			panic("oh")
		}
		return nil
	}
	typed, err := tool.DefineText(tool.Spec{Name: "Typed"}, func(_ context.Context, _ tool.In, a greetArgs) (string, error) {
		return "hi " + a.FirstName, fail(a.FirstName)
	})
	if err != nil {
		t.Fatal(err)
	}
	structured, err := tool.DefineOutput(tool.Spec{Name: "Structured"}, func(_ context.Context, _ tool.In, a greetArgs) (tool.Output, error) {
		return tool.Output{Data: map[string]int{"times": a.Times}}, fail(a.FirstName)
	})
	if err != nil {
		t.Fatal(err)
	}
	none, err := tool.DefineNoInput(tool.Spec{Name: "None"}, func(_ context.Context, in tool.In) (string, error) {
		return "none", fail(in.Session)
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tool.DefineRaw(tool.Spec{Name: "Raw"}, func(_ context.Context, _ tool.In, a map[string]any) (string, error) {
		b, _ := json.Marshal(a)
		return string(b), fail(a["first_name"])
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, args, session string
		tool                tool.Tool
		want, err           string
	}{
		{"typed", `{"first_name":"Ann"}`, "", typed, "hi Ann", ""},
		{"structured", `{"first_name":"Ann","times":3}`, "", structured, "{\n  \"times\": 3\n}", ""},
		{"no input", `{}`, "", none, "none", ""},
		{"raw keeps digits", `{"x":12345678901234567890}`, "", raw, `{"x":12345678901234567890}`, ""},
		{"not an object", `[]`, "", typed, "", "not an object"},
		{"nothing", ``, "", raw, "", "not an object"},
		{"wrong type", `{"first_name":1}`, "", typed, "", "cannot be read"},
		{"structured, wrong type", `{"times":"x"}`, "", structured, "", "cannot be read"},
		{"raw, not JSON", `{"a"`, "", raw, "", "cannot be read"},
		{"handler fails", `{"first_name":"fail"}`, "", typed, "", "boom"},
		{"handler panics", `{"first_name":"panic"}`, "", structured, "", "tool Structured failed: oh"},
		{"no input, handler fails", `{}`, "fail", none, "", "boom"},
		{"raw, handler fails", `{"first_name":"fail"}`, "", raw, "", "boom"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := tt.tool.Run(t.Context(), tool.In{Args: json.RawMessage(tt.args), Session: tt.session}, nil)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if got := tool.Format(tt.tool, tt.tool.Spec(), out, nil); err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	var v tool.Validator
	for args, want := range map[string]bool{`{"first_name":"a"}`: true, `{}`: false, `{"first_name":"a","FirstName":"b"}`: false} {
		if err := v.Validate(typed.Spec(), json.RawMessage(args)); (err == nil) != want {
			t.Errorf("schema from the type on %s: got %v", args, err)
		}
	}
	if _, err := tool.DefineText(tool.Spec{Name: "X"}, func(context.Context, tool.In, struct{ C chan int }) (string, error) { return "", nil }); err == nil {
		t.Error("a type without a schema was taken")
	}
}

func TestT55_LaterToolsReplaceEarlier(t *testing.T) {
	mark := func(name, desc string) tool.Tool { return fake{tool.Spec{Name: name, Description: desc}} }
	pool := tool.Pool(
		[]tool.Tool{mark("Read", "built-in"), mark("Bash", "built-in")},
		[]tool.Tool{mark("Read", "custom"), mark("Deploy", "custom")},
		[]tool.Tool{mark("Deploy", "gateway")},
	)
	var got []string
	for _, p := range pool {
		got = append(got, p.Spec().Name+" "+p.Spec().Description)
	}
	if want := []string{"Read custom", "Bash built-in", "Deploy gateway"}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestT56_FilterDenyWins(t *testing.T) {
	all := []tool.Tool{named("Read"), named("Bash"), named("Edit")}
	for _, tt := range []struct {
		name              string
		allow, deny, want []string
	}{
		{"no lists", nil, nil, []string{"Read", "Bash", "Edit"}},
		{"empty lists", []string{}, []string{}, []string{"Read", "Bash", "Edit"}},
		{"allow", []string{"Edit"}, nil, []string{"Edit"}},
		{"deny", nil, []string{"Bash"}, []string{"Read", "Edit"}},
		{"in both", []string{"Bash", "Read"}, []string{"Bash"}, []string{"Read"}},
		{"CX-70: case does not matter in lists", []string{"read", "BASH"}, []string{"bash"}, []string{"Read"}},
		{"nothing known", []string{"Nope"}, nil, []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := names(tool.Filter(all, tt.allow, tt.deny)); !cmp.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
