package shellparse

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// neverSet reports whether a name is one of bash's readonly variables.
func neverSet(name string) bool {
	switch name {
	case "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO":
		return true
	}
	return false
}

// environment reports a variable that makes programs run other code.
func (w *walker) environment(a Assign, command string, at Pos) {
	yes, byShell := program.Steers(a.Name, a.Value.Text, a.Value.Known, command)
	if !yes {
		return
	}
	message := fmt.Sprintf("%s decides which code programs run", a.Name)
	if command != "" {
		message = fmt.Sprintf("%s decides which code %s runs", a.Name, command)
	}
	w.opaque(Opaque{
		Code: "environment", Message: message, Hint: "leave " + a.Name + " as it is", Command: command,
		At: at, CommandsOnly: !byShell,
	})
}

// exports judges a variable that programs get, or that the shell itself reads.
func (w *walker) exports(a Assign, sc *scope, at Pos) {
	w.environment(a, "", at)
	w.out.Files = append(w.out.Files, w.outputs(a, sc)...)
}

// outputs returns the file that a program writes because a variable names it.
func (w *walker) outputs(a Assign, sc *scope) []File {
	name := program.Output(a.Name, strings.Trim(a.Value.Text, `"`))
	if name == "" {
		if known := a.Value.Known; known || program.Output(a.Name, "/x") == "" {
			return nil
		}
		name = a.Value.Text
	}
	f := program.Literal(name, a.Value.At)
	f.Known, f.Keeps = a.Value.Known, true
	return w.file(f, Write, false, sc)
}

// startFile is the file that a shell runs first, because the line exports its name.
func (a *act) startFile() {
	for _, name := range []string{"BASH_ENV", "ENV"} {
		v, ok := a.sc.vars.get(name)
		if !ok || len(v.words) != 1 || !a.sc.isExported(name) ||
			slices.ContainsFunc(a.cmd.Env, func(e Assign) bool { return e.Name == name }) {
			continue
		}
		a.Code(v.words[0])
		a.script(v.words[0], true, nil)
	}
}

// preloads are the libraries that the loader of every program runs.
func (a *act) preloads(value program.Word) {
	names := func(r rune) bool { return r == ':' || r == ' ' }
	for name := range strings.FieldsFuncSeq(value.Text, names) {
		if strings.Contains(name, "/") { // else the loader looks in its own directories
			files := a.w.file(value.Sub(name), Read, false, a.sc)
			a.cmd.Files, a.cmd.Code = append(a.cmd.Files, files...), append(a.cmd.Code, files...)
		}
	}
}

// readsShellVariables are the builtins that use IFS and the like in the ordinary way.
var readsShellVariables = []string{
	"read", "mapfile", "readarray", "printf", "echo", "set", ":", "true", "test", "[", "local", "unset",
}

// environments judges the assignments before a command.
func (w *walker) environments(a *act) {
	a.obeys()
	for _, name := range []string{"LD_PRELOAD", "LD_AUDIT"} {
		if v, ok := a.sc.vars.get(name); ok && len(v.words) == 1 && a.sc.isExported(name) && !a.builtin {
			a.preloads(v.words[0])
		}
	}
	for _, e := range a.cmd.Env {
		if a.builtin && slices.Contains(readsShellVariables, a.cmd.Name) && e.Name != "PATH" {
			continue
		}
		w.environment(e, a.cmd.Name, e.Value.At)
		if e.Name == "BASH_ENV" || e.Name == "ENV" {
			// The shell reads the file, and names its words in what it prints.
			file := program.Word{Text: e.Value.Text, Known: e.Value.Known, At: e.Value.At}
			files := a.w.file(file, Read, false, a.sc)
			a.cmd.Files, a.cmd.Code = append(a.cmd.Files, files...), append(a.cmd.Code, files...)
			a.script(file, true, nil)
			continue
		}
		if e.Name == "LD_PRELOAD" || e.Name == "LD_AUDIT" {
			a.preloads(program.Word{Text: e.Value.Text, Known: e.Value.Known, At: e.Value.At})
		}
		if files := w.outputs(e, a.sc); files != nil {
			a.cmd.Files = append(a.cmd.Files, files...)
			continue
		}
		if e.Name == "GIT_WORK_TREE" {
			tree := program.Word{Text: e.Value.Text, Known: e.Value.Known, At: e.Value.At}
			a.cmd.Files = append(a.cmd.Files, w.file(tree, Read, true, a.sc)...)
		}
		makes := a.Name == "git" && (a.Sub == "init" || a.Sub == "clone")
		if e.Name == "GIT_TEMPLATE_DIR" && makes && e.Value.Text != "" {
			a.Opaque("unknown_option", "git copies the hooks of the template "+e.Value.Text+", and runs them",
				e.Value.At)
		}
		if e.Value.Known && (strings.HasPrefix(e.Value.Text, "/") || strings.HasPrefix(e.Value.Text, "~/")) &&
			!strings.ContainsAny(e.Value.Text, ": ") {
			a.cmd.Files = append(a.cmd.Files, File{Path: e.Value.Text, Known: true, Access: Read, At: e.Value.At})
		}
	}
}

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
	c := &scope{dirs: sc.dirs, args: args, physical: sc.physical}
	if len(sc.dirs) != 1 || sc.dirs[0].path != w.opts.Dir {
		c.physical = true // PWD may not reach it
	}
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

