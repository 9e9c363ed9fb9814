package shellparse

import (
	"maps"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// A shell that starts here gets what is exported. It may lack what may not be exported: after "export v; unset v;
// v=true" the v of "sh -c '$v rm x'" is nothing, and rm runs. So a value is known there only if the line surely
// exports it.

// hands notes that a shell started from here certainly gets the variable.
func (s *scope) hands(name string) {
	if !slices.Contains(s.handed, name) {
		s.handed = append(s.handed, name)
	}
}

// withhold notes that such a shell may not get it.
func (s *scope) withhold(name string) {
	if slices.Contains(s.handed, name) {
		s.changed = true
		s.handed = slices.DeleteFunc(slices.Clone(s.handed), func(n string) bool { return n == name })
	}
}

// childScope returns what a shell knows that is started here: only what is exported.
func (w *walker) childScope(sc *scope, env []assignment, args []program.Word) *scope {
	c := &scope{dirs: sc.dirs, args: args}
	c.export = slices.Clone(sc.export)
	if w.handsDown {
		c.funcs = maybeAll(maps.Clone(sc.funcs))
	}
	for _, v := range sc.vars {
		if slices.Contains(sc.handed, v.name) && !setAtStart(v.name) && !v.value.array {
			c.hands(v.name)
			c.set(v.name, v.value)
		}
	}
	for _, e := range env {
		for _, f := range e.value.words {
			w.noteSuspect(f)
		}
		w.noteText(e.name, e.value)
		c.exported(e.name)
		if e.known && !setAtStart(e.name) {
			c.hands(e.name)
			c.set(e.name, e.value)
		} else {
			c.forget(e.name)
		}
	}
	if dir := sc.dir(); dir != "" {
		c.set("PWD", value{words: []program.Word{program.Literal(dir, Pos{})}})
	}
	return c
}

// setAtStart reports whether a shell sets a variable itself, or checks it before taking it from the environment.
func setAtStart(name string) bool {
	switch name {
	case "IFS", "PWD", "OLDPWD", "SHLVL", "HOSTTYPE", "MACHTYPE", "OSTYPE":
		return true
	}
	return program.SetByShell(name) || strings.HasPrefix(name, "BASH") || strings.HasPrefix(name, "ZSH")
}

// keepers are programs that start others with their own environment. Other programs may change it, as env -i and
// sudo do.
var keepers = []string{
	"awk", "chrt", "command", "find", "flock", "gawk", "ionice", "mawk", "nice", "nohup", "setsid", "stdbuf", "time",
	"timeout", "watch", "xargs",
}

// changes reports whether what the command starts may have another environment than the shell gave.
func (a *act) changes() bool { return a.call.changed || !slices.Contains(keepers, a.cmd.Name) }

// environment returns the assignments before a command that this one starts.
func (a *act) environment() []assignment {
	env := slices.Clone(a.call.env)
	if a.changes() {
		for i := range env[:a.before] {
			env[i].known = false
		}
	}
	return env
}
