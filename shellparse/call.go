package shellparse

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call is one command that is about to start.
type call struct {
	argv     []field
	env      []assignment
	files    []File // of its redirections
	in       stream
	external bool // no function and no builtin can be meant
	at       Pos
}

func (w *walker) callExpr(c *syntax.CallExpr, redirs []*syntax.Redirect, sc *scope, in stream) {
	argv := w.fields(c.Args, sc)
	env := w.assigns(c.Assigns, sc)
	files, redirected := w.redirects(redirs, sc)
	if redirected.kind != inherited {
		in, in.own = redirected, true
	}
	if len(argv) == 0 {
		if len(c.Args) > 0 {
			// Every word vanished: nothing runs.
			w.out.Files = append(w.out.Files, files...)
			return
		}
		for _, a := range env {
			w.apply(a, sc)
		}
		w.out.Files = append(w.out.Files, files...)
		return
	}
	for _, a := range env {
		for _, f := range a.value.words {
			w.noteSuspect(f) // a builtin sees the value, and may evaluate it
		}
	}
	w.start(call{argv: argv, env: env, files: files, in: in, at: w.pos(c)}, sc)
}

// start answers the one question of this package, which programs does this start:
// every way to run something ends here.
func (w *walker) start(c call, sc *scope) {
	if w.steps++; w.steps > maxSteps {
		w.fail(&Error{Code: "too_large", Msg: "command starts too many programs", Hint: "split the command", At: c.at})
	}
	if len(w.via) > 4*maxNested {
		w.fail(&Error{Code: "too_deep", Msg: "commands that run commands are nested too deep", Hint: "run the inner command itself", At: c.at})
	}
	name := c.argv[0]
	cmd := Command{Path: name.text, Via: w.via, Files: c.files, Dir: sc.dir(), At: c.at}
	for _, a := range c.env {
		cmd.Env = append(cmd.Env, Assign{Name: a.name, Value: oneWord(a.value, a.at)})
	}
	cmd.Args = make([]Word, len(c.argv)-1)
	for i, f := range c.argv[1:] {
		cmd.Args[i] = f.word()
	}
	if !name.known || name.glob || name.tree || name.fd || name.text == "" {
		if name.glob {
			cmd.Path = name.text
		}
		w.unknownName(cmd, c, sc)
		return
	}
	cmd.Name = path.Base(name.text)
	if !c.external && !strings.Contains(name.text, "/") || w.functionNamed(sc, name.text) {
		if f, ok := sc.funcs[name.text]; ok && !c.external {
			w.out.Files = append(w.out.Files, c.files...)
			for _, a := range c.env {
				w.apply(a, sc)
			}
			if !f.maybe {
				w.invoke(name.text, f.body, c.argv[1:], sc, c.in)
				return
			}
			other := sc.clone()
			w.invoke(name.text, f.body, c.argv[1:], other, c.in)
			defer sc.merge(other)
		}
	}
	a := w.newAct()
	*a = act{w: w, sc: sc, cmd: cmd, call: c, builtin: !c.external && builtins[name.text]}
	a.run()
	w.idle = append(w.idle, a)
}

// newAct is the place of an act that has ended, if there is one: they are large,
// and a script has many.
func (w *walker) newAct() *act {
	if n := len(w.idle) - 1; n >= 0 {
		a := w.idle[n]
		w.idle = w.idle[:n]
		return a
	}
	return new(act)
}

func (w *walker) functionNamed(sc *scope, name string) bool {
	_, ok := sc.funcs[name]
	return ok
}

func (w *walker) emit(cmd Command) { w.out.Commands = append(w.out.Commands, cmd) }

// unknownName emits a command whose program is not known; its words may be
// anything.
func (w *walker) unknownName(cmd Command, c call, sc *scope) {
	a := act{w: w, sc: sc, cmd: cmd, call: c}
	for _, f := range c.argv[1:] {
		a.use(maybe, f)
	}
	cmd.Files = a.cmd.Files
	w.emit(cmd)
}

// act is the analysis of one command: what its words mean.
type act struct {
	w       *walker
	sc      *scope // where it runs; options such as -C move it
	cmd     Command
	call    call
	spec    *spec
	builtin bool
	moved   bool

	operands []field
	effects  map[string]bool
	values   map[string][]field // of options, by their first spelling in the table
	inner    []func()           // what it starts, after the command itself
	via      string             // how that is reached; "": the name
}

func (a *act) run() {
	w, cmd := a.w, &a.cmd
	name := cmd.Name
	if strings.Contains(cmd.Path, "/") {
		if dir := path.Dir(path.Clean(cmd.Path)); !systemDir(dir) {
			cmd.Files = append(cmd.Files, w.file(a.call.argv[0], Read, false, a.sc)...)
		}
	}
	a.spec = find(name)
	args := a.call.argv[1:]
	if a.spec != nil && len(a.spec.operands) > 0 && a.spec.operands[0] == subname {
		args = a.subcommand(args)
	}
	if a.spec == nil {
		a.generic(args)
	} else {
		a.parse(args)
		if f := doers(a.spec.do); f != nil {
			f(a)
		} else {
			a.useOperands(a.operands)
		}
	}
	w.environments(a)
	w.emit(*cmd)
	if len(a.inner) > 0 {
		via := name
		if a.via != "" {
			via = a.via
		}
		w.within(via, func() {
			for _, f := range a.inner {
				f()
			}
		})
	}
}

