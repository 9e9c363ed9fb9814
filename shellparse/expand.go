package shellparse

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
	"github.com/sandboxd/sandboxd/shellparse/source"
)

// fields expands the words of a command as the shell does: braces, ~, parameters,
// substitutions (which are walked), splitting. Names are not looked up on disk. In arguments
// (args) bash expands ~ also where a value begins, as in if=~/x, except in what braces give.
func (w *walker) fields(words []*syntax.Word, sc *scope, args bool) []program.Word {
	out := make([]program.Word, 0, len(words))
	for _, word := range words {
		if lit := plain(word); lit != "" {
			out = append(out, program.Literal(lit, w.pos(word)))
			continue
		}
		for _, one := range w.braces(word) {
			out = append(out, w.expand(one, word, sc, true, args && one == word)...)
		}
	}
	if w.words += len(out); w.words > source.MaxWords {
		w.fail(&Error{
			Code: "too_large", Msg: fmt.Sprintf("command has more than %d words", source.MaxWords),
			Hint: "split the command",
		})
	}
	return out
}

// plain returns the text of a word in which nothing is special. Else it returns "".
func plain(word *syntax.Word) string {
	if len(word.Parts) != 1 {
		return ""
	}
	l, ok := word.Parts[0].(*syntax.Lit)
	if !ok || strings.ContainsAny(l.Value, "\\*?[{~") {
		return ""
	}
	return l.Value
}

// single expands a word that is not split: an assignment, a redirection, a case.
func (w *walker) single(word *syntax.Word, sc *scope) program.Word {
	if word == nil {
		return program.Word{Known: true}
	}
	if lit := plain(word); lit != "" {
		return program.Literal(lit, w.pos(word))
	}
	fs := w.expand(word, word, sc, false, false)
	if len(fs) == 0 {
		return program.Word{Known: true, At: w.pos(word)}
	}
	return fs[0]
}

// braces expands {a,b} and {1..3}.
func (w *walker) braces(word *syntax.Word) []*syntax.Word {
	has := false
	if w.posix {
		return []*syntax.Word{word}
	}
	for _, p := range word.Parts {
		if l, ok := p.(*syntax.Lit); ok && strings.IndexByte(l.Value, '{') >= 0 {
			has = true
		}
	}
	if !has {
		return []*syntax.Word{word}
	}
	if oddBraces(word) {
		w.fail(&Error{
			Code: "parser_difference", Msg: "a list in braces that do not pair, or with a $ by itself",
			Hint: "quote them, or write the words out", At: w.pos(word),
		})
		return []*syntax.Word{word}
	}
	split := *word
	split.Parts = append([]syntax.WordPart(nil), word.Parts...)
	if !syntax.SplitBraces(&split) || !slices.ContainsFunc(split.Parts, isBraces) {
		return []*syntax.Word{word}
	}
	out := []*syntax.Word{{}}
	for _, p := range split.Parts {
		out = w.braceProduct(out, p)
	}
	for _, word := range out {
		word.Parts = merged(word.Parts)
	}
	return out
}

func isBraces(p syntax.WordPart) bool { _, ok := p.(*syntax.BraceExp); return ok }

