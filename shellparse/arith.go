package shellparse

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arithm walks an arithmetic expression. Bash evaluates the text of variables in
// it again, so text that would execute is remembered until the end.
func (w *walker) arithm(x syntax.ArithmExpr, sc *scope) {
	w.step(x)
	switch x := x.(type) {
	case *syntax.Word:
		for _, part := range x.Parts {
			if q, ok := part.(*syntax.SglQuoted); ok && strings.ContainsAny(q.Value, "$`\\") {
				w.fail(&Error{Code: "parser_difference", Msg: "single quotes do not quote in arithmetic", Hint: "leave them out", At: w.pos(q)})
			}
		}
		f := w.single(x, sc)
		w.noteSuspect(f)
		if lit := x.Lit(); lit == "" || !digits(lit) {
			w.evaluates(w.pos(x))
		}
	case *syntax.BinaryArithm:
		w.arithm(x.X, sc)
		w.arithm(x.Y, sc)
		if name, ok := x.X.(*syntax.Word); ok && strings.HasSuffix(x.Op.String(), "=") && x.Op != syntax.Eql && x.Op != syntax.Neq && x.Op != syntax.Leq && x.Op != syntax.Geq {
			w.setNumber(name, sc)
		}
	case *syntax.UnaryArithm:
		w.arithm(x.X, sc)
		if name, ok := x.X.(*syntax.Word); ok && (x.Op == syntax.Inc || x.Op == syntax.Dec) {
			w.setNumber(name, sc)
		}
	case *syntax.ParenArithm:
		w.arithm(x.X, sc)
	default:
		w.fail(&Error{Code: "unsupported", Msg: "an arithmetic expression that is not known here", Hint: "write it in another way", At: w.pos(x)})
	}
}

// evaluates notes that the text of a variable is evaluated here.
func (w *walker) evaluates(at Pos) {
	if w.arith == nil {
		w.arith = &at
	}
}

// subscript refuses a substitution that quotes hide in an index: bash expands
// what is left after they are gone.
func (w *walker) subscript(x syntax.ArithmExpr, sc *scope) {
	switch op := x.(type) {
	case *syntax.BinaryArithm:
		w.subscript(op.X, sc)
		w.subscript(op.Y, sc)
		return
	case *syntax.UnaryArithm:
		w.subscript(op.X, sc)
		return
	case *syntax.ParenArithm:
		w.subscript(op.X, sc)
		return
	}
	word, ok := x.(*syntax.Word)
	if !ok {
		return
	}
	f := w.single(word, sc)
	text := f.text
	if !f.known {
		text = f.skeleton
	}
	if strings.Contains(text, "$(") || strings.Contains(text, "${") || strings.Contains(text, "`") {
		w.opaque(Opaque{Code: "dynamic_eval", Message: "an index that holds a substitution is expanded twice: " + f.text, At: f.at})
	}
}

// setNumber gives a variable a value that is digits and nothing else.
func (w *walker) setNumber(name *syntax.Word, sc *scope) {
	if n := name.Lit(); n != "" {
		w.assign(sc, n, value{words: []field{{text: "$((" + n + "))", pat: "*", known: true, glob: true, at: w.pos(name)}}}, w.pos(name))
	}
}

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// letClause takes only quoted literals: for anything else bash ends the command
// at | & ; < >, where the parser sees operators.
func (w *walker) letClause(c *syntax.LetClause, sc *scope) {
	from, to := int(c.Let.Offset()), int(c.End().Offset())
	if from < to && to <= len(w.src) && (strings.ContainsAny(unquoted(w.src[from:to]), "|&;<>()") || strings.HasPrefix(strings.TrimLeft(w.src[to:], " \t"), "&>")) {
		w.fail(&Error{Code: "parser_difference", Msg: "an operator in the words of let", Hint: "quote the expression, or use (( … ))", At: w.pos(c)})
	}
	cmd := Command{Name: "let", Path: "let", Via: w.via, At: w.pos(c), Dir: sc.dir()}
	for _, x := range c.Exprs {
		w.arithm(x, sc)
		cmd.Args = append(cmd.Args, Word{Text: w.source(x), Known: true, At: w.pos(x)})
	}
	w.emit(cmd)
}

// unquoted blanks out what is in quotes.
func unquoted(s string) string {
	b := []byte(s)
	var open byte
	for i := 0; i < len(b); i++ {
		switch {
		case open != '\'' && b[i] == '\\' && i+1 < len(b):
			b[i], b[i+1] = ' ', ' '
			i++
		case open == 0 && (b[i] == '\'' || b[i] == '"'):
			open = b[i]
		case open != 0 && b[i] == open:
			open = 0
		case open != 0:
			b[i] = ' '
		}
	}
	return string(b)
}

// test walks [[ … ]].
func (w *walker) test(x syntax.TestExpr, sc *scope) {
	w.step(x)
	switch x := x.(type) {
	case *syntax.Word:
		w.single(x, sc)
	case *syntax.ParenTest:
		w.test(x.X, sc)
	case *syntax.UnaryTest:
		w.unaryTest(x, sc)
	case *syntax.BinaryTest:
		w.binaryTest(x, sc)
	default:
		w.fail(&Error{Code: "unsupported", Msg: "a test that is not known here", Hint: "write it in another way", At: w.pos(x)})
	}
}

func (w *walker) unaryTest(x *syntax.UnaryTest, sc *scope) {
	word, ok := x.X.(*syntax.Word)
	if !ok {
		w.test(x.X, sc)
		return
	}
	f := w.single(word, sc)
	switch x.Op {
	case syntax.TsVarSet, syntax.TsRefVar:
		w.nameArgument("[[ -v", f)
	case syntax.TsNot, syntax.TsParen, syntax.TsEmpStr, syntax.TsNempStr, syntax.TsOptSet, syntax.TsFdTerm:
	default:
		w.out.Files = append(w.out.Files, w.file(f, Read, false, sc)...)
	}
}

func (w *walker) binaryTest(x *syntax.BinaryTest, sc *scope) {
	left, okX := x.X.(*syntax.Word)
	right, okY := x.Y.(*syntax.Word)
	if !okX || !okY {
		w.test(x.X, sc)
		w.test(x.Y, sc)
		return
	}
	a, b := w.single(left, sc), w.single(right, sc)
	switch x.Op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		w.noteSuspect(a)
		w.noteSuspect(b)
		w.evaluates(w.pos(x))
	case syntax.TsNewer, syntax.TsOlder, syntax.TsDevIno:
		w.out.Files = append(w.out.Files, w.file(a, Read, false, sc)...)
		w.out.Files = append(w.out.Files, w.file(b, Read, false, sc)...)
	}
}

// nameArgument refuses code in text that a builtin takes for a variable name.
func (w *walker) nameArgument(builtin string, f field) {
	if f.code || f.known && codeInIndex(f.text) {
		w.opaque(Opaque{Code: "dynamic_eval", Message: builtin + " executes the index in " + f.text, Command: builtin, At: f.at})
	}
}
