package shellparse

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// act is the analysis of one command: what its words mean in the scope in which it runs.
type act struct {
	program.Call
	w       *walker
	sc      *scope // where it runs; options such as -C move it
	cmd     Command
	call    call
	builtin bool
	moved   bool
	zero    []program.Word // $0 of the text that it runs, if that is known
	before  int            // how much of the environment of call stands in front of the command
	from    *scope         // where it started, if it has moved
}

func (a *act) run() {
	w := a.w
	name := a.Analyse()
	a.cmd.Sub, a.cmd.Told, a.cmd.Builtin, a.cmd.listed = a.Sub, a.Told, a.builtin, a.Listed
	switch {
	case name == "":
	case shellHandler(name) == nil:
		panic("no handler for " + name)
	default:
		shellHandler(name)(a)
	}
	a.effects()
	if strings.Contains(a.cmd.Path, "/") {
		a.script(a.Argv[0], false, a.Argv[1:])
	} else if !a.builtin {
		a.scriptOnPath()
	}
	if a.Name == "make" || a.Name == "gmake" {
		a.recipes()
	}
	w.environments(a)
	a.relays()
	if run, ok := w.madeBy(a.cmd.Code); ok {
		a.runs(run)
	}
	w.emit(a.cmd)
	a.writes()
	if len(a.Inner) > 0 {
		via := a.cmd.Name
		if a.Via != "" {
			via = a.Via
		}
		to, reads := a.call.files, len(w.opaqueReads)
		if a.Name == "script" { // it writes what the other prints into its operand as well
			to = a.cmd.Files
		}
		w.into(to, a.call.own, func() {
			w.within(via, func() {
				for _, f := range a.Inner {
					f()
				}
			})
		})
		read := func(f File) bool { return f.Access == Read }
		if (a.Name == "xargs" || a.Name == "parallel") && len(w.opaqueReads) > reads &&
			slices.ContainsFunc(a.cmd.Files, read) { // the words in its files are what runs
			w.opaqueReads = append(w.opaqueReads, a.cmd.At)
			w.opaqueCommands = append(w.opaqueCommands, a.cmd.At)
		}
	}
}

// shellHandler returns what the tables leave to the shell under this name, or nil.
func shellHandler(name string) func(*act) {
	switch name {
	case "shell":
		return doShell
	case "eval":
		return doEval
	case "source":
		return doSource
	case "exec":
		return doExec
	case "command", "builtin":
		return doCommand
	case "cd":
		return doCd
	case "trap":
		return doTrap
	case "test":
		return doTest
	case "read":
		return doRead
	case "printf":
		return doPrintf
	case "jobs":
		return doJobs
	case "npx":
		return doNpx
	case "fc":
		return doFc
	case "wait":
		return doWait
	case "compgen":
		return doCompgen
	case "let":
		return doLet
	case "unset":
		return doUnset
	case "set":
		return doSet
	case "shopt":
		return doShopt
	case "alias":
		return doAlias
	case "declare":
		return doDeclare
	case "shift":
		return doShift
	case "hash":
		return doHash
	case "enable":
		return doEnable
	case "data":
		return doData
	}
	return nil
}

// File implements [program.Shell].
func (a *act) File(f program.Word, access Access, recursive bool) {
	if f.Is("-") {
		return // "-" is standard input or output
	}
	from := len(a.cmd.Files)
	a.cmd.Files = a.w.addFile(a.cmd.Files, f, access, recursive, a.sc)
	for i := range a.cmd.Files[from:] {
		a.cmd.Files[from+i].Looks = access == Read && looks(a.Name)
		a.cmd.Files[from+i].First = access == Write && a.Name == "tee"
	}
}

// looks reports whether a program reads only names and attributes of files.
func looks(name string) bool {
	switch name {
	case "test", "[", "ls", "stat", "realpath", "readlink", "du", "tree", "exa", "eza":
		return true
	}
	return false
}

// Code implements [program.Shell].
func (a *act) Code(f program.Word) {
	from := len(a.cmd.Files)
	a.File(f, Read, false)
	a.cmd.Code = append(a.cmd.Code, a.cmd.Files[from:]...)
}

// CodeInput implements [program.Shell].
func (a *act) CodeInput() {
	own := false
	for _, f := range a.call.files {
		if f.Access == Read {
			own = true
			a.cmd.Code = append(a.cmd.Code, f)
		}
	}
	if !own { // of the group that it is in
		for _, f := range a.In.Files {
			a.Code(f)
		}
	}
}

// Written implements [program.Shell].
func (a *act) Written(f program.Word) (texts []string) {
	if f.Fd || f.Glob {
		return nil
	}
	for _, x := range a.w.file(f, Read, false, a.sc) {
		texts = append(texts, a.w.written[x.key()]...)
	}
	return texts
}

// Inline implements [program.Shell].
func (a *act) Inline(code program.Word) {
	opaque := len(a.w.opaqueReads)
	a.Opaque("inline_code", a.cmd.Name+" executes code given in the line, which is not read here", code.At)
	a.w.opaqueReads = a.w.opaqueReads[:opaque] // what it reads is data
	a.w.out.Opaque[len(a.w.out.Opaque)-1].Words = code.Known
}

// Host implements [program.Shell].
func (a *act) Host(name string) { a.cmd.Hosts = append(a.cmd.Hosts, name) }

// Chdir implements [program.Shell]: it moves the command, not the shell.
func (a *act) Chdir(to program.Word) {
	if !a.moved {
		a.from, a.sc, a.moved = a.sc, a.sc.clone(), true
	}
	a.sc.dirs = moveTo(a.sc.dirs, to)
	a.sc.physical = true // a shell that starts there finds that PWD is another directory
	a.cmd.Dir = a.sc.dir()
}

