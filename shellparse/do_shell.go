package shellparse

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// doShell handles bash -c, a script file, or text on standard input.
func doShell(a *act) {
	a.startFile()
	sh, ok := a.shellWords()
	if !ok {
		return
	}
	ops := sh.words
	if strings.HasPrefix(a.Name, "r") { // rbash
		a.shellOption(program.Literal("restricted", a.At))
	}
	if a.sets("POSIXLY_CORRECT") {
		a.shellOption(program.Literal("posix", a.At))
	}
	if sh.interactive {
		// The files are the caller's, which no program here may write. But only an interactive
		// shell can be told to read a comment as a command.
		a.w.opaque(Opaque{
			Code: "shell_option", Message: a.Name + " -i runs its start-up files", Command: a.cmd.Name, At: a.At,
			CommandsOnly: sh.code && len(ops) > 0 && ops[0].Known && !strings.Contains(ops[0].Text, "#"),
		})
	}
	switch {
	case sh.code && len(ops) == 0:
		a.Opaque("inline_code", a.Name+" -c has no text to run", a.At)
	case sh.code:
		var args []program.Word
		if len(ops) > 1 {
			args = append([]program.Word{}, ops[2:]...)
			if !strings.ContainsAny(a.Name, "zk") { // in a function of zsh or ksh it is the name of that
				a.zero = known(ops[1:2])
			}
			if !program.Placed(ops, 2) { // it may stand for several words, of which the first is $0
				args = ops[1:]
			}
		}
		if a.zero == nil {
			a.w.sets("0") // to what is not known here
		}
		a.shellText(ops[0], args)
		a.Via = a.Name + " -c"
	case len(ops) > 0 && !sh.stdin:
		if a.codeFile(ops[0]) {
			return
		}
		a.Code(ops[0])
		a.script(ops[0], true, ops[1:])
		a.scriptInPath(ops)
	default:
		a.input()
	}
}

// input is a shell that reads its standard input.
func (a *act) input() {
	a.StdinCode()
	files := a.In.Files
	if a.In.Kind == program.Inherited {
		files = a.w.execIn
	}
	for _, f := range files {
		a.script(f, true, nil)
	}
}

// shellWords are the options of a shell and what follows them. Other than with getopt, -o and -O take the next word
// wherever they stand in a cluster.
type shellWords struct {
	code, stdin, interactive bool
	words                    []program.Word
}

func (a *act) shellWords() (shellWords, bool) {
	var sh shellWords
	args := a.Argv[1:]
	for i := 0; i < len(args); i++ {
		f := args[i]
		text := f.Text
		switch {
		case !f.Known || f.Glob && strings.ContainsAny(text[:min(1, len(text))], "-+*?["):
			a.Opaque("inline_code", a.Name+" is given a word that is only known when it runs: "+text, f.At)
			if f.Known { // it may be a script
				a.script(f, true, nil)
			}
			return sh, false
		case text == "+":
			a.Opaque("inline_code", a.Name+" is given a lone +, which shells read differently", f.At)
			return sh, false
		case text == "--" || text == "-":
			sh.words = args[i+1:]
			return sh, true
		case strings.HasPrefix(text, "--"):
			if text == "--rcfile" || text == "--init-file" {
				i++
				if i < len(args) {
					a.Code(args[i])
				}
			}
			for _, option := range []string{"posix", "restricted"} {
				if len(text) > 2 && strings.HasPrefix(option, text[2:]) {
					a.shellOption(program.Literal(option, f.At))
				}
			}
		case len(text) > 1 && (text[0] == '-' || text[0] == '+'):
			for _, c := range text[1:] {
				switch c {
				case 'c':
					sh.code = true // the shell takes +c for -c
				case 's':
					sh.stdin = true
				case 'i':
					sh.interactive = true
				case 'r':
					a.shellOption(program.Literal("restricted", f.At))
				case 'P':
					a.sc.physical = true
				case 'k', 'B':
					if text[0] == '-' == (c == 'k') {
						a.Opaque("shell_option", a.Name+" "+text+" changes how text is read", f.At)
					}
				case 'o', 'O':
					i++
					if i < len(args) {
						a.shellOption(args[i])
					}
				}
			}
		default:
			sh.words = args[i:]
			return sh, true
		}
	}
	return sh, true
}

// scriptInPath handles a bare name of a script, which a shell also looks up in PATH. There it could be a denied
// program.
func (a *act) scriptInPath(words []program.Word) {
	name := words[0]
	if name.Tree || strings.Contains(name.Text, "/") {
		return
	}
	if name.Lit() == "" {
		a.Opaque("dynamic_eval", a.Name+" executes a file that is only known when it runs: "+name.Text, name.At)
		return
	}
	cmd := Command{
		Name: name.Text, Path: name.Text, Via: append(slices.Clone(a.cmd.Via), a.Name), Dir: a.cmd.Dir,
		At: name.At, Script: true,
	}
	for _, f := range words[1:] {
		cmd.Args = append(cmd.Args, wordOf(f))
	}
	a.Inner = append(a.Inner, func() {
		// The script may be a program of that name, with everything that it does.
		b := act{w: a.w, sc: a.sc, cmd: cmd}
		b.Call = program.Call{Shell: &b, Name: cmd.Name, Argv: words, At: name.At}
		b.effects()
		a.w.emit(b.cmd)
	})
}

