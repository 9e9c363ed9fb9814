package shellparse

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// scope is what is known at one place of the program: values, functions and the
// working directory. A branch gets a copy; where branches meet, only what they
// agree on stays known.
type scope struct {
	vars  bindings
	funcs map[string]function
	args  []program.Word // positional parameters; nil if unknown
	zero  []program.Word // $0, likewise
	dirs  []workdir
	// failed are the directories in which the shell may be if the last cd failed.
	failed []workdir
	export []string // what may be exported, beside what every shell exports
	handed []string // what certainly is
	locals []string // names that belong to the function that is being followed
	// function is where return leads; it is nil outside of a function. loops is where break and continue may lead.
	function *jumps
	loops    []*jumps
	outer    []string // names that belong to the functions that have called it
	apart    bool     // the scope of a shell of its own: when that ends, the line goes on
	errexit,
	ifs bool // IFS was changed, so nobody knows how words split
	// physical is true if the shell may know its directory without the links by which it came: then ".." leaves what
	// a link leads to.
	physical bool
	changed  bool // a variable was set, or may have been
	wild     bool // any variable may have got a value that is not known
	shared   bool // another scope has the same vars: copy before a change
}

// workdir is a directory the shell may be in.
type workdir struct {
	path    string // "" if it cannot be known
	missing string // set only if this directory does not exist
}

// value of a variable: one word, or the words of an array. One that is not
// tracked is unknown.
type value struct {
	words []program.Word
	array bool
}

type function struct {
	body  *syntax.Stmt
	maybe bool // only some of the ways to this place define it
}

const maxDirs = 8

// clone is cheap, since most branches change nothing: lists that are only ever
// appended to or replaced are shared.
func (s *scope) clone() *scope {
	c := new(scope)
	s.cloneTo(c)
	return c
}

func (s *scope) cloneTo(c *scope) {
	s.failed, s.export, s.locals = slices.Clip(s.failed), slices.Clip(s.export), slices.Clip(s.locals)
	s.handed, s.shared = slices.Clip(s.handed), true
	*c = *s
	c.funcs = maps.Clone(s.funcs)
}

// borrow is clone, in the memory of a scope that was given back. A text needs many.
func (w *walker) borrow(s *scope) *scope {
	n := len(w.spare) - 1
	if n < 0 {
		return s.clone()
	}
	c := w.spare[n]
	w.spare = w.spare[:n]
	s.cloneTo(c)
	return c
}

// giveBack ends a borrowed scope. Nothing may point to it any more: a scope that is kept for later is a clone.
func (w *walker) giveBack(s *scope) {
	*s = scope{}
	w.spare = append(w.spare, s)
}

// own gives this scope its own copy of vars.
func (s *scope) own() {
	if s.shared {
		s.vars, s.shared = slices.Clone(s.vars), false
	}
}

// merge keeps what s and o agree on: either may be how the program got here.
func (s *scope) merge(o *scope) {
	if !sameList(s.vars, o.vars) {
		s.own()
		s.vars = eitherOf(s.vars, o.vars)
	}
	for name, f := range s.funcs {
		if g, ok := o.funcs[name]; !ok || g.body != f.body {
			f.maybe = true
			s.funcs[name] = f
		}
	}
	for name, g := range o.funcs {
		if f, ok := s.funcs[name]; !ok || f.body != g.body {
			g.maybe = true
			if !ok {
				s.setFunc(name, g)
			}
		}
	}
	if !sameList(s.export, o.export) {
		for _, name := range o.export {
			s.exported(name)
		}
	}
	if !sameList(s.handed, o.handed) {
		s.handed = slices.DeleteFunc(slices.Clone(s.handed), func(name string) bool {
			return !slices.Contains(o.handed, name)
		})
	}
	if !slices.EqualFunc(s.args, o.args, sameField) || (s.args == nil) != (o.args == nil) {
		s.args = nil
	}
	s.ifs = s.ifs || o.ifs
	s.changed = s.changed || o.changed
	s.wild = s.wild || o.wild
	s.physical = s.physical || o.physical
	s.errexit = s.errexit && o.errexit
	s.dirs = union(s.dirs, o.dirs)
	s.failed = union(s.failed, o.failed)
}

// eitherOf returns what is known of the variables after two branches: those with equal values, and of the others the
// options that they may hold.
func eitherOf(a, b bindings) bindings {
	other, have := b.index(), a.index()
	out := make(bindings, 0, len(a))
	for _, v := range a {
		i, ok := other[v.name]
		switch {
		case ok && v.value.equal(b[i].value):
			out = append(out, v)
		case ok:
			out = out.doubt(v.name, v.value, b[i].value)
		default:
			out = out.doubt(v.name, v.value)
		}
	}
	for _, v := range b {
		if _, ok := have[v.name]; !ok {
			out = out.doubt(v.name, v.value)
		}
	}
	return out
}

