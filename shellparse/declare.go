package shellparse

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// declClause walks export, declare, local, readonly and typeset.
func (w *walker) declClause(c *syntax.DeclClause, sc *scope) {
	name := c.Variant.Value
	cmd := Command{Name: name, Path: name, Via: w.via, At: w.pos(c.Variant), Dir: sc.dir()}
	d := w.newDeclaration(name)
	defer func() { w.handsDown = w.handsDown || d.functions && d.exports }()
	// The shell expands all words before it assigns any of them.
	words, made := make([]program.Word, len(c.Args)), make([]assignment, len(c.Args))
	for i, a := range c.Args {
		if a.Value != nil && len(w.braces(a.Value)) > 1 {
			// Bash expands them first, so that it sees several words, and the last one counts.
			w.fail(&Error{
				Code: "parser_difference", Msg: "a list in braces in the words of " + name,
				Hint: "quote it, or write the words out", At: w.pos(a),
			})
		}
		switch {
		case a.Name == nil:
			words[i] = w.single(a.Value, sc)
		case !a.Naked:
			made[i] = w.assignment(a, sc)
			before := func(m assignment) bool { return m.name == a.Name.Value }
			if a.Append && slices.ContainsFunc(made[:i], before) { // it is appended to what that assignment gives
				made[i].value, made[i].known, made[i].parts = value{}, false, false
			}
		}
	}
	for i, a := range c.Args {
		if a.Name == nil {
			cmd.Args = append(cmd.Args, wordOf(words[i]))
			w.declOption(&d, words[i], sc)
			continue
		}
		if a.Naked {
			if a.Index != nil {
				w.arithm(a.Index, sc)
			}
			cmd.Args = append(cmd.Args, Word{Text: a.Name.Value, Known: true, At: w.pos(a)})
			if name == "local" || name == "declare" || name == "typeset" {
				w.localName(sc, a.Name.Value)
			}
			if d.exports && !d.functions {
				w.exportVar(sc, a.Name.Value, w.pos(a))
			}
			w.declared1(sc, &d, a.Name.Value, nil, w.pos(a))
			continue
		}
		as := made[i]
		if f := oneWord(as.value, as.at); !as.value.array && strings.HasPrefix(f.Text, "(") {
			as.known = false // it may be a list, also in quotes
		}
		cmd.Args = append(cmd.Args, Word{Text: as.src, Known: as.known, At: as.at})
		if d.exports {
			sc.exported(as.name)
		}
		if name != "export" && name != "readonly" {
			sc.locals = append(sc.locals, as.name)
			w.noteUnset(as.name)
		}
		w.apply(as, sc)
		to := oneWord(as.value, as.at)
		w.declared1(sc, &d, as.name, &to, as.at)
		if d.mayFail {
			sc.doubt(as.name)
		}
	}
	w.emit(cmd)
}

// localName notes a name that a function declares without a value. It then has no value, or the one that the
// function gave it before.
func (w *walker) localName(sc *scope, name string) {
	sc.locals = append(sc.locals, name)
	w.noteUnset(name)
	if len(w.calls) > 0 {
		sc.forget(name)
	}
}

// declaration holds what the options of export, declare, local, readonly and typeset mean.
type declaration struct {
	name      string
	exports   bool
	functions bool
	reference bool
	readonly  bool // later assignments may fail
	mayFail   bool // if it fails, earlier values stay
	options   bool // there are options, or may be
}

func (w *walker) newDeclaration(name string) declaration {
	// Outside of a function local fails. A text in a text may be outside of one.
	return declaration{
		name: name, exports: name == "export", readonly: name == "readonly",
		mayFail: name == "local" && (len(w.calls) == 0 || w.nested > 0),
	}
}

// declared1 notes what a declaration makes of a name. to is its value, or nil.
func (w *walker) declared1(sc *scope, d *declaration, name string, to *Word, at Pos) {
	if d.reference {
		if to == nil {
			to = &Word{At: at} // the name points to whatever is assigned first
		}
		w.refer(*to, at)
		w.reference(name)
	}
	if d.readonly {
		w.freeze(name)
	}
	switch {
	case d.name == "export" && !d.options:
		sc.hands(name)
	case d.name != "readonly":
		sc.withhold(name) // +x and -n take the export back, and a local variable goes
	}
}