// doNpx handles npx: like a script, a package may be a program of the same name.
func doNpx(a *act) {
	a.UseOperands(a.Operands)
	if len(a.Operands) > 0 {
		a.scriptInPath(a.Operands)
	}
}

// codeFile handles a script that is no file: a substitution or standard input.
func (a *act) codeFile(script program.Word) bool {
	switch {
	case script.Given != "":
		a.shellText(program.Literal(script.Given, script.At), nil)
	case script.Fd:
		a.Opaque("inline_code", a.Name+" executes the output of a command, which is only known when it runs",
			script.At)
	case script.Is("-") || script.Is("/dev/stdin") || script.Is("/dev/fd/0") || script.Is("/proc/self/fd/0"):
		a.input()
	case strings.HasPrefix(script.Text, "/dev/fd/") || strings.HasPrefix(script.Text, "/proc/self/fd/"):
		a.Opaque("inline_code", a.Name+" executes what a descriptor gives, which is only known when it runs",
			script.At)
		for _, f := range a.w.opened([]program.Word{script.Sub(path.Base(script.Text))}) {
			a.script(f, true, nil)
		}
	default:
		return false
	}
	return true
}

// shellOption refuses the options with which text means something else than was read here.
func (a *act) shellOption(f program.Word) {
	switch f.Text {
	case "expand_aliases", "extglob", "posix", "lastpipe", "restricted", "history", "histexpand", "localvar_inherit",
		"keyword", "braceexpand", "failglob", "cdable_vars", "extdebug",
		"compat31", "compat32", "compat40", "compat41", "compat42", "compat43", "compat44", "xpg_echo_":
		a.Opaque("shell_option", "the shell option "+f.Text+" changes how the line is read", f.At)
	}
	switch {
	case f.Is("physical"):
		a.sc.physical = true
	case f.Is("nocaseglob"):
		if a.w.rounds > 0 || len(a.w.traps) > 0 {
			a.Opaque("shell_option", "with nocaseglob a pattern that was read before matches other files", f.At)
		}
		a.w.anyCase = true
	}
	if f.Lit() == "" {
		a.Opaque("shell_option", "a shell option that is only known when it runs", f.At)
	}
}

