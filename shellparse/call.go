package shellparse

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/effect"
	"github.com/sandboxd/sandboxd/shellparse/program"
	"github.com/sandboxd/sandboxd/shellparse/source"
)

// call is a command that is about to start.
type call struct {
	argv     []program.Word
	env      []assignment
	files    []File // of its redirections
	in       program.Input
	external bool // it is a program: no function and no builtin has this name
	changed  bool // its environment may lack what the shell exports
	at       Pos
}

func (w *walker) callExpr(c *syntax.CallExpr, redirs []*syntax.Redirect, sc *scope, in program.Input) {
	argv := w.fields(c.Args, sc, true)
	if len(argv) == 0 { // also if every word has expanded to nothing
		for _, a := range c.Assigns {
			if one := w.assignment(a, sc); one.name != "" {
				w.apply(one, sc)
			}
		}
		files, _ := w.redirects(redirs, sc)
		w.out.Files = append(w.out.Files, files...)
		return
	}
	env := w.assigns(c.Assigns, sc)
	files, redirected := w.redirects(redirs, sc)
	if redirected.Kind != program.Inherited {
		in, in.Own = redirected, true
	}
	for _, a := range env {
		for _, f := range a.value.words {
			w.noteSuspect(f) // a builtin sees the value and may evaluate it
		}
	}
	var was bindings
	if len(env) > 0 {
		was = slices.Clone(sc.vars)
	}
	if len(env) > 0 && slices.Contains(inThisShell, argv[0].Lit()) {
		for _, a := range env {
			w.apply(a, sc) // what it runs sees the assignments
		}
	}
	w.start(call{argv: argv, env: env, files: files, in: in, at: w.pos(c)}, sc)
	for _, a := range env {
		if slices.Contains(mayKeep, argv[0].Lit()) || w.posix && slices.Contains(special, argv[0].Lit()) {
			sc.forget(a.name)
		}
		// A value that eval or a function gives the variable may go with the command, or stay.
		before, had := was.get(a.name)
		if after, has := sc.vars.get(a.name); had != has || !before.equal(after) {
			sc.forget(a.name)
		}
	}
}

// inThisShell are the builtins that run their words in this shell. mayKeep are those after which an assignment that
// stands before them may stay in force.
var (
	inThisShell = []string{"eval", "source", ".", "command", "builtin"}
	mayKeep     = []string{"command", "builtin", "export", "readonly", "declare", "typeset", "local"}
)

// start answers the one question of this package: which programs does this start? Everything that runs something
// ends up here.
func (w *walker) start(c call, sc *scope) {
	if w.steps++; w.steps > maxSteps {
		w.fail(&Error{Code: "too_large", Msg: "command starts too many programs", Hint: "split the command", At: c.at})
	}
	if len(w.via) > 4*maxNested {
		w.fail(&Error{
			Code: "too_deep", Msg: "commands that run commands are nested too deep",
			Hint: "run the inner command itself", At: c.at,
		})
	}
	name := c.argv[0]
	cmd := Command{
		Path: name.Text, Via: w.via, Files: slices.Clip(c.files), Dir: sc.dir(), At: c.at,
		Fed: spanned(w.fed, w.execFed),
	}
	for _, a := range c.env {
		cmd.Env = append(cmd.Env, Assign{Name: a.name, Value: oneWord(a.value, a.at)})
	}
	cmd.Args = make([]Word, len(c.argv)-1)
	for i, f := range c.argv[1:] {
		cmd.Args[i] = wordOf(f)
	}
	if !name.Known || name.Glob || name.Tree || name.Fd || name.Text == "" {
		w.unknownName(cmd, c, sc)
		return
	}
	cmd.Name = path.Base(name.Text)
	if f, ok := sc.funcs[name.Text]; ok && !c.external {
		w.out.Files = append(w.out.Files, c.files...)
		for _, a := range c.env {
			w.apply(a, sc)
		}
		if !f.maybe {
			w.invoke(name.Text, f.body, c.argv[1:], sc, c.in)
			return
		}
		other := sc.clone()
		w.invoke(name.Text, f.body, c.argv[1:], other, c.in)
		defer sc.merge(other)
	}
	if !c.external {
		sc.jump(name.Text)
	}
	if w.posix && source.BashBuiltin(name.Text) {
		w.emit(cmd) // sh has no builtin of that name
		return
	}
	a := w.newAct()
	within := len(cmd.Via) > 0
	// Field by field, because a literal that names a is made elsewhere first, and then copied.
	a.w, a.sc, a.cmd, a.call, a.before, a.builtin = w, sc, cmd, c, len(c.env), !c.external && program.Builtin(name.Text)
	a.Shell, a.Name, a.Argv, a.At, a.In, a.Second = a, cmd.Name, c.argv, c.at, c.in, w.again
	a.Within, a.Fed = within, within || w.execStdin
	a.run()
	missing := !c.external && !a.builtin && !strings.Contains(name.Text, "/")
	*a = act{}
	w.idle = append(w.idle, a)
	if handler, ok := sc.funcs[notFound]; ok && missing && name.Text != notFound {
		w.invoke(notFound, handler.body, c.argv, sc.fork(), c.in)
	}
}

// notFound is the function that bash calls, in a shell of its own, with the words of a command that it does not find.
const notFound = "command_not_found_handle"

// newAct returns an empty act. It uses the memory of one that has ended, because acts are large and a script has
// many.
func (w *walker) newAct() *act {
	if n := len(w.idle) - 1; n >= 0 {
		a := w.idle[n]
		w.idle = w.idle[:n]
		return a
	}
	return new(act)
}

func (w *walker) emit(cmd Command) { w.out.Commands = append(w.out.Commands, cmd) }

// unknownName emits a command whose program is unknown. Its words may mean anything.
func (w *walker) unknownName(cmd Command, c call, sc *scope) {
	a := act{w: w, sc: sc, cmd: cmd, call: c}
	a.Shell = &a
	a.Generic(c.argv[1:])
	cmd.Files = a.cmd.Files
	w.opaqueCommands = append(w.opaqueCommands, cmd.At)
	w.emit(cmd)
	// $SUDO rm -rf src: if the variable is empty, or names a program that starts others, the next word is the
	// program. After FOO=$X it is started in any case.
	name, rest := c.argv[0], c.argv[1:]
	if name.Many && !strings.Contains(name.Skeleton, "=") &&
		len(rest) > 0 && rest[0].Known && effect.Knows(path.Base(rest[0].Text)) {
		w.start(call{argv: rest, env: c.env, in: c.in, external: true, changed: true, at: rest[0].At}, sc)
	}
}

func panicErr(w *walker, err error, at Pos) {
	e, ok := err.(*Error)
	if !ok {
		e = &Error{Code: "syntax", Msg: err.Error(), At: at}
	}
	w.fail(e)
}
