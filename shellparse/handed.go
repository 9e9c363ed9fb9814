package shellparse

import (
	"maps"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// A shell that starts here gets what is exported. What may not be, it may not have: after "export v; unset v; v=true"
// the v of "sh -c '$v rm x'" is nothing, and rm runs. So a value is known there only if the line surely exports it.

// hands notes that a shell started from here surely gets the variable.
func (s *scope) hands(name string) {
	if !slices.Contains(s.handed, name) {
		s.handed = append(s.handed, name)
	}
}

// withhold notes that it may not get it.
func (s *scope) withhold(name string) {
	if slices.Contains(s.handed, name) {
		s.changed = true
		s.handed = slices.DeleteFunc(slices.Clone(s.handed), func(n string) bool { return n == name })
	}
}

// childScope is what a shell started here knows: only what is exported.
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

// setAtStart are variables that a shell does not take from its environment, or checks first.
func setAtStart(name string) bool {
	switch name {
	case "IFS", "PWD", "OLDPWD", "SHLVL", "HOSTTYPE", "MACHTYPE", "OSTYPE":
		return true
	}
	return program.SetByShell(name) || strings.HasPrefix(name, "BASH") || strings.HasPrefix(name, "ZSH")
}

// keepers are programs that start others with the environment that they have. The rest may change it, as env -i and
// sudo do.
var keepers = []string{
	"awk", "chrt", "command", "find", "flock", "gawk", "ionice", "mawk", "nice", "nohup", "setsid", "stdbuf", "time",
	"timeout", "watch", "xargs",
}

// changes reports whether what the command starts may have another environment than the shell gave.
func (a *act) changes() bool { return a.call.changed || !slices.Contains(keepers, a.cmd.Name) }

// environment is what stands in front of a command that this one starts.
func (a *act) environment() []assignment {
	env := slices.Clone(a.call.env)
	if a.changes() {
		for i := range env[:a.before] {
			env[i].known = false
		}
	}
	return env
}
