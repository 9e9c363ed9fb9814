package shellparse

import "strings"

// doMake: NAME=value words set variables, and some of those are programs.
func doMake(a *act) {
	a.programFrom("-f", "--file", "--makefile")
	for _, f := range a.operands {
		name, val, ok := strings.Cut(f.text, "=")
		if !f.known {
			if f.many {
				a.opaque("unknown_option", "make is given words that are only known when it runs: "+f.text, f.at)
			}
			continue
		}
		if !ok {
			continue // a target
		}
		if strings.HasSuffix(name, "!") {
			a.shellText(f.sub(val), nil)
			continue
		}
		name = strings.TrimRight(name, ":?+ ")
		switch {
		case name == "SHELL":
			a.command([]field{f.sub(val)})
		case name == ".SHELLFLAGS" || name == "MAKEFLAGS" || name == "MAKEFILES":
			a.opaque("unknown_option", "make is told how to run its recipes: "+f.text, f.at)
		case strings.Contains(val, "$(shell") || strings.Contains(val, "${shell") || strings.Contains(val, "!="):
			a.opaque("inline_code", "make executes "+val, f.at)
		default:
			a.w.environment(Assign{Name: name, Value: f.sub(val).word()}, "make", f.at)
			if strings.HasPrefix(val, "/") || strings.HasPrefix(val, "../") {
				a.use(maybe, f.sub(val))
			}
		}
	}
}

func doCmake(a *act) {
	for _, f := range a.values["-D"] {
		name, val, _ := strings.Cut(f.text, "=")
		a.w.environment(Assign{Name: before(name, ":"), Value: f.sub(val).word()}, "cmake", f.at)
	}
	if !a.effects["tool"] {
		a.useOperands(a.operands)
		return
	}
	// cmake -E is a small set of tools of its own.
	args := a.operands
	if len(args) == 0 {
		return
	}
	switch args[0].text {
	case "env", "time", "chdir":
		rest := args[1:]
		for len(rest) > 0 && (strings.Contains(rest[0].text, "=") || strings.HasPrefix(rest[0].text, "-")) {
			rest = rest[1:]
		}
		if args[0].is("chdir") && len(rest) > 0 {
			a.chdir(rest[0])
			rest = rest[1:]
		}
		a.command(rest)
	case "rm", "remove", "remove_directory":
		a.command(append([]field{args[0].sub("rm")}, args[1:]...))
	case "echo", "sleep", "true", "false":
	default:
		for _, f := range args[1:] {
			a.use(cuts, f)
		}
	}
}

// doNpmConfig: some settings name the programs that npm runs.
func doNpmConfig(a *act) {
	for _, f := range a.operands {
		for _, key := range []string{"shell", "editor", "git", "browser", "viewer", "node-options", "node_gyp", "onload-script"} {
			if strings.Contains(f.text, key) && !f.is("get") && len(a.operands) > 1 && !a.operands[0].is("get") {
				a.opaque("unknown_option", a.cmd.Name+" is told which program to run: "+f.text, f.at)
				return
			}
		}
	}
}

// doGo: go env -w sets what later runs execute.
func doGo(a *act) {
	if a.effects["goenv"] {
		for _, f := range a.operands {
			name, val, _ := strings.Cut(f.text, "=")
			a.w.environment(Assign{Name: name, Value: f.sub(val).word()}, "go", f.at)
		}
	}
}

// doInterpreter: a script file is bounded by the cage; code on standard input is
// not read.
func doInterpreter(a *act) {
	for _, f := range a.values["-M"] {
		if strings.ContainsAny(f.text, "; (`'\"") {
			a.opaque("inline_code", a.cmd.Name+" executes code in -M", f.at)
		}
	}
	if a.effects["interactive"] {
		a.opaque("inline_code", a.cmd.Name+" -i executes its standard input", a.cmd.At)
		return
	}
	if a.effects["module"] {
		a.pythonModule()
		return
	}
	inline := false
	for _, o := range []string{"-c", "-e", "-E", "-p", "--eval", "--print", "-pe", "-r", "-R", "-B", "-eval", "--exec"} {
		if v := a.values[o]; len(v) > 0 && a.spec.opts[o].kind == code {
			inline = true
		}
	}
	for _, f := range a.operands {
		if a.cmd.Name == "perl" && (strings.HasSuffix(f.text, "|") || strings.HasPrefix(f.text, "|")) {
			a.opaque("inline_code", "perl opens "+f.text+" as a program", f.at)
		}
	}
	if inline {
		for _, f := range a.operands {
			a.use(maybe, f)
		}
		return
	}
	if len(a.operands) == 0 || a.operands[0].is("-") || a.operands[0].is("/dev/stdin") || strings.HasPrefix(a.operands[0].text, "/dev/fd/") || strings.HasPrefix(a.operands[0].text, "/proc/self/fd/") || a.operands[0].fd {
		if informs(a.call.argv[1:]) {
			return
		}
		a.codeOnInput()
		return
	}
	a.useOperands(a.operands)
}

