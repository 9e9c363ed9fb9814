package program

import (
	"slices"
	"strings"
)

// doFind reads the roots, the actions and the commands that find runs on what it
// finds.
func doFind(a *Call) {
	args := a.Argv[1:]
	var roots []Word
	i := 0
	for ; i < len(args); i++ {
		f := args[i]
		if !f.Known &&
			(strings.HasPrefix(f.Skeleton, "-") || findActs(strings.TrimLeft(f.Skeleton, "_")) || f.mayBe(findActs)) {
			break // an option that is not known, or may be one
		}
		if f.Known && (strings.HasPrefix(f.Text, "-") || f.Is("(") || f.Is("!") || f.Is(",") || f.Is(")")) {
			switch {
			case f.Is("-H") || f.Is("-L") || f.Is("-P") || strings.HasPrefix(f.Text, "-O"):
				continue
			case f.Is("-D"):
				i++
				continue
			}
			break
		}
		roots = append(roots, f)
	}
	for n, f := range args {
		if f.Is("-files0-from") && n+1 < len(args) {
			if list := args[n+1]; stdinNames[list.Lit()] {
				roots = append(roots, a.inputNames()...)
			} else {
				roots = append(roots, a.namesIn(list)...)
			}
		}
	}
	if len(roots) == 0 {
		roots = []Word{Literal(".", a.At)}
	}
	for _, r := range roots {
		a.File(r, Read, true)
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

func (a *Call) expression(args, roots []Word) {
	for i := 0; i < len(args); i++ {
		f := args[i]
		if f.Lit() == "" {
			if !f.Known {
				code := "inline_code"
				if f.mayBe(findActs) { // it is written there, so that nobody need guess
					code = "unknown_option"
				}
				a.Opaque(code, "find is given an expression that is only known when it runs: "+f.Text, f.At)
			}
			continue
		}
		var next Word
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch f.Text {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(args) && !args[end].Is(";") && !(args[end].Is("+") && end > i+1 && args[end-1].Is("{}")) {
				end++
			}
			a.found(args[i+1:end], named(roots, args[:i]), strings.HasSuffix(f.Text, "dir"), "find "+f.Text)
			i = end
		case "-delete":
			for _, r := range roots {
				a.File(r, Write, true)
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
		default:
			if FindValue(f.Text) {
				i++
			}
		}
	}
}

// FindValue reports whether a test of find takes the next word.
func FindValue(test string) bool {
	switch test {
	case "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-lname",
		"-ilname", "-type",
		"-xtype", "-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-user", "-group", "-uid",
		"-gid", "-perm",
		"-maxdepth", "-mindepth", "-links", "-inum", "-printf", "-regextype", "-used", "-fstype", "-context",
		"-newermt",
		"-newerat", "-newerct", "-newer", "-anewer", "-cnewer", "-samefile":
		return true
	}
	return false
}

// Selected returns the patterns that a file must match for find to select it, one of them, separated by NUL; "" when
// the words select by something else as well, or by nothing.
func Selected(args []Word) string {
	var names []string
	branches := 1
	for i := 0; i < len(args); i++ {
		f := args[i]
		if f.Lit() == "" {
			return ""
		}
		switch f.Text {
		case "!", "-not":
			return ""
		case "-o", "-or", ",":
			branches++
		case "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename":
			if i+1 >= len(args) || !args[i+1].Known {
				return ""
			}
			names = append(names, args[i+1].Text)
			i++
		default:
			if FindValue(f.Text) {
				i++
			}
		}
	}
	if len(names) < branches {
		return ""
	}
	return strings.Join(names, "\x00")
}

// named returns the roots with the patterns of what the words in front of an action select.
func named(roots, tests []Word) []Word {
	patterns := Selected(tests)
	if patterns == "" {
		return roots
	}
	roots = slices.Clone(roots)
	for i := range roots {
		roots[i].Named = patterns
	}
	return roots
}

// found starts a command on what a search found below roots.
func (a *Call) found(words, roots []Word, inDir bool, via string) {
	if len(words) == 0 {
		return
	}
	var argv []Word
	for i, f := range words {
		switch {
		case f.Is("{}") && i > 0:
			for _, r := range roots {
				r.Tree = true
				argv = append(argv, r)
			}
		case strings.Contains(f.Text, "{}"):
			f.Known = false
			argv = append(argv, f)
		default:
			argv = append(argv, f)
		}
	}
	a.Via = via
	a.Exec(argv, inDir)
}

func doFd(a *Call) {
	a.UseOperands(a.Operands)
	roots := []Word{Literal(".", a.At)}
	if len(a.Operands) > 1 {
		roots = a.Operands[1:]
	}
	args := a.Argv[1:]
	for i, f := range args {
		if f.Is("-x") || f.Is("--exec") || f.Is("-X") || f.Is("--exec-batch") {
			a.Inner = nil
			words := append([]Word(nil), args[i+1:]...)
			if len(words) > 0 {
				a.found(append(words, Literal("{}", f.At)), roots, false, "fd "+f.Text)
			}
			return
		}
	}
}

// doXargs starts its command with words from standard input: below the roots of a
// search whose output it reads, else not known.
func doXargs(a *Call) {
	words := append([]Word(nil), a.Operands...)
	if len(words) == 0 {
		words = []Word{Literal("echo", a.At)}
	}
	more := []Word{a.stdinWords()}
	if len(a.In.Paths) > 0 && len(a.Values["-a"]) == 0 {
		more = nil
		for _, p := range a.In.Paths {
			p.Tree = true
			more = append(more, p)
		}
	}
	if in := a.In; in.Kind == HereText && len(a.Values["-a"]) == 0 && !strings.ContainsAny(in.Text, `'"\`) {
		more = nil
		for _, word := range strings.Fields(in.Text) {
			more = append(more, Literal(word, in.At))
		}
	}
	if lists := a.Values["-a"]; len(lists) > 0 {
		more = nil
		for _, f := range a.namesIn(lists[len(lists)-1]) {
			if !f.Known {
				f = Word{Text: "(words from standard input)", Many: true, At: a.At}
			}
			more = append(more, f)
		}
	}
	if searches(words) && !strings.Contains(a.In.Text+a.In.Printed, "-") {
		more = nil
	}
	marker := ""
	for _, name := range []string{"-I", "-i", "--replace", "-J"} {
		if v, ok := a.Values[name]; ok {
			marker = v[len(v)-1].Text
		}
	}
	for _, f := range a.Argv[1:] {
		if f.Is("-i") || f.Is("--replace") {
			marker = "{}"
		}
		if !strings.HasPrefix(f.Text, "-") {
			break
		}
	}
	if marker == "" {
		words = append(words, more...)
	} else {
		var out []Word
		for i, f := range words {
			switch {
			case f.Is(marker) && i > 0:
				out = append(out, more...)
			case strings.Contains(f.Text, marker):
				f.Skeleton = strings.ReplaceAll(f.Text, marker, "_")
				f.Known, f.Many = false, false
				out = append(out, f)
			default:
				out = append(out, f)
			}
		}
		words = out
	}
	a.Start(words)
}

// searches reports whether words are a find with an expression. It takes no root behind that, so names of
// files from the input are nothing to it; an input that is known to have an option in it is more.
func searches(words []Word) bool {
	name := words[0].Lit()
	name = name[strings.LastIndexByte(name, '/')+1:]
	return (name == "find" || name == "gfind") && slices.ContainsFunc(words[1:], func(f Word) bool {
		return f.Known && (strings.HasPrefix(f.Text, "-") && len(f.Text) > 2 || f.Is("(") || f.Is("!")) &&
			!strings.HasPrefix(f.Text, "-O") && !f.Is("--")
	})
}

// mostInputs is how many of the inputs behind ::: are followed.
const mostInputs = 16

// given returns the commands that parallel makes of known inputs behind :::, as shell text of one word or as words.
// ok is false where they are not that plain.
func given(words []Word) (commands [][]Word, ok bool) {
	at := slices.IndexFunc(words, func(f Word) bool { return f.Is(":::") })
	if at < 0 || len(words)-at > mostInputs || len(words) == at+1 {
		return nil, false
	}
	for _, in := range words[at+1:] {
		if in.Lit() == "" || strings.HasPrefix(in.Text, ":::") {
			return nil, false
		}
		var command []Word
		placed := false
		for _, f := range words[:at] {
			if !f.Known || strings.Contains(strings.ReplaceAll(f.Text, "{}", ""), "{") {
				return nil, false
			}
			if strings.Contains(f.Text, "{}") {
				placed = true
				f = f.Sub(strings.ReplaceAll(f.Text, "{}", in.Text))
			}
			command = append(command, f)
		}
		if !placed {
			command = append(command, in)
		}
		commands = append(commands, command)
	}
	return commands, true
}

// doParallel runs its words, or each line of its input, as shell text.
func doParallel(a *Call) {
	words := a.Operands
	if commands, ok := given(words); ok {
		for _, command := range commands {
			if len(command) == 1 || strings.ContainsAny(command[0].Text, " ;|&$`") {
				a.joined(command)
			} else {
				a.Start(command)
			}
		}
		return
	}
	for i, f := range words {
		if strings.HasPrefix(f.Text, ":::") {
			for j, name := range words[i+1:] {
				if strings.HasPrefix(words[i+j].Text, "::::") && !strings.HasPrefix(name.Text, ":::") {
					a.File(name, Read, false)
				}
			}
			words = words[:i]
			break
		}
	}
	if len(words) == 0 {
		a.Opaque("inline_code", "parallel executes each line of "+a.stdin(), a.At)
		return
	}
	if len(words) == 1 && strings.ContainsAny(words[0].Text, " ;|&$`") {
		text := words[0]
		if strings.Contains(text.Text, "{") {
			text.Known = false
		}
		a.Run(text)
		return
	}
	out := make([]Word, 0, len(words)+1)
	for i, f := range words {
		if i > 0 && strings.Contains(f.Text, "{") {
			f.Known = false
		}
		out = append(out, f)
	}
	a.Start(append(out, a.stdinWords()))
}

// doJoined joins its words to one shell text, as watch does.
func doJoined(a *Call) {
	if a.Effects["argv"] {
		a.Start(a.Operands)
		return
	}
	a.joined(a.Operands)
}

func (a *Call) joined(words []Word) {
	if len(words) > 0 {
		a.Run(Joined(words))
	}
}

// Joined returns the text that words make with blanks between them.
func Joined(words []Word) Word {
	one := words[0]
	var texts []string
	for _, f := range words {
		one.Known = one.Known && f.Known && !f.Glob
		texts = append(texts, f.Text)
	}
	one.Text, one.Glob = strings.Join(texts, " "), false
	return one
}

func doEntr(a *Call) {
	if a.Effects["shell"] {
		a.joined(a.Operands)
		return
	}
	var words []Word
	for _, f := range a.Operands {
		if f.Is("/_") {
			f.Known = false
		}
		words = append(words, f)
	}
	a.Start(words)
}

func doDd(a *Call) {
	appends := a.ddHas("oflag=", "append") && a.ddHas("conv=", "notrunc") // else it is empty before
	for _, f := range a.Operands {
		name, val, ok := strings.Cut(f.Text, "=")
		switch {
		case !f.Known:
			a.use(maybe, f)
		case ok && name == "if":
			a.use(reads, f.Sub(val))
		case ok && name == "of" && appends:
			a.use(changes, f.Sub(val))
		case ok && name == "of":
			a.use(writes, f.Sub(val))
		}
	}
}

// ddHas reports whether a list of dd has a word.
func (a *Call) ddHas(list, word string) bool {
	return slices.ContainsFunc(a.Operands, func(f Word) bool {
		text, ok := strings.CutPrefix(f.Text, list)
		return ok && slices.Contains(strings.Split(text, ","), word)
	})
}

// doRename: the Perl program of that name evaluates its first word.
func doRename(a *Call) {
	if len(a.Operands) > 0 {
		if t := a.Operands[0].Text; strings.ContainsAny(t, ";`$({") ||
			strings.HasSuffix(t, "e") && strings.Count(t, "/") > 2 {
			a.Opaque("inline_code", "rename executes its expression as Perl", a.Operands[0].At)
		}
		for _, f := range a.Operands[1:] {
			a.use(tree, f)
		}
	}
	a.UseOperands(a.Operands)
}

func doHeadTail(a *Call) {
	var ops []Word
	for i, f := range a.Operands {
		if i == 0 && strings.HasPrefix(f.Text, "+") && AllDigits(strings.Trim(f.Text[1:], "cfl")) {
			continue
		}
		ops = append(ops, f)
	}
	a.UseOperands(ops)
}

// doSplit writes files named by a prefix: any name that begins with it.
func doSplit(a *Call) {
	prefix := Literal("x", a.At)
	if a.Name == "csplit" {
		prefix = Literal("xx", a.At)
		if v := a.Values["-f"]; len(v) > 0 {
			prefix = v[0]
		}
	} else if len(a.Operands) > 1 {
		prefix = a.Operands[1]
	}
	if len(a.Operands) > 0 {
		a.use(reads, a.Operands[0])
	}
	if prefix.Known && !prefix.Glob {
		prefix.Pat, prefix.Glob = EscapePattern(prefix.Text)+"*", true
	}
	a.use(writes, prefix)
}
