package shellparse

import "strings"

// doFind reads the roots, the actions and the commands that find runs on what it
// finds.
func doFind(a *act) {
	args := a.call.argv[1:]
	var roots []field
	i := 0
	for ; i < len(args); i++ {
		f := args[i]
		if !f.known && (strings.HasPrefix(f.skeleton, "-") || findActs(strings.TrimLeft(f.skeleton, "_"))) {
			break // an option that is not known, or may be one
		}
		if f.known && (strings.HasPrefix(f.text, "-") || f.is("(") || f.is("!") || f.is(",") || f.is(")")) {
			switch {
			case f.is("-H") || f.is("-L") || f.is("-P") || strings.HasPrefix(f.text, "-O"):
				continue
			case f.is("-D"):
				i++
				continue
			}
			break
		}
		roots = append(roots, f)
	}
	if len(roots) == 0 {
		roots = []field{literal(".", a.cmd.At)}
	}
	for _, r := range roots {
		a.file(r, Read, true)
	}
	a.expression(args[i:], roots)
}

// findActs reports whether a word of find does more than select.
func findActs(word string) bool {
	switch word {
	case "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fls", "-fprintf", "-files0-from":
		return true
	}
	return false
}

func (a *act) expression(args, roots []field) {
	for i := 0; i < len(args); i++ {
		f := args[i]
		if f.lit() == "" {
			if !f.known {
				a.opaque("unknown_option", "find is given an expression that is only known when it runs: "+f.text, f.at)
			}
			continue
		}
		var next field
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch f.text {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(args) && !args[end].is(";") && !(args[end].is("+") && end > i+1 && args[end-1].is("{}")) {
				end++
			}
			a.found(args[i+1:end], roots, strings.HasSuffix(f.text, "dir"), "find "+f.text)
			i = end
		case "-delete":
			for _, r := range roots {
				a.file(r, Write, true)
			}
		case "-fprint", "-fprint0", "-fls":
			a.use(writes, next)
			i++
		case "-fprintf":
			a.use(writes, next)
			i += 2
		case "-newer", "-anewer", "-cnewer", "-samefile", "-files0-from":
			a.use(reads, next)
			i++
		case "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-lname", "-ilname",
			"-type", "-xtype", "-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-user", "-group", "-uid", "-gid",
			"-perm", "-maxdepth", "-mindepth", "-links", "-inum", "-printf", "-regextype", "-used", "-fstype", "-context", "-newermt", "-newerat", "-newerct":
			i++
		}
	}
}

// found starts a command on what a search found below roots.
func (a *act) found(words, roots []field, inDir bool, via string) {
	if len(words) == 0 {
		return
	}
	var argv []field
	for i, f := range words {
		switch {
		case f.is("{}") && i > 0:
			for _, r := range roots {
				r.tree = true
				argv = append(argv, r)
			}
		case strings.Contains(f.text, "{}"):
			f.known = false
			argv = append(argv, f)
		default:
			argv = append(argv, f)
		}
	}
	sc := a.sc
	if inDir {
		sc = sc.clone()
		sc.dirs = []workdir{{}}
		for i := range argv {
			if argv[i].tree {
				argv[i] = a.absolute(argv[i])
			}
		}
	}
	a.via = via
	env := a.call.env
	a.inner = append(a.inner, func() {
		a.w.start(call{argv: argv, env: env, external: true, at: words[0].at}, sc)
	})
}

// absolute pins a relative word to the directory that it is relative to now.
func (a *act) absolute(f field) field {
	if f.known && !f.glob && !strings.HasPrefix(f.text, "/") {
		if dir := a.sc.dir(); dir != "" {
			f.text = join(dir, f.text)
		} else {
			f.known = false
		}
	}
	return f
}

func doFd(a *act) {
	a.useOperands(a.operands)
	roots := []field{literal(".", a.cmd.At)}
	if len(a.operands) > 1 {
		roots = a.operands[1:]
	}
	args := a.call.argv[1:]
	for i, f := range args {
		if f.is("-x") || f.is("--exec") || f.is("-X") || f.is("--exec-batch") {
			a.inner = nil
			words := append([]field(nil), args[i+1:]...)
			if len(words) > 0 {
				a.found(append(words, literal("{}", f.at)), roots, false, "fd "+f.text)
			}
			return
		}
	}
}

