package program

import (
	"path"
	"slices"
	"strings"
)

// doSed reads the program of sed for what it executes, reads and writes.
func doSed(a *Call) {
	files := a.programsFrom("-f")
	scripts := a.Values["-e"]
	ops := a.Operands
	if len(scripts) == 0 && !a.Effects["nodata"] && len(ops) > 0 {
		scripts, ops = ops[:1], ops[1:]
	}
	for _, s := range append(slices.Clip(scripts), files...) {
		a.sedScript(s)
	}
	for _, f := range ops {
		k := reads
		if a.Effects["inplace"] {
			k = both
		}
		a.use(k, f)
		a.backup(a.Values["-i"], f)
	}
}

// backup writes the copy that sed -iSUFFIX and perl -iSUFFIX keep of a file. With * the suffix is a whole name.
func (a *Call) backup(suffixes []Word, f Word) {
	for _, suffix := range suffixes {
		dir, name := path.Split(f.Text)
		to := f
		switch {
		case suffix.Text == "" || len(suffix.Text)+len(f.Text) >= pathMax:
			continue
		case !strings.Contains(suffix.Text, "*"):
			name = f.Text + suffix.Text
		case strings.Contains(suffix.Text, "/"):
			name = strings.ReplaceAll(suffix.Text, "*", name)
		default:
			name = dir + strings.ReplaceAll(suffix.Text, "*", name)
		}
		if to.Text = name; f.Glob {
			_, last := path.Split(f.Pat)
			switch {
			case !strings.Contains(suffix.Text, "*"):
				to.Pat = f.Pat + EscapePattern(suffix.Text)
			default:
				to.Pat = strings.ReplaceAll(EscapePattern(suffix.Text), `\*`, last)
				to.Pat = strings.ReplaceAll(to.Pat, `\*`, last)
			}
		}
		to.Known = f.Known && suffix.Known
		a.use(writes, to)
	}
}

// programText returns what there is to read of a program for sed or awk. Values are data where the program around
// them is written out; where nothing is, it is refused.
func (a *Call) programText(of string, f Word) (Word, string, bool) {
	f = f.Numbers()
	f.Known = f.Known && !f.Tree
	text := f.Text
	if !f.Known {
		text = f.Skeleton
	}
	if strings.Trim(text, "_") == "" && !f.Known {
		a.Opaque("inline_code", of+" runs a program that is only known when it runs: "+f.Text, f.At)
		return f, "", false
	}
	return f, text, true
}

func (a *Call) sedScript(f Word) {
	f, text, ok := a.programText("sed", f)
	if !ok {
		return
	}
	p := sedParser{s: text}
	if !p.parse() {
		a.Opaque("inline_code", "sed runs a program that is not understood here: "+f.Text, f.At)
	}
	if p.bracketed { // old versions end the pattern there
		if old := (sedParser{s: text, old: true}); old.parse() {
			p.execs, p.evals = append(p.execs, old.execs...), p.evals || old.evals
			p.reads, p.writes = append(p.reads, old.reads...), append(p.writes, old.writes...)
		}
	}
	for _, e := range p.execs {
		if e == "" {
			a.Opaque("inline_code", "sed executes the text it edits (the e command)", f.At)
			continue
		}
		if !f.Known {
			a.Opaque("inline_code", "sed executes text that is only known when it runs: "+f.Text, f.At)
			continue
		}
		a.Run(f.Sub(e))
	}
	if p.evals {
		a.Opaque("inline_code", "sed executes the text it edits (s///e)", f.At)
	}
	for _, r := range p.reads {
		a.use(reads, f.part(r))
	}
	for _, w := range p.writes {
		a.use(writes, f.part(w))
	}
}

// programFrom refuses a program that is read from a pipe.
func (a *Call) programFrom(options ...string) {
	for _, o := range options {
		for _, f := range a.Values[o] {
			if f.Fd || f.Is("-") || f.Is("/dev/stdin") || f.Is("/dev/fd/0") {
				from := "a pipe"
				if a.In.Typed && !f.Fd {
					from = a.stdin()
				}
				a.Opaque("inline_code", a.Name+" executes a program that it reads from "+from, f.At)
			}
		}
	}
}

// programsFrom returns the programs in files that the line itself writes, or gives on the input.
func (a *Call) programsFrom(options ...string) (texts []Word) {
	for _, o := range options {
		for _, f := range a.Values[o] {
			switch {
			case f.Given != "":
				texts = append(texts, Literal(f.Given, f.At))
			case (IsStdin(f) || f.Is("-")) && a.In.Kind == HereText:
				texts = append(texts, Literal(a.In.Text, a.In.At))
			case f.Known && !f.Fd:
				for _, text := range a.Written(f) {
					texts = append(texts, Literal(text, f.At))
				}
			}
		}
	}
	a.programFrom(options...)
	return texts
}

