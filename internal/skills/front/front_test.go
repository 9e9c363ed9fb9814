package front_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/skills/front"
)

func TestK11_B13_ValuesOfFrontMatter(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{"a word", "x: good", "good"},
		{"a tab behind the colon", "x:\tgood\t", "good"},
		{"double quotes with an escape", `x: "a \"b\" \u00e9"`, `a "b" é`},
		{"single quotes", "x: 'it''s'", "it's"},
		{"a quote that does not end", `x: "half`, `"half`},
		{"something behind a quote", `x: "a" b"`, `a" b`},
		{"lines that go on", "x: one\n  two\n\tthree", "one two three"},
		{"a literal block", "x: |\n  one\n    two\n\n  three\n", "one\n  two\n\nthree"},
		{"a folded block", "x: >-\n  one\n  two\n\n  three\n", "one two\nthree"},
		{"a block of nothing", "x: |", ""},
		{"a pipe that is no block", "x: |a", "|a"},
		{"a remark", "x: good # or not", "good"},
		{"a number sign in a word", "x: issue #3", "issue #3"},
		{"colons in the value", "x: a: b", "a: b"},
		{"square brackets that are no YAML", "x: [action] [options]", "[action] [options]"},
		{"an anchor stays text", "x: &a b", "&a b"},
		{"an alias stays text", "x: *a", "*a"},
		{"the last one counts", "x: a\nx: b", "b"},
		{"no key is needed before it", "- y\n  z\nx: a", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := front.Parse("---\n" + tt.raw + "\n---\n")
			if got := m.Text("x"); got != tt.want || !m.Closed {
				t.Errorf("got %q, want %q (%+v)", got, tt.want, m)
			}
		})
	}
}

func TestK12_K23_ListsOfFrontMatter(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		spaces    bool
		want      string
	}{
		{"commas", "x: Bash, Read,,Write", true, "Bash|Read|Write"},
		{"spaces", "x: Bash Read", true, "Bash|Read"},
		{"spaces that do not divide", "x: a b, c", false, "a b|c"},
		{"brackets protect", "x: Bash(git add, git diff:*) Read", true, "Bash(git add, git diff:*)|Read"},
		{"a bracket that does not end", "x: Bash(git Read", true, "Bash(git Read"},
		{"one too many", "x: a) b", true, "a)|b"},
		{"flow", "x: [Bash, \"Read\"]", true, "Bash|Read"},
		{"flow keeps spaces", "x: [Bash(git diff *), Read]", true, "Bash(git diff *)|Read"},
		{"block", "x:\n  - Bash\n  - 'Read'\n", true, "Bash|Read"},
		{"block in column 0", "x:\n- Bash\n- Read", true, "Bash|Read"},
		{"quoted as a whole", `x: "Bash, Read"`, true, "Bash|Read"},
		{"nothing", "x:", true, ""},
		{"an empty list", "x: []", true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, _ := front.Parse("---\n" + tt.raw + "\n---\n").Get("x")
			got := f.List(tt.spaces)
			if strings.Join(got, "|") != tt.want || got == nil {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestK11_WhereFrontMatterEnds(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		closed     bool
		body       string
		line       int
	}{
		{"usual", "---\nname: a\n---\nbody\n", true, "body\n", 4},
		{"byte order mark and CRLF", "\ufeff---\r\nname: a\r\n---\r\nbody\r\n", true, "body\n", 4},
		{"blanks behind the marks", "--- \nname: a\n---\t\nbody", true, "body", 4},
		{"none", "body\n", false, "body\n", 1},
		{"it does not end", "---\nname: a\nbody\n", false, "---\nname: a\nbody\n", 1},
		{"nothing at all", "", false, "", 1},
		{"a line before it", "\n---\nname: a\n---\n", false, "\n---\nname: a\n---\n", 1},
		{"a rule in the body", "---\nname: a\n---\na\n---\nb", true, "a\n---\nb", 4},
		{"no last line feed", "---\nname: a\n---", true, "", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := front.Parse(tt.file)
			if m.Closed != tt.closed || m.Body != tt.body || m.Line != tt.line {
				t.Errorf("got %+v", m)
			}
		})
	}
}

// A file of aliases that stand for more and more is as long when it is read as it was before.
func TestABombOfAliasesStaysSmall(t *testing.T) {
	var b strings.Builder
	b.WriteString("---\na0: &a0 [x, x]\n")
	for range 40 {
		b.WriteString("b: &b [*a0, *a0, *b, *b]\n")
	}
	b.WriteString("allowed-tools: *b\n---\n")
	m := front.Parse(b.String())
	f, _ := m.Get("allowed-tools")
	if got := f.List(true); !slices.Equal(got, []string{"*b"}) {
		t.Errorf("got %q", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "---\n---", "\ufeff---\r\nname: a\r\n---\r\n", "---\nx: |\n  a\n b\n---\n", "---\nx: \"\\\n---\nb",
		"---\nallowed-tools: [a, *b]\nx: &b c\n---\n", "---\nx:\n- 'a\n- b\n---\n", "---\n: a\n---\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file string) {
		m := front.Parse(file)
		if !strings.HasSuffix(strings.ReplaceAll(file, "\r\n", "\n"), m.Body) {
			t.Errorf("the body %q is not the end of the file", m.Body)
		}
		held := 0
		for _, field := range m.Fields {
			held += len(field.Raw) + len(field.Key)
			if field.Line < 2 || field.Line >= m.Line {
				t.Errorf("%q is in line %d of %d", field.Key, field.Line, m.Line)
			}
			if len(field.Text()) > 3*len(field.Raw)+3 { // what is not UTF-8 may grow
				t.Errorf("%q has grown to %q", field.Raw, field.Text())
			}
			field.List(true)
		}
		if held > len(file) {
			t.Errorf("%d bytes of %d", held, len(file))
		}
	})
}