// find is the table line of a program; versions share one (python3.12).
func find(name string) *spec {
	if s := commands()[name]; s != nil {
		return s
	}
	base := strings.TrimRight(name, "0123456789.-")
	if base != name && len(base) > 1 {
		return commands()[base]
	}
	return nil
}

func systemDir(dir string) bool {
	switch dir {
	case "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin":
		return true
	}
	return false
}

// subcommand skips the options in front of a subcommand and goes on with its own
// table line.
func (a *act) subcommand(args []field) []field {
	program := a.spec
	i := a.options(program, args, true)
	a.operands = nil
	if program.do == "git" {
		a.gitSettings()
		a.values = nil
	}
	if i >= len(args) {
		a.spec = &spec{repeat: -1}
		return nil
	}
	sub := args[i]
	if sub.lit() == "" {
		a.opaque("unknown_command", a.cmd.Name+" runs a subcommand that is only known when it runs", sub.at)
		a.spec = nil
		return args[i+1:]
	}
	if s := a.subSpec(program, sub.text); s != nil {
		a.spec = s
		if len(s.operands) > 0 && s.operands[0] == subname {
			return a.subcommand(args[i+1:])
		}
		return args[i+1:]
	}
	if s := a.subSpec(program, "*"); s != nil {
		a.spec = s
		return args[i:]
	}
	a.spec = nil
	return args[i+1:]
}

func (a *act) subSpec(program *spec, sub string) *spec {
	if s := commands()[a.cmd.Name+" "+sub]; s != nil {
		return s
	}
	return commands()[program.names[0]+" "+sub]
}

func (a *act) opaque(code, message string, at Pos) {
	a.w.opaque(Opaque{Code: code, Message: message, Command: a.cmd.Name, At: at, Inline: code == "inline_code" || code == "dynamic_eval"})
}

// useOperands gives each operand its meaning.
func (a *act) useOperands(list []field) {
	s := a.spec
	shift := 0
	if a.effects["nodata"] {
		shift = 1
	}
	if s.none != "" && s.repeat >= 0 && len(list)+shift <= s.repeat && !(s.repeat > 0 && a.call.in.kind != inherited) {
		k := s.operands[s.repeat]
		if k == reads && a.effects["rec"] {
			k = tree
		}
		a.use(k, literal(s.none, a.cmd.At))
	}
	n := len(list) + shift
	for i, f := range list {
		k := s.kindAt(i+shift, n)
		if k == argv || k == env {
			if s.operands[0] == env && (f.is("-") && i == 0 || f.known && strings.Contains(before(f.text, "/"), "=")) {
				a.use(env, f)
				continue
			}
			a.command(list[i:])
			return
		}
		switch {
		case a.effects["target"] && k == writes && len(s.operands) > 1 && s.operands[0] != writes:
			k = s.operands[0]
		case a.effects["inplace"] && k == reads:
			k = both
		case a.effects["data"]:
			k = data
		}
		if a.effects["rec"] || s.rec {
			switch k {
			case reads:
				k = tree
			case writes, both:
				k = cuts
			}
		}
		a.use(k, f)
	}
	if a.effects["rec"] && s.none == "" && len(list)+shift == 1 && s.operands[0] == data && len(s.operands) > 1 {
		a.use(tree, literal(".", a.cmd.At)) // grep -r PATTERN
	}
}

// command starts the words as a command of their own.
func (a *act) command(words []field) {
	if len(words) == 0 {
		return
	}
	sc, env := a.sc, a.call.env
	a.inner = append(a.inner, func() {
		a.w.start(call{argv: words, env: env, in: a.call.in, external: true, at: words[0].at}, sc)
	})
}

// shellText runs text as a shell would.
func (a *act) shellText(f field, args []field) {
	w, sc := a.w, a.sc
	f = f.numbers()
	if !f.known || f.glob || f.tree {
		a.opaque("inline_code", a.cmd.Name+" executes text that is only known when it runs", f.at)
		return
	}
	if w.nested >= maxNested {
		w.fail(&Error{Code: "too_deep", Msg: "shells in shells are nested deeper than 8", Hint: "run the inner command itself", At: f.at})
	}
	env := a.call.env
	a.inner = append(a.inner, func() {
		w.nested++
		at := f.at
		if err := w.program(f.text, w.childScope(sc, env, args), &at); err != nil {
			w.err = nil
			panicErr(w, err, at)
		}
		w.nested--
	})
}

func panicErr(w *walker, err error, at Pos) {
	e, ok := err.(*Error)
	if !ok {
		e = &Error{Code: "syntax", Msg: err.Error(), At: at}
	}
	w.fail(e)
}

// childScope is what a shell started here knows: only what is exported.
func (w *walker) childScope(sc *scope, env []assignment, args []field) *scope {
	c := &scope{dirs: sc.dirs, args: args}
	c.export = slices.Clone(sc.export)
	for _, v := range sc.vars {
		if sc.isExported(v.name) {
			c.set(v.name, v.value)
		}
	}
	for _, e := range env {
		for _, f := range e.value.words {
			w.noteSuspect(f)
		}
		c.exported(e.name)
		if e.known {
			c.set(e.name, e.value)
		} else {
			c.forget(e.name)
		}
	}
	return c
}
