package program

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

func TestEveryHandlerIsNamedInATable(t *testing.T) {
	all, err := readPrograms(tables, "tables/programs")
	if err != nil {
		t.Fatal(err)
	}
	unused := handlers()
	for _, s := range all {
		delete(unused, s.do)
	}
	for name := range unused {
		t.Errorf("no table says %q: the handler is dead", "do "+name)
	}
}

func TestTablesSayWhatTheFormatSays(t *testing.T) {
	readme, err := os.ReadFile("tables/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		if !strings.Contains(string(readme), "| `"+string(k)+"` ") {
			t.Errorf("tables/README.md does not explain the kind %q", k)
		}
	}
	for word := range classes {
		if !strings.Contains(string(readme), "| `"+word+"` ") {
			t.Errorf("tables/README.md does not explain the class %q", word)
		}
	}
	err = fs.WalkDir(tables, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tables, path)
		for line := range strings.Lines(string(text)) {
			if utf8.RuneCountInString(line) > 120 || strings.TrimRight(line, " \t\n") != strings.TrimRight(line, "\n") {
				t.Errorf("%s: a wide line, or a blank at its end: %q", path, line)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnEntryIsReadAsTheFormatSays(t *testing.T) {
	all, err := readPrograms(fstest.MapFS{"x/a.txt": {Data: []byte(
		"# text\n\nsort, gsort,\nmsort\n\toperands r* w\n\tstrict\n\tnone .\n\tdo tar\n" +
			"\t-o,--output:w\n\t--color:d?\n\t-r!rec\n\ngit add\n\tposix\n",
	)}}, "x")
	if err != nil {
		t.Fatal(err)
	}
	s := all["sort"]
	if s == nil || s != all["gsort"] || s != all["msort"] || len(all) != 4 {
		t.Fatalf("programs %v", all)
	}
	if !s.strict || s.posix || s.none != "." || s.do != "tar" || s.handle == nil || s.repeat != 0 ||
		len(s.operands) != 2 {
		t.Errorf("entry %+v", s)
	}
	for name, want := range map[string]opt{
		"--output": {name: "-o", kind: writes},
		"--color":  {name: "--color", kind: data, optional: true},
		"-r":       {name: "-r", effect: "rec"},
	} {
		if s.opts[name] != want {
			t.Errorf("%s is %+v, want %+v", name, s.opts[name], want)
		}
	}
	if g := all["git add"]; g == nil || !g.posix || g.strict || g.opts["-r"] != (opt{}) {
		t.Errorf("git add is %+v", g)
	}
}

func TestAMistakeInATableOfProgramsIsAnError(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a fact of nothing", "\t-r\n", `x/a.txt:1: "-r" belongs to no program`},
		{"an empty line ends an entry", "a\n\n\t-r\n", `:3: "-r" belongs to no program`},
		{"a name behind facts", "a\n\t-r\nb\n", `:3: "b" stands behind facts`},
		{"two entries", "a\n\nb, a\n", `:3: there is another entry for "a"`},
		{"no blank behind a comma", "a,b\n", `"a,b" is no name`},
		{"a kind that is not known", "a\n\t-o:z\n", `"z" is no kind`},
		{"two kinds", "a\n\t-o:dr\n", `"dr" is no kind`},
		{"no kind", "a\n\t-o:\n", `"" is no kind`},
		{"two options with a blank", "a\n\t-o -p\n", `"-o -p" is no option`},
		{"a spelling without a dash", "a\n\t-o,p\n", `"p" is no option`},
		{"an option twice", "a\n\t-o\n\t-p,-o:r\n", `:3: option "-o" stands there twice`},
		{"an operand that is not known", "a\n\toperands r z\n", `"z" is no kind of operand`},
		{"operands twice", "a\n\toperands r\n\toperands w\n", `operands stand there twice`},
		{"a fact that is not known", "a\n\tloose\n", `"loose" is no fact`},
		{"a fact with a value too many", "a\n\tstrict yes\n", `"strict yes" is no fact`},
		{"a handler that is not known", "a\n\tdo nothing\n", `there is no handler "nothing"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readPrograms(fstest.MapFS{"x/a.txt": {Data: []byte(tt.text)}}, "x")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestAMistakeInTheTableOfVariablesIsAnError(t *testing.T) {
	for _, text := range []string{"A\n", "A runs\nA live\n", "A loud\n", "*A runs\n", "** runs\n", "*A* harmless\n"} {
		if _, err := readVariables(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func TestWhatIsKnownOfAVariable(t *testing.T) {
	for _, tt := range []struct {
		name         string
		decides      bool
		live, ofBash bool
	}{
		{"PATH", true, true, false},
		{"SHELLOPTS", true, true, true},
		{"LINENO", false, false, true},
		{"MY_PAGER", true, false, false},
		{"my_pager", true, false, false},
		{"GIT_AUTHOR_NAME", false, false, false},
		{"GIT_SSH", true, false, false},
		{"FOO", false, false, false},
	} {
		if got := Hijacks(tt.name); got != tt.decides {
			t.Errorf("%s decides what runs: %t, want %t", tt.name, got, tt.decides)
		}
		if got := isVariable(tt.name, live); got != tt.live {
			t.Errorf("%s is live: %t, want %t", tt.name, got, tt.live)
		}
		if got := isVariable(tt.name, ofBash); got != tt.ofBash {
			t.Errorf("%s is of bash: %t, want %t", tt.name, got, tt.ofBash)
		}
	}
}