// merged joins neighbouring texts to one, as bash does before it looks for a tilde.
func merged(parts []syntax.WordPart) (out []syntax.WordPart) {
	for _, p := range parts {
		l, ok := p.(*syntax.Lit)
		if n := len(out); ok && n > 0 {
			if last, ok := out[n-1].(*syntax.Lit); ok {
				out[n-1] = &syntax.Lit{ValuePos: last.ValuePos, ValueEnd: l.ValueEnd, Value: last.Value + l.Value}
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// oddBraces reports whether a word has a list and a brace without a partner, or a "$" or $name
// at the end of a part of the list: bash then looks for another partner, or reads on in the name
// of the variable, for a list is expanded as text.
func oddBraces(word *syntax.Word) bool {
	open, list, odd := 0, false, false
	for n, p := range word.Parts {
		l, ok := p.(*syntax.Lit)
		if ok && n > 0 && strings.ContainsAny(l.Value[:1], "{,}") {
			v, _ := word.Parts[n-1].(*syntax.ParamExp)
			odd = odd || v != nil && v.Short
		}
		for i := 0; ok && i < len(l.Value); i++ {
			switch l.Value[i] {
			case '\\':
				i++
			case '{':
				open++
			case '$':
				odd = true // before the next part of a list it names a variable
			case ',':
				list = true
			case '.':
				list = list || strings.HasPrefix(l.Value[i:], "..")
			case '}':
				odd = odd || open == 0
				open = max(open-1, 0)
			}
		}
	}
	return list && (odd || open > 0)
}

func (w *walker) braceProduct(heads []*syntax.Word, part syntax.WordPart) []*syntax.Word {
	b, ok := part.(*syntax.BraceExp)
	if !ok {
		for _, h := range heads {
			h.Parts = append(h.Parts, part)
		}
		return heads
	}
	var tails []*syntax.Word
	if b.Sequence {
		for _, text := range w.sequence(b) {
			tails = append(tails,
				&syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{ValuePos: b.Pos(), ValueEnd: b.End(), Value: text}}})
		}
	} else {
		for _, e := range b.Elems {
			inner := []*syntax.Word{{}}
			for _, p := range e.Parts {
				inner = w.braceProduct(inner, p)
			}
			tails = append(tails, inner...)
		}
	}
	if len(heads)*len(tails) > maxBraces {
		w.fail(&Error{
			Code: "too_large", Msg: fmt.Sprintf("a brace expansion gives more than %d words", maxBraces),
			Hint: "write the words out", At: w.pos(b),
		})
	}
	var out []*syntax.Word
	for _, h := range heads {
		for _, t := range tails {
			parts := append(append([]syntax.WordPart(nil), h.Parts...), t.Parts...)
			out = append(out, &syntax.Word{Parts: parts})
		}
	}
	return out
}

func (w *walker) sequence(b *syntax.BraceExp) []string {
	from, to, step := b.Elems[0].Lit(), b.Elems[1].Lit(), 1
	if len(b.Elems) > 2 {
		step, _ = strconv.Atoi(b.Elems[2].Lit())
		step = max(step, -step, 1)
	}
	a, errA := strconv.Atoi(from)
	z, errZ := strconv.Atoi(to)
	letters := errA != nil || errZ != nil
	if letters {
		if len(from) != 1 || len(to) != 1 {
			w.fail(&Error{
				Code: "unsupported", Msg: "a brace sequence that is not numbers or letters",
				Hint: "write the words out", At: w.pos(b),
			})
		}
		a, z = int(from[0]), int(to[0])
	}
	n := max(z-a, a-z)
	if n/step > maxBraces {
		w.fail(&Error{
			Code: "too_large", Msg: fmt.Sprintf("a brace expansion gives more than %d words", maxBraces),
			Hint: "use seq", At: w.pos(b),
		})
	}
	width := 0
	for _, s := range []string{from, to} {
		if digits := strings.TrimPrefix(s, "-"); !letters && len(digits) > 1 && digits[0] == '0' {
			width = max(width, len(s))
		}
	}
	if z < a {
		step = -step
	}
	var out []string
	for i := 0; i <= n; i += max(step, -step) {
		v := a + i
		if step < 0 {
			v = a - i
		}
		if letters {
			out = append(out, string(rune(v)))
		} else {
			out = append(out, fmt.Sprintf("%0*d", width, v))
		}
	}
	return out
}

// expand returns the words that one word becomes. whole is the word as written. With arg, a value may begin in it.
func (w *walker) expand(word, whole *syntax.Word, sc *scope, split, arg bool) []program.Word {
	e := expansion{w: w, sc: sc, split: split, at: w.pos(whole), src: w.source(whole), only: onePart(word)}
	value := 0 // the place where ~ may stand
	for i, p := range word.Parts {
		l, ok := p.(*syntax.Lit)
		switch {
		case !ok:
			e.part(p)
			continue
		case i > 0:
			e.lit(l.Value)
		default:
			if arg && !w.posix {
				value = valueIn(l.Value)
			}
			e.lit(l.Value[:value])
			e.leadingLit(l.Value[value:], len(word.Parts) == 1)
		}
		// After a colon of a value, or after an index that is known only now, ~ is expanded too.
		if value > 0 && strings.Contains(l.Value, ":~") ||
			arg && i > 0 && (strings.HasPrefix(l.Value, "]=~") || strings.HasPrefix(l.Value, "]+=~")) {
			e.b.missing()
		}
	}
	e.flush()
	return e.out
}

// expansion builds the words of one word.
type expansion struct {
	w     *walker
	sc    *scope
	split bool
	at    Pos
	src   string
	only  bool // the word is exactly one expansion
	b     builder
	out   []program.Word
}

func onePart(word *syntax.Word) bool {
	if len(word.Parts) != 1 {
		return false
	}
	q, ok := word.Parts[0].(*syntax.DblQuoted)
	return !ok || len(q.Parts) == 1
}

func (e *expansion) flush() {
	if e.b.some || e.b.unknown {
		e.out = append(e.out, e.b.field(e.src, e.at))
	}
	e.b = builder{}
}

func (e *expansion) part(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit:
		e.lit(p.Value)
	case *syntax.SglQuoted:
		if p.Dollar {
			e.b.quoted(source.AnsiC(p.Value))
		} else {
			e.b.quoted(p.Value)
		}
	case *syntax.DblQuoted:
		e.b.some = true
		for _, q := range p.Parts {
			e.quotedPart(q)
		}
	case *syntax.ParamExp:
		e.w.checkQuotes(p, false)
		e.param(p, false)
	case *syntax.CmdSubst:
		e.subst(p, false)
	case *syntax.ArithmExp:
		e.w.number(p.X, e.sc)
		e.b.digits(e.w.source(p))
	case *syntax.ProcSubst:
		around := e.w.group
		if p.Op == syntax.CmdIn { // the output of the other is that of the command
			e.w.group = nil
		}
		e.w.within("process substitution", func() {
			e.w.stmts(p.Stmts, e.sc.fork())
			if len(p.Stmts) == 1 && e.only && e.w.said.command == len(e.w.out.Commands) &&
				e.w.alone(p.Stmts[0], len(e.w.via)) {
				e.b.given = e.w.said.text
			}
		})
		e.w.group = around
		e.b.some, e.b.fd = true, true
		e.b.quoted("/dev/fd/63")
	case *syntax.ExtGlob:
		e.w.extGlob(p)
		e.b.pattern(e.w.source(p), "*")
	default:
		e.w.fail(&Error{
			Code: "unsupported", Msg: fmt.Sprintf("a part of a word that is not known here (%T)", p),
			Hint: "write it in another way", At: e.w.pos(p),
		})
	}
}

func (e *expansion) quotedPart(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit:
		e.b.quoted(source.UnescapeDouble(p.Value))
	case *syntax.ParamExp:
		e.w.checkQuotes(p, true)
		e.param(p, true)
	case *syntax.CmdSubst:
		e.subst(p, true)
	case *syntax.ArithmExp:
		e.part(p)
	default:
		e.part(p)
	}
}

