package shellparse

import (
	"fmt"
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

// readsShellVariables are the builtins that use IFS and the like in the ordinary way.
var readsShellVariables = []string{
	"read", "mapfile", "readarray", "printf", "echo", "set", ":", "true", "test", "[", "local", "unset",
}

// environments judges the assignments before a command.
func (w *walker) environments(a *act) {
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
			continue
		}
		if files := w.outputs(e, a.sc); files != nil {
			a.cmd.Files = append(a.cmd.Files, files...)
			continue
		}
		if e.Name == "GIT_WORK_TREE" {
			tree := program.Word{Text: e.Value.Text, Known: e.Value.Known, At: e.Value.At}
			a.cmd.Files = append(a.cmd.Files, w.file(tree, Read, true, a.sc)...)
		}
		if e.Name == "GIT_TEMPLATE_DIR" && a.Name == "git" && (a.Sub == "init" || a.Sub == "clone") && e.Value.Text != "" {
			a.Opaque("unknown_option", "git copies the hooks of the template "+e.Value.Text+", and runs them", e.Value.At)
		}
		if e.Value.Known && (strings.HasPrefix(e.Value.Text, "/") || strings.HasPrefix(e.Value.Text, "~/")) &&
			!strings.ContainsAny(e.Value.Text, ": ") {
			a.cmd.Files = append(a.cmd.Files, File{Path: e.Value.Text, Known: true, Access: Read, At: e.Value.At})
		}
	}
}
