package shellparse

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// doShell handles bash -c, a script file, or text on standard input.
func doShell(a *act) {
	sh, ok := a.shellWords()
	if !ok {
		return
	}
	ops := sh.words
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
		a.zero = a.Argv[:1]
		if len(ops) > 1 {
			args = append([]program.Word{}, ops[2:]...)
			a.zero = known(ops[1:2])
			if !program.Placed(ops, 2) { // it may stand for several words, of which the first is $0
				args = ops[1:]
			}
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
		case len(text) > 1 && (text[0] == '-' || text[0] == '+'):
			for _, c := range text[1:] {
				switch c {
				case 'c':
					sh.code = true // the shell takes +c for -c
				case 's':
					sh.stdin = true
				case 'i':
					sh.interactive = true
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
		"keyword", "braceexpand", "failglob", "cdable_vars",
		"compat31", "compat32", "compat40", "compat41", "compat42", "compat43", "compat44", "xpg_echo_":
		a.Opaque("shell_option", "the shell option "+f.Text+" changes how the line is read", f.At)
	}
	if f.Lit() == "" {
		a.Opaque("shell_option", "a shell option that is only known when it runs", f.At)
	}
}

func doEval(a *act) {
	var words []string
	for i, f := range a.Operands {
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
	w, sc, at, text := a.w, a.sc, a.Operands[0].At, strings.Join(words, " ")
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
		a.w.start(call{argv: words, env: env, in: in, changed: changed, at: words[0].At}, &inner)
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
		inner.changed = false
		if err := w.program(f.Text, inner, &at); err != nil {
			w.err = nil
			panicErr(w, err, at)
		}
		switch {
		case atExit:
		case !slices.Equal(inner.dirs, sc.dirs) || len(inner.funcs) != len(sc.funcs):
			a.Opaque("dynamic_eval", "what this trap changes is only known when it runs", f.At)
		case inner.changed:
			// From here on the text may run at any place.
			w.references = true
			sc.forgetAll()
		}
		w.nested--
	})
}

func doCd(a *act) {
	sc := a.sc
	if a.Name == "popd" || len(a.Operands) == 0 && a.Name == "pushd" {
		sc.dirs = []workdir{{}}
		return
	}
	target := program.Word{Known: true}
	switch {
	case len(a.Operands) == 0:
		home, ok := sc.vars.get("HOME")
		if !ok || len(home.words) != 1 {
			sc.dirs, sc.failed = []workdir{{}}, nil
			return
		}
		target = home.words[0]
	case a.Operands[0].Is("-"):
		if old, ok := sc.vars.get("OLDPWD"); ok && len(old.words) == 1 {
			target = old.words[0]
		} else {
			target.Known = false
		}
	default:
		target = a.Operands[0]
	}
	a.File(target, Read, false)
	if _, ok := sc.vars.get("CDPATH"); ok {
		target.Known = false
	}
	before := sc.dirs
	sc.dirs = moveTo(sc.dirs, target)
	sc.forget("PWD")
	sc.forget("OLDPWD")
	if len(sc.dirs) == 1 && sc.dirs[0].path != "" {
		sc.set("PWD", value{words: []program.Word{program.Literal(sc.dirs[0].path, target.At)}})
	}
	if len(before) == 1 && before[0].path != "" {
		sc.set("OLDPWD", value{words: []program.Word{program.Literal(before[0].path, target.At)}})
	}
	if surelyThere(target.Text) || sc.errexit && a.w.conds == 0 {
		return
	}
	for _, d := range before {
		if d.missing == "" && len(sc.dirs) == 1 {
			d.missing = sc.dirs[0].path
		}
		sc.failed = append(sc.failed, d)
	}
}

// surelyThere names directories that always exist, so that cd does not fail.
func surelyThere(dir string) bool {
	switch dir {
	case "/", ".", "..", "../..", "/tmp", "/etc", "/usr", "/home":
		return true
	}
	return false
}
