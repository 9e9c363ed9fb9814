package shellparse

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// assign gives a variable a value and reports what the value does to programs.
func (w *walker) assign(sc *scope, name string, v value, at Pos) {
	if w.references {
		sc.forget(name)
	} else {
		sc.set(name, v)
	}
	if name == "IFS" {
		sc.ifs = len(v.words) != 1 || v.words[0].text != " \t\n"
	}
	for _, f := range v.words {
		w.noteSuspect(f)
	}
	if strings.Contains(numbers, " "+name+" ") {
		w.evaluates(at) // such a variable takes a number
	}
	if sc.isExported(name) || alwaysLive(name) {
		w.environment(Assign{Name: name, Value: oneWord(v, at)}, "", at)
	}
}

func oneWord(v value, at Pos) Word {
	if len(v.words) == 1 {
		return v.words[0].word()
	}
	return Word{At: at}
}

// unknownValue marks a variable as set to something that is not known.
func (w *walker) unknownValue(sc *scope, name string, at Pos) {
	sc.forget(name)
	if name == "IFS" {
		sc.ifs = true
	}
	if strings.Contains(numbers, " "+name+" ") {
		w.evaluates(at)
	}
	if sc.isExported(name) || alwaysLive(name) {
		w.environment(Assign{Name: name, Value: Word{At: at}}, "", at)
	}
}

// noteSuspect remembers text that arithmetic and some builtins would execute.
func (w *walker) noteSuspect(f field) {
	if w.suspect == nil && (f.code || f.known && codeInIndex(f.text)) {
		at := f.at
		w.suspect = &at
	}
}

// codeInIndex reports whether text holds a substitution inside an array index,
// which bash runs when it takes the text for a variable name or a number.
func codeInIndex(s string) bool {
	i := strings.IndexByte(s, '[')
	return i >= 0 && (strings.Contains(s[i:], "$(") || strings.Contains(s[i:], "${") || strings.Contains(s[i:], "`"))
}

// assigns evaluates NAME=value in front of a command, or alone.
func (w *walker) assigns(list []*syntax.Assign, sc *scope) []assignment {
	var out []assignment
	for _, a := range list {
		if a.Name == nil {
			if a.Value != nil {
				w.single(a.Value, sc)
			}
			continue
		}
		out = append(out, w.assignment(a, sc))
	}
	return out
}

type assignment struct {
	name  string
	value value
	known bool
	parts bool // not known, but the words in value say what of it is
	at    Pos
	src   string
}

func (w *walker) assignment(a *syntax.Assign, sc *scope) assignment {
	out := assignment{name: a.Name.Value, at: w.pos(a), src: w.source(a)}
	if a.Index != nil {
		w.arithm(a.Index, sc)
		w.subscript(a.Index, sc)
	}
	if a.Array != nil {
		out.value.array, out.known = true, !a.Append
		for _, el := range a.Array.Elems {
			if el.Index != nil {
				w.arithm(el.Index, sc)
				w.subscript(el.Index, sc)
				out.known = false
			}
			if el.Value != nil {
				out.value.words = append(out.value.words, w.fields([]*syntax.Word{el.Value}, sc)...)
			}
		}
		for _, f := range out.value.words {
			out.known = out.known && !f.many
		}
		if a.Append {
			if old, ok := sc.vars.get(out.name); ok && old.array && out.allKnown() {
				out.value.words = append(append([]field(nil), old.words...), out.value.words...)
				out.known = true
			}
		}
		return out
	}
	f := field{known: true, at: out.at}
	if a.Value != nil {
		f = w.assignValue(a.Value, sc)
	}
	out.known = f.known && a.Index == nil
	if a.Append {
		old, ok := sc.vars.get(out.name)
		out.known = out.known && ok && len(old.words) == 1 && old.words[0].known && !old.words[0].glob && !f.glob
		if out.known {
			w.grow(len(old.words[0].text))
			f.text = old.words[0].text + f.text
		}
	}
	out.parts = !f.known && !a.Append && a.Index == nil && strings.Trim(f.skeleton, "_") != ""
	out.value.words = []field{f}
	return out
}

func (a assignment) allKnown() bool {
	for _, f := range a.value.words {
		if f.many {
			return false
		}
	}
	return true
}

