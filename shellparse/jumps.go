package shellparse

import (
	"slices"

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
