package program

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

// tables hold what is known of programs, of variables and of git's configuration. Their README.md explains
// the formats.
//
//go:embed tables/programs/*.txt tables/variables.txt tables/gitconfig.txt tables/obeys.txt
var tables embed.FS

// spec is what the tables say of a program or of a subcommand.
type spec struct {
	names    []string
	opts     map[string]opt
	operands []kind
	repeat   int         // index of the repeated kind, -1 if none
	none     string      // the file that it reads without operands
	do       string      // the name of the handler, "" if there is none
	handle   func(*Call) // what the table cannot say
	shell    string      // the name of what only the shell can do, "" if there is none
	strict   bool        // an option that is not listed makes the command opaque
	posix    bool        // options end at the first operand
	rec      bool        // operands mean whole trees
	single   bool        // long options begin with one dash
	prefixes []prefix
}

// prefix is how a word begins, and what follows.
type prefix struct {
	text string
	kind kind
}

// opt is one option of a program.
type opt struct {
	name     string // its first spelling in the table
	kind     kind
	optional bool   // the value counts only when it is attached
	effect   string // what the option changes, by a name that a handler knows
}

// kind is what a word means to a command.
type kind byte

const (
	flag     kind = 0   // takes no value
	data     kind = 'd' // text, pattern, number, name: touches nothing
	reads    kind = 'r'
	writes   kind = 'w' // written anew
	changes  kind = 't' // written, and what it held stays
	makes    kind = 'D' // a directory that is made, with those above it, or taken where it is empty
	both     kind = 'b' // read and written
	tree     kind = 'R' // read with all below it
	cuts     kind = 'W' // written or removed with all below it
	moves    kind = 'M' // moved with all below it: what it holds can be read at its new place
	shell    kind = 's' // text for sh -c
	program  kind = 'p' // name of a program
	chdir    kind = 'c' // working directory for the rest
	host     kind = 'h' // host, user@host, host:port
	urlKind  kind = 'u' // URL, host:path or path
	code     kind = 'o' // code of another language
	refuse   kind = 'x' // decides what runs in a way that is not read here
	env      kind = 'e' // NAME=VALUE
	argv     kind = 'a' // the rest is a command
	maybe    kind = 'm' // a path if it looks like one
	subname  kind = 'n' // name of a subcommand with a line of its own
	remote   kind = 'q' // host:path is remote, anything else a path that is read
	remoteTo kind = 'Q' // the same, written
	atFile   kind = '@' // text, or @file to read it from
	volume   kind = 'v' // path:where, or src=path,…: read and written
	obeyed   kind = 'f' // a file that is read and executed

	fileNames kind = 'l' // a list of names of files that are read
	treeNames kind = 'L' // the same, of trees
)

var kinds = "drwtDbRWMspchuoxeamnqQ@vflL"

// loaded holds the programs of the tables. They are read when they are first asked for,
// because a process that judges nothing does not need them. The variable has no
// initial value: the handlers read it, and the tables name the handlers.
var loaded struct {
	once     sync.Once
	programs map[string]*spec
}

// programs returns all programs by name, and subcommands as "git add".
func programs() map[string]*spec {
	loaded.once.Do(func() {
		var err error
		if loaded.programs, err = readPrograms(tables, "tables/programs"); err != nil {
			panic("cannot happen, a test reads the tables: " + err.Error())
		}
	})
	return loaded.programs
}

// readPrograms reads all tables of a directory.
func readPrograms(files fs.FS, dir string) (map[string]*spec, error) {
	names, err := fs.Glob(files, dir+"/*.txt")
	if err != nil {
		return nil, err
	}
	r := reader{programs: make(map[string]*spec, 2048), handlers: handlers()}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		if err := r.table(string(text)); err != nil {
			return nil, fmt.Errorf("%s:%w", name, err)
		}
	}
	return r.programs, nil
}

// reader reads tables of programs.
type reader struct {
	programs map[string]*spec
	handlers map[string]func(*Call)
	entry    *spec // the program that is being read, nil between two
	begun    bool  // the entry has facts: no name may follow
}

// table reads one table. An error begins with the number of the line.
func (r *reader) table(text string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := r.line(strings.TrimRight(line, "\n")); err != nil {
			return fmt.Errorf("%d: %w", n, err)
		}
	}
	r.entry = nil
	return nil
}

func (r *reader) line(line string) error {
	fact, indented := strings.CutPrefix(line, "\t")
	switch {
	case line == "":
		r.entry = nil
		return nil
	case line[0] == '#':
		return nil
	case !indented:
		return r.names(line)
	case r.entry == nil:
		return fmt.Errorf("%q belongs to no program", fact)
	case strings.HasPrefix(fact, "-"), strings.HasPrefix(fact, "+"), strings.Contains(fact, "=:"):
		r.begun = true
		return r.entry.option(fact)
	}
	r.begun = true
	return r.note(fact)
}

