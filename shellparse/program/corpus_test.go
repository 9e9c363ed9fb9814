package program_test

import (
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse/program"
	"github.com/sandboxd/sandboxd/shellparse/source"
)

// plainWords are the words of a line without shell syntax; false of any other line.
func plainWords(line string) ([]program.Word, bool) {
	var out []program.Word
	var word strings.Builder
	quote, some := byte(0), false
	for i := range len(line) {
		c := line[i]
		switch {
		case c == '$' && quote != '\'' || c == '\\' && quote != '\'' || quote == 0 && strings.IndexByte("|;&<>(){}*?[~`#!", c) >= 0:
			return nil, false
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, some = c, true
		case quote == 0 && c == ' ':
			if some {
				out = append(out, program.Literal(word.String(), source.Pos{}))
			}
			word.Reset()
			some = false
		case c < ' ' || c > '~':
			return nil, false
		default:
			word.WriteByte(c)
			some = true
		}
	}
	if some {
		out = append(out, program.Literal(word.String(), source.Pos{}))
	}
	return out, quote == 0 && len(out) > 0 && !strings.Contains(out[0].Text, "=")
}

// found is what is found out about a command and all that it starts.
type found struct {
	names  []string
	uses   []use
	opaque bool // a part is not known, or only the shell could tell
	shell  bool // the latter
}

func (f *found) add(argv []program.Word, dir string, depth int) {
	name := path.Base(argv[0].Text)
	f.names = append(f.names, name)
	if depth > 8 || !argv[0].Known || strings.Contains(argv[0].Text, " ") {
		f.opaque = true
		return
	}
	s := &told{dir: dir}
	s.call = &program.Call{Shell: s, Name: name, Argv: argv, Within: depth > 0, Fed: depth > 0}
	if s.call.Analyse() != "" {
		f.shell = true
	}
	f.uses = append(f.uses, s.uses...)
	f.opaque = f.opaque || s.steered || slices.ContainsFunc(s.lines, func(l string) bool { return strings.HasPrefix(l, "opaque") })
	for _, words := range s.started {
		f.add(words, s.dir, depth+1)
	}
}

// touches reports whether a use may be of a directory or of what is below it.
func (u use) touches(dir string) bool {
	below := func(p, dir string) bool {
		return p == dir || strings.HasPrefix(p+"/", strings.TrimSuffix(dir, "/")+"/")
	}
	return u.path == "" || below(path.Clean(u.path), dir) || u.recursive && below(dir, u.path)
}

// TestX22_ProgramsOfTheCorpus takes the lines of the guard's corpus that are one plain
// command. What must be denied starts rm, uses a path that is denied, or has a part that
// is not known; what must be allowed does none of these.
func TestX22_ProgramsOfTheCorpus(t *testing.T) {
	text, err := os.ReadFile("../../guard/testdata/guard.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	keywords := []string{"coproc", "if", "case", "for"}
	denied := []string{"/etc", "/home/dev/.ssh", "/home/dev/app/secrets", "/proc/self", "/proc/1", "/dev/fd"}
	n := 0
	for line := range strings.Lines(string(text)) {
		var l struct{ ID, Profile, Command, Expect string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		argv, plain := plainWords(l.Command)
		if !plain || l.Profile != "deny-rm" && l.Profile != "denied-paths" || program.Builtin(argv[0].Text) ||
			slices.Contains(keywords, argv[0].Text) {
			continue
		}
		n++
		var f found
		f.add(argv, "/home/dev/app", 0)
		against := f.opaque || l.Profile == "deny-rm" && slices.Contains(f.names, "rm")
		for _, dir := range denied {
			against = against || l.Profile == "denied-paths" &&
				slices.ContainsFunc(f.uses, func(u use) bool { return u.touches(dir) })
		}
		switch {
		case f.shell: // it would go on
		case l.Expect == "deny" && !against:
			t.Errorf("%s: nothing against %q: %+v", l.ID, l.Command, f)
		case l.Expect == "allow" && against:
			t.Errorf("%s: against %q: %+v", l.ID, l.Command, f)
		}
	}
	if n < 900 {
		t.Errorf("%d lines are plain commands: the test shows too little", n)
	}
}