// doXargs starts its command with words from standard input: below the roots of a
// search whose output it reads, else not known.
func doXargs(a *act) {
	words := append([]field(nil), a.operands...)
	if len(words) == 0 {
		words = []field{literal("echo", a.cmd.At)}
	}
	more := []field{{text: "(words from standard input)", many: true, at: a.cmd.At}}
	if len(a.call.in.paths) > 0 && len(a.values["-a"]) == 0 {
		more = nil
		for _, p := range a.call.in.paths {
			p.tree = true
			more = append(more, p)
		}
	}
	if in := a.call.in; in.kind == hereText && len(a.values["-a"]) == 0 && !strings.ContainsAny(in.text, `'"\`) {
		more = nil
		for _, word := range strings.Fields(in.text) {
			more = append(more, literal(word, in.at))
		}
	}
	marker := ""
	for _, name := range []string{"-I", "-i", "--replace", "-J"} {
		if v, ok := a.values[name]; ok {
			marker = v[len(v)-1].text
		}
	}
	for _, f := range a.call.argv[1:] {
		if f.is("-i") || f.is("--replace") {
			marker = "{}"
		}
		if !strings.HasPrefix(f.text, "-") {
			break
		}
	}
	if marker == "" {
		words = append(words, more...)
	} else {
		var out []field
		for i, f := range words {
			switch {
			case f.is(marker) && i > 0:
				out = append(out, more...)
			case strings.Contains(f.text, marker):
				f.known, f.many = false, false
				out = append(out, f)
			default:
				out = append(out, f)
			}
		}
		words = out
	}
	a.command(words)
}

// doParallel runs its words, or each line of its input, as shell text.
func doParallel(a *act) {
	words := a.operands
	for i, f := range words {
		if strings.HasPrefix(f.text, ":::") {
			words = words[:i]
			break
		}
	}
	if len(words) == 0 {
		a.opaque("inline_code", "parallel executes each line of its input", a.cmd.At)
		return
	}
	if len(words) == 1 && strings.ContainsAny(words[0].text, " ;|&$`") {
		text := words[0]
		if strings.Contains(text.text, "{") {
			text.known = false
		}
		a.shellText(text, nil)
		return
	}
	out := make([]field, 0, len(words)+1)
	for i, f := range words {
		if i > 0 && strings.Contains(f.text, "{") {
			f.known = false
		}
		out = append(out, f)
	}
	a.command(append(out, field{text: "(words from standard input)", many: true, at: a.cmd.At}))
}

// doJoined joins its words to one shell text, as watch does.
func doJoined(a *act) {
	if len(a.operands) == 0 {
		return
	}
	if a.effects["argv"] {
		a.command(a.operands)
		return
	}
	a.joined(a.operands)
}

func (a *act) joined(words []field) {
	if len(words) == 0 {
		return
	}
	one := words[0]
	var texts []string
	for _, f := range words {
		one.known = one.known && f.known && !f.glob
		texts = append(texts, f.text)
	}
	one.text, one.glob = strings.Join(texts, " "), false
	a.shellText(one, nil)
}

func doEntr(a *act) {
	if a.effects["shell"] {
		a.joined(a.operands)
		return
	}
	var words []field
	for _, f := range a.operands {
		if f.is("/_") {
			f.known = false
		}
		words = append(words, f)
	}
	a.command(words)
}

func doDd(a *act) {
	for _, f := range a.operands {
		name, val, ok := strings.Cut(f.text, "=")
		switch {
		case !f.known:
			a.use(maybe, f)
		case ok && name == "if":
			a.use(reads, f.sub(val))
		case ok && name == "of":
			a.use(writes, f.sub(val))
		}
	}
}

// doRename: the Perl program of that name evaluates its first word.
func doRename(a *act) {
	if len(a.operands) > 0 {
		if t := a.operands[0].text; strings.ContainsAny(t, ";`$({") || strings.HasSuffix(t, "e") && strings.Count(t, "/") > 2 {
			a.opaque("inline_code", "rename executes its expression as Perl", a.operands[0].at)
		}
	}
	a.useOperands(a.operands)
}

func doHeadTail(a *act) {
	var ops []field
	for i, f := range a.operands {
		if i == 0 && strings.HasPrefix(f.text, "+") && digits(strings.Trim(f.text[1:], "cfl")) {
			continue
		}
		ops = append(ops, f)
	}
	a.useOperands(ops)
}

// doSplit writes files named by a prefix: any name that begins with it.
func doSplit(a *act) {
	prefix := literal("x", a.cmd.At)
	if a.cmd.Name == "csplit" {
		prefix = literal("xx", a.cmd.At)
		if v := a.values["-f"]; len(v) > 0 {
			prefix = v[0]
		}
	} else if len(a.operands) > 1 {
		prefix = a.operands[1]
	}
	if len(a.operands) > 0 {
		a.use(reads, a.operands[0])
	}
	if prefix.known && !prefix.glob {
		prefix.pat, prefix.glob = escapePattern(prefix.text)+"*", true
	}
	a.use(writes, prefix)
}

// doPatch: with -o or --dry-run the file is only read.
func doPatch(a *act) {
	if len(a.values["-o"]) > 0 && len(a.operands) > 0 {
		a.use(reads, a.operands[0])
		a.useOperands(nil)
		return
	}
	if len(a.operands) == 0 {
		// The patch names the files; they lie below the working directory.
		a.use(writes, literal(".", a.cmd.At))
	}
	a.useOperands(a.operands)
}