// Setenv implements [program.Shell].
func (a *act) Setenv(f program.Word) {
	text := f.Text
	if !f.Known {
		text = f.Skeleton
	}
	name, val, ok := strings.Cut(text, "=")
	if !ok {
		return
	}
	v := program.Word{Text: f.Text, Skeleton: val, At: f.At}
	if f.Known {
		v = f.Sub(val)
	}
	if fn, ok := strings.CutPrefix(strings.TrimSuffix(name, "%%"), "BASH_FUNC_"); ok && v.Known {
		a.Run(f.Sub(fn + " " + val)) // bash takes a function from there
	}
	a.call.env = append(a.call.env,
		assignment{name: name, value: value{words: []program.Word{v}}, known: f.Known && !f.Glob, at: f.At})
	a.cmd.Env = append(a.cmd.Env, Assign{Name: name, Value: wordOf(v)})
}

// Steer implements [program.Shell].
func (a *act) Steer(name string, value program.Word) {
	a.w.environment(Assign{Name: name, Value: wordOf(value)}, a.Name, value.At)
}

// Start implements [program.Shell].
func (a *act) Start(words []program.Word) {
	if len(words) == 0 {
		return
	}
	sc, env, changed := a.sc, a.environment(), a.changes()
	a.Inner = append(a.Inner, func() {
		a.w.start(call{argv: words, env: env, in: a.In, external: true, changed: changed, at: spanOf(words)}, sc)
	})
}

// spanOf is the place of the command that these words are: where it begins, up to the last of them, so that it has the
// substitutions in them.
func spanOf(words []program.Word) (at Pos) {
	at = words[0].At
	for _, f := range words[1:] {
		at.End = max(at.End, f.At.End)
	}
	return at
}

// Exec implements [program.Shell].
func (a *act) Exec(words []program.Word, elsewhere bool) {
	sc, env, changed := a.sc, a.environment(), a.changes()
	if elsewhere {
		for i := range words {
			if words[i].Tree {
				words[i] = a.absolute(words[i])
			}
		}
		sc = sc.clone()
		sc.dirs = []workdir{{}}
	}
	a.Inner = append(a.Inner, func() {
		a.w.start(call{argv: words, env: env, external: true, changed: changed, at: spanOf(words)}, sc)
	})
}

// absolute returns the path that a relative word has from the present directory.
func (a *act) absolute(f program.Word) program.Word {
	if f.Known && !f.Glob && !strings.HasPrefix(f.Text, "/") {
		if dir := a.sc.dir(); dir != "" {
			f.Text = join(dir, f.Text)
		} else {
			f.Known = false
		}
	}
	return f
}

// Again implements [program.Shell].
func (a *act) Again(argv []program.Word) {
	second := a.call
	second.argv = argv
	a.Inner = append(a.Inner, func() {
		// A wrong option ends the program, so the line cannot be read that way.
		was := a.w.again
		a.w.again = true
		a.w.start(second, a.sc)
		a.w.again = was
	})
}

// Run implements [program.Shell].
func (a *act) Run(text program.Word) {
	call := a.call
	a.call.env, a.call.changed = a.environment(), a.changes()
	a.shellText(text, nil)
	a.call = call
}

// Opaque implements [program.Shell].
func (a *act) Opaque(code, message string, at Pos) {
	inline := code == "inline_code" || code == "dynamic_eval"
	if inline || code == "unknown_command" {
		a.w.opaqueCommands = append(a.w.opaqueCommands, a.cmd.At)
		a.w.opaqueReads = append(a.w.opaqueReads, a.cmd.At)
	}
	a.w.opaque(Opaque{Code: code, Message: message, Command: a.cmd.Name, At: at, Inline: inline})
}

func moveTo(from []workdir, f program.Word) []workdir {
	if !f.Known || f.Glob {
		return []workdir{{}}
	}
	if strings.HasPrefix(f.Text, "/") {
		return []workdir{{path: f.Text}}
	}
	var out []workdir
	for _, d := range from {
		if d.path != "" {
			d.path = join(d.path, f.Text)
		}
		out = append(out, d)
	}
	return out
}

// join joins paths. Like the kernel, it keeps ".." where a link could stand before it.
func join(dir, rel string) string {
	if strings.Contains(rel, "..") {
		return dir + "/" + rel
	}
	return path.Join(dir, rel)
}

// shellText walks text as a shell would run it.
func (a *act) shellText(f program.Word, args []program.Word) {
	w, sc := a.w, a.sc
	f = f.Numbers()
	if !f.Known || f.Glob || f.Tree {
		a.Opaque("inline_code", a.cmd.Name+" executes text that is only known when it runs", f.At)
		return
	}
	if w.nested >= maxNested {
		w.fail(&Error{
			Code: "too_deep", Msg: "shells in shells are nested deeper than 8",
			Hint: "run the inner command itself", At: f.At,
		})
	}
	env, zero, byBash := a.call.env, a.zero, slices.Contains(bashes, a.cmd.Name)
	if a.call.changed {
		sc = sc.clone()
		sc.handed = nil
	}
	a.Inner = append(a.Inner, func() {
		w.nested++
		at, from, saved, savedAny := f.At, len(w.out.Commands), w.posix, w.anyShell
		w.posix, w.anyShell = false, !byBash
		child := func() *scope {
			c := w.childScope(sc, env, args)
			c.zero = zero
			return c
		}
		err := w.program(f.Text, child(), &at)
		if err == nil && !byBash {
			err = w.bySh(f.Text, child(), &at, from)
		}
		if err != nil {
			w.err = nil
			panicErr(w, err, at)
		}
		w.nested--
		w.posix, w.anyShell = saved, savedAny
	})
}