// sedParser finds e, r, R, w, W and the flags of s in a sed program.
type sedParser struct {
	s             string
	i             int
	old           bool // a delimiter in brackets ends a pattern
	bracketed     bool // there is one
	execs         []string
	evals         bool
	reads, writes []string
}

func (p *sedParser) parse() bool {
	for p.i < len(p.s) {
		c := p.s[p.i]
		switch {
		case strings.IndexByte(" \t\n;{}", c) >= 0:
			p.i++
			continue
		case c == '#':
			p.line()
			continue
		}
		if !p.address() {
			return false
		}
		if p.i >= len(p.s) {
			return true
		}
		if !p.command() {
			return false
		}
	}
	return true
}

// address skips N, $, /re/, \cREc, first~step, with flags, ranges and !.
func (p *sedParser) address() bool {
	for p.i < len(p.s) {
		c := p.s[p.i]
		switch {
		case '0' <= c && c <= '9' || strings.IndexByte("$,~+! \tIM", c) >= 0:
			p.i++
		case c == '/':
			p.i++
			if !p.pattern('/') {
				return false
			}
		case c == '\\' && p.i+1 < len(p.s):
			d := p.s[p.i+1]
			p.i += 2
			if !p.pattern(d) {
				return false
			}
		default:
			return true
		}
	}
	return true
}

// pattern moves behind the next delim that is neither escaped nor in brackets, as GNU sed 4.9 does:
// /[/a]b/e is one address and the command e.
func (p *sedParser) pattern(delim byte) bool {
	for !p.old && p.i < len(p.s) && p.s[p.i] != delim {
		switch p.s[p.i] {
		case '\\':
			p.i = min(p.i+2, len(p.s))
		case '[':
			begun := p.i
			if !p.brackets() {
				return false
			}
			p.bracketed = p.bracketed || strings.IndexByte(p.s[begun:p.i], delim) >= 0
		default:
			p.i++
		}
	}
	return p.until(delim)
}

// brackets moves behind a bracket expression. A backslash stands for itself in it, and so does a first "]".
func (p *sedParser) brackets() bool {
	p.i++
	if strings.HasPrefix(p.s[p.i:], "^") {
		p.i++
	}
	for first := true; p.i < len(p.s); first = false {
		rest := p.s[p.i:]
		switch {
		case rest[0] == ']' && !first:
			p.i++
			return true
		case len(rest) > 1 && rest[0] == '[' && strings.IndexByte(":.=", rest[1]) >= 0: // a class
			end := strings.Index(rest[2:], rest[1:2]+"]")
			if end < 0 {
				return false
			}
			p.i += end + 4
		default:
			p.i++
		}
	}
	return false
}

// until moves behind the next delim that is not escaped.
func (p *sedParser) until(delim byte) bool {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '\\' && p.i+1 < len(p.s):
			p.i += 2
			continue
		case c == delim:
			p.i++
			return true
		}
		p.i++
	}
	return false
}

// line returns the rest of the line.
func (p *sedParser) line() string {
	end := strings.IndexByte(p.s[p.i:], '\n')
	if end < 0 {
		end = len(p.s) - p.i
	}
	text := p.s[p.i : p.i+end]
	p.i += end
	return strings.TrimSpace(text)
}

