package shellparse

import (
	"errors"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse/source"
)

// TestWhatIsToldOfALineThatIsNotRead: the code, what is wrong, and another way to write it.
func TestWhatIsToldOfALineThatIsNotRead(t *testing.T) {
	for _, tt := range []struct{ line, code, msg, hint string }{
		{"echo {1..99999999}", "too_large", "a brace expansion gives more than 1000 words", "use seq"},
		{
			"rm " + strings.Repeat("a ", 2001), "too_large", "deletes or moves more than 2000 names one by one",
			"a pattern, or split",
		},
		{"echo +($x)", "parser_difference", "an expansion inside an extended pattern", "in a variable first"},
		{"ls \x00", "control_character", "", ""},
	} {
		_, err := Parse(tt.line, Options{Dir: "/w"})
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != tt.code || !strings.Contains(e.Msg, tt.msg) || !strings.Contains(e.Hint, tt.hint) {
			t.Errorf("%.40s: got %+v, want %s, %q and %q", tt.line, err, tt.code, tt.msg, tt.hint)
		}
	}
	for _, tt := range []struct{ line, code, message, hint string }{
		{"PATH=/x:$PATH; ls", "path_extended", "names may be other programs", "call the program by its path"},
		{"PATH=${PATH}:/x; ls", "path_extended", "names may be other programs", "call the program by its path"},
		{`trap "$x" EXIT`, "dynamic_eval", "trap executes text that is only known when it runs", ""},
		{"bash -c", "inline_code", "bash -c has no text to run", ""},
		{"bash $x", "inline_code", "bash is given a word that is only known when it runs: $x", ""},
		{"compgen -F f", "dynamic_eval", "compgen -F calls a function", ""},
		{"a=-e; set -$x; shopt -s $y", "", "", ""},
	} {
		s, err := Parse(tt.line, Options{Dir: "/w"})
		if err != nil {
			t.Fatal(err)
		}
		var got Opaque
		if len(s.Opaque) > 0 {
			got = s.Opaque[0]
		}
		if tt.code != "" && (got.Code != tt.code || !strings.Contains(got.Message, tt.message) || got.Hint != tt.hint) {
			t.Errorf("%s: got %+v", tt.line, s.Opaque)
		}
	}
}

// TestAnArgumentVectorIsBounded, and each word stands where it is in the words joined by blanks.
func TestAnArgumentVectorIsBounded(t *testing.T) {
	for _, tt := range []struct {
		words     []string
		code, msg string
	}{
		{nil, "", ""},
		{[]string{"ls", "a\x00b"}, "control_character", "an argument holds NUL"},
		{append(make([]string, source.MaxWords), "x"), "too_large", "command has more than "},
	} {
		_, err := Argv(tt.words, Options{})
		e, _ := errors.AsType[*Error](err)
		if (e == nil) != (tt.code == "") ||
			e != nil && (e.Code != tt.code || !strings.HasPrefix(e.Msg, tt.msg) || e.Hint == "") {
			t.Errorf("%d words: got %+v, want %s", len(tt.words), err, tt.code)
		}
	}
	s, err := Argv([]string{"rm", "$x", "b c"}, Options{Dir: "/w"})
	if err != nil || len(s.Commands) != 1 || s.Commands[0].Name != "rm" {
		t.Fatalf("%+v, %v", s, err)
	}
	c := s.Commands[0]
	want := []Pos{{Offset: 3, End: 5, Line: 1, Col: 4}, {Offset: 6, End: 9, Line: 1, Col: 7}}
	for i, at := range want {
		if c.Args[i].At != at || !c.Args[i].Known {
			t.Errorf("%q stands at %+v, want %+v", c.Args[i].Text, c.Args[i].At, at)
		}
	}
	if at := (Pos{Offset: 0, End: 2, Line: 1, Col: 1}); c.At != at {
		t.Errorf("the command stands at %+v, want %+v", c.At, at)
	}
}

// TestSequencesRunBothWays, by their step.
func TestSequencesRunBothWays(t *testing.T) {
	for line, want := range map[string]string{
		"echo {1..3}": "1 2 3", "echo {3..1}": "3 2 1", "echo {5..1..2}": "5 3 1", "echo {1..5..2}": "1 3 5",
		"echo {c..a}": "c b a", "echo {a..c}": "a b c", "echo {08..10}": "08 09 10", "echo {1..-1}": "1 0 -1",
		"echo {a..5}": "{a..5}", "for i in {b..a}; do echo $i; done": "b",
	} {
		s, err := Parse(line, Options{Dir: "/w"})
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var got []string
		for _, w := range s.Commands[0].Args {
			got = append(got, w.Text)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: got %s, want %s", line, text, want)
		}
	}
}

// TestWhatASubstitutionPrints is known of few commands.
func TestWhatASubstitutionPrints(t *testing.T) {
	for word, pattern := range map[string]string{
		"$(mktemp)": "/tmp/tmp.*", "$(mktemp -d)": "/tmp/tmp.*", "$(mktemp -t x)": "", "$(mktemp x.XXX)": "",
		"$(whoami)": "/w/*", "$(id -u)": "/w/*", "$(id)": "", "$(id -un)": "",
		"$(tty)": "", "$(uname -m 2>/dev/null)": "/w/*",
		"$(uname -m >x)": "", "$(git rev-parse HEAD)": "/w/*", "$(git rev-parse x)": "",
	} {
		s, err := Parse("rm "+word, Options{Dir: "/w"})
		if err != nil {
			t.Errorf("%s: %v", word, err)
			continue
		}
		got := ""
		for _, f := range s.Commands[len(s.Commands)-1].Files {
			if f.Known {
				got += f.Path
			}
		}
		if got != pattern {
			t.Errorf("%s: got %q, want %q", word, got, pattern)
		}
	}
}
