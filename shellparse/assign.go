package shellparse

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// assign gives a variable a value, and reports which effect the value has on programs.
func (w *walker) assign(sc *scope, name string, v value, at Pos) {
	w.sets(name)
	w.noteText(name, v)
	if neverSet(name) || w.frozen[name] {
		w.mayAbort(surely, sc)
	}
	sc.set(name, v)
	if w.references || program.SetByShell(name) || w.frozen[name] {
		sc.doubt(name)
	}
	if w.refs[name] {
		w.refer(oneWord(v, at), at) // a loop over a reference gives it other names
	}
	if name == "IFS" {
		sc.ifs = len(v.words) != 1 || v.words[0].Text != " \t\n"
	}
	for _, f := range v.words {
		w.noteSuspect(f)
	}
	if strings.Contains(numbers, " "+name+" ") {
		w.evaluates(at) // an integer variable evaluates the value
	}
	if sc.isExported(name) || program.Live(name) {
		w.exports(Assign{Name: name, Value: oneWord(v, at)}, sc, at)
	}
}

// isName reports whether text may be the name of a variable.
func isName(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > 'z' || !program.IsWordByte(byte(r)) })
}

// variableOf returns the variable that a name denotes, which may have an index.
func variableOf(name string) string {
	name, _, _ = strings.Cut(name, "[")
	return name
}

func oneWord(v value, at Pos) Word {
	if len(v.words) == 1 {
		return wordOf(v.words[0])
	}
	return Word{At: at}
}

// unknownValue notes that a variable has an unknown value.
func (w *walker) unknownValue(sc *scope, name string, at Pos) {
	w.sets(name)
	w.noteText(name, value{})
	if neverSet(name) || w.frozen[name] {
		w.mayAbort(surely, sc)
	}
	sc.forget(name)
	if name == "IFS" {
		sc.ifs = true
	}
	if strings.Contains(numbers, " "+name+" ") {
		w.evaluates(at)
	}
	if sc.isExported(name) || program.Live(name) {
		w.environment(Assign{Name: name, Value: Word{At: at}}, "", at)
	}
}

// refer judges the name to which a reference (declare -n) points. Whatever is later assigned to the reference is
// assigned to that name, and bash may run it.
func (w *walker) refer(to Word, at Pos) {
	name := variableOf(to.Text)
	if to.Known && !program.Live(name) && !program.Hijacks(name) {
		return
	}
	message := "a reference to a name that is only known when it runs"
	if to.Known {
		message = fmt.Sprintf("a reference to %s, which decides which code programs run", name)
	}
	w.opaque(Opaque{Code: "environment", Message: message, Hint: "use the variable by its own name", At: at})
}

// reference notes that a name stands for another variable.
func (w *walker) reference(name string) {
	if w.refs == nil {
		w.refs = map[string]bool{}
	}
	w.refs[name] = true
}

// freeze notes that a name may be readonly from here on, so that later assignments may fail.
func (w *walker) freeze(name string) {
	if w.frozen == nil {
		w.frozen = map[string]bool{}
	}
	w.frozen[name] = true
}

// noteSuspect remembers text that arithmetic and some builtins would execute.
func (w *walker) noteSuspect(f program.Word) {
	if w.suspect == nil && (f.Code || f.Known && codeInIndex(f.Text)) {
		at := f.At
		w.suspect = &at
	}
}

// codeInIndex reports whether text holds a substitution inside an array index,
// which bash runs when it takes the text for a variable name or a number.
func codeInIndex(s string) bool {
	i := strings.IndexByte(s, '[')
	return i >= 0 && (strings.Contains(s[i:], "$(") || strings.Contains(s[i:], "${") || strings.Contains(s[i:], "`"))
}

// assigns evaluates NAME=value before a command. Later values can use the earlier ones.
func (w *walker) assigns(list []*syntax.Assign, sc *scope) []assignment {
	var out []assignment
	var was bindings
	if len(list) > 1 {
		was = slices.Clone(sc.vars)
	}
	for i, a := range list {
		if one := w.assignment(a, sc); one.name != "" {
			out = append(out, one)
			if i+1 < len(list) {
				w.noteText(one.name, one.value)
				sc.set(one.name, one.value)
				if !one.known {
					sc.forget(one.name)
				}
			}
		}
	}
	for i, a := range out {
		if i+1 == len(list) {
			break
		}
		if before, had := was.get(a.name); had {
			sc.set(a.name, before)
		} else {
			sc.forget(a.name)
		}
	}
	return out
}

type assignment struct {
	name  string
	value value
	known bool
	parts bool // the value is unknown; the words in it are the parts that are known
	at    Pos
	src   string
}

