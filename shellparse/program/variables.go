package program

import (
	"fmt"
	"strings"
	"sync"
)

// class is what is known of a variable.
type class byte

const (
	live     class = 1 << iota // a shell reads it itself, exported or not
	ofBash                     // bash sets it by itself, or nobody can set it
	runsIt                     // a program executes or loads its value
	harmless                   // an exception to the parts of names that say so
	writesIt                   // a program writes the file that it names
)

var classes = map[string]class{
	"live": live, "bash": ofBash, "runs": runsIt, "harmless": harmless,
	"writes": writesIt,
}

// variableTable is what tables/variables.txt says.
type variableTable struct {
	names map[string]class
	parts []string // of names of variables whose value a program executes or loads
}

var variables = sync.OnceValue(func() *variableTable {
	text, err := tables.ReadFile("tables/variables.txt")
	if err == nil {
		var t *variableTable
		if t, err = readVariables(string(text)); err == nil {
			return t
		}
	}
	panic("cannot happen, a test reads the table: " + err.Error())
})

// readVariables reads a table of variables, a line for each.
func readVariables(text string) (*variableTable, error) {
	t := &variableTable{names: map[string]class{}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		name := words[0]
		if part, ok := strings.CutPrefix(name, "*"); ok {
			part, ok = strings.CutSuffix(part, "*")
			if !ok || part == "" || len(words) != 2 || classes[words[1]] != runsIt {
				return nil, fmt.Errorf("variables: line %q", line)
			}
			t.parts = append(t.parts, part)
			continue
		}
		if t.names[name] != 0 || len(words) == 1 {
			return nil, fmt.Errorf("variables: %s stands there twice, or without a class", name)
		}
		for _, word := range words[1:] {
			if classes[word] == 0 {
				return nil, fmt.Errorf("variables: %s: %q is no class", name, word)
			}
			t.names[name] |= classes[word]
		}
	}
	return t, nil
}

// isVariable reports whether a variable is of a class.
func isVariable(name string, c class) bool { return variables().names[name]&c != 0 }

// Live reports whether bash reads a variable itself, exported or not.
func Live(name string) bool { return isVariable(name, live) }

// SetByShell reports whether bash sets a variable by itself, or nobody can set it.
func SetByShell(name string) bool { return isVariable(name, ofBash) }

// Output returns the file that a program writes because a variable has this value, "" for none.
func Output(name, value string) string {
	if !isVariable(name, writesIt) {
		return ""
	}
	value, _, _ = strings.Cut(value, " ") // DEPENDENCIES_OUTPUT=FILE TARGET
	if strings.HasPrefix(name, "GIT_TRACE") && !strings.HasPrefix(value, "/") {
		return "" // on or off, or a descriptor
	}
	return value
}

// Hijacks reports whether a variable decides what a program executes.
func Hijacks(name string) bool {
	if isVariable(name, runsIt) {
		return true
	}
	upper := strings.ToUpper(name)
	if isVariable(upper, harmless) {
		return false
	}
	for _, part := range variables().parts {
		if strings.Contains(upper, part) {
			return true
		}
	}
	return false
}
