package shellparse

import (
	"fmt"
	"maps"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// scope is what is known at one place of the program: values, functions and the
// working directory. A branch gets a copy; where branches meet, only what they
// agree on stays known.
type scope struct {
	vars  bindings
	funcs map[string]function
	args  []field // positional parameters; nil: not known
	dirs  []workdir
	// failed are the directories to be in if the last cd failed.
	failed []workdir
	export []string // besides those that every shell exports
	locals []string // names that belong to the function being followed
	errexit,
	ifs bool // IFS was changed: splitting cannot be foreseen
	changed bool // a variable was set, or may have been
	shared  bool // vars is another scope's too: copy before a change
}

// workdir is a directory the shell may be in.
type workdir struct {
	path    string // "" if it cannot be known
	missing string // only if this directory is missing
}

// value of a variable: one word, or the words of an array. One that is not
// tracked is unknown.
type value struct {
	words []field
	array bool
}

type function struct {
	body  *syntax.Stmt
	maybe bool // only some of the ways here define it
}

const maxDirs = 8

// clone is cheap, since most branches change nothing: lists that are only ever
// appended to or replaced are shared.
func (s *scope) clone() *scope {
	s.failed, s.export, s.locals = slices.Clip(s.failed), slices.Clip(s.export), slices.Clip(s.locals)
	s.shared = true
	c := *s
	c.funcs = maps.Clone(s.funcs)
	return &c
}

// own makes vars this scope's alone.
func (s *scope) own() {
	if s.shared {
		s.vars, s.shared = slices.Clone(s.vars), false
	}
}

// merge keeps what s and o agree on: either may be how the program got here.
func (s *scope) merge(o *scope) {
	if !sameList(s.vars, o.vars) {
		s.own()
		other := o.vars.index()
		s.vars = slices.DeleteFunc(s.vars, func(b binding) bool {
			i, ok := other[b.name]
			return !ok || !b.value.equal(o.vars[i].value)
		})
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
	if !slices.EqualFunc(s.args, o.args, sameField) || (s.args == nil) != (o.args == nil) {
		s.args = nil
	}
	s.ifs = s.ifs || o.ifs
	s.changed = s.changed || o.changed
	s.errexit = s.errexit && o.errexit
	s.dirs = union(s.dirs, o.dirs)
	s.failed = union(s.failed, o.failed)
}

// sameList reports whether neither branch has changed what they share.
func sameList[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// settle ends a statement: what follows may run after a cd that failed.
func (s *scope) settle() {
	if s.failed != nil {
		s.dirs, s.failed = union(s.dirs, s.failed), nil
	}
}

// forgetAll is a change that may be to any variable.
func (s *scope) forgetAll() { s.vars, s.shared, s.changed = nil, false, true }

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

// bindings are few: a list is smaller and faster than a map.
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

// tooMany gives up: every branch copies and compares these.
func tooMany(n int, what string) {
	if n > maxNames {
		panic(stop{&Error{Code: "too_large", Msg: fmt.Sprintf("command has more than %d %s", maxNames, what), Hint: "put the script in a file of the workspace and run that"}})
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
	case "HOME", "PATH", "PWD", "SHELL", "TERM", "USER", "LANG":
		return true
	}
	return slices.Contains(s.export, name)
}

func (v value) equal(w value) bool {
	return v.array == w.array && slices.EqualFunc(v.words, w.words, sameField)
}

func sameField(a, b field) bool {
	return a.text == b.text && a.pat == b.pat && a.known == b.known && a.glob == b.glob && a.tree == b.tree
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
			out[same].missing = "" // there are two ways here: no condition is left
		}
	}
	if len(out) > maxDirs {
		return []workdir{{}}
	}
	return out
}
