package shellparse

import (
	"fmt"
	"slices"
	"strings"
)

// doShell is bash -c, a script file, or text on standard input.
func doShell(a *act) {
	sh, ok := a.shellWords()
	if !ok {
		return
	}
	if sh.interactive {
		a.opaque("shell_option", a.cmd.Name+" -i runs its start-up files", a.cmd.At)
	}
	ops := sh.words
	switch {
	case sh.code && len(ops) == 0:
		a.opaque("inline_code", a.cmd.Name+" -c has no text to run", a.cmd.At)
	case sh.code:
		var args []field
		if len(ops) > 1 {
			args = append([]field{}, ops[2:]...)
		}
		a.shellText(ops[0], args)
		a.via = a.cmd.Name + " -c"
	case len(ops) > 0 && !sh.stdin:
		if a.codeFile(ops[0]) {
			return
		}
		a.file(ops[0], Read, false)
		a.scriptInPath(ops)
	default:
		a.stdinCode()
	}
}

// shellWords are the options of a shell and what follows them. Unlike getopt,
// -o and -O take the next word however they are clustered.
type shellWords struct {
	code, stdin, interactive bool
	words                    []field
}

func (a *act) shellWords() (shellWords, bool) {
	var sh shellWords
	args := a.call.argv[1:]
	for i := 0; i < len(args); i++ {
		f := args[i]
		text := f.text
		switch {
		case !f.known || f.glob && strings.ContainsAny(text[:min(1, len(text))], "-+*?["):
			a.opaque("inline_code", a.cmd.Name+" is given a word that is only known when it runs: "+text, f.at)
			return sh, false
		case text == "+":
			a.opaque("inline_code", a.cmd.Name+" is given a lone +, which shells read differently", f.at)
			return sh, false
		case text == "--" || text == "-":
			sh.words = args[i+1:]
			return sh, true
		case strings.HasPrefix(text, "--"):
			if text == "--rcfile" || text == "--init-file" {
				i++
				if i < len(args) {
					a.use(reads, args[i])
				}
			}
		case len(text) > 1 && (text[0] == '-' || text[0] == '+'):
			for _, c := range text[1:] {
				switch c {
				case 'c':
					sh.code = true // +c is taken for it as well
				case 's':
					sh.stdin = true
				case 'i':
					sh.interactive = true
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

// stdinCode is a program that executes its standard input.
func (a *act) stdinCode() {
	switch in := a.call.in; in.kind {
	case hereText:
		a.shellText(literal(in.text, in.at), nil)
	case inherited:
		// Nothing is connected: there is no text to run.
		if len(a.cmd.Via) > 0 || a.w.execStdin {
			a.opaque("inline_code", a.cmd.Name+" executes its standard input", a.cmd.At)
		}
	case fromFile:
		// A script file, as if it were named; the redirection is a read already.
	default:
		a.opaque("inline_code", fmt.Sprintf("%s executes its standard input, which is only known when it runs", a.cmd.Name), a.cmd.At)
	}
}

// scriptInPath: a shell looks for a script of a bare name in PATH too, where it
// could be a program that is denied.
func (a *act) scriptInPath(words []field) {
	name := words[0]
	if name.tree || strings.Contains(name.text, "/") {
		return
	}
	if name.lit() == "" {
		a.opaque("dynamic_eval", a.cmd.Name+" executes a file that is only known when it runs: "+name.text, name.at)
		return
	}
	cmd := Command{Name: name.text, Path: name.text, Via: append(slices.Clone(a.cmd.Via), a.cmd.Name), Dir: a.cmd.Dir, At: name.at, Script: true}
	for _, f := range words[1:] {
		cmd.Args = append(cmd.Args, f.word())
	}
	a.inner = append(a.inner, func() { a.w.emit(cmd) })
}

// doNpx: a package may be a program of the same name, as a script may.
func doNpx(a *act) {
	a.useOperands(a.operands)
	if len(a.operands) > 0 {
		a.scriptInPath(a.operands)
	}
}

// codeFile handles a script that is no file: a substitution or standard input.
func (a *act) codeFile(script field) bool {
	switch {
	case script.fd:
		a.opaque("inline_code", a.cmd.Name+" executes the output of a command, which is only known when it runs", script.at)
	case script.is("-") || script.is("/dev/stdin") || script.is("/dev/fd/0") || script.is("/proc/self/fd/0"):
		a.stdinCode()
	case strings.HasPrefix(script.text, "/dev/fd/") || strings.HasPrefix(script.text, "/proc/self/fd/"):
		a.opaque("inline_code", a.cmd.Name+" executes what a descriptor gives, which is only known when it runs", script.at)
	default:
		return false
	}
	return true
}

func doOtherShell(a *act) {
	if len(a.operands) == 0 && len(a.values) == 0 {
		a.opaque("inline_code", a.cmd.Name+" executes its standard input", a.cmd.At)
		return
	}
	a.useOperands(a.operands)
}

// shellOption refuses the options under which text means something else than was
// read here.
func (a *act) shellOption(f field) {
	switch f.text {
	case "expand_aliases", "extglob", "posix", "lastpipe", "restricted", "history", "histexpand", "localvar_inherit", "compat31", "compat32", "compat40", "compat41", "compat42", "compat43", "compat44", "xpg_echo_":
		a.opaque("shell_option", "the shell option "+f.text+" changes how the line is read", f.at)
	}
	if f.lit() == "" {
		a.opaque("shell_option", "a shell option that is only known when it runs", f.at)
	}
}

func doEval(a *act) {
	var words []string
	for _, f := range a.operands {
		f = f.numbers()
		if !f.known || f.glob || f.tree {
			a.opaque("dynamic_eval", "eval executes text that is only known when it runs: "+f.text, f.at)
			return
		}
		words = append(words, f.text)
	}
	if len(words) == 0 {
		return
	}
	w, sc, at, text := a.w, a.sc, a.operands[0].at, strings.Join(words, " ")
	if w.nested >= maxNested {
		w.fail(&Error{Code: "too_deep", Msg: "evals are nested deeper than 8", Hint: "run the inner command itself", At: at})
	}
	a.inner = append(a.inner, func() {
		w.nested++
		if err := w.program(text, sc, &at); err != nil {
			w.err = nil
			panicErr(w, err, at)
		}
		w.nested--
	})
}

func doSource(a *act) {
	if len(a.operands) == 0 {
		return
	}
	script := a.operands[0]
	if !a.codeFile(script) {
		a.file(script, Read, false)
		a.scriptInPath(a.operands)
	}
	// What it defines is not known here.
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
	if len(a.operands) == 0 && a.call.in.kind != inherited {
		a.w.execStdin = true
	}
	a.command(a.operands)
}

func doCommand(a *act) {
	if a.effects["data"] || len(a.operands) == 0 {
		return
	}
	sc, env, words, in := a.sc, a.call.env, a.operands, a.call.in
	a.inner = append(a.inner, func() {
		inner := *sc
		inner.funcs = nil // neither looks at functions
		a.w.start(call{argv: words, env: env, in: in, at: words[0].at}, &inner)
		funcs := sc.funcs
		*sc = inner
		sc.funcs = funcs
	})
}

func doTrap(a *act) {
	if a.effects["data"] || len(a.operands) < 2 {
		return
	}
	if a.operands[0].is("-") || a.operands[0].is("") {
		return
	}
	f := a.operands[0].numbers()
	if !f.known || f.glob || f.tree {
		a.opaque("dynamic_eval", "trap executes text that is only known when it runs", f.at)
		return
	}
	w, sc := a.w, a.sc
	atExit := true
	for _, signal := range a.operands[1:] {
		atExit = atExit && (signal.is("EXIT") || signal.is("0"))
	}
	a.inner = append(a.inner, func() {
		at := f.at
		w.nested++
		inner := sc.clone()
		inner.vars, inner.args = nil, nil // it runs later
		inner.changed = false
		if err := w.program(f.text, inner, &at); err != nil {
			w.err = nil
			panicErr(w, err, at)
		}
		switch {
		case atExit:
		case !slices.Equal(inner.dirs, sc.dirs) || len(inner.funcs) != len(sc.funcs):
			a.opaque("dynamic_eval", "what this trap changes is only known when it runs", f.at)
		case inner.changed:
			// From here on it may run at any place.
			w.references = true
			sc.forgetAll()
		}
		w.nested--
	})
}

func doCd(a *act) {
	sc := a.sc
	if a.cmd.Name == "popd" || len(a.operands) == 0 && a.cmd.Name == "pushd" {
		sc.dirs = []workdir{{}}
		return
	}
	target := field{known: true}
	switch {
	case len(a.operands) == 0:
		home, ok := sc.vars.get("HOME")
		if !ok || len(home.words) != 1 {
			sc.dirs, sc.failed = []workdir{{}}, nil
			return
		}
		target = home.words[0]
	case a.operands[0].is("-"):
		if old, ok := sc.vars.get("OLDPWD"); ok && len(old.words) == 1 {
			target = old.words[0]
		} else {
			target.known = false
		}
	default:
		target = a.operands[0]
	}
	a.file(target, Read, false)
	if _, ok := sc.vars.get("CDPATH"); ok {
		target.known = false
	}
	before := sc.dirs
	sc.dirs = moveTo(sc.dirs, target)
	sc.forget("PWD")
	sc.forget("OLDPWD")
	if len(sc.dirs) == 1 && sc.dirs[0].path != "" {
		sc.set("PWD", value{words: []field{literal(sc.dirs[0].path, target.at)}})
	}
	if len(before) == 1 && before[0].path != "" {
		sc.set("OLDPWD", value{words: []field{literal(before[0].path, target.at)}})
	}
	if surelyThere(target.text) || sc.errexit && a.w.conds == 0 {
		return
	}
	for _, d := range before {
		if d.missing == "" && len(sc.dirs) == 1 {
			d.missing = sc.dirs[0].path
		}
		sc.failed = append(sc.failed, d)
	}
}

// surelyThere names directories to which a cd does not fail.
func surelyThere(dir string) bool {
	switch dir {
	case "/", ".", "..", "../..", "/tmp", "/etc", "/usr", "/home":
		return true
	}
	return false
}