// doubt adds a variable that has one of these values, or another. It counts as unknown, but options among the values
// are found, because find and its like run what they name.
func (b bindings) doubt(name string, values ...value) bindings {
	var parts []string
	var at Pos
	doubtful := value{}
	for _, v := range values {
		doubtful.array = doubtful.array || v.array
		for _, f := range v.words {
			part := f.Skeleton
			if part == "" {
				part = f.Lit()
			}
			parts = append(parts, part)
			at = f.At
		}
	}
	if len(b) >= maxVars || !slices.ContainsFunc(parts, hasOption) {
		return b
	}
	// The text around the parts is unknown, and may be empty.
	whole := program.Word{Text: name, Skeleton: "_ " + strings.Join(parts, " ") + " _", At: at}
	doubtful.words = []program.Word{whole}
	return append(b, binding{name, doubtful})
}

func hasOption(text string) bool {
	return slices.ContainsFunc(strings.Fields(text), func(word string) bool { return word[0] == '-' && len(word) > 1 })
}

// sameList reports whether neither branch has changed what they share.
func sameList[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// settle ends a statement: what follows may run after a failed cd.
func (s *scope) settle() {
	if s.failed != nil {
		s.dirs, s.failed = union(s.dirs, s.failed), nil
		s.forgetPlace()
	}
}

// swap exchanges what holds after success and after failure.
func (s *scope) swap() {
	if s.failed != nil {
		s.dirs, s.failed = s.failed, s.dirs
		s.forgetPlace()
	}
}

// nowhere notes that the shell may be anywhere.
func (s *scope) nowhere() {
	s.dirs, s.failed = []workdir{{}}, nil
	s.forgetPlace()
}

func (s *scope) forgetPlace() {
	s.forget("PWD")
	s.forget("OLDPWD")
}

// forgetAll handles a change that may be to any variable.
func (s *scope) forgetAll() {
	s.vars, s.handed, s.shared, s.changed, s.wild = nil, nil, false, true, true
}

func (s *scope) set(name string, v value) {
	s.changed = true
	s.own()
	for i := range s.vars {
		if s.vars[i].name == name {
			s.vars[i].value = v
			return
		}
	}
	if len(s.vars) < maxVars {
		s.vars = append(s.vars, binding{name, v})
	}
}

func (s *scope) forget(name string) {
	s.changed = true
	s.own()
	s.vars = slices.DeleteFunc(s.vars, func(b binding) bool { return b.name == name })
}

// doubt notes that a value may be missing, because the assignment may fail.
func (s *scope) doubt(name string) {
	v, ok := s.vars.get(name)
	s.forget(name)
	if ok {
		s.vars = s.vars.doubt(name, v)
	}
}

// bindings is a list, because there are few: a list is smaller and faster than a map.
type bindings []binding

type binding struct {
	name  string
	value value
}

func (b bindings) index() map[string]int {
	at := make(map[string]int, len(b))
	for i := range b {
		at[b[i].name] = i
	}
	return at
}

func (b bindings) get(name string) (value, bool) {
	for i := range b {
		if b[i].name == name {
			return b[i].value, true
		}
	}
	return value{}, false
}

func (s *scope) setFunc(name string, f function) {
	if s.funcs == nil {
		s.funcs = map[string]function{}
	}
	s.funcs[name] = f
	tooMany(len(s.funcs), "functions")
}

// tooMany gives up, because every branch copies and compares these.
func tooMany(n int, what string) {
	if n > maxNames {
		panic(stop{&Error{
			Code: "too_large", Msg: fmt.Sprintf("command has more than %d %s", maxNames, what),
			Hint: "put the script in a file of the workspace and run that",
		}})
	}
}

func (s *scope) exported(name string) {
	if !s.isExported(name) {
		s.export = append(s.export, name)
		tooMany(len(s.export), "exported names")
	}
}

func (s *scope) isExported(name string) bool {
	switch name {
	case "HOME", "PATH", "SHELL":
		return true
	}
	return slices.Contains(s.export, name)
}

func (v value) equal(w value) bool {
	return v.array == w.array && slices.EqualFunc(v.words, w.words, sameField)
}

func sameField(a, b program.Word) bool {
	return a.Text == b.Text && a.Pat == b.Pat && a.Known == b.Known && a.Glob == b.Glob && a.Tree == b.Tree
}

func union(a, b []workdir) []workdir {
	if slices.Equal(a, b) {
		return a
	}
	out := slices.Clone(a)
	for _, p := range b {
		same := slices.IndexFunc(out, func(q workdir) bool { return q.path == p.path })
		switch {
		case same < 0:
			out = append(out, p)
		case p.missing != out[same].missing:
			out[same].missing = "" // two ways lead here, so no condition is left
		}
	}
	if len(out) > maxDirs {
		return []workdir{{}}
	}
	return out
}
