package program

import "strings"

// doMake: NAME=value words set variables, and some of those are programs.
func doMake(a *Call) {
	a.programFrom("-f", "--file", "--makefile")
	for _, f := range a.Operands {
		name, val, ok := strings.Cut(f.Text, "=")
		if !f.Known {
			if f.Many {
				a.Opaque("inline_code", "make is given words that are only known when it runs: "+f.Text, f.At)
			}
			continue
		}
		if !ok {
			continue // a target
		}
		if strings.HasSuffix(name, "!") {
			a.Run(f.Sub(val))
			continue
		}
		name = strings.TrimRight(name, ":?+ ")
		switch {
		case name == "SHELL":
			a.Start([]Word{f.Sub(val)})
		case name == ".SHELLFLAGS" || name == "MAKEFLAGS" || name == "MAKEFILES":
			a.Opaque("unknown_option", "make is told how to run its recipes: "+f.Text, f.At)
		case strings.Contains(val, "$(shell") || strings.Contains(val, "${shell") || strings.Contains(val, "!="):
			a.Opaque("inline_code", "make executes "+val, f.At)
		default:
			a.Steer(name, f.Sub(val))
			if strings.HasPrefix(val, "/") || strings.HasPrefix(val, "../") {
				a.use(maybe, f.Sub(val))
			}
		}
	}
}

func doCmake(a *Call) {
	for _, f := range a.Values["-D"] {
		name, val, _ := strings.Cut(f.Text, "=")
		a.Steer(before(name, ":"), f.Sub(val))
	}
	if !a.Effects["tool"] {
		a.UseOperands(a.Operands)
		return
	}
	// cmake -E is a small set of tools of its own, with options of their own.
	args := a.Operands
	for i, f := range a.Argv {
		if f.Is("-E") {
			args = a.Argv[i+1:]
			break
		}
	}
	if len(args) == 0 {
		return
	}
	switch args[0].Text {
	case "env", "time", "chdir":
		rest := args[1:]
		for len(rest) > 0 && (strings.Contains(rest[0].Text, "=") || strings.HasPrefix(rest[0].Text, "-")) {
			rest = rest[1:]
		}
		if args[0].Is("chdir") && len(rest) > 0 {
			a.chdir(rest[0])
			rest = rest[1:]
		}
		a.Start(rest)
	case "rm", "remove", "remove_directory":
		a.Start(append([]Word{args[0].Sub("rm")}, args[1:]...))
	case "echo", "sleep", "true", "false":
	default:
		for _, f := range args[1:] {
			a.use(cuts, f)
		}
	}
}

// doNpmConfig: some settings name the programs that npm runs.
func doNpmConfig(a *Call) {
	for _, f := range a.Operands {
		for _, key := range []string{
			"shell", "editor", "git", "browser", "viewer", "node-options", "node_gyp",
			"onload-script",
		} {
			if strings.Contains(f.Text, key) && !f.Is("get") && len(a.Operands) > 1 && !a.Operands[0].Is("get") {
				a.Opaque("unknown_option", a.Name+" is told which program to run: "+f.Text, f.At)
				return
			}
		}
	}
}

// doGo: go env -w sets what later runs execute.
func doGo(a *Call) {
	if a.Effects["goenv"] {
		for _, f := range a.Operands {
			name, val, _ := strings.Cut(f.Text, "=")
			a.Steer(name, f.Sub(val))
		}
	}
}

// doGoBuild: go run executes the files that it is given; what stands behind them are words for the program.
func doGoBuild(a *Call) {
	ops := a.Operands
	for a.Sub == "run" && len(ops) > 0 && strings.HasSuffix(ops[0].Text, ".go") {
		a.Code(ops[0])
		ops = ops[1:]
	}
	a.UseOperands(ops)
}

// doInterpreter: a script file is bounded by the cage; code on standard input is
// not read.
func doInterpreter(a *Call) {
	for _, f := range a.Values["-M"] {
		if strings.ContainsAny(f.Text, "; (`'\"") {
			a.Opaque("inline_code", a.Name+" executes code in -M", f.At)
		}
	}
	for _, f := range a.Values["-r"] {
		if a.spec.opts["-r"].kind == data && f.Known && strings.Contains(f.Text, "/") { // of ruby
			a.Code(f.Sub(strings.TrimSuffix(f.Text, ".rb") + ".rb"))
		}
	}
	if a.Effects["interactive"] {
		a.Opaque("inline_code", a.Name+" -i executes its standard input", a.At)
		return
	}
	if a.Effects["module"] {
		a.pythonModule()
		return
	}
	inline := false
	for o := range a.Values {
		inline = inline || a.spec.opts[o].kind == code
	}
	for _, f := range a.Operands {
		if a.Name == "perl" {
			a.backup(a.Values["-i"], f)
		}
		if a.Name == "perl" && (strings.HasSuffix(f.Text, "|") || strings.HasPrefix(f.Text, "|")) {
			a.Opaque("inline_code", "perl opens "+f.Text+" as a program", f.At)
		}
	}
	if inline {
		for _, f := range a.Operands {
			a.use(maybe, f)
		}
		return
	}
	if len(a.Operands) == 0 || a.Operands[0].Is("-") || a.Operands[0].Is("/dev/stdin") ||
		strings.HasPrefix(a.Operands[0].Text, "/dev/fd/") || strings.HasPrefix(a.Operands[0].Text, "/proc/self/fd/") ||
		a.Operands[0].Fd {
		if informs(a.Argv[1:]) {
			return
		}
		a.codeOnInput()
		return
	}
	a.UseOperands(a.Operands)
}

