package shellparse

import (
	"maps"
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
	own      bool // its output goes into a file of its own
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
	w.start(call{argv: argv, env: env, files: files, in: in, own: ownOutput(redirs), at: w.pos(c)}, sc)
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

// start adds what one start of a program does to the script. Everything that runs something ends up here.
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
		Fed: spanned(w.fed, w.execFed), source: c.in.Source, called: w.callsAt,
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
		around := w.callsAt
		w.callsAt = append(slices.Clip(around), c.at)
		defer func() { w.callsAt = around }()
		w.out.Files = append(w.out.Files, c.files...)
		for _, a := range c.env {
			w.apply(a, sc)
		}
		if !f.maybe {
			w.into(c.files, c.own, func() { w.invoke(name.Text, f.body, c.argv[1:], sc, c.in) })
			return
		}
		other := sc.clone()
		w.into(c.files, c.own, func() { w.invoke(name.Text, f.body, c.argv[1:], other, c.in) })
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
	others := w.renamed(name, sc, c)
	missing := !c.external && !a.builtin && !strings.Contains(name.Text, "/")
	*a = act{}
	w.idle = append(w.idle, a)
	if handler, ok := sc.funcs[notFound]; ok && missing && name.Text != notFound {
		w.invoke(notFound, handler.body, c.argv, sc.fork(), c.in)
	}
	for _, other := range others {
		if other == "" {
			w.opaqueCommands = append(w.opaqueCommands, name.At)
			w.opaque(Opaque{
				Code: "unknown_command", Message: name.Text + " is a copy of a program that is only known when it runs",
				Hint: "call the program by its path", Command: cmd.Name, At: name.At,
			})
			continue
		}
		again := c
		again.argv = append([]program.Word{program.Literal(other, name.At)}, c.argv[1:]...)
		w.start(again, sc)
	}
}

// notFound is the function that bash calls, in a shell of its own, with the words of a command that it does not find.
const notFound = "command_not_found_handle"

// renamed returns the programs that a name also means, because the line gives them that name: cp /bin/rm x; ./x.
func (w *walker) renamed(name program.Word, sc *scope, c call) (programs []string) {
	if len(w.otherNames) == 0 {
		return nil
	}
	if strings.Contains(name.Text, "/") {
		for _, f := range w.file(name, Read, false, sc) {
			programs = append(programs, w.otherNames[f.key()]...)
			for _, p := range w.through(f.key(), false, len(w.out.Commands), true) {
				programs = append(programs, w.otherNames[path.Clean(p)]...)
			}
		}
		return programs
	}
	if program.Builtin(name.Text) && !c.external {
		return nil
	}
	programs = append(programs, w.otherNames[name.Text]...)
	anywhere := w.setsPath(c.env)
	for _, file := range slices.Sorted(maps.Keys(w.otherNames)) {
		if path.Base(file) == name.Text && file != name.Text && (anywhere || isBin(path.Dir(file))) {
			programs = append(programs, w.otherNames[file]...)
		}
	}
	return programs
}

