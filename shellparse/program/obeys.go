package program

import (
	"fmt"
	"strings"
	"sync"
)

// Obeys is what a program executes although no word of its command names it.
type Obeys struct {
	// First are lists of names. Of each list it executes the first that exists in its
	// directory. A name that begins with ^ may also lie in a directory above.
	First [][]string
	Runs  []string // what else, where no table can name the files
}

// obeys holds the table, read when it is first asked for; see programs.
var obeys struct {
	once  sync.Once
	table map[string]*Obeys
}

// Knows reports whether a table has a program: what [LooksFor] says without a look at what it executes.
func Knows(name, sub string) bool {
	if builtins[name] || find(name) != nil {
		return true
	}
	_, known := LooksFor(name, sub)
	return known
}

// LooksFor returns what a program looks for by itself, with this subcommand or "". known is
// false for a program that no table has: nobody can tell then.
func LooksFor(name, sub string) (o Obeys, known bool) {
	obeys.once.Do(func() {
		text, err := tables.ReadFile("tables/obeys.txt")
		if err == nil {
			obeys.table, err = readObeys(string(text))
		}
		if err != nil {
			panic("cannot happen, a test reads the table: " + err.Error())
		}
	})
	for _, name := range []string{name, strings.TrimRight(name, "0123456789.-")} { // as find
		for _, key := range []string{name, name + " " + sub, name + " *"} {
			facts := obeys.table[key]
			if facts == nil || sub == "" && key != name {
				continue
			}
			known = true
			o.First, o.Runs = append(o.First, facts.First...), append(o.Runs, facts.Runs...)
			if key != name {
				break // a subcommand is none of the others
			}
		}
		if known {
			return o, true
		}
	}
	return o, builtins[name] || find(name) != nil
}

// readObeys reads the table. An error begins with the number of the line.
func readObeys(text string) (map[string]*Obeys, error) {
	table := map[string]*Obeys{}
	var entry *Obeys
	facts := false // the entry has some: no name may follow
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		fact, indented := strings.CutPrefix(line, "\t")
		kind, rest, _ := strings.Cut(fact, " ")
		switch {
		case line == "":
			entry = nil
		case line[0] == '#':
		case !indented:
			if entry == nil {
				entry, facts = &Obeys{}, false
			}
			for name := range strings.SplitSeq(strings.TrimSuffix(line, ","), ", ") {
				if facts || name == "" || strings.TrimSpace(name) != name || table[name] != nil {
					return nil, fmt.Errorf("%d: %q is no name, or stands there twice", n, name)
				}
				table[name] = entry
			}
		case entry == nil || rest == "":
			return nil, fmt.Errorf("%d: %q belongs to no program, or says nothing", n, fact)
		case kind == "first":
			entry.First, facts = append(entry.First, strings.Fields(rest)), true
		case kind == "runs":
			entry.Runs, facts = append(entry.Runs, rest), true
		default:
			return nil, fmt.Errorf("%d: %q is no fact", n, fact)
		}
	}
	return table, nil
}
