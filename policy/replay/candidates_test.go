package replay

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy/input"
)

// TestCandidatesOfOtherToolsThanBash: the narrowest first, and none that a star or a path which
// is not known would widen.
func TestCandidatesOfOtherToolsThanBash(t *testing.T) {
	doc := func(name, path, params string, inside bool) *input.Document {
		d := &input.Document{Params: json.RawMessage(params)}
		d.Tool.Name, d.Session.Dir = name, "/src"
		if path != "" {
			d.Paths = []input.Path{{Path: path, InWorkspace: inside}}
		}
		return d
	}
	opaque := doc("Read", "/src/a", "", true)
	opaque.Opaque = append(opaque.Opaque, input.Opaque{})
	unknown := doc("Read", "/src/a", `{}`, true)
	unknown.Paths[0].Path = ""
	two := doc("Grep", "/src/a", `{}`, true)
	two.Paths = append(two.Paths, input.Path{Path: "/src/b"})
	for _, tt := range []struct {
		name string
		in   *input.Document
		want []string
	}{
		{"a tool of a server", doc("mcp__db__query", "/src/a", `{"q":"x"}`, true), []string{"mcp__db__query"}},
		{
			"a path of the workspace, and its directories", doc("Edit", "/src/a/b/c", `{}`, true),
			[]string{"Edit(//src/a/b/c)", "Edit(//src/a/b/**)", "Edit(//src/a/**)", "Edit(//src/**)"},
		},
		{"a path elsewhere", doc("Edit", "/etc/hosts", `{}`, false), []string{"Edit(//etc/hosts)"}},
		{"a path with a star", doc("Edit", "/src/a*", `{}`, true), nil},
		{"a path that is not known", unknown, []string{"Read"}},
		{"two paths", two, []string{"Grep"}},
		{"one argument", doc("Lookup", "", `{"kind":"a"}`, false), []string{"Lookup(kind:a)", "Lookup"}},
		{"one argument with a star", doc("Lookup", "", `{"kind":"*"}`, false), []string{"Lookup"}},
		{"two arguments", doc("Lookup", "", `{"kind":"x","of":"y"}`, false), []string{"Lookup"}},
		{"no text", doc("Lookup", "", `{"kind":1}`, false), []string{"Lookup"}},
		{"what nobody can read", opaque, nil},
	} {
		var got []string
		for _, c := range candidates(tt.in) {
			got = append(got, c.rules...)
			if c.denies {
				t.Errorf("%s: %v is only for what is refused", tt.name, c.rules)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestCandidatesOfACommand: a rule is only proposed if it says exactly what ran.
func TestCandidatesOfACommand(t *testing.T) {
	command := func(words string, change func(*input.Command)) input.Command {
		c := input.Command{Text: words, Argv: strings.Fields(words), Known: true, Plain: true}
		if change != nil {
			change(&c)
		}
		return c
	}
	make1, make2 := command("make a", nil), command("make b", nil)
	for _, tt := range []struct {
		name string
		of   []input.Command
		want []string
	}{
		{"a line", []input.Command{make1}, []string{"Bash(make a)"}},
		{
			"a line of more words, which wide rules refuse",
			[]input.Command{command("git push origin main", nil)},
			[]string{"Bash(git push origin main)", "Bash(git push origin *) denies", "Bash(git push *) denies"},
		},
		{"an option first", []input.Command{command("git -C x push", nil)}, []string{"Bash(git -C x push)"}},
		{"two", []input.Command{make2, make1, make2}, []string{"Bash(make a) Bash(make b)"}},
		{"a word is not known", []input.Command{command("make a", func(c *input.Command) { c.Known = false })}, nil},
		{"one is not plain", []input.Command{make1, command("make b", func(c *input.Command) { c.Plain = false })}, nil},
		{"two spaces", []input.Command{command("make  a", nil)}, nil},
		{"a star", []input.Command{command("find . -name *.go", nil)}, nil},
		{"what a rule cannot say", []input.Command{command("echo a|b", nil)}, nil},
	} {
		in := &input.Document{Commands: tt.of}
		in.Tool.Name = "Bash"
		var got []string
		for _, c := range candidates(in) {
			text := strings.Join(c.rules, " ")
			if c.denies {
				text += " denies"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