// scriptOnPath follows the files of the line that a bare name may find by PATH.
func (a *act) scriptOnPath() {
	w := a.w
	if len(w.written)+len(w.made) == 0 {
		return
	}
	anywhere := w.setsPath(a.call.env)
	found := func(p string) bool {
		return path.Base(p) == a.cmd.Path && (anywhere || isBin(path.Dir(p)))
	}
	for _, p := range slices.Sorted(maps.Keys(w.made)) {
		if found(p) {
			a.runsFile(w.made[p], p, a.At)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(w.written)) {
		for _, text := range w.written[p] {
			if found(p) {
				a.text(text, a.Argv[0], false, a.Argv[1:])
			}
		}
	}
}

// runsFile notes that the command executes a file, and what has made that.
func (a *act) runsFile(run Run, file string, at Pos) {
	a.runs(run)
	if run.From == "text" {
		a.Opaque("inline_code", a.cmd.Name+" executes what the line prints into "+file, at)
	}
}

// setsPath reports whether a name may find programs in any directory, because the line sets PATH.
func (w *walker) setsPath(env []assignment) bool {
	return w.isSet("PATH") || slices.ContainsFunc(env, func(a assignment) bool { return a.name == "PATH" })
}

func isBin(dir string) bool { return path.Base(dir) == "bin" || path.Base(dir) == "sbin" }

// names notes that a file, or the name of a command, is now this program as well.
func (w *walker) names(name, program string) {
	if w.otherNames == nil {
		w.otherNames = map[string][]string{}
	}
	if have := w.otherNames[name]; name != program && len(w.otherNames) < maxMade && len(have) < maxWritten &&
		!slices.Contains(have, program) {
		w.otherNames[name] = append(have, program)
	}
}

// doHash handles hash: with -p a name gets another program.
func doHash(a *act) {
	for _, f := range a.Values["-p"] {
		a.Opaque("unknown_command", "hash -p makes a name run "+f.Text, f.At)
		for _, name := range a.Operands {
			if strings.Contains(f.Lit(), "/") && !strings.Contains(name.Text, "/") {
				a.w.names(name.Text, f.Text)
			}
		}
	}
}

// copiesPrograms notes which files become programs of the system because the command links, moves or copies them, or
// prints them into a file.
func (a *act) copiesPrograms() {
	w := a.w
	switch a.Name {
	case "mv", "cp", "install", "ln":
		for _, pair := range a.pairs() {
			programs := w.programsIn(w.file(pair.from, Read, false, a.sc))
			if name := lookedUp(pair.from); name != "" {
				programs = append(programs, name)
			}
			for _, to := range w.file(pair.to, Write, false, a.sc) {
				for _, p := range programs {
					w.names(to.key(), p)
				}
			}
		}
		return
	}
	to := append(writtenTo(a.call.files), writtenTo(a.cmd.Files)...)
	if len(to) == 0 {
		return
	}
	from := append(slices.Clip(a.cmd.Files), a.call.files...)
	for _, f := range a.In.Files {
		from = append(from, w.file(f, Read, false, a.sc)...)
	}
	for _, p := range w.programsIn(from) {
		for _, name := range to {
			w.names(name, p)
		}
	}
}

// programsIn returns the programs of the system among files that are read, and what others are because of the line. A
// program that is not known is "".
func (w *walker) programsIn(files []File) (programs []string) {
	for _, f := range files {
		p := f.key()
		switch {
		case f.Access != Read || f.Looks:
			continue
		case f.Glob && isBin(path.Dir(p)):
			programs = append(programs, "")
		}
		programs = append(programs, w.otherNames[p]...)
		if base := path.Base(p); f.Known && !f.Glob && isBin(path.Dir(p)) && base != "busybox" && base != "toybox" {
			programs = append(programs, p)
		}
	}
	return programs
}

// lookedUp returns the name in $(which NAME), $(command -v NAME) and the like, or bash for a name of the shell itself,
// or "".
func lookedUp(f program.Word) string {
	words := strings.Fields(strings.Trim(f.Text, "\"$()`{}"))
	switch n := len(words); {
	case strings.HasPrefix(f.Text, "/proc/") && path.Base(f.Text) == "exe",
		!f.Known && n == 1 && (words[0] == "BASH" || words[0] == "SHELL"):
		return "bash"
	case f.Known || !strings.ContainsAny(f.Text, "(`"):
	case n == 2 && words[0] == "which" && isName(words[1]), n == 3 && isName(words[2]) &&
		(words[0] == "command" && words[1] == "-v" || words[0] == "type" && strings.ToLower(words[1]) == "-p"):
		return words[n-1]
	}
	return ""
}

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

func (w *walker) emit(cmd Command) {
	cmd.gives = w.gives(&cmd)
	w.out.Commands = append(w.out.Commands, cmd)
	if !substituted(&cmd) {
		return
	}
	if run, ok := w.makerOf(&cmd); ok {
		for _, at := range append([]Pos{cmd.At}, cmd.called...) {
			w.inside = append(w.inside, inner{at, slices.Contains(cmd.Via, "process substitution"), run})
		}
	}
}

// unknownName emits a command whose program is unknown. Its words may mean anything.
func (w *walker) unknownName(cmd Command, c call, sc *scope) {
	a := act{w: w, sc: sc, cmd: cmd, call: c}
	a.Shell = &a
	a.Generic(c.argv[1:])
	if c.argv[0].Glob && strings.Contains(c.argv[0].Text, "/") { // it may be a script that the line writes
		a.script(c.argv[0], false, nil)
	}
	cmd.Files, cmd.Effects = a.cmd.Files, a.cmd.Effects
	w.opaqueCommands = append(w.opaqueCommands, cmd.At)
	w.emit(cmd)
	for _, follow := range a.Inner {
		follow()
	}
	// $SUDO rm -rf src: if the variable is empty, or names a program that starts others, the next word is the
	// program. After FOO=$X it is started in any case.
	name, rest := c.argv[0], c.argv[1:]
	if !name.Many || strings.Contains(name.Skeleton, "=") || len(rest) == 0 || !rest[0].Known {
		return
	}
	program, texts := path.Base(rest[0].Text), func() []string { return words(&cmd) }
	from := effect.Maker(program, texts)
	w.keepsMade(writtenTo(c.files), Run{From: from, Part: program}, from != "")
	if !c.own {
		w.group.takes("", Run{From: from, Part: program})
	}
	if effect.Knows(program) {
		w.start(call{argv: rest, env: c.env, in: c.in, external: true, changed: true, at: spanOf(rest)}, sc)
	}
}

func panicErr(w *walker, err error, at Pos) {
	e, ok := err.(*Error)
	if !ok {
		e = &Error{Code: "syntax", Msg: err.Error(), At: at}
	}
	w.fail(e)
}