func (w *walker) declOption(d *declaration, f program.Word, sc *scope) {
	text, name := f.Lit(), d.name
	switch {
	case f.Code || f.Known && (codeInIndex(f.Text) || compound(f.Text)) || compound(f.Skeleton):
		w.opaque(Opaque{
			Code:    "dynamic_eval",
			Message: fmt.Sprintf("%s executes the index or the list in %s", name, f.Text), At: f.At,
		})
	case text == "":
		d.options = true
		// The word may name any variable and give it any attribute, also that of an integer.
		w.evaluates(f.At)
		w.references = true
		w.noteUnset("")
		sc.forgetAll()
		// In the source an underscore can be told from an unknown character.
		if variable, _, ok := strings.Cut(strings.TrimLeft(f.Text, `"`), "="); d.reference {
			w.refer(Word{}, f.At)
		} else if ok && isName(variable) {
			w.unknownValue(sc, variable, f.At)
		} else {
			w.opaque(Opaque{
				Code:    "environment",
				Message: name + " sets a variable that is only known when it runs: " + f.Text,
				Hint:    "name the variable", At: f.At, CommandsOnly: true,
			})
		}
	case text[0] == '+':
		d.mayFail = d.mayFail || strings.Trim(text[1:], "aAgilrtuxcn") != ""
	case text[0] == '-':
		d.options = true
		if strings.Contains(text, "x") {
			d.exports = true
		}
		if strings.ContainsAny(text, "fF") {
			d.functions = true
		}
		d.reference = d.reference || strings.Contains(text, "n") && name != "export" && name != "readonly"
		integer := strings.Contains(text, "i") // whatever is assigned, the value becomes a number
		d.readonly = d.readonly || strings.Contains(text, "r") || integer
		d.mayFail = d.mayFail || integer || strings.Trim(text[1:], "aAgilrtuxcnI-") != ""
		if strings.ContainsAny(text, "in") && name != "export" {
			w.evaluates(f.At) // an integer evaluates its value, a reference its name
		}
		if strings.ContainsAny(text, "nluc") && name != "export" {
			// A name points elsewhere, or a value changes when it is set: nothing can be tracked any more.
			w.references = true
			sc.forgetAll()
		}
	default:
		if name != "export" && name != "readonly" {
			name, _, _ := strings.Cut(text, "=")
			sc.locals = append(sc.locals, variableOf(name))
			w.noteUnset(variableOf(name))
		}
		n, v, ok := strings.Cut(text, "=")
		// What is assigned is a part of the value, or a list.
		part := strings.HasSuffix(n, "+") || strings.Contains(n, "[") || strings.HasPrefix(v, "(")
		n = variableOf(strings.TrimSuffix(n, "+"))
		if !ok {
			if name != "export" && name != "readonly" {
				w.localName(sc, n)
			}
			w.declared1(sc, d, n, nil, f.At)
			break
		}
		if d.exports {
			sc.exported(n)
		}
		if part {
			w.noteSuspect(f)
			w.unknownValue(sc, n, f.At)
		} else {
			w.assign(sc, n, value{words: []program.Word{program.Literal(v, f.At)}}, f.At)
		}
		w.declared1(sc, d, n, &Word{Text: v, Known: true, At: f.At}, f.At)
		if d.mayFail {
			sc.doubt(n)
		}
	}
}

// compound reports whether text is NAME=(…) with something to expand inside. declare itself expands a list that
// stands in quotes.
func compound(text string) bool {
	_, v, ok := strings.Cut(text, "=(")
	return ok && strings.ContainsAny(v, "$`")
}

func (w *walker) exportVar(sc *scope, name string, at Pos) {
	sc.exported(name)
	if v, ok := sc.vars.get(name); ok {
		w.exports(Assign{Name: name, Value: oneWord(v, at)}, sc, at)
	}
}

func (s *scope) dir() string {
	if len(s.dirs) == 1 {
		return s.dirs[0].path
	}
	return ""
}

// known returns positional parameters, or nil where nobody can tell which is which.
func known(fs []program.Word) []program.Word {
	out := append([]program.Word{}, fs...)
	for _, f := range fs {
		if f.Many {
			return nil
		}
	}
	return out
}

// setsArgs notes that positional parameters have values that are not known, and not because of variables from outside.
func (w *walker) setsArgs(words []program.Word) {
	if !slices.ContainsFunc(words, func(f program.Word) bool { return !f.Known && !w.outside(f) }) {
		return
	}
	for _, name := range strings.Fields("@ * 1 2 3 4 5 6 7 8 9") {
		w.sets(name)
	}
}

// noName notes that read, or mapfile, sets the variable that it takes where none is named.
func (a *act) noName() {
	for _, name := range []string{"REPLY", "MAPFILE"} {
		a.sc.forget(name)
		a.w.sets(name)
	}
}
