package shellparse

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// numbers are variables whose value is digits as long as nobody gives them another: any name made with them stays in
// its directory. Of these bash makes neverSet readonly, and the numbers in plain it treats as any other variable. It
// makes the value of the rest up, until the variable is unset or a function has one of its own.
const (
	numbers = " RANDOM SRANDOM SECONDS LINENO BASHPID PPID UID EUID EPOCHSECONDS HISTCMD BASH_SUBSHELL COLUMNS LINES " +
		"OPTIND "
	plainNumbers = " COLUMNS LINES "
)

// isNumber reports whether a parameter certainly holds digits here.
func (w *walker) isNumber(name string, sc *scope) bool {
	switch {
	case strings.Contains(" ? # $ ! ", " "+name+" "):
		return true
	case !strings.Contains(numbers, " "+name+" "):
		return false
	case w.posix || w.anyShell || strings.Contains(plainNumbers, " "+name+" "):
		return !w.texts[name] && !sc.wild && !w.references && !w.refs[name]
	}
	return neverSet(name) || !w.texts[unset+name] && !w.texts[unset]
}

// unset stands in front of the name of a variable that has lost what bash makes of it, and alone for any name.
const unset = "unset "

// givesText notes that a variable of which bash makes numbers is given text, or is unset.
func (w *walker) givesText(name string) {
	if w.texts == nil {
		w.texts = map[string]bool{}
	}
	w.texts[name] = true
}

// noteText looks whether a variable of which bash makes numbers is given anything else.
func (w *walker) noteText(name string, v value) {
	if !strings.Contains(numbers, " "+name+" ") {
		return
	}
	if len(v.words) != 1 || !program.AllDigits(v.words[0].Numbers().Lit()) {
		w.givesText(name)
	}
}

// noteUnset notes that a variable is unset, or that a function has one of that name.
func (w *walker) noteUnset(name string) {
	if name == "" || strings.Contains(numbers, " "+name+" ") {
		w.givesText(unset + name)
	}
}

// param expands ${…}. Whatever is not a plain value is unknown, but the words in
// it are walked for what they run.
func (e *expansion) param(p *syntax.ParamExp, quoted bool) {
	if p.Param == nil || p.Flags != nil || p.NestedParam != nil || len(p.Modifiers) > 0 || p.IsSet || p.Width {
		e.w.fail(&Error{
			Code: "unsupported", Msg: "a parameter expansion that is not known here",
			Hint: "use a plain variable", At: e.w.pos(p),
		})
	}
	name := p.Param.Value
	if p.Index != nil {
		e.w.number(p.Index, e.sc)
		e.w.subscript(p.Index, e.sc)
	}
	if p.Excl && p.Names == 0 {
		if v, ok := e.sc.vars.get(name); ok && len(v.words) == 1 && v.words[0].Known {
			e.w.mayAbort(perhaps, e.sc)
		} else {
			e.w.mayAbort(surely, e.sc)
		}
		e.w.evaluates(e.w.pos(p)) // the value is a name, and its index is arithmetic
		if p.Exp != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) {
			e.sc.forgetAll()
		}
	}
	if p.Slice != nil {
		for _, x := range []syntax.ArithmExpr{p.Slice.Offset, p.Slice.Length} {
			if x != nil {
				e.w.number(x, e.sc)
				if _, literal := x.(*syntax.Word); !literal {
					e.w.mayAbort(surely, e.sc) // the length is negative
				}
			}
		}
	}
	if p.Repl != nil {
		e.w.single(p.Repl.Orig, e.sc)
		e.w.single(p.Repl.With, e.sc)
	}
	var operand program.Word
	if p.Exp != nil && p.Exp.Word != nil {
		operand = e.w.single(p.Exp.Word, e.sc)
		if l, ok := p.Exp.Word.Parts[0].(*syntax.Lit); ok && quoted && l.Value[0] == '~' { // there ~ is a letter
			operand = program.Word{At: operand.At}
		}
	}
	if p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && operand.Text == "P" {
		// ${x@P} expands the value once more, as a prompt.
		e.w.opaque(Opaque{
			Code: "dynamic_eval", Message: fmt.Sprintf("${%s@P} executes the value of %s", name, name),
			At: e.w.pos(p),
		})
	}
	if p.Length || p.Exp == nil && p.Repl == nil && !p.Excl && e.w.isNumber(name, e.sc) {
		e.b.digits(e.w.source(p))
		return
	}
	words, ok := e.values(p, name, operand, quoted)
	if !ok {
		e.b.missing()
		e.b.many = e.b.many || !quoted || name == "@" || name == "*"
		return
	}
	e.add(words, quoted, p)
}