// lit adds unquoted text, in which a backslash quotes the next character.
func (e *expansion) lit(s string) {
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			e.b.bare(s)
			return
		}
		e.b.bare(s[:i])
		_, n := utf8.DecodeRuneInString(s[i+1:])
		e.b.quoted(s[i+1 : i+1+n])
		s = s[i+1+n:]
	}
}

// valueIn returns where the value begins in text such as name=value, name+=value or name[1]=value. Else it returns
// 0.
func valueIn(s string) int {
	i := 0
	for i < len(s) && program.IsWordByte(s[i]) && (i > 0 || s[i] > '9') {
		i++
	}
	if i > 0 && i < len(s) && s[i] == '[' {
		i += strings.IndexByte(s[i:], ']') + 1
	}
	if i > 0 && i < len(s) && s[i] == '+' {
		i++
	}
	if i == 0 || i >= len(s) || s[i] != '=' {
		return 0
	}
	return i + 1
}

// leadingLit expands ~ at the start of a word or of its value. ~ after : is left to assignments.
func (e *expansion) leadingLit(s string, whole bool) {
	if !strings.HasPrefix(s, "~") {
		e.lit(s)
		return
	}
	user, rest := s[1:], ""
	i := strings.IndexByte(s, '/')
	if i > 0 {
		user, rest = s[1:i], s[i:]
	}
	switch {
	case e.w.posix && (user == "+" || user == "-"): // to dash the text itself
		e.lit(s)
	case strings.Contains(user, ":"), strings.Contains(user, "=~"): // bash takes what follows as quoted
		e.b.missing()
	case i < 0 && !whole: // ~"user" is not expanded; ~$x is text
		e.lit(s)
	default:
		e.tilde(user)
		e.lit(rest)
	}
}

func (e *expansion) tilde(user string) {
	name := map[string]string{"": "HOME", "+": "PWD", "-": "OLDPWD"}[user]
	switch {
	case name != "":
		if v, ok := e.sc.vars.get(name); ok && len(v.words) == 1 && v.words[0].Known {
			e.b.quoted(v.words[0].Text)
			return
		}
	case user == "root":
		e.b.quoted("/root")
		return
	}
	e.b.missing()
}

func (w *walker) extGlob(g *syntax.ExtGlob) {
	if strings.ContainsAny(g.Pattern.Value, "$`<>") {
		// For the parser the pattern is one literal, but bash expands it.
		w.fail(&Error{
			Code: "parser_difference", Msg: "an expansion inside an extended pattern",
			Hint: "put the value in a variable first", At: w.pos(g),
		})
	}
}

// checkQuotes refuses single quotes inside a parameter expansion in double quotes: for bash they are letters, for
// the parser quotes.
func (w *walker) checkQuotes(p *syntax.ParamExp, quoted bool) {
	if !quoted {
		return
	}
	var words []*syntax.Word
	if p.Exp != nil {
		words = append(words, p.Exp.Word)
	}
	if p.Repl != nil {
		words = append(words, p.Repl.Orig, p.Repl.With)
	}
	for _, word := range words {
		if word == nil {
			continue
		}
		for _, part := range word.Parts {
			if q, ok := part.(*syntax.SglQuoted); ok && strings.ContainsAny(q.Value, "$`") {
				w.fail(&Error{
					Code: "parser_difference",
					Msg:  "single quotes inside an expansion in double quotes do not quote",
					Hint: `escape with a backslash instead`, At: w.pos(q),
				})
			}
		}
	}
}
