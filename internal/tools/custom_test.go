package tools

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
)

func custom(t *testing.T, argv ...string) tool.Tool {
	t.Helper()
	c, err := NewCustom(Custom{
		Name: "Show", Description: "shows", Argv: argv,
		Schema: json.RawMessage(
			`{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer"},"list":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}`,
		),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCustom_ArgumentsAreWordsNeverShell(t *testing.T) {
	e := toolstest.New(t)
	for _, tt := range []struct {
		name string
		argv []string
		args m
		want string
	}{
		{
			"shell text is one word",
			[]string{"printf", "[%s]", "{{a}}"},
			m{"a": "x; rm -rf $HOME `id` \"q\""},
			"[x; rm -rf $HOME `id` \"q\"]",
		},
		{"a list is several", []string{"printf", "[%s]", "{{list}}"}, m{"list": []string{"a b", "c"}}, "[a b][c]"},
		{"an absent one is none", []string{"printf", "[%s]", "x", "{{a}}"}, m{}, "[x]"},
		{"inside a word", []string{"printf", "[%s]", "n={{n}},{{a}}"}, m{"n": 7, "a": "z"}, "[n=7,z]"},
		{"a dash behind --", []string{"printf", "[%s]", "--", "{{a}}"}, m{"a": "-rf"}, "[--][-rf]"},
		{"a dash behind a flag", []string{"printf", "[%s]", "--x={{a}}"}, m{"a": "-rf"}, "[--x=-rf]"},
		{"a placeholder in a value stays", []string{"printf", "[%s]", "{{a}}"}, m{"a": "{{n}}"}, "[{{n}}]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := e.OK(custom(t, tt.argv...), tt.args); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	show := custom(t, "printf", "[%s]", "{{a}}", "x{{list}}")
	e.Fails(show, m{"a": "-rf"}, "option_like_argument")
	e.Fails(show, m{"a": "x\x00"}, "invalid_arguments")
	e.Fails(show, m{"list": []string{"a", "b"}}, "invalid_arguments")
	e.Fails(show, m{"b": 1}, "invalid_arguments")
	e.Fails(custom(t, "printf", "x", "{{a}}y"), m{"a": "-"}, "option_like_argument")
	if got := e.OK(custom(t, "sh", "-c", "echo out; echo err >&2; exit 4"), m{}); got != "out\nerr\nExit code: 4" {
		t.Errorf("got %q, want what Bash answers", got)
	}
}

func TestCustom_IsJudgedAsACommand(t *testing.T) {
	e := toolstest.New(t)
	uses, err := custom(t, "cat", "{{a}}").Uses(t.Context(), e.In(m{"a": "../secret"}))
	if err != nil {
		t.Fatal(err)
	}
	settings := guard.Settings{AllowedReadPaths: []string{e.Dir}, DeniedCommands: []string{"rm"}}
	if refused := guard.NewRules(settings).Check(uses); len(refused) == 0 {
		t.Errorf("nothing refuses %+v", uses.Paths)
	}
	for name, want := range map[string]string{ // a relative name is meant from the directory of the session
		"../secret": filepath.Join(filepath.Dir(e.Dir), "secret"), "sub/x": filepath.Join(e.Dir, "sub/x"),
	} {
		uses, err := custom(t, "cat", "{{a}}").Uses(t.Context(), e.In(m{"a": name}))
		if err != nil || !slices.ContainsFunc(uses.Paths, func(u guard.PathUse) bool {
			return u.Path == want && u.Op == guard.Read
		}) {
			t.Errorf("%s: got %+v, %v, want %s", name, uses.Paths, err, want)
		}
	}
	uses, err = custom(t, "rm", "{{a}}").Uses(t.Context(), e.In(m{"a": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if refused := guard.NewRules(settings).Check(uses); len(refused) == 0 {
		t.Error("a denied command passes as a custom tool")
	}
}

func TestCustom_BadConfigurationIsALoadError(t *testing.T) {
	good := Custom{Name: "X", Description: "d", Argv: []string{"true"}}
	for _, tt := range []struct {
		name   string
		change func(*Custom)
		want   string
	}{
		{"name", func(c *Custom) { c.Name = "a b" }, "name"},
		{"description", func(c *Custom) { c.Description = "" }, "description"},
		{"no program", func(c *Custom) { c.Argv = nil }, "program"},
		{"program from an argument", func(c *Custom) { c.Argv = []string{"{{a}}"} }, "program"},
		{"unknown placeholder", func(c *Custom) { c.Argv = []string{"true", "{{a}}"} }, "{{a}}"},
		{"schema that is no JSON", func(c *Custom) { c.Schema = json.RawMessage(`{`) }, "schema"},
		{"schema that cannot be resolved", func(c *Custom) {
			c.Schema = json.RawMessage(`{"properties":{"a":{"$ref":"#/nope"}}}`)
		}, "schema"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := good
			tt.change(&c)
			if _, err := NewCustom(c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error about %s", err, tt.want)
			}
		})
	}
	if _, err := NewCustom(good); err != nil {
		t.Error(err)
	}
}