// names begins an entry, or adds names to one that has no facts yet.
func (r *reader) names(line string) error {
	if r.entry == nil {
		r.entry, r.begun = &spec{opts: map[string]opt{}, repeat: -1}, false
	}
	if r.begun {
		return fmt.Errorf("%q stands behind facts of another program, without an empty line", line)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(line, ","), ", ") {
		if name == "" || strings.TrimSpace(name) != name || strings.Contains(name, ",") {
			return fmt.Errorf("%q is no name of a program", name)
		}
		if r.programs[name] != nil {
			return fmt.Errorf("there is another entry for %q", name)
		}
		r.entry.names = append(r.entry.names, name)
		r.programs[name] = r.entry
	}
	return nil
}

// note reads a fact that is no option.
func (r *reader) note(fact string) error {
	s := r.entry
	name, val, valued := strings.Cut(fact, " ")
	if valued != (name == "operands" || name == "none" || name == "do" || name == "shell") {
		return fmt.Errorf("%q is no fact", fact)
	}
	switch name {
	case "operands":
		return s.kinds(strings.Fields(val))
	case "strict":
		s.strict = true
	case "posix":
		s.posix = true
	case "rec":
		s.rec = true
	case "single":
		s.single = true
	case "none":
		s.none = val
	case "shell":
		s.shell = val
	case "do":
		s.do, s.handle = val, r.handlers[val]
		if s.handle == nil {
			return fmt.Errorf("there is no handler %q", val)
		}
	default:
		return fmt.Errorf("%q is no fact", fact)
	}
	return nil
}

// kinds reads the kinds of the operands.
func (s *spec) kinds(tokens []string) error {
	if s.operands != nil {
		return fmt.Errorf("operands stand there twice")
	}
	for i, token := range tokens {
		if token == "cmd" {
			token = string(argv)
		}
		k := strings.TrimSuffix(token, "*")
		if len(k) != 1 || !strings.Contains(kinds, k) {
			return fmt.Errorf("%q is no kind of operand", token)
		}
		if k != token {
			s.repeat = i
		}
		s.operands = append(s.operands, kind(k[0]))
	}
	return nil
}

// option reads one option: its spellings, the kind of its value, what it changes.
func (s *spec) option(token string) error {
	if text, k, ok := strings.Cut(token, "=:"); ok {
		if len(k) != 1 || !strings.Contains(kinds, k) {
			return fmt.Errorf("option %q: %q is no kind", token, k)
		}
		s.prefixes = append(s.prefixes, prefix{text + "=", kind(k[0])})
		return nil
	}
	var o opt
	token, o.effect, _ = strings.Cut(token, "!")
	spellings, k, valued := strings.Cut(token, ":")
	if valued {
		k, o.optional = strings.CutSuffix(k, "?")
		if len(k) != 1 || !strings.Contains(kinds, k) {
			return fmt.Errorf("option %q: %q is no kind", token, k)
		}
		o.kind = kind(k[0])
	}
	for name := range strings.SplitSeq(spellings, ",") {
		if len(name) < 2 || name[0] != '-' && name[0] != '+' || strings.ContainsAny(name, " \t") {
			return fmt.Errorf("%q is no option", name)
		}
		if _, twice := s.opts[name]; twice {
			return fmt.Errorf("option %q stands there twice", name)
		}
		if o.name == "" {
			o.name = name
		}
		s.opts[name] = o
	}
	return nil
}

// long finds a long option by its name or by what it abbreviates: every one that
// it could mean.
func (s *spec) long(name string) []opt {
	if o, ok := s.opts[name]; ok {
		return []opt{o}
	}
	var found []opt
	for full, o := range s.opts {
		if len(name) > 2 && strings.HasPrefix(full, "--") && strings.HasPrefix(full, name) {
			found = append(found, o)
		}
	}
	return found
}

// kindAt returns the kind of operand i of n.
func (s *spec) kindAt(i, n int) kind {
	if s.repeat < 0 {
		if i < len(s.operands) {
			return s.operands[i]
		}
		if len(s.operands) == 0 {
			return data
		}
		return maybe
	}
	tail := len(s.operands) - s.repeat - 1
	switch {
	case i < s.repeat:
		return s.operands[i]
	case n-i <= tail && n > s.repeat:
		return s.operands[len(s.operands)-(n-i)]
	}
	return s.operands[s.repeat]
}
