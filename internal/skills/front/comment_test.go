package front_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/skills/front"
)

// read returns the value of x, and whether a parser of YAML can read it. Ends of lines behind it do not count.
func read(raw string) (text string, list []string, err error) {
	var m map[string]any
	if err := yaml.Unmarshal([]byte(raw), &m); err != nil {
		return "", nil, err
	}
	switch v := m["x"].(type) {
	case nil:
	case []any:
		for _, item := range v {
			if item != nil {
				list = append(list, fmt.Sprint(item))
			}
		}
	default:
		text = strings.TrimSpace(fmt.Sprint(v))
		list = strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,\n", r) })
	}
	return text, list, nil
}

// same reports a value that is not what YAML says. Of a list only the entries count.
func same(t interface{ Errorf(string, ...any) }, raw string, listed bool) {
	text, list, err := read(raw)
	f, _ := front.Parse("---\n" + raw + "\n---\n").Get("x")
	switch {
	case err != nil:
		t.Errorf("%q is no YAML: %v", raw, err)
	case !slices.Equal(f.List(true), list):
		t.Errorf("%q: the list %q, want %q", raw, f.List(true), list)
	case !listed && f.Text() != text:
		t.Errorf("%q: the text %q, want %q", raw, f.Text(), text)
	}
}

// A comment grants nothing: what a skill may call is what a parser of YAML reads.
func TestK12_CommentsAreThoseOfYAML(t *testing.T) {
	for _, tt := range []struct{ name, raw string }{
		{"before a list", "x:\n  # - Bash\n  - Read"},
		{"behind the colon, before a list", "x: # Bash\n  - Read"},
		{"in column 0", "x:\n# - Bash\n- Read"},
		{"within a list", "x:\n  - Read\n  # - Bash\n  #- Write\n  - Grep"},
		{"behind a list", "x:\n  - Read\n  # - Bash"},
		{"behind an entry", "x:\n  - Read # - Bash\n  - Grep #Bash\n  - Glob\t# Bash"},
		{"instead of an entry", "x:\n  - # Bash\n  - Read"},
		{"an entry of two lines", "x:\n  - Read\n    Bash\n  - Grep"},
		{"a dash without a space", "x:\n  - Read\n    -Bash\n  - Grep"},
		{"a deeper dash", "x:\n  - Read\n    - Bash\n  - Grep"},
		{"quotes of two lines", "x:\n  - \"Read\n    - Bash\"\n  - Grep"},
		{"the first entry is nothing", "x:\n  -\n  - Read"},
		{"in quotes of an entry", "x:\n  - \"Bash(a # b)\" # c\n  - 'it''s # d'"},
		{"in a list in brackets", "x: [\n  # Bash,\n  Read, # Write\n  Grep] # Glob"},
		{"in quotes in brackets", `x: ["Bash(a # \" b)", 'c''s # d'] # e`},
		{"behind words", "x: Read Grep #Bash"},
		{"before words", "x:\n  # Bash\n  Read"},
		{"alone", "x: # todo"},
		{"alone, without a space", "x: #todo"},
		{"alone, in lines", "x:\n  # one\n\n  # two"},
		{"a number sign at the end", "x: good #"},
		{"behind a tab", "x: good\t# or not"},
		{"in a word", "x: a#b c#"},
		{"behind quotes", `x: "a # \" # b" # "c"`},
		{"before quotes", "x: # a\n  'it''s # b'"},
		{"in quotes of two lines", "x: \"a\n  # b\" # c"},
		{"before a block", "x: # a\n  |\n  # b\n  c"},
		{"behind the header of a block", "x: |- # a\n  b"},
		{"behind the header of a block, without a space", "x: >\t#a\n  b"},
		{"in a block", "x: |\n  # a\n  b # c\n\n  #d"},
		{"in a folded block", "x: >\n  # a\n  b # c"},
		{"deeper in a block", "x: |\n  a\n    # b"},
		{"behind a block", "x: |\n    a\n  # b\n  #c"},
		{"behind a block, in two lines", "x: |\n    a\n  # b\n    # c"},
		{"in a block that names its indentation", "x: |2-\n    a\n  # b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			same(t, tt.raw, strings.HasPrefix(tt.name, "behind words") || strings.ContainsAny(tt.raw, "-["))
		})
	}
}

// Comments at any place where YAML has them change nothing.
func TestCommentsAtAnyPlaceOfAValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.SampledFrom([]string{"Bash", "Read", "a#b", "c#", "Bash(git:*)", "it's"})
		quoted := rapid.SampledFrom([]string{`"a # b"`, `'it''s # c'`, `"\" # d"`, `'# - e'`})
		comment := rapid.SampledFrom([]string{"#", "# - Bash", "# 'a", `# "a`, "# [b", "# |", "#\t- Bash"})
		behind := func() string { // the value in a line
			return rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "space") +
				rapid.SampledFrom([]string{"", " " + comment.Draw(t, "behind")}).Draw(t, "end") + "\n"
		}
		lines := func() (out string) { // that are only comments
			for range rapid.IntRange(0, 2).Draw(t, "lines") {
				indent := strings.Repeat(" ", rapid.IntRange(0, 6).Draw(t, "indent"))
				what := rapid.SampledFrom([]string{"", comment.Draw(t, "line"), "#- Bash"}).Draw(t, "what")
				out += indent + what + "\n"
			}
			return out
		}
		word := func() string { return rapid.OneOf(one, quoted).Draw(t, "word") }
		raw := "x:"
		listed := false
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0: // a text
			raw += rapid.SampledFrom([]string{" ", behind() + lines() + "  "}).Draw(t, "gap") + word() + behind()
		case 1: // nothing
			raw += behind()
		case 2: // a list of lines
			raw += behind()
			for range rapid.IntRange(1, 3).Draw(t, "entries") {
				raw += lines() + "  - " + word() + behind()
			}
			listed = true
		case 3: // a list in brackets
			raw += " [" + behind()
			for range rapid.IntRange(1, 3).Draw(t, "entries") {
				raw += lines() + "  " + word() + "," + behind()
			}
			raw += "  ]" + behind()
			listed = true
		case 4: // a literal block, in which no comment is
			raw += " |" + behind() + "      first\n"
			for range rapid.IntRange(0, 3).Draw(t, "in it") {
				raw += "      " + rapid.SampledFrom([]string{"# a", "#- b", "c # d", "  # e"}).Draw(t, "text") + "\n"
			}
			raw += "     # behind it\n"
		}
		same(t, raw+lines(), listed || strings.ContainsAny(raw, `"'`))
	})
}
