package shellparse

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// If an expansion or an assignment fails, bash ends the whole line, with its functions
// and lists, and goes on with the next line. After
//
//	x=a; : $((1/0)); x=b
//
// x is a. So the state at each place where this may happen counts at the end of the line.

// chance is how likely it is that an expansion fails.
type chance int

const (
	never   chance = iota
	perhaps        // an unknown value decides
	surely         // it fails, as far as the line shows
)

// aborted is a place at which a line may have ended.
type aborted struct {
	sc   *scope
	sure bool
}

// mayAbort notes that the line may end here.
func (w *walker) mayAbort(c chance, sc *scope) {
	if c == never || sc.apart {
		return
	}
	w.aborts = append(w.aborts, aborted{sc.clone(), c == surely})
}

// lines walks statements. At the end of each line it considers where the line may have ended early.
func (w *walker) lines(list []*syntax.Stmt, sc *scope) {
	saved := w.aborts
	w.aborts = nil
	for i, s := range list {
		w.stmt(s, sc, w.opts.stdin())
		sc.settle()
		if i+1 < len(list) && list[i+1].Pos().Line() <= s.End().Line() {
			continue
		}
		for _, a := range w.aborts {
			sc.mergeAborted(a)
		}
		w.aborts = nil
	}
	w.aborts = saved
}

// mergeAborted considers that the line may have ended at a. If only an unknown value could have ended it there,
// names that were unknown at a do not count.
func (s *scope) mergeAborted(a aborted) {
	from := a.sc
	from.settle()
	if from.function != s.function {
		from.args = s.args
	}
	for _, name := range append(slices.Clip(from.outer), from.locals...) {
		if slices.Contains(s.locals, name) && from.function == s.function {
			continue
		}
		if v, ok := s.vars.get(name); ok { // variables of the function itself are gone
			from.set(name, v)
		} else {
			from.forget(name)
		}
	}
	if !a.sure {
		for _, v := range s.vars {
			if _, ok := from.vars.get(v.name); !ok {
				from.set(v.name, v.value)
			}
		}
	}
	s.merge(from)
}

// fails returns how likely an arithmetic expression is wrong.
func (w *walker) fails(x syntax.ArithmExpr, sc *scope) chance {
	switch x := x.(type) {
	case *syntax.Word:
		return wrongNumber(x, sc)
	case *syntax.UnaryArithm:
		return w.fails(x.X, sc)
	case *syntax.ParenArithm:
		return w.fails(x.X, sc)
	case *syntax.BinaryArithm:
		c := max(w.fails(x.X, sc), w.fails(x.Y, sc))
		switch x.Op {
		case syntax.Quo, syntax.Rem, syntax.QuoAssgn, syntax.RemAssgn, syntax.Pow:
			y, ok := x.Y.(*syntax.Word)
			switch {
			case !ok: // 2**-1, or something that may be 0
				return surely
			case program.AllDigits(y.Lit()) && (x.Op == syntax.Pow || strings.Trim(y.Lit(), "0") != ""):
			case program.AllDigits(y.Lit()):
				return surely
			default:
				return max(c, perhaps)
			}
		case syntax.Assgn:
			return w.fails(x.Y, sc)
		}
		return c
	}
	return surely
}

// wrongNumber returns how likely a word in an expression is no number.
func wrongNumber(x *syntax.Word, sc *scope) chance {
	lit := x.Lit()
	switch {
	case lit == "@" || lit == "*":
		return never
	case program.AllDigits(lit):
		if len(lit) > 18 || lit[0] == '0' && strings.ContainsAny(lit, "89") {
			return surely
		}
		return never
	case strings.Contains(lit, "#"): // a base, and its digits may be none
		return surely
	case lit != "" && (lit[0] <= '9' || !isName(lit)): // 2\1 and 1y; 0x1f too, although it is right
		return surely
	case lit == "":
		if p, ok := onlyParam(x); ok {
			lit = p
		}
	}
	if v, ok := sc.vars.get(lit); ok && len(v.words) == 1 {
		switch f := v.words[0]; {
		case f.Glob && f.Number, f.Known && !f.Glob &&
			(f.Text == "" || program.AllDigits(f.Text) && f.Text[0] != '0' && len(f.Text) < 19 || f.Text == "0"):
			return never
		case f.Known && !f.Glob:
			return surely
		}
	}
	if strings.Contains(numbers, " "+lit+" ") && lit != "" {
		return never
	}
	return perhaps
}

// onlyParam returns the name of a parameter, if the word is that parameter and nothing else.
func onlyParam(x *syntax.Word) (string, bool) {
	if len(x.Parts) != 1 {
		return "", false
	}
	p, ok := x.Parts[0].(*syntax.ParamExp)
	if !ok || p.Param == nil || p.Exp != nil || p.Slice != nil || p.Repl != nil || p.Index != nil || p.Excl {
		return "", false
	}
	if p.Length {
		return "#", true
	}
	return p.Param.Value, true
}
