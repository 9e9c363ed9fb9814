package shellparse

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// arithm walks an arithmetic expression. Bash evaluates the text of its variables again, so text that would execute
// something is remembered until the end.
func (w *walker) arithm(x syntax.ArithmExpr, sc *scope) {
	w.step(x)
	switch x := x.(type) {
	case *syntax.Word:
		for _, part := range x.Parts {
			if q, ok := part.(*syntax.SglQuoted); ok && strings.ContainsAny(q.Value, "$`\\") {
				w.fail(&Error{
					Code: "parser_difference", Msg: "single quotes do not quote in arithmetic",
					Hint: "leave them out", At: w.pos(q),
				})
			}
		}
		f := w.single(x, sc)
		w.noteSuspect(f)
		if lit := x.Lit(); lit == "" || !program.AllDigits(lit) {
			w.evaluates(w.pos(x))
		}
	case *syntax.BinaryArithm:
		w.arithm(x.X, sc)
		w.arithm(x.Y, sc)
		if name, ok := x.X.(*syntax.Word); ok && strings.HasSuffix(x.Op.String(), "=") && x.Op != syntax.Eql &&
			x.Op != syntax.Neq && x.Op != syntax.Leq && x.Op != syntax.Geq {
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
		w.fail(&Error{
			Code: "unsupported", Msg: "an arithmetic expression that is not known here",
			Hint: "write it in another way", At: w.pos(x),
		})
	}
}

// number walks an expression that ends the line if it is wrong.
func (w *walker) number(x syntax.ArithmExpr, sc *scope) {
	w.mayAbort(w.fails(x, sc), sc)
	w.arithm(x, sc)
}

// evaluates notes that the text of a variable is evaluated here.
func (w *walker) evaluates(at Pos) {
	if w.arith == nil {
		w.arith = &at
	}
}

// subscript refuses a substitution that quotes hide in an index: bash removes the quotes and then expands the rest.
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
	text := f.Text
	if !f.Known {
		text = f.Skeleton
	}
	if strings.Contains(text, "$(") || strings.Contains(text, "${") || strings.Contains(text, "`") {
		w.opaque(Opaque{
			Code:    "dynamic_eval",
			Message: "an index that holds a substitution is expanded twice: " + f.Text, At: f.At,
		})
	}
}

// setNumber gives a variable an unknown value of digits. With an index, another element may change.
func (w *walker) setNumber(name *syntax.Word, sc *scope) {
	n, element := w.setBy(name, sc)
	switch {
	case n == "":
		sc.forgetAll()
	case element:
		w.assign(sc, n, value{words: []program.Word{{At: w.pos(name)}}}, w.pos(name))
	default:
		w.assign(sc, n,
			value{words: []program.Word{{Text: "$((" + n + "))", Pat: "*", Known: true, Glob: true, At: w.pos(name)}}},
			w.pos(name))
	}
}

// setBy returns the variable on the left of an assignment in arithmetic, "" if it may be any, and whether it is an
// element of it.
func (w *walker) setBy(left *syntax.Word, sc *scope) (name string, element bool) {
	if n := left.Lit(); n != "" {
		return n, false
	}
	if len(left.Parts) == 1 {
		if p, ok := left.Parts[0].(*syntax.ParamExp); ok && p.Short && !p.Dollar.IsValid() && p.Index != nil {
			return p.Param.Value, true
		}
	}
	f := w.single(left, sc) // an expansion gives the name
	if f.Lit() == "" {
		return "", true
	}
	return variableOf(f.Lit()), strings.Contains(f.Text, "[")
}

// letClause accepts only quoted literals. In anything else bash ends the command at | & ; < >, while the parser
// reads operators.
func (w *walker) letClause(c *syntax.LetClause, sc *scope) {
	from, to := int(c.Let.Offset()), int(c.End().Offset())
	if from < to && to <= len(w.src) &&
		(strings.ContainsAny(unquoted(w.src[from:to]), "|&;<>()") ||
			strings.HasPrefix(strings.TrimLeft(w.src[to:], " \t"), "&>")) {
		w.fail(&Error{
			Code: "parser_difference", Msg: "an operator in the words of let",
			Hint: "quote the expression, or use (( … ))", At: w.pos(c),
		})
	}
	cmd := Command{Name: "let", Path: "let", Via: w.via, At: w.pos(c), Dir: sc.dir()}
	for _, x := range c.Exprs {
		w.arithm(x, sc)
		cmd.Args = append(cmd.Args, Word{Text: w.source(x), Known: true, At: w.pos(x)})
	}
	w.emit(cmd)
}

// unquoted replaces what is in quotes by blanks.
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
		if x.Op == syntax.TsReMatch {
			w.sets("BASH_REMATCH")
		}
		w.binaryTest(x, sc)
	default:
		w.fail(&Error{
			Code: "unsupported", Msg: "a test that is not known here", Hint: "write it in another way",
			At: w.pos(x),
		})
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
		for _, file := range w.file(f, Read, false, sc) {
			file.Looks = true
			w.out.Files = append(w.out.Files, file)
		}
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

// assigning are the builtins that assign to variables that their words name.
const assigning = " read mapfile readarray printf -v getopts "

// nameArgument refuses code in text that a builtin takes as the name of a variable. If the builtin assigns to the
// variable, it also refuses an unknown name, which could be one that bash obeys.
func (w *walker) nameArgument(builtin string, f program.Word) {
	if strings.Contains(assigning, " "+builtin+" ") && f.Lit() == "" {
		w.opaque(Opaque{
			Code: "environment", Message: builtin + " sets a variable that is only known when it runs: " + f.Text,
			Hint: "name the variable", At: f.At, CommandsOnly: true,
		})
	}
	if f.Code || f.Known && codeInIndex(f.Text) {
		w.opaque(Opaque{
			Code: "dynamic_eval", Message: builtin + " executes the index in " + f.Text, Command: builtin,
			At: f.At,
		})
	}
}

// doTest handles test and [. They read files, and evaluate the subscript of a name.
func doTest(a *act) {
	all := a.Argv[1:]
	for i, f := range all {
		if i+1 >= len(all) {
			continue
		}
		next := all[i+1]
		if !f.Known {
			a.w.nameArgument(a.Name, next) // f may be the option -v
			continue
		}
		switch f.Text {
		case "-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-b", "-c", "-p", "-S", "-g", "-u", "-k", "-O", "-G",
			"-N":
			if i+2 < len(all) && isOperator(all[i+1].Text) && !isOperator(all[i].Text) && i+2 < len(all) &&
				len(all) > 3 {
				continue
			}
			a.File(next, Read, false)
		case "-nt", "-ot", "-ef":
			if i > 0 {
				a.File(all[i-1], Read, false)
			}
			a.File(next, Read, false)
		case "-v", "-R":
			a.w.nameArgument(a.Name+" -v", next)
		case "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
			// Only numbers are read here: test does not evaluate them.
		}
	}
}

func isOperator(s string) bool {
	switch s {
	case "=", "==", "!=", "<", ">", "-a", "-o", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef":
		return true
	}
	return false
}