func informs(args []Word) bool {
	for _, f := range args {
		switch f.Text {
		case "--version", "-V", "-v", "--help", "-h", "-VV", "-version", "-vv":
			return true
		}
	}
	return false
}

func (a *Call) codeOnInput() {
	switch a.In.Kind {
	case FromFile:
		a.CodeInput()
	case Inherited:
		if len(a.Operands) > 0 || a.Within {
			a.Opaque("inline_code", a.Name+" executes its standard input", a.At)
		}
	default:
		code := "code given in the line, which is not read here"
		if a.In.Typed {
			code = a.stdin()
		}
		a.Opaque("inline_code", a.Name+" executes "+code, a.At)
	}
}

// pythonModule: -m runs a module; a few execute their words.
func (a *Call) pythonModule() {
	if len(a.Values["-m"]) == 0 {
		return // -m is the last word: python prints an error
	}
	module := a.Values["-m"][0]
	switch module.Text {
	case "timeit", "code", "pdb", "cProfile", "profile", "runpy", "doctest_", "trace", "asyncio", "idlelib":
		a.Opaque("inline_code", "python -m "+module.Text+" executes its words", module.At)
	case "pip", "pytest", "black", "ruff", "mypy", "flake8", "isort", "coverage":
		a.Start(append([]Word{module}, a.Operands...))
		a.Via = "python -m"
	case "zipfile", "tarfile":
		for _, f := range a.Operands {
			a.use(tree, f)
			a.use(cuts, f)
		}
	case "http.server", "venv", "unittest", "compileall", "json.tool", "py_compile", "build",
		"site", "sysconfig", "ensurepip":
		for _, f := range a.Operands {
			if strings.Contains(f.Text, "/") || strings.HasPrefix(f.Text, ".") || module.Is("json.tool") ||
				module.Is("venv") {
				f.Makes = module.Is("venv")
				a.use(maybe, f)
			}
		}
	default:
		for _, f := range a.Operands {
			a.use(maybe, f)
		}
	}
}

// doCompiler: some options name programs and libraries that the compiler runs.
func doCompiler(a *Call) {
	for _, f := range a.Argv[1:] {
		for _, part := range []string{
			"-fplugin=", "-specs=", "-wrapper", "linker=", "-fuse-ld=/", "-load", "-B/",
			"-B.",
		} {
			if strings.Contains(f.Text, part) {
				a.Opaque("unknown_option", a.Name+" is told to load or run "+f.Text, f.At)
			}
		}
	}
	a.UseOperands(a.Operands)
	for _, f := range a.Operands {
		a.includes(f)
	}
	a.handedOn()
}

// pipes reports whether a dot command of sqlite3 opens a program.
func pipes(t string) bool { return strings.HasPrefix(t, ".") && strings.Contains(t, "|") }

// doSQL: the shells of databases run programs by commands of their own.
func doSQL(a *Call) {
	for _, f := range a.Argv[1:] {
		t := strings.TrimSpace(f.Text)
		switch {
		case !f.Known && a.spec.do == "sqlite":
			a.Opaque("inline_code", a.Name+" runs text that is only known when it runs", f.At)
		case pipes(t) || strings.Contains(strings.ToLower(t), "edit(") || strings.Contains(t, ".shell") ||
			strings.Contains(t, ".system") || strings.Contains(t, `\!`) || strings.HasPrefix(t, "system ") ||
			strings.HasPrefix(t, "source ") || strings.Contains(strings.ToLower(t), "program") ||
			strings.Contains(t, "load_extension") || strings.Contains(t, ".load") ||
			strings.Contains(t, `\copy`) || strings.Contains(t, `\o `) || strings.Contains(t, `\i `):
			a.Opaque("inline_code", a.Name+" is told to run a program or open a file", f.At)
		case a.spec.do == "sqlite" && strings.HasPrefix(t, "."):
			for _, word := range strings.Fields(t)[1:] {
				a.use(maybe, f.Sub(strings.Trim(word, `'"`)))
			}
		case strings.Contains(strings.ToUpper(t), "ATTACH") || strings.Contains(strings.ToLower(t), "readfile(") ||
			strings.Contains(strings.ToLower(t), "writefile("):
			a.Opaque("inline_code", a.Name+" opens files named in its text", f.At)
		}
	}
	a.UseOperands(a.Operands)
	if a.In.Kind == FromFile {
		a.CodeInput()
	}
	if len(a.Operands) < 2 && a.In.Kind != Inherited {
		a.Opaque("inline_code", a.Name+" executes "+a.stdin(), a.At)
	}
}