// variable returns the value that the command gets of a variable: in front of it, or from what the line exports.
func (a *act) variable(name string) (program.Word, bool) {
	for i := len(a.cmd.Env) - 1; i >= 0; i-- {
		if e := a.cmd.Env[i]; e.Name == name {
			return program.Word{Text: e.Value.Text, Known: e.Value.Known, At: e.Value.At}, true
		}
	}
	v, ok := a.sc.vars.get(name)
	if !ok || len(v.words) != 1 || !a.sc.isExported(name) {
		return program.Word{}, false
	}
	return v.words[0], true
}

// editors start the program that a variable names on their own words.
var editors = []string{"sensible-editor", "sensible-pager", "sensible-browser", "editor", "pager", "xdg-open"}

// obeys follows the variables whose text the program runs, or takes for words of its own.
func (a *act) obeys() {
	switch a.Name {
	case "git":
		for n := range maxWritten {
			key, ok := a.variable(fmt.Sprint("GIT_CONFIG_KEY_", n))
			if !ok {
				break
			}
			val, _ := a.variable(fmt.Sprint("GIT_CONFIG_VALUE_", n))
			a.GitSetting(key, val)
		}
		a.textOf("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PROXY_COMMAND", "EDITOR",
			"VISUAL", "PAGER")
	case "tar", "gtar":
		if f, ok := a.variable("TAR_OPTIONS"); ok && f.Known && a.Argv[0].At != f.At {
			argv := []program.Word{program.Literal(a.Argv[0].Text, f.At)}
			for word := range strings.FieldsSeq(f.Text) {
				argv = append(argv, f.Sub(word))
			}
			a.Start(append(argv, a.Argv[1:]...))
		}
	case "make", "gmake":
		for _, name := range []string{"MAKEFLAGS", "GNUMAKEFLAGS", "MFLAGS"} {
			if f, ok := a.variable(name); ok && (!f.Known || strings.Contains(f.Text, "eval")) {
				a.Opaque("inline_code", "make reads rules from "+name, f.At)
				a.runs(Run{From: "text", Part: name})
			}
		}
	}
	if slices.Contains(editors, a.Name) {
		a.textOf("EDITOR", "VISUAL", "PAGER", "BROWSER")
	}
}

// textOf runs the text of these variables as a shell does, on the words of a program that starts editors.
func (a *act) textOf(names ...string) {
	for _, name := range names {
		f, ok := a.variable(name)
		if yes, _ := program.Steers(name, f.Text, f.Known, a.Name); !ok || !yes || !f.Known {
			continue
		}
		if slices.Contains(editors, a.Name) && len(a.Operands) > 0 {
			words := program.Quoted(a.Operands)
			f.Text, f.Known = f.Text+" "+words.Text, words.Known
		}
		a.Run(f)
	}
}