// values returns the words that a parameter expansion gives, if they are known.
func (e *expansion) values(p *syntax.ParamExp, name string, operand program.Word, quoted bool) ([]program.Word, bool) {
	if p.Slice != nil && p.Slice.Length == nil && !p.Excl && p.Repl == nil && name == "@" { // "${@:2}"
		if from, ok := p.Slice.Offset.(*syntax.Word); ok {
			n, err := strconv.Atoi(from.Lit())
			front := e.sc.args[:max(0, min(n-1, len(e.sc.args)))]
			many := func(f program.Word) bool { return f.Many }
			if err == nil && n > 0 && e.sc.args != nil && program.Placed(front, len(front)) &&
				!slices.ContainsFunc(front, many) {
				return e.sc.args[len(front):], true
			}
		}
	}
	if p.Excl || p.Names != 0 || p.Slice != nil || p.Repl != nil {
		e.noteCut(name)
		return nil, false
	}
	words, set := e.lookup(p, name, quoted)
	if p.Exp == nil {
		return words, set
	}
	empty := len(words) == 0 || len(words) == 1 && words[0].Known && words[0].Text == ""
	if p.Exp.Op == syntax.AssignUnset && (!set || p.Index != nil) ||
		p.Exp.Op == syntax.AssignUnsetOrNull && (!set || empty || p.Index != nil) {
		e.w.noteSuspect(operand) // the operand becomes the value
		e.w.assign(e.sc, name, value{words: []program.Word{{At: e.at}}}, e.w.pos(p))
	}
	if !set {
		return nil, false
	}
	for _, f := range words {
		if !f.Known {
			return nil, false
		}
	}
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull:
		if empty {
			return nil, false
		}
		return words, true
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		if empty || !operand.Known {
			return nil, false
		}
		return []program.Word{operand}, true
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.RemSmallPrefix, syntax.RemLargePrefix:
		return trim(words, p.Exp.Op, operand)
	}
	return nil, false
}

// trim removes a literal prefix or suffix. A pattern makes the result unknown.
func trim(words []program.Word, op syntax.ParExpOperator, operand program.Word) ([]program.Word, bool) {
	if !operand.Known || operand.Glob || operand.Text == "" || len(words) != 1 {
		return nil, false
	}
	f := words[0]
	if f.Tree {
		return trimBelow(f, op, operand.Text)
	}
	switch op {
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		f.Text = strings.TrimSuffix(f.Text, operand.Text)
		if f.Glob {
			cut := strings.TrimSuffix(f.Pat, program.EscapePattern(operand.Text))
			if cut == f.Pat || strings.Contains(operand.Text, "/") {
				return nil, false
			}
			f.Pat = cut
		}
	default:
		if f.Glob {
			return nil, false
		}
		f.Text = strings.TrimPrefix(f.Text, operand.Text)
	}
	return []program.Word{f}, true
}

// trimBelow removes from a name below a tree. Without its front, as in ${f#src}, it lies anywhere; without an end that
// holds no slash it stays below the tree, unless it is the root and has that end.
func trimBelow(f program.Word, op syntax.ParExpOperator, cut string) ([]program.Word, bool) {
	suffix := op == syntax.RemSmallSuffix || op == syntax.RemLargeSuffix
	if !suffix || f.Glob || strings.Contains(cut, "/") || strings.HasSuffix(f.Text, cut) {
		return nil, false
	}
	return []program.Word{f}, true
}

