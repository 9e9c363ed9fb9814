package effect

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
)

// tables say what verbs do. Their README.md explains the formats.
//
//go:embed tables/*.txt
var tables embed.FS

const shows = "shows"

// tool is what the tables say of a program.
type tool struct {
	source string
	takes  []string // options in front of the verb that take the next word
	lines  []pattern
	other  string // what a verb that no line has does
	nocase bool
	do     []string
}

// pattern is one line: what a command of this shape does.
type pattern struct {
	does       string
	words      []token
	conditions []condition
}

// token is what one operand must be.
type token struct {
	many  bool // **
	known bool // =: a word that is only known when it runs is none
	texts []string
	class class
}

// condition is on the whole command: it has an option ('-'), a text ('~'), a last operand ('$').
type condition struct {
	kind  byte
	not   bool
	texts []string
}

// class is a set of verbs.
type class map[string]bool

// matches reports whether a word is such a verb, or has one between dashes. A part that shows in
// front of it makes it another verb (get-delete-marker).
func (c class) matches(word string) bool {
	if c[word] {
		return true
	}
	first, rest, dashed := strings.Cut(word, "-")
	if !dashed || (all.classes[shows][first] || all.classes["infos"][first]) && !c[first] {
		return false
	}
	for part := first; ; {
		if c[part] {
			return true
		}
		if rest == "" {
			return false
		}
		part, rest, _ = strings.Cut(rest, "-")
	}
}

func (t *token) matches(word string) bool {
	if t.class != nil {
		return t.class.matches(word)
	}
	for _, text := range t.texts {
		if glob(text, word) {
			return true
		}
	}
	return false
}

// all holds the tables. They are read when they are first asked for.
var all struct {
	once    sync.Once
	tools   map[string]*tool
	classes map[string]class
	code    map[string][]needle
	makers  map[string][]*maker
}

func load() {
	all.once.Do(func() {
		if err := read(tables, "tables"); err != nil {
			panic("cannot happen, a test reads the tables: " + err.Error())
		}
	})
}

// find returns the tool of a name.
func find(name string) *tool {
	load()
	if t := lookup(all.tools, name); t != nil {
		return t
	}
	if sub, ok := strings.CutPrefix(name, "git-"); ok && sub != "" && gitValued[sub] != nil {
		return all.tools["git"]
	}
	return nil
}

// lookup returns what a table has of a program, the zero value if it has nothing. Versions share one row (python3.12).
func lookup[T any](table map[string]T, name string) T {
	row, ok := table[name]
	if short := strings.TrimRight(name, "0123456789.-"); !ok && len(short) > 2 {
		row = table[short]
	}
	return row
}

// read reads the classes first: patterns name them.
func read(files fs.FS, dir string) error {
	all.tools, all.classes = make(map[string]*tool, 1024), map[string]class{}
	names, err := fs.Glob(files, dir+"/*.txt")
	if err != nil {
		return err
	}
	for _, classes := range []bool{true, false} {
		for _, name := range names {
			switch base(name) {
			case "code.txt", "git.txt", "makers.txt":
				continue
			}
			if (base(name) == "classes.txt") != classes {
				continue
			}
			text, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			if err := readTable(string(text)); err != nil {
				return fmt.Errorf("%s:%w", name, err)
			}
		}
	}
	return readOthers(files, dir)
}

// readTable reads one table. An error begins with the number of the line.
func readTable(text string) error {
	var entry *tool
	begun, n := false, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		fact, indented := strings.CutPrefix(line, "\t")
		var err error
		switch {
		case line == "":
			if entry != nil && entry.source == "" {
				err = fmt.Errorf("the entry in front has no source")
			}
			entry = nil
		case line[0] == '#':
		case line[0] == '%':
			name, words, _ := strings.Cut(line[1:], " ")
			if all.classes[name] == nil {
				all.classes[name] = class{}
			}
			for word := range strings.FieldsSeq(words) {
				all.classes[name][word] = true
			}
		case !indented:
			if entry == nil {
				entry, begun = &tool{}, false
			}
			if begun {
				err = fmt.Errorf("%q stands behind facts, without an empty line", line)
				break
			}
			err = names(line, entry)
		case entry == nil:
			err = fmt.Errorf("%q belongs to no program", fact)
		default:
			begun = true
			err = entry.fact(fact)
		}
		if err != nil {
			return fmt.Errorf("%d: %w", n, err)
		}
	}
	return nil
}

func names(line string, entry *tool) error {
	for name := range strings.SplitSeq(strings.TrimSuffix(line, ","), ",") {
		if name = strings.TrimPrefix(name, " "); name == "" || strings.ContainsAny(name, " \t") {
			return fmt.Errorf("%q is no name of a program", name)
		}
		if all.tools[name] != nil {
			return fmt.Errorf("there is another entry for %q", name)
		}
		all.tools[name] = entry
	}
	return nil
}

func (t *tool) fact(fact string) error {
	kind, rest, _ := strings.Cut(fact, " ")
	switch kind {
	case "source":
		t.source = rest
	case "takes":
		for word := range strings.FieldsFuncSeq(rest, func(r rune) bool { return r == ' ' || r == ',' }) {
			t.takes = append(t.takes, word)
		}
	case "else":
		t.other = rest
	case "nocase":
		t.nocase = true
	case "do":
		t.do = append(t.do, rest)
	case shows, Destroys, Changes, Publishes, Plants:
		p, err := parsePattern(kind, rest)
		if err != nil {
			return err
		}
		t.lines = append(t.lines, p)
	default:
		return fmt.Errorf("%q is no fact", fact)
	}
	if rest == "" && kind != "nocase" {
		return fmt.Errorf("%q says nothing", fact)
	}
	return nil
}

func parsePattern(does, text string) (pattern, error) {
	p := pattern{does: does}
	for word := range strings.FieldsSeq(text) {
		bare, not := strings.CutPrefix(word, "!")
		switch {
		case bare[0] == '-' || bare[0] == '~' || bare[0] == '$':
			c := condition{kind: bare[0], not: not}
			if c.kind != '-' {
				bare = bare[1:]
			}
			if c.texts = strings.Split(bare, "|"); c.kind == '~' {
				c.texts = []string{bare}
			}
			p.conditions = append(p.conditions, c)
		case not:
			return p, fmt.Errorf("%q: only options and texts can be missing", word)
		case word == "**":
			p.words = append(p.words, token{many: true})
		case word[0] == '=':
			p.words = append(p.words, token{known: true, texts: strings.Split(word[1:], "|")})
		case word[0] == '&':
			if all.classes[word[1:]] == nil {
				return p, fmt.Errorf("there is no class %q", word)
			}
			p.words = append(p.words, token{texts: slices.Sorted(maps.Keys(all.classes[word[1:]]))})
		case word[0] == '%':
			if all.classes[word[1:]] == nil {
				return p, fmt.Errorf("there is no class %q", word)
			}
			p.words = append(p.words, token{class: all.classes[word[1:]]})
		default:
			p.words = append(p.words, token{texts: strings.Split(word, "|")})
		}
	}
	return p, nil
}
