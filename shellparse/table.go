package shellparse

import (
	"fmt"
	"strings"
	"sync"
)

// A table line describes commands:
//
//	names | options | operands | notes
//
// An option is its spellings, then ":" and the kind of its value if it takes one
// ("?" after the kind: only when attached), then "!" and what it changes:
//
//	-t,--target-directory:w!target  -S:d  --color:d?  -r,-R!rec
//
// Options that take no value and change nothing need no entry, except where the
// notes say strict. Operands are kinds in order; "*" repeats, and kinds after it
// stand for the last operands. The kinds are those of [kind].
//
// Notes: strict (an option that is not listed cannot be read: the command is
// opaque), posix (options end at the first operand), none=. (without operands it
// reads that), do=NAME (a function for what a table cannot say), rec (operands
// mean whole trees).
type spec struct {
	names    []string
	opts     map[string]opt
	operands []kind
	repeat   int // index of the repeated kind, -1 if none
	none     string
	do       string
	strict   bool
	posix    bool
	rec      bool
	single   bool // long options begin with one dash
}

type opt struct {
	name     string // its first spelling in the table
	kind     kind
	optional bool
	effect   string
}

// kind is what a word means to a command.
type kind byte

const (
	flag     kind = 0   // takes no value
	data     kind = 'd' // text, pattern, number, name: touches nothing
	reads    kind = 'r'
	writes   kind = 'w'
	both     kind = 'b' // read and written
	tree     kind = 'R' // read with all below it
	cuts     kind = 'W' // written, moved or removed with all below it
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
)

var kinds = "drwbRWspchuoxeamnqQ@v"

// commands are all tables, by command name; subcommands as "git add".
var commands = sync.OnceValue(func() map[string]*spec {
	m := map[string]*spec{}
	for _, table := range [][]string{
		tableFiles, tableText, tableShell, tableWrappers, tableVersion, tableBuild,
		tableNetwork, tableArchive, tableSystem, tableEditors, tableContainers,
	} {
		for _, line := range table {
			s, err := compile(line)
			if err != nil {
				panic(fmt.Sprintf("table line %q: %v", line, err)) // a test compiles all
			}
			for _, n := range s.names {
				if m[n] != nil {
					panic("two table lines for " + n)
				}
				m[n] = s
			}
		}
	}
	return m
})

func compile(line string) (*spec, error) {
	cols := strings.Split(line, " | ")
	for len(cols) < 4 {
		cols = append(cols, "")
	}
	s := &spec{opts: map[string]opt{}, repeat: -1}
	for _, n := range strings.Split(cols[0], ",") {
		s.names = append(s.names, strings.TrimSpace(n))
	}
	for _, token := range strings.Fields(cols[1]) {
		if err := s.option(token); err != nil {
			return nil, err
		}
	}
	for i, token := range strings.Fields(cols[2]) {
		if token == "cmd" {
			token = "a"
		}
		k := strings.TrimSuffix(token, "*")
		if len(k) != 1 || !strings.Contains(kinds, k) {
			return nil, fmt.Errorf("operand %q", token)
		}
		if k != token {
			s.repeat = i
		}
		s.operands = append(s.operands, kind(k[0]))
	}
	for _, note := range strings.Fields(cols[3]) {
		name, val, _ := strings.Cut(note, "=")
		switch name {
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
		case "do":
			s.do = val
		default:
			return nil, fmt.Errorf("note %q", note)
		}
	}
	return s, nil
}

func (s *spec) option(token string) error {
	var o opt
	token, o.effect, _ = strings.Cut(token, "!")
	spellings, k, valued := strings.Cut(token, ":")
	if valued {
		if strings.HasSuffix(k, "?") {
			o.optional, k = true, k[:len(k)-1]
		}
		if len(k) != 1 || !strings.Contains(kinds, k) {
			return fmt.Errorf("option %q", token)
		}
		o.kind = kind(k[0])
	}
	for _, name := range strings.Split(spellings, ",") {
		if len(name) < 2 || name[0] != '-' && name[0] != '+' {
			return fmt.Errorf("option %q", name)
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

// kindAt is the kind of operand i of n.
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
