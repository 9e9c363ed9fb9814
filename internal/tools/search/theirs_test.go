package search

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// A search that another program makes reads the whole tree, and what its pattern leads to.
func TestSearchesOfAnotherProgramAreJudgedAsWholeTrees(t *testing.T) {
	dir := t.TempDir()
	rules := guard.NewRules(guard.Settings{DeniedPaths: []string{dir + "/root/.ssh", dir + "/secret/.env"}})
	for _, tt := range []struct {
		name    string
		tool    tool.Tool
		args    m
		refused bool
		code    string
	}{
		{"nothing denied below", Grep{}, m{"pattern": "x", "path": dir + "/ws"}, false, ""},
		{"the working directory", Grep{}, m{"pattern": "x"}, false, ""},
		{"a glob of names", Grep{}, m{"pattern": "x", "glob": "*.{ts,tsx}"}, false, ""},
		{"a denied place below", Grep{}, m{"pattern": "x", "path": dir + "/root"}, true, ""},
		{"far below", Grep{}, m{"pattern": "x", "path": "/"}, true, ""},
		{"a denied file, and a glob for it", Grep{}, m{"pattern": "x", "path": dir + "/secret", "glob": ".env"}, true, ""},
		{"a glob that leaves", Grep{}, m{"pattern": "x", "glob": "../root/.ssh/*"}, true, ""},
		{"a pattern that leaves", Glob{}, m{"pattern": "../root/**"}, true, ""},
		{"an absolute pattern", Glob{}, m{"pattern": dir + "/root/*"}, true, ""},
		{"an absolute pattern beside a path", Glob{}, m{"pattern": dir + "/root/*", "path": dir + "/ws"}, true, ""},
		{"a pattern of the workspace", Glob{}, m{"pattern": "src/**/*.{a,b.c}"}, false, ""},
		{"at any depth", Glob{}, m{"pattern": "**/{.github,x}/*.yml"}, false, ""},
		{"its own directory", Glob{}, m{"pattern": "./*"}, false, ""},
		{"its own directory twice", Glob{}, m{"pattern": "*/././x"}, false, ""},
		{"it leaves later", Glob{}, m{"pattern": "*/../../root/*"}, false, "invalid_pattern"},
		{"it leaves in a sum", Glob{}, m{"pattern": "{a,.}{b,.}/root/*"}, false, "invalid_pattern"},
		{"it leaves in another sum", Glob{}, m{"pattern": ".{.,x}/root/*"}, false, "invalid_pattern"},
		{"it leaves by an alternative", Glob{}, m{"pattern": "{../root,x}/*"}, false, "invalid_pattern"},
		{"it leaves in brackets", Glob{}, m{"pattern": "[.][.]/root/*"}, false, "invalid_pattern"},
		{"it begins at the root by an alternative", Glob{}, m{"pattern": "{" + dir + "/root,x}/*"}, false, "invalid_pattern"},
		{"it begins there by the second one", Grep{}, m{"pattern": "x", "glob": "{x," + dir + "/root}/*"}, false, "invalid_pattern"},
		{"it begins there by an empty one", Glob{}, m{"pattern": "{,x}" + dir + "/root/*"}, false, "invalid_pattern"},
		{
			"it begins there by one in the middle",
			Glob{},
			m{"pattern": "{x,,y}" + dir + "/root/*"},
			false, "invalid_pattern",
		},
		{"it begins there by two empty ones", Glob{}, m{"pattern": "{x,}{y,}" + dir + "/root/*"}, false, "invalid_pattern"},
		{"it begins there in quotes", Glob{}, m{"pattern": `\` + dir + "/root/*"}, false, "invalid_pattern"},
		{"alternatives that begin here", Glob{}, m{"pattern": "{src,test}/**/*.{a,b}"}, false, ""},
		{"it leaves in quotes", Glob{}, m{"pattern": `\.\./root/*`}, false, "invalid_pattern"},
	} {
		raw, err := json.Marshal(tt.args)
		if err != nil {
			t.Fatal(err)
		}
		in := tool.In{Args: raw, Dir: dir + "/ws", Rules: rules, Theirs: true}
		uses, err := tt.tool.Uses(t.Context(), in)
		if code(err) != tt.code {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.code)
			continue
		}
		refused := rules.Check(uses)
		got := slices.ContainsFunc(refused, func(r guard.Refusal) bool { return r.Ours || !r.Ask })
		if got != tt.refused {
			t.Errorf("%s: got %v for %+v", tt.name, refused, uses.Paths)
		}
	}
}

// A secret that the pattern names is judged as a file, so that rules about it hold.
func TestSearchesOfAnotherProgramNameTheirFiles(t *testing.T) {
	for _, glob := range []string{".env", "**/.env", "config/.env"} {
		raw, err := json.Marshal(m{"pattern": "x", "glob": glob})
		if err != nil {
			t.Fatal(err)
		}
		uses, err := Grep{}.Uses(t.Context(), tool.In{Args: raw, Dir: "/nowhere", Theirs: true})
		if err != nil || !slices.ContainsFunc(uses.Paths, func(u guard.PathUse) bool { return u.Path == "/nowhere/.env" }) {
			t.Errorf("%s: got %+v, %v", glob, uses.Paths, err)
		}
	}
}

// A pattern is no file: policies and people see the directory that is searched, and what the pattern names for sure.
func TestSearchesOfAnotherProgramNameNoPatterns(t *testing.T) {
	for glob, want := range map[string][]string{
		"": {"/nowhere"}, "*.go": {"/nowhere"}, "**/*.{a,b}": {"/nowhere"}, "src/*": {"/nowhere", "/nowhere/src"},
	} {
		raw, err := json.Marshal(m{"pattern": "x", "glob": glob})
		if err != nil {
			t.Fatal(err)
		}
		uses, err := Grep{}.Uses(t.Context(), tool.In{Args: raw, Dir: "/nowhere", Theirs: true})
		var got []string
		for _, u := range uses.Paths {
			got = append(got, u.Path)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", glob, got, err, want)
		}
	}
}

func code(err error) string {
	if e, ok := err.(*tool.Error); ok {
		return e.Code
	}
	return ""
}