func informs(args []field) bool {
	for _, f := range args {
		switch f.text {
		case "--version", "-V", "-v", "--help", "-h", "-VV", "-version", "-vv":
			return true
		}
	}
	return false
}

func (a *act) codeOnInput() {
	switch a.call.in.kind {
	case fromFile:
	case inherited:
		if len(a.operands) > 0 || len(a.cmd.Via) > 0 {
			a.opaque("inline_code", a.cmd.Name+" executes its standard input", a.cmd.At)
		}
	default:
		a.opaque("inline_code", a.cmd.Name+" executes code given in the line, which is not read here", a.cmd.At)
	}
}

// pythonModule: -m runs a module; a few execute their words.
func (a *act) pythonModule() {
	module := a.values["-m"][0]
	switch module.text {
	case "timeit", "code", "pdb", "cProfile", "profile", "runpy", "doctest_", "trace", "asyncio", "idlelib":
		a.opaque("inline_code", "python -m "+module.text+" executes its words", module.at)
	case "pip", "pytest", "black", "ruff", "mypy", "flake8", "isort", "coverage":
		a.command(append([]field{module}, a.operands...))
		a.via = "python -m"
	case "http.server", "venv", "unittest", "compileall", "json.tool", "zipfile", "tarfile", "py_compile", "build", "site", "sysconfig", "ensurepip":
		for _, f := range a.operands {
			if strings.Contains(f.text, "/") || strings.HasPrefix(f.text, ".") || module.is("json.tool") || module.is("venv") {
				a.use(maybe, f)
			}
		}
	default:
		for _, f := range a.operands {
			a.use(maybe, f)
		}
	}
}

// doCompiler: some options name programs and libraries that the compiler runs.
func doCompiler(a *act) {
	for _, f := range a.call.argv[1:] {
		for _, part := range []string{"-fplugin=", "-specs=", "-wrapper", "linker=", "-fuse-ld=/", "-load", "-B/", "-B."} {
			if strings.Contains(f.text, part) {
				a.opaque("unknown_option", a.cmd.Name+" is told to load or run "+f.text, f.at)
			}
		}
	}
	for _, f := range a.operands {
		if file, ok := strings.CutPrefix(f.text, "@"); ok {
			a.use(reads, f.sub(file)) // more arguments
		}
	}
	a.useOperands(a.operands)
}

// pipes reports whether a dot command of sqlite3 opens a program.
func pipes(t string) bool { return strings.HasPrefix(t, ".") && strings.Contains(t, "|") }

// doSQL: the shells of databases run programs by commands of their own.
func doSQL(a *act) {
	for _, f := range a.call.argv[1:] {
		t := strings.TrimSpace(f.text)
		switch {
		case !f.known && a.spec.do == "sqlite":
			a.opaque("inline_code", a.cmd.Name+" runs text that is only known when it runs", f.at)
		case pipes(t) || strings.Contains(strings.ToLower(t), "edit(") || strings.Contains(t, ".shell") || strings.Contains(t, ".system") || strings.Contains(t, `\!`) || strings.HasPrefix(t, "system ") || strings.HasPrefix(t, "source ") || strings.Contains(strings.ToLower(t), "program") || strings.Contains(t, "load_extension") || strings.Contains(t, ".load") || strings.Contains(t, `\copy`) || strings.Contains(t, `\o `) || strings.Contains(t, `\i `):
			a.opaque("inline_code", a.cmd.Name+" is told to run a program or open a file", f.at)
		case a.spec.do == "sqlite" && strings.HasPrefix(t, "."):
			for _, word := range strings.Fields(t)[1:] {
				a.use(maybe, f.sub(strings.Trim(word, `'"`)))
			}
		case strings.Contains(strings.ToUpper(t), "ATTACH") || strings.Contains(strings.ToLower(t), "readfile(") || strings.Contains(strings.ToLower(t), "writefile("):
			a.opaque("inline_code", a.cmd.Name+" opens files named in its text", f.at)
		}
	}
	a.useOperands(a.operands)
	if len(a.operands) < 2 && a.call.in.kind != inherited {
		a.opaque("inline_code", a.cmd.Name+" executes its standard input", a.cmd.At)
	}
}
