package shellparse

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// jumps are the ways in which a function or a loop may end before its last statement. What is known at one of them
// may be all that is known after it.
type jumps struct{ from []*scope }

// fork returns a copy for a shell of its own, which no jump leaves.
func (s *scope) fork() *scope {
	c := s.clone()
	c.part()
	return c
}

// part makes a scope the scope of a shell of its own.
func (s *scope) part() { s.function, s.loops, s.apart = nil, nil, true }

// jump notes that return, break or continue may end what runs here.
func (s *scope) jump(name string) {
	switch {
	case name == "return" && s.function != nil:
		s.function.from = append(s.function.from, s.clone())
	case name == "break" || name == "continue":
		for _, loop := range s.loops { // a number may name any of them
			loop.from = append(loop.from, s.clone())
		}
	}
}

// landed keeps, after a function or a loop, only what its end and its jumps agree on.
func (s *scope) landed(j *jumps) {
	for _, from := range j.from {
		s.locals = append(slices.Clip(s.locals), from.locals...)
		s.merge(from)
	}
}

// loop follows the body of a loop again and again; sc is the state at the start of
// each round. It ends when sc knows no value that a round changes.
func (w *walker) loop(sc *scope, round func(*scope)) {
	w.rounds++
	defer func() { w.rounds-- }()
	for {
		j, body := &jumps{}, sc.clone()
		body.loops = append(slices.Clip(sc.loops), j)
		round(body)
		body.landed(j)
		body.loops = sc.loops
		again := sc.changes(body)
		if !again {
			sc.merge(body)
			return
		}
	}
}

// changes forgets what s knows and o, which began as s, does not know or knows otherwise. It reports whether there
// was any.
func (s *scope) changes(o *scope) bool {
	var lost []string
	for _, v := range s.vars {
		if now, ok := o.vars.get(v.name); !ok || !now.equal(v.value) {
			lost = append(lost, v.name)
		}
	}
	for _, name := range lost {
		s.forget(name)
	}
	return len(lost) > 0
}

// noErrexit notes that errexit may be off from here on.
func (s *scope) noErrexit(w *walker) {
	s.errexit = false
	w.switched++
}

// leaves reports whether a statement always ends the program, the function or the round of a loop, so that nothing
// after it runs.
func (s *scope) leaves(st *syntax.Stmt) bool {
	if st.Background || st.Negated || len(st.Redirs) > 0 {
		return false
	}
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Args) == 0 || len(c.Args) > 2 || len(c.Args) == 2 && !program.AllDigits(c.Args[1].Lit()) {
			return false // with a wrong argument it may not leave
		}
		name := c.Args[0].Lit()
		if _, ok := s.funcs[name]; ok {
			return false
		}
		switch name {
		case "exit":
			return true
		case "return":
			return s.function != nil
		case "break", "continue":
			return len(s.loops) > 0
		}
	case *syntax.Block:
		return s.listLeaves(c.Stmts)
	}
	return false
}

func (s *scope) listLeaves(list []*syntax.Stmt) bool {
	return len(list) > 0 && s.leaves(list[len(list)-1])
}

func (w *walker) invoke(name string, body *syntax.Stmt, args []program.Word, sc *scope, in program.Input) {
	if again := count(w.calls, name); again > 0 {
		if again > 1 || len(w.calls) >= 2*maxNested {
			return // this body was followed with nothing known: it cannot do more
		}
		args = nil
		sc.forgetAll()
	}
	if w.called == nil {
		w.called = map[*syntax.Stmt]bool{}
	}
	w.called[body] = true
	w.setsArgs(args)
	w.calls = append(w.calls, name)
	savedArgs, savedLocals, savedFunction, savedLoops := sc.args, sc.locals, sc.function, sc.loops
	j, ifs, errexit := &jumps{}, sc.ifs, sc.errexit
	savedOuter := sc.outer
	sc.outer = append(slices.Clip(savedOuter), savedLocals...)
	sc.args, sc.locals, sc.function, sc.loops = args, nil, j, nil
	w.within("function", func() { w.stmt(body, sc, in) })
	sc.landed(j)
	sc.errexit = sc.errexit && errexit // with "local -" the options go back
	for _, l := range sc.locals {
		sc.forget(l)
		sc.withhold(l)
		sc.ifs = sc.ifs || l == "IFS" && ifs
	}
	sc.outer = savedOuter
	sc.args, sc.locals, sc.function, sc.loops = savedArgs, savedLocals, savedFunction, savedLoops
	sc.settle()
	w.calls = w.calls[:len(w.calls)-1]
}

func count(names []string, name string) int {
	n := 0
	for _, x := range names {
		if x == name {
			n++
		}
	}
	return n
}

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