// lookup finds the tracked words of a variable or positional parameter.
func (e *expansion) lookup(p *syntax.ParamExp, name string, quoted bool) ([]program.Word, bool) {
	unknown := func(f program.Word) bool { return f.Lit() == "" }
	if name == "*" && quoted && !e.sc.ifs && len(e.sc.args) > 0 && !slices.ContainsFunc(e.sc.args, unknown) {
		return []program.Word{program.Joined(e.sc.args)}, true
	}
	if name == "@" || name == "*" {
		return e.sc.args, e.sc.args != nil && (name == "@" || !quoted && !e.sc.ifs)
	}
	if n, err := strconv.Atoi(name); err == nil {
		switch {
		case n == 0:
			return e.sc.zero, e.sc.zero != nil && !e.w.isSet("BASH_ARGV0")
		case e.sc.args == nil:
			return nil, false
		case n > len(e.sc.args):
			return []program.Word{{Known: true}}, program.Placed(e.sc.args, len(e.sc.args))
		}
		return e.sc.args[n-1 : n], program.Placed(e.sc.args, n-1)
	}
	v, ok := e.sc.vars.get(name)
	if !ok {
		return nil, false
	}
	if p.Index == nil {
		if v.array {
			if len(v.words) == 0 {
				return nil, false
			}
			return v.words[:1], true
		}
		return v.words, true
	}
	index, ok := p.Index.(*syntax.Word)
	if !ok || !v.array {
		return nil, false
	}
	switch lit := index.Lit(); lit {
	case "@":
		return v.words, true
	case "*": // its words are joined, and split again if no quotes keep them
		return v.words, !quoted && !e.sc.ifs
	default:
		n, err := strconv.Atoi(lit)
		if err != nil || n < 0 || n >= len(v.words) {
			return nil, false
		}
		return v.words[n : n+1], program.Placed(v.words, n)
	}
}

// noteCut remembers a value that holds a substitution: a part of it may become an index after a cut or a
// replacement.
func (e *expansion) noteCut(name string) {
	v, _ := e.sc.vars.get(name)
	for _, f := range v.words {
		f.Code = f.Code || strings.Contains(f.Text, "$(") || strings.Contains(f.Text, "`")
		e.w.noteSuspect(f)
	}
}

// add puts known words in place: quoted ones stay whole, others are split.
func (e *expansion) add(words []program.Word, quoted bool, p *syntax.ParamExp) {
	list := p.Param.Value == "@" || p.Param.Value == "*" || p.Index != nil
	for i, f := range words {
		switch {
		case i == 0 || !list:
		case e.split:
			e.flush()
			e.b.some = true
		default: // the value is one word
			e.b.quoted(" ")
		}
		e.w.grow(len(f.Text))
		if !f.Known {
			if f.Skeleton != "" && (list || !quoted && e.split && !e.sc.ifs) {
				e.splitSkeleton(f.Skeleton)
				continue
			}
			e.b.missing()
			e.b.many = e.b.many || !quoted
			continue
		}
		e.b.fd = e.b.fd || f.Fd
		if f.Tree {
			if !e.only || len(words) > 1 {
				e.b.missing()
				continue
			}
			e.b.tree = true
		}
		switch {
		case f.Glob && (quoted || !strings.ContainsAny(f.Text, " \t\n")):
			e.b.pattern(f.Text, f.Pat)
		case f.Glob && e.split: // a name that it matched is split, or with nullglob it is the word behind it
			e.b.missing()
			e.b.many = true
		case quoted || !e.split:
			e.b.quoted(f.Text)
		default:
			e.splitText(f.Text)
		}
	}
	if list && len(words) == 0 && quoted {
		// "$@" of nothing is no word at all.
		e.b.some = e.b.text.String() != ""
	}
}

// splitSkeleton adds an unquoted value of which only parts are known: the words
// among them count.
func (e *expansion) splitSkeleton(s string) {
	e.b.many = true
	for {
		i := strings.IndexAny(s, "_ \t\n")
		if i < 0 {
			break
		}
		e.b.bare(s[:i])
		if s[i] == '_' {
			e.b.missing()
			e.b.many = true
		} else {
			e.flush()
		}
		s = s[i+1:]
	}
	e.b.bare(s)
	if !e.b.some {
		e.b.missing() // nothing of the value is known
		e.b.many = true
	}
}

// grow bounds the sum of what values add: x=$x$x doubles with every statement.
func (w *walker) grow(n int) {
	const perWord = 16 // a word costs more than its text
	if w.text += n + perWord; w.text > maxText {
		w.fail(&Error{
			Code: "too_large", Msg: fmt.Sprintf("the values of this command grow over %d bytes", maxText),
			Hint: "put the script in a file of the workspace and run that",
		})
	}
}

// splitText adds unquoted text: blanks separate words, and patterns are special.
func (e *expansion) splitText(s string) {
	if e.sc.ifs {
		e.b.missing()
		e.b.many = true
		return
	}
	for {
		i := strings.IndexAny(s, " \t\n")
		if i < 0 {
			e.b.bare(s)
			return
		}
		e.b.bare(s[:i])
		e.flush()
		s = strings.TrimLeft(s[i:], " \t\n")
	}
}