// assignValue expands ~ also after each colon of an unquoted value.
func (w *walker) assignValue(word *syntax.Word, sc *scope) field {
	f := w.single(word, sc)
	if f.glob && livePattern(f.pat) && !hasExpansion(word) {
		// No name is expanded in an assignment: the value is the text itself.
		f.glob, f.pat = false, ""
	}
	for _, p := range word.Parts {
		if l, ok := p.(*syntax.Lit); ok && strings.Contains(l.Value, ":~") {
			f.known = false
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
		if !keepsPath(a.src) {
			// Names may be found in more places now; only a list of allowed names
			// rests on where they are found.
			w.opaque(Opaque{Code: "path_extended", Message: "PATH is extended, so that names may be other programs", Hint: "call the program by its path", At: a.at, CommandsOnly: true})
		}
		return
	}
	w.unknownValue(sc, a.name, a.at)
	if a.parts && !w.references {
		sc.set(a.name, a.value)
	}
}

// declClause is export, declare, local, readonly and typeset.
func (w *walker) declClause(c *syntax.DeclClause, sc *scope) {
	name := c.Variant.Value
	cmd := Command{Name: name, Path: name, Via: w.via, At: w.pos(c.Variant), Dir: sc.dir()}
	exports, functions := name == "export", false
	for _, a := range c.Args {
		if a.Name == nil {
			f := w.single(a.Value, sc)
			cmd.Args = append(cmd.Args, f.word())
			w.declOption(name, f, &exports, &functions, sc)
			continue
		}
		if a.Naked {
			if a.Index != nil {
				w.arithm(a.Index, sc)
			}
			cmd.Args = append(cmd.Args, Word{Text: a.Name.Value, Known: true, At: w.pos(a)})
			if name == "local" || name == "declare" || name == "typeset" {
				sc.locals = append(sc.locals, a.Name.Value)
			}
			if exports && !functions {
				w.exportVar(sc, a.Name.Value, w.pos(a))
			}
			continue
		}
		as := w.assignment(a, sc)
		cmd.Args = append(cmd.Args, Word{Text: as.src, Known: as.known, At: as.at})
		if exports {
			sc.exported(as.name)
		}
		if name != "export" && name != "readonly" {
			sc.locals = append(sc.locals, as.name)
		}
		w.apply(as, sc)
	}
	w.emit(cmd)
}

func (w *walker) declOption(name string, f field, exports, functions *bool, sc *scope) {
	text := f.lit()
	switch {
	case f.code || f.known && (codeInIndex(f.text) || compound(f.text)) || compound(f.skeleton):
		w.opaque(Opaque{Code: "dynamic_eval", Message: fmt.Sprintf("%s executes the index or the list in %s", name, f.text), At: f.at})
	case text == "":
		// It may name any variable, and give it any attribute: a number, too.
		w.evaluates(f.at)
		w.references = true
		sc.forgetAll()
	case text[0] == '-':
		if strings.Contains(text, "x") {
			*exports = true
		}
		if strings.ContainsAny(text, "fF") {
			*functions = true
		}
		if strings.ContainsAny(text, "in") && name != "export" {
			w.evaluates(f.at) // the value of an integer, the name in a reference
		}
		if strings.ContainsAny(text, "nluc") && name != "export" {
			// A name means another, or a value is changed when it is set: nothing
			// can be tracked.
			w.references = true
			sc.forgetAll()
		}
	default:
		if name != "export" && name != "readonly" {
			sc.locals = append(sc.locals, before(before(text, "="), "["))
		}
		if n, v, ok := strings.Cut(text, "="); ok {
			if *exports {
				sc.exported(n)
			}
			w.assign(sc, before(n, "["), value{words: []field{literal(v, f.at)}}, f.at)
		}
	}
}

// compound reports whether text is NAME=(…) with something in it to expand: a
// list in quotes is expanded by declare itself.
func compound(text string) bool {
	_, v, ok := strings.Cut(text, "=(")
	return ok && strings.ContainsAny(v, "$`")
}

func (w *walker) exportVar(sc *scope, name string, at Pos) {
	sc.exported(name)
	if v, ok := sc.vars.get(name); ok {
		w.environment(Assign{Name: name, Value: oneWord(v, at)}, "", at)
	}
}

func (s *scope) dir() string {
	if len(s.dirs) == 1 {
		return s.dirs[0].path
	}
	return ""
}
