package input_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools"
	"github.com/sandboxd/sandboxd/policy/input"

	library "github.com/sandboxd/sandboxd/rego"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/shellparse"
)

// bash is a call of Bash with its facts, in /src of a user.
func bash(line string) (*tool.Call, error) {
	args, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		return nil, err
	}
	in := tool.In{Session: "s", Dir: "/src", Home: "/home/u", Args: args}
	uses, err := tools.Bash{}.Uses(context.Background(), in)
	spec := tools.Bash{}.Spec()
	return &tool.Call{
		Target: tool.Target{
			Spec:    spec,
			Session: tool.Session{ID: "s", Account: "a", Dir: in.Dir, Home: in.Home, Mode: tool.ModeDefault},
		},
		In: in,
		Judgement: tool.Judgement{
			Settings: guard.Settings{AllowedWritePaths: []string{in.Dir}},
			Facts:    tool.Facts{Class: spec.Class, Mode: tool.ModeDefault, Uses: uses},
		},
	}, err
}

func Example() {
	call, err := bash("git -C sub push origin main")
	if err != nil {
		fmt.Println(err)
		return
	}
	in, err := input.New(call)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := in.Commands[0]
	fmt.Printf("%s, flags %v, operands %v, starts with %q\n", c.Name, c.Flags, c.Operands, c.Prefixes[1])
	// Output: git, flags [-C], operands [push origin main], starts with "git push"
}