func doEval(a *act) {
	var words []string
	operands := a.Operands
	if a.w.posix {
		operands = a.Argv[1:] // eval of dash has no options: it runs --
	}
	for i, f := range operands {
		if i > 0 { // a number can name a program only as the first word
			f = f.Numbers()
		}
		if !f.Known || f.Glob || f.Tree || f.Fd {
			a.Opaque("dynamic_eval", "eval executes text that is only known when it runs: "+f.Text, f.At)
			return
		}
		words = append(words, f.Text)
	}
	if len(words) == 0 {
		return
	}
	w, sc, at, text := a.w, a.sc, operands[0].At, strings.Join(words, " ")
	if strings.HasSuffix(text, `\`) {
		w.fail(&Error{
			Code: "parser_difference", Msg: "text of eval that ends in a backslash",
			Hint: "run the command itself", At: at,
		})
	}
	a.deeper(at)
	a.Inner = append(a.Inner, func() {
		w.nested++
		if err := w.program(text, sc, &at); err != nil {
			w.err = nil
			panicErr(w, err, at)
		}
		w.nested--
	})
}

// deeper refuses text in text that is nested too deep.
func (a *act) deeper(at Pos) {
	if a.w.nested >= maxNested {
		a.w.fail(&Error{
			Code: "too_deep", Msg: "evals are nested deeper than 8", Hint: "run the inner command itself",
			At: at,
		})
	}
}

func doSource(a *act) {
	if len(a.Operands) == 0 {
		return
	}
	script := a.Operands[0]
	if !a.codeFile(script) {
		a.Code(script)
		a.script(script, true, a.Operands[1:])
		a.scriptInPath(a.Operands)
	}
	// What the file defines is unknown here.
	a.sc.forgetAll()
	a.sc.noErrexit(a.w)
	a.sc.args = nil
	a.sc.funcs = maybeAll(a.sc.funcs)
}

func maybeAll(funcs map[string]function) map[string]function {
	for n, f := range funcs {
		f.maybe = true
		funcs[n] = f
	}
	return funcs
}

func doExec(a *act) {
	for _, f := range a.Values["-a"] { // bash looks at the name by which it is called
		switch name := path.Base(f.Text); {
		case !f.Known, strings.TrimLeft(name, "-") == "sh":
			a.shellOption(program.Literal("posix", f.At))
		case strings.HasPrefix(strings.TrimLeft(name, "-"), "r"):
			a.shellOption(program.Literal("restricted", f.At))
		}
	}
	if len(a.Operands) == 0 && a.In.Kind != program.Inherited {
		a.w.execStdin = true
		a.w.execIn = append(a.w.execIn, a.In.Files...)
	}
	if len(a.Operands) == 0 {
		a.w.execFed = spanned(a.w.execFed, a.w.fed)
	}
	a.Start(a.Operands)
}

func doCommand(a *act) {
	if a.Effects["data"] || len(a.Operands) == 0 {
		return
	}
	sc, env, words, in, changed := a.sc, a.call.env, a.Operands, a.In, a.call.changed
	a.Inner = append(a.Inner, func() {
		inner := *sc
		inner.funcs = nil // neither looks at functions
		a.w.start(call{argv: words, env: env, in: in, changed: changed, at: spanOf(words)}, &inner)
		funcs := sc.funcs
		*sc = inner
		sc.funcs = funcs
	})
}

func doTrap(a *act) {
	if a.Effects["data"] || len(a.Operands) < 2 {
		return
	}
	if a.Operands[0].Is("-") || a.Operands[0].Is("") {
		return
	}
	f := a.Operands[0].Numbers()
	if !f.Known || f.Glob || f.Tree {
		a.Opaque("dynamic_eval", "trap executes text that is only known when it runs", f.At)
		return
	}
	w, sc := a.w, a.sc
	atExit := true
	for _, signal := range a.Operands[1:] {
		atExit = atExit && (signal.Is("EXIT") || signal.Is("0"))
	}
	a.Inner = append(a.Inner, func() {
		at := f.At
		w.nested++
		inner := sc.fork()
		inner.vars, inner.args, inner.wild = nil, nil, true // the text runs later, with other values
		inner.changed, inner.errexit = false, false
		switched := w.switched
		t := trap{
			text: f.Text, at: at, via: w.via, posix: w.posix, anyShell: w.anyShell, atExit: atExit,
			sc: inner.clone(), from: len(w.entered), unset: len(w.unset),
		}
		w.beside++ // what stands behind it may run before it
		t.walk(w, inner)
		w.beside--
		if !atExit {
			w.trapTakes = append(w.trapTakes, w.unset[t.unset:]...)
			withDoubt(sc.funcs, w.trapTakes)
		}
		w.traps = append(w.traps, t)
		switch {
		case atExit:
		case !slices.Equal(inner.dirs, sc.dirs) || len(inner.funcs) != len(sc.funcs):
			a.Opaque("dynamic_eval", "what this trap changes is only known when it runs", f.At)
		case inner.changed:
			// From here on the text may run at any place.
			w.references = true
			sc.forgetAll()
		}
		if w.switched != switched && !atExit {
			sc.errexit, w.goesOn = false, true
		}
		w.nested--
	})
}

// trap is a text that runs later: then the shell may be in another directory, and may have lost a function.
type trap struct {
	text     string
	at       Pos
	via      []string
	posix    bool
	anyShell bool
	atExit   bool
	sc       *scope
	from     int // how many directories the text had entered at that place
	unset    int // how many names it had taken away
}

// walk follows the text in a scope.
func (t *trap) walk(w *walker, sc *scope) {
	via, posix, anyShell := w.via, w.posix, w.anyShell
	w.via, w.posix, w.anyShell = t.via, t.posix, t.anyShell
	if err := w.program(t.text, sc, &t.at); err != nil {
		w.err = nil
		panicErr(w, err, t.at)
	}
	w.via, w.posix, w.anyShell = via, posix, anyShell
}

// gone reports whether a function may be among the names that are unset.
func gone(name string, unset []string) bool {
	return slices.Contains(unset, name) || slices.Contains(unset, "")
}

// withDoubt marks the functions that may be gone.
func withDoubt(funcs map[string]function, unset []string) (some bool) {
	for name, f := range funcs {
		if gone(name, unset) {
			f.maybe, some = true, true
			funcs[name] = f
		}
	}
	return some
}

// trapsLater follows each trap again in the directories that the text enters after it.
func (w *walker) trapsLater() {
	for _, t := range w.traps {
		later := union(nil, w.entered[t.from:])
		if w.back {
			later = union([]workdir{{path: w.opts.Dir}}, w.entered)
		}
		later = slices.DeleteFunc(slices.Clone(later), func(d workdir) bool { return slices.Contains(t.sc.dirs, d) })
		sc := t.sc.fork()
		switch {
		case withDoubt(sc.funcs, w.unset[t.unset:]):
			later = union(sc.dirs, later)
		case len(later) == 0:
			continue
		}
		sc.dirs = later
		w.nested++
		t.walk(w, sc)
		w.nested--
	}
}