func (p *sedParser) command() bool {
	c := p.s[p.i]
	p.i++
	switch c {
	case '{', '}', '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
		return true
	case 'l', 'L', 'q', 'Q':
		for p.i < len(p.s) && strings.IndexByte(" 0123456789", p.s[p.i]) >= 0 {
			p.i++
		}
		return true
	case ':', 'b', 't', 'T', 'v':
		for p.i < len(p.s) && strings.IndexByte("\n;}", p.s[p.i]) < 0 {
			p.i++
		}
		return true
	case 'a', 'i', 'c':
		// GNU takes the rest of the line, and lines ended by a backslash.
		for {
			text := p.line()
			if !strings.HasSuffix(text, `\`) || p.i >= len(p.s) {
				return true
			}
			p.i++
		}
	case 'e':
		p.execs = append(p.execs, p.line())
		return true
	case 'r', 'R':
		p.reads = append(p.reads, p.line())
		return true
	case 'w', 'W':
		p.writes = append(p.writes, p.line())
		return true
	case 'y':
		return p.twoParts(c)
	case 's':
		return p.twoParts(c) && p.flags()
	}
	return false
}

func (p *sedParser) twoParts(of byte) bool {
	if p.i >= len(p.s) {
		return false
	}
	delim := p.s[p.i]
	p.i++
	first := p.until
	if of == 's' {
		first = p.pattern
	}
	return delim != '\\' && delim != '\n' && first(delim) && p.until(delim)
}

func (p *sedParser) flags() bool {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case strings.IndexByte("gpiIMm0123456789 ", c) >= 0:
		case c == 'e':
			p.evals = true
		case c == 'w':
			p.i++
			p.writes = append(p.writes, p.line())
			return true
		default:
			return strings.IndexByte("\n;}#\t", c) >= 0
		}
		p.i++
	}
	return true
}

// doAwk reads the program of awk for what it executes, reads and writes.
func doAwk(a *Call) {
	files := a.programsFrom("-f", "-E", "-i")
	for _, f := range a.Values["-W"] {
		if !f.Is("version") && !f.Is("posix") && !f.Is("interactive") && !f.Is("dump") {
			a.Opaque("inline_code", a.Name+" -W "+f.Text+" is not read here", f.At)
		}
	}
	programs := a.Values["-e"]
	ops := a.Operands
	if len(programs) == 0 && !a.Effects["nodata"] && len(ops) > 0 {
		programs, ops = ops[:1], ops[1:]
	}
	for _, p := range append(slices.Clip(programs), files...) {
		a.awkProgram(p)
	}
	for _, f := range ops {
		if name, _, ok := strings.Cut(f.Text, "="); ok && f.Known && !strings.ContainsAny(name, "/.") {
			continue // an assignment
		}
		a.use(reads, f)
	}
}

func (a *Call) awkProgram(f Word) {
	f, text, ok := a.programText("awk", f)
	if !ok {
		return
	}
	uses := awkUses(text, f.Known)
	for _, u := range uses {
		plain := strings.ReplaceAll(u.text, `\`, "") // gawk opens .git for "\.git", mawk does not
		if plain != u.text && (u.what == "read" || u.what == "write" || u.what == "append") {
			uses = append(uses, awkUse{u.what, plain})
		}
	}
	for _, u := range uses {
		switch {
		case u.what == "shell" && !f.Known:
			a.Opaque("inline_code", "awk executes text that is only known when it runs: "+f.Text, f.At)
		case u.what == "code":
			a.Opaque("inline_code", "awk "+u.text, f.At)
		case u.what == "shell":
			a.Run(f.Sub(u.text))
		case u.what == "read":
			a.use(reads, f.part(u.text))
		case u.what == "write":
			a.use(writes, f.part(u.text))
		case u.what == "append":
			a.use(changes, f.part(u.text))
		case u.what == "unknown write":
			a.use(writes, Word{Text: u.text, At: f.At})
		case u.what == "unknown read":
			a.use(reads, Word{Text: u.text, At: f.At})
		}
	}
}

// doJq skips the values that --arg and the like take in pairs.
func doJq(a *Call) {
	var ops []Word
	args := a.Argv[1:]
	program := !a.Effects["nodata"]
	for i := 0; i < len(args); i++ {
		f := args[i]
		switch {
		case f.Is("--arg") || f.Is("--argjson"):
			i += 2
		case f.Is("--slurpfile") || f.Is("--rawfile") || f.Is("--argfile"):
			if i+2 < len(args) {
				a.use(reads, args[i+2])
			}
			i += 2
		case f.Is("--args") || f.Is("--jsonargs"):
			return
		case f.Is("-f") || f.Is("--from-file") || f.Is("-L") || f.Is("--indent"):
			i++
		case f.Known && strings.HasPrefix(f.Text, "-") && len(f.Text) > 1:
		case program:
			program = false
		default:
			ops = append(ops, f)
		}
	}
	for _, f := range ops {
		a.use(reads, f)
	}
}

// doDc: dc starts a shell for what follows "!".
func doDc(a *Call) {
	for _, f := range a.Values["-e"] {
		if !f.Known || strings.Contains(f.Text, "!") {
			a.Inline(f)
		}
	}
	a.UseOperands(a.Operands)
	if len(a.Operands)+len(a.Values["-e"])+len(a.Values["-f"]) > 0 {
		return
	}
	if text := a.In.Text + a.In.Printed; text == "" || strings.Contains(text, "!") {
		a.StdinCode()
	}
}

// doTex: an operand that begins with a backslash is code, any other one a file of code.
func doTex(a *Call) {
	for _, f := range a.Operands {
		switch {
		case strings.HasPrefix(f.Text, "\\"):
			a.Inline(f)
		case !strings.HasPrefix(f.Text, "&"):
			a.use(obeyed, f)
		}
	}
}