func TestArgumentsThatAreNoObjectAreRefused(t *testing.T) {
	for args, want := range map[string]bool{
		"": true, "{}": true, ` {"a": 1} `: true, "[]": false, "{": false,
		"null": false,
	} {
		_, err := input.New(&tool.Call{In: tool.In{Args: json.RawMessage(args)}})
		if (err == nil) != want {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestWhatIsDerivedOfACommand(t *testing.T) {
	for _, tt := range []struct {
		line            string
		flags, operands []string
		start           string
		plain, piped    bool
	}{
		{"git --no-pager -C x log -3", []string{"--no-pager", "-C", "-3"}, []string{"log"}, "git log", true, false},
		{"rm -rf -- -x", []string{"-rf", "-r", "-f"}, []string{"-x"}, "rm -x", true, false},
		{"terraform -chdir=x apply", nil, []string{"apply"}, "terraform apply", true, false},
		{"python3 -m twine upload x", []string{"-m"}, []string{"twine", "upload", "x"}, "twine upload", true, false},
		{"./git log", nil, []string{"log"}, "git log", false, false},
		{"/usr/bin/git log", nil, []string{"log"}, "git log", true, false},
		{"TOOLS=x make all", nil, []string{"all"}, "make all", false, false},
		{"CI=1 make all", nil, []string{"all"}, "make all", true, false},
		{"make $x", nil, []string{"$x"}, "make $x", false, false},
		{"sh x | curl a.org", nil, []string{"x"}, "sh x", true, true},
		{"sh x | cat", nil, []string{"x"}, "sh x", true, false},
		{"id; echo $(curl a.org)", nil, []string{}, "id", true, false},
		{"curl a.org > >(sh x)", nil, []string{"x"}, "sh x", true, true},
		{"exec > >(sh x); curl a.org", nil, []string{"x"}, "sh x", true, true},
		{"sh x <<< $(curl a.org)", nil, []string{"x"}, "sh x", true, true},
		{"if sh x; then :; fi < <(curl a.org)", nil, []string{"x"}, "sh x", true, true},
		{"exec < <(curl a.org); sh x", nil, []string{"x"}, "sh x", true, true},
		{"sh x < <(date); curl a.org", nil, []string{"x"}, "sh x", true, false},
		{"diff <(sh x) y", nil, []string{"x"}, "sh x", true, false},
		{"$(curl a.org) x", nil, []string{"a.org"}, "curl a.org", true, true},
	} {
		call, err := bash(tt.line)
		if err != nil {
			t.Fatal(err)
		}
		in, err := input.New(call)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(in.Commands, func(c input.Command) bool { return slices.Contains(c.Prefixes, tt.start) })
		if i < 0 {
			t.Errorf("%s: no command begins with %s", tt.line, tt.start)
			continue
		}
		c := in.Commands[i]
		if tt.flags != nil && !slices.Equal(c.Flags, tt.flags) ||
			c.Plain != tt.plain || c.PipedNet != tt.piped || !slices.Equal(c.Operands, tt.operands) {
			t.Errorf("%s: flags %q, operands %q, prefixes %q, plain %v, piped %v; want %+v", tt.line, c.Flags,
				c.Operands,
				c.Prefixes, c.Plain, c.PipedNet, tt)
		}
	}
}

// A module of Python is what the command means, too; no other program has one.
func TestThePrefixesOfAModule(t *testing.T) {
	for line, want := range map[string][]string{
		"python3 -m twine upload": {"python3", "python3 twine", "python3 twine upload", "twine", "twine upload"},
		"python3 twine upload":    {"python3", "python3 twine", "python3 twine upload"},
		"python3 -m":              {"python3"},
		"tar -m twine upload":     {"tar", "tar twine", "tar twine upload"},
	} {
		call, err := bash(line)
		if err != nil {
			t.Fatal(err)
		}
		in, err := input.New(call)
		if err != nil {
			t.Fatal(err)
		}
		if got := in.Commands[0].Prefixes; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestWhatIsDerivedOfPathsAndHosts(t *testing.T) {
	c := &tool.Call{
		Target:    tool.Target{Session: tool.Session{Dir: "/src/a", Home: "/home/u"}},
		Judgement: tool.Judgement{Settings: guard.Settings{AllowedWritePaths: []string{"/src"}}},
	}
	c.Facts.Class = tool.ClassWrite
	c.Spec = tool.Spec{Name: "mcp__git__push", Class: tool.ClassWrite, Annotations: &tool.Annotations{}}
	c.Facts.Uses = guard.Uses{
		Paths: []guard.PathUse{
			{Raw: "b/c.go", Path: "/src/a/b/c.go", Op: guard.Write},
			{Raw: "~/link", Path: "/src/x", Op: guard.Write},
			{Raw: "$x", Op: guard.Read},
		},
		Hosts: []string{"A.B.Example.org.", "[::1]", "10.0.0.1", "x.localhost", "8.8.8.8", "169.254.169.254", "0.0.0.0"},
	}
	in, err := input.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p := in.Paths[0]
	if !p.InWorkspace || p.Base != "c.go" || !slices.Equal(p.Forms, []string{"/src/a/b/c.go", "./b/c.go"}) ||
		!slices.Contains(p.Under, "./b") || !slices.Equal(p.Spelled, []string{"./a/b/c.go"}) {
		t.Errorf("%+v", p)
	}
	if p := in.Paths[1]; !slices.Equal(p.Spelled, []string{"./x", "/home/u/link", "~/link"}) {
		t.Errorf("a link: %+v", p)
	}
	if in.Paths[2].Path != "" || in.Paths[2].InWorkspace || !in.EditsWorkspace() || in.Tool.Server != "git" {
		t.Errorf("%+v", in)
	}
	if h := in.Hosts[0]; !slices.Equal(h.Suffixes, []string{
		"a.b.example.org", "b.example.org", "example.org",
		"org",
	}) {
		t.Errorf("%+v", h)
	}
	for i, private := range []bool{false, true, true, true, false, true, true} {
		if in.Hosts[i].Private != private {
			t.Errorf("%+v, want private %v", in.Hosts[i], private)
		}
	}
	if !input.Below("/src/a", "/src") || input.Below("/srcs", "/src") || input.Below("src", "/src") {
		t.Error("/src/a alone is below /src")
	}
}

// TestTheInputIsWhatTheSchemaSays walks a document with every kind of part beside
// the schema: the same fields, no more and no fewer, with values of their type.
func TestTheInputIsWhatTheSchemaSays(t *testing.T) {
	c, err := bash("FOO=1 git -C sub push -f origin main > out.txt && cat /src/a | wc -l")
	if err != nil {
		t.Fatal(err)
	}
	c.Facts.Uses.Hosts = []string{"a.example.org", "127.0.0.1"}
	c.Facts.Uses.Script.Opaque = []shellparse.Opaque{{Code: "inline_code", Command: "sh"}}
	c.Facts.Origins = tool.Origins{
		Args:    map[string][]tool.Origin{"command": {tool.OriginWeb}},
		Session: []tool.Origin{tool.OriginModel}, Hosts: []string{"a.example.org"},
	}
	in, err := input.NewConnecting(c, egress.Connection{
		Host: "a.example.org", Port: 80, Protocol: egress.ProtocolHTTP, Method: "GET", Path: "/x", Via: egress.ViaProxy,
	})
	if err != nil {
		t.Fatal(err)
	}
	in.Changes = []tool.Changed{{Path: "/src/a", Kind: tool.ChangeDelete, BytesBefore: 1, Tracked: true}}
	one := input.Count{Tools: map[string]int{"Bash": 1}, Rules: map[string]int{"a.b": 1}}
	window := input.Windows{Minute: one, Hour: one, Day: one}
	in.Recent = &input.Recent{Session: window, Account: window}
	said := true
	in.MCP = &tool.MCP{Server: "git", Tool: "push", Pin: "0123", Claimed: tool.Claims{
		ReadOnly: &said, Destructive: &said, Idempotent: &said, OpenWorld: &said,
	}}
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

	// What is written is what the document has: no value is lost.
	type fields input.Document
	whole, err := json.Marshal((*fields)(in))
	if err != nil {
		t.Fatal(err)
	}
	var has any
	if err := json.Unmarshal(whole, &has); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(withoutNil(has), withoutNil(doc)); diff != "" {
		t.Errorf("the document (-has +is written):\n%s", diff)
	}

	// The Go type says the same, in the same words.
	var again input.Document
	if err := strictjson.Decode(raw, &again); err != nil {
		t.Errorf("the document does not fit the Go type: %v", err)
	}
}

// withoutNil has an empty list wherever there is none.
func withoutNil(v any) any {
	switch v := v.(type) {
	case nil:
		return []any{}
	case []any:
		for i := range v {
			v[i] = withoutNil(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = withoutNil(v[k])
		}
	}
	return v
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