// assignment evaluates NAME=value. Without a name it assigns nothing.
func (w *walker) assignment(a *syntax.Assign, sc *scope) assignment {
	if a.Name == nil {
		if a.Value != nil {
			w.single(a.Value, sc)
		}
		return assignment{}
	}
	out := assignment{name: a.Name.Value, at: w.pos(a), src: w.source(a)}
	if !isName(out.name) { // \x=[ y is a command to bash, with x=[ as its program
		w.fail(&Error{
			Code: "parser_difference", Msg: "an assignment to what is no name",
			Hint: "quote the whole name of the program, or write a plain name", At: out.at,
		})
	}
	if a.Index != nil {
		w.number(a.Index, sc)
		w.subscript(a.Index, sc)
		if _, literal := a.Index.(*syntax.Word); !literal {
			w.mayAbort(surely, sc) // no element has such a number
		}
	}
	if value, ok := a.Index.(*syntax.Word); ok && out.name == "BASH_CMDS" { // where bash finds a program
		if f := w.single(a.Value, sc); strings.Contains(f.Lit(), "/") {
			w.names(w.single(value, sc).Text, f.Text)
		}
	}
	if a.Array != nil {
		out.value.array, out.known = true, !a.Append
		if end := int(a.Array.End().Offset()); end < len(w.src) &&
			strings.IndexByte(" \t\n;&|()<>`\\", w.src[end]) < 0 {
			w.fail(&Error{
				Code: "parser_difference", Msg: "text right behind a list in brackets",
				Hint: "put a blank behind it", At: w.pos(a),
			})
		}
		for _, el := range a.Array.Elems {
			if el.Index != nil {
				w.number(el.Index, sc)
				w.subscript(el.Index, sc)
				out.known = false
			}
			if el.Value != nil {
				out.value.words = append(out.value.words, w.fields([]*syntax.Word{el.Value}, sc, false)...)
			}
		}
		for _, f := range out.value.words {
			out.known = out.known && !f.Many
		}
		if a.Append {
			if old, ok := sc.vars.get(out.name); ok && old.array && out.allKnown() {
				out.value.words = append(append([]program.Word(nil), old.words...), out.value.words...)
				out.known = true
			}
		}
		return out
	}
	f := program.Word{Known: true, At: out.at}
	if a.Value != nil {
		f = w.assignValue(a.Value, sc)
	}
	out.known = f.Known && a.Index == nil
	if a.Append {
		old, ok := sc.vars.get(out.name)
		out.known = out.known && ok && len(old.words) == 1 && old.words[0].Known && !old.words[0].Glob && !f.Glob
		if out.known {
			w.grow(len(old.words[0].Text))
			f.Text = old.words[0].Text + f.Text
		}
	}
	out.parts = !f.Known && !a.Append && a.Index == nil && strings.Trim(f.Skeleton, "_") != ""
	out.value.words = []program.Word{f}
	return out
}

func (a assignment) allKnown() bool {
	for _, f := range a.value.words {
		if f.Many {
			return false
		}
	}
	return true
}

// assignValue expands ~ also after each colon of an unquoted value, or of <<< word.
func (w *walker) assignValue(word *syntax.Word, sc *scope) program.Word {
	f := w.single(word, sc)
	if f.Glob && program.LivePattern(f.Pat) && !hasExpansion(word) {
		// An assignment expands no names of files: the value is the text itself.
		f.Glob, f.Pat = false, ""
	}
	for _, p := range word.Parts {
		if l, ok := p.(*syntax.Lit); ok && strings.Contains(l.Value, ":~") {
			f.Known = false
		}
	}
	return f
}

func hasExpansion(word *syntax.Word) bool {
	for _, p := range word.Parts {
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if hasExpansion(&syntax.Word{Parts: p.Parts}) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// apply makes an assignment. An unknown value makes the variable unknown, and commands that use it are refused where
// that matters. The known words of the value stay in the variable, so that a path or an option in them is still
// found.
func (w *walker) apply(a assignment, sc *scope) {
	if a.known {
		w.assign(sc, a.name, a.value, a.at)
		return
	}
	for _, f := range a.value.words {
		w.noteSuspect(f)
	}
	if a.name == "PATH" && (strings.Contains(a.src, "$PATH") || strings.Contains(a.src, "${PATH}")) {
		sc.forget(a.name)
		w.sets(a.name)
		if !program.KeepsPath(a.src) {
			// From now on a name may find a program in another directory. Only the list of allowed commands depends
			// on that, so only that list refuses the line.
			w.opaque(Opaque{
				Code: "path_extended", Message: "PATH is extended, so that names may be other programs",
				Hint: "call the program by its path", At: a.at, CommandsOnly: true,
			})
		}
		return
	}
	w.unknownValue(sc, a.name, a.at)
	switch {
	case a.parts && !w.references:
		sc.set(a.name, a.value)
	case len(a.value.words) > 0:
		sc.set(a.name, a.value)
		sc.doubt(a.name) // it may have more words, but an option among the known ones counts
	}
}
