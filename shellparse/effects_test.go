package shellparse_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
)

// TestEffects reads testdata/effects.txt: what a line loses, publishes or changes elsewhere, a tab,
// and the line. "-" is nothing.
func TestEffects(t *testing.T) {
	text, err := os.ReadFile("testdata/effects.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		want, command, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok || strings.HasPrefix(want, "#") {
			continue
		}
		command = strings.ReplaceAll(command, `⏎`, "\n")
		s, err := shellparse.Parse(command, shellparse.Options{Dir: "/src", Home: "/home/dev"})
		if err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		if got := effects(s); got != want {
			t.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
	}
}

// effects writes the effects of all commands in one line.
func effects(s *shellparse.Script) string {
	var out []string
	for i := range s.Commands {
		e := s.Commands[i].Effects
		if e == nil {
			continue
		}
		for _, d := range e.Deletes {
			word := "delete"
			if d.Recursive {
				word = "tree"
			}
			if d.Moved != "" {
				word = "move"
			}
			if d.Many {
				word += "*"
			}
			out = append(out, word+":"+strings.TrimPrefix(d.Path, "/src/"))
		}
		for _, d := range e.Discards {
			if d.IfThere == "" {
				out = append(out, d.What)
			} else {
				out = append(out, d.What+"?")
			}
		}
		for _, a := range e.Acts {
			out = append(out, a.Does)
		}
		for _, r := range e.Runs {
			out = append(out, "runs:"+r.From+strings.TrimSuffix(":"+r.Does, ":"))
		}
	}
	if out == nil {
		return "-"
	}
	return strings.Join(out, " ")
}

// A program that executes its standard input executes the file that it is.
func TestCodeOnTheStandardInput(t *testing.T) {
	for _, line := range []string{"sqlite3 a.db < x", "psql < x", "python3 < x", "sh < x", "node - < x"} {
		s, err := shellparse.Parse(line, shellparse.Options{Dir: "/src", Home: "/home/dev"})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var code []string
		for _, c := range s.Commands {
			for _, f := range c.Code {
				code = append(code, f.Path)
			}
		}
		if !slices.Equal(code, []string{"/src/x"}) {
			t.Errorf("%s executes %q", line, code)
		}
	}
}
