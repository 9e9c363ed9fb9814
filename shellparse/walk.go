package shellparse

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (w *walker) stmts(list []*syntax.Stmt, sc *scope) {
	for _, s := range list {
		w.stmt(s, sc, stream{})
		sc.settle()
	}
}

// stmt walks one statement. in is what its standard input is connected to.
func (w *walker) stmt(s *syntax.Stmt, sc *scope, in stream) {
	w.step(s)
	if s.Negated {
		w.conds++
		defer func() { w.conds-- }()
	}
	if s.Background || s.Coprocess {
		sc = sc.clone()
	}
	if s.Cmd == nil {
		files, _ := w.redirects(s.Redirs, sc)
		w.out.Files = append(w.out.Files, files...)
		return
	}
	if c, ok := s.Cmd.(*syntax.CallExpr); ok {
		w.callExpr(c, s.Redirs, sc, in)
		return
	}
	files, redirected := w.redirects(s.Redirs, sc)
	w.out.Files = append(w.out.Files, files...)
	if redirected.kind != inherited {
		in = redirected
	}
	w.compound(s.Cmd, sc, in)
}

func (w *walker) compound(cmd syntax.Command, sc *scope, in stream) {
	switch c := cmd.(type) {
	case *syntax.Block:
		w.stmtsIn(c.Stmts, sc, in)
	case *syntax.Subshell:
		inner := sc.clone()
		w.within("subshell", func() { w.stmtsIn(c.Stmts, inner, in) })
	case *syntax.BinaryCmd:
		w.binary(c, sc, in)
	case *syntax.IfClause:
		w.ifClause(c, sc, in)
	case *syntax.WhileClause:
		w.whileClause(c, sc, in)
	case *syntax.ForClause:
		w.forClause(c, sc, in)
	case *syntax.CaseClause:
		w.caseClause(c, sc, in)
	case *syntax.FuncDecl:
		w.declare(c, sc)
	case *syntax.ArithmCmd:
		w.arithm(c.X, sc)
	case *syntax.TestClause:
		w.test(c.X, sc)
	case *syntax.DeclClause:
		w.declClause(c, sc)
	case *syntax.LetClause:
		w.letClause(c, sc)
	case *syntax.TimeClause:
		if c.Stmt == nil {
			return
		}
		if call, ok := c.Stmt.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 && call.Args[0].Lit() == "--" {
			w.fail(&Error{Code: "parser_difference", Msg: "time with --", Hint: "leave -- out", At: w.pos(c)})
		}
		w.stmt(c.Stmt, sc, in)
	case *syntax.CoprocClause:
		if _, simple := c.Stmt.Cmd.(*syntax.CallExpr); c.Name != nil && (simple || c.Stmt.Cmd == nil) {
			// Bash takes a name only in front of a compound command.
			w.fail(&Error{Code: "parser_difference", Msg: "coproc with a name in front of a simple command", Hint: "leave coproc out", At: w.pos(c)})
		}
		if call, ok := c.Stmt.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 && strings.Contains(w.source(call.Args[0]), "=") {
			w.fail(&Error{Code: "parser_difference", Msg: "coproc with an assignment in front of the command", Hint: "leave coproc out", At: w.pos(c)})
		}
		if in.kind == inherited {
			in.kind = piped // the shell's end of the pipe
		}
		w.within("coproc", func() { w.stmt(c.Stmt, sc.clone(), in) })
	default:
		w.fail(&Error{Code: "unsupported", Msg: fmt.Sprintf("a construct that is not known here (%T)", cmd), Hint: "write it in another way", At: w.pos(cmd)})
	}
}

func (w *walker) stmtsIn(list []*syntax.Stmt, sc *scope, in stream) {
	for _, s := range list {
		w.stmt(s, sc, in)
		sc.settle()
	}
}

func (w *walker) binary(c *syntax.BinaryCmd, sc *scope, in stream) {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
		w.pipeline(c, sc, in)
	case syntax.AndStmt:
		w.conds++
		w.stmt(c.X, sc, in)
		w.conds--
		after := sc.clone()
		failed := after.failed
		after.failed = nil
		w.stmt(c.Y, after, in)
		// Y may not have run; then X failed, and with it a cd in it.
		failed = union(orDirs(failed, sc.dirs), orDirs(after.failed, after.dirs))
		sc.merge(after)
		sc.dirs, sc.failed = after.dirs, failed
		if slices.Equal(failed, after.dirs) {
			sc.failed = nil
		}
	case syntax.OrStmt:
		w.conds++
		w.stmt(c.X, sc, in)
		w.conds--
		otherwise := sc.clone()
		if otherwise.failed != nil {
			otherwise.dirs, otherwise.failed = otherwise.failed, nil
		}
		w.stmt(c.Y, otherwise, in)
		if leaves(c.Y) {
			// cd x || exit: who goes on is in x.
			sc.failed = nil
			return
		}
		sc.failed = nil
		sc.merge(otherwise)
	}
}

func orDirs(a, b []workdir) []workdir {
	if a != nil {
		return a
	}
	return b
}

// leaves reports whether a statement always ends the program or function.
func leaves(s *syntax.Stmt) bool {
	if s.Background || s.Negated || len(s.Redirs) > 0 && s.Cmd == nil {
		return false
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		return len(c.Args) > 0 && slices.Contains([]string{"exit", "return", "continue", "break"}, c.Args[0].Lit())
	case *syntax.Block:
		return len(c.Stmts) > 0 && leaves(c.Stmts[len(c.Stmts)-1])
	}
	return false
}

func (w *walker) pipeline(c *syntax.BinaryCmd, sc *scope, in stream) {
	if n := len(w.via); n > 0 && w.via[n-1] == "pipeline" {
		w.stages(c, sc, in)
		return
	}
	w.within("pipeline", func() { w.stages(c, sc, in) })
}

func (w *walker) stages(c *syntax.BinaryCmd, sc *scope, in stream) {
	from := len(w.out.Commands)
	w.piped = nil
	w.stmt(c.X, sc.clone(), in)
	names := w.printedNames(lastStage(c.X), from, w.piped)
	// With lastpipe the right side would run in this shell; that needs shopt,
	// which is refused.
	w.stmt(c.Y, sc.clone(), stream{kind: piped, paths: names})
	w.piped = names
}

// lastStage is the stage of s that writes into the next pipe.
func lastStage(s *syntax.Stmt) *syntax.Stmt {
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && (b.Op == syntax.Pipe || b.Op == syntax.PipeAll) {
		return b.Y
	}
	return s
}

func (w *walker) ifClause(c *syntax.IfClause, sc *scope, in stream) {
	if len(c.Cond) > 0 {
		w.conds++
		w.stmtsIn(c.Cond, sc, in)
		w.conds--
	}
	then := sc.clone()
	w.stmtsIn(c.Then, then, in)
	if c.Else != nil {
		w.ifClause(c.Else, sc, in)
		if stmtsLeave(c.Else.Then) && c.Else.Else == nil && len(c.Else.Cond) == 0 {
			*sc = *then
			return
		}
	}
	if len(c.Cond) == 0 { // a bare else
		*sc = *then
		return
	}
	if stmtsLeave(c.Then) {
		return
	}
	sc.merge(then)
}

func stmtsLeave(list []*syntax.Stmt) bool { return len(list) > 0 && leaves(list[len(list)-1]) }

func (w *walker) whileClause(c *syntax.WhileClause, sc *scope, in stream) {
	w.forgetChanged(c, sc)
	w.conds++
	w.stmtsIn(c.Cond, sc, in)
	w.conds--
	body := sc.clone()
	w.stmtsIn(c.Do, body, in)
	sc.merge(body)
}

func (w *walker) forClause(c *syntax.ForClause, sc *scope, in stream) {
	switch loop := c.Loop.(type) {
	case *syntax.CStyleLoop:
		w.forgetChanged(c, sc)
		for _, x := range []syntax.ArithmExpr{loop.Init, loop.Cond, loop.Post} {
			if x != nil {
				w.arithm(x, sc)
			}
		}
		body := sc.clone()
		w.stmtsIn(c.Do, body, in)
		sc.merge(body)
	case *syntax.WordIter:
		w.forWords(c, loop, sc, in)
	default:
		w.fail(&Error{Code: "unsupported", Msg: "a loop that is not known here", At: w.pos(c)})
	}
}

// forWords follows a loop once for each of its words, while they are few and
// known; a wider one is followed once with an unknown variable.
func (w *walker) forWords(c *syntax.ForClause, loop *syntax.WordIter, sc *scope, in stream) {
	items := sc.args
	if loop.InPos.IsValid() || len(loop.Items) > 0 {
		items = w.fields(loop.Items, sc)
	}
	w.forgetChanged(c, sc)
	name := loop.Name.Value
	known := items != nil && len(items) <= maxUnroll && !c.Select
	for _, it := range items {
		known = known && it.known
	}
	if !known {
		items = []field{{text: "$" + name, at: w.pos(loop)}}
	}
	before := sc.clone()
	for _, it := range items {
		w.assign(sc, name, value{words: []field{it}}, w.pos(loop))
		w.stmtsIn(c.Do, sc, in)
		w.forgetChanged(c, sc)
	}
	if known && len(items) == 1 {
		if v, ok := sc.vars.get(name); ok {
			before.set(name, v)
		}
	}
	sc.merge(before)
}

func (w *walker) caseClause(c *syntax.CaseClause, sc *scope, in stream) {
	w.single(c.Word, sc)
	after := sc.clone()
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			w.single(p, after)
		}
		branch := after.clone()
		w.stmtsIn(item.Stmts, branch, in)
		if !stmtsLeave(item.Stmts) || item.Op != syntax.Break {
			after.merge(branch)
		}
	}
	*sc = *after
}

// forgetChanged drops what the body of a loop may have changed in a round before.
func (w *walker) forgetChanged(n syntax.Node, sc *scope) {
	moved := false
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Subshell, *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.Assign:
			if n.Name != nil {
				sc.forget(n.Name.Value)
			}
		case *syntax.WordIter:
			sc.forget(n.Name.Value)
		case *syntax.ParamExp:
			if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				sc.forget(n.Param.Value)
			}
		case *syntax.BinaryArithm:
			if x, ok := n.X.(*syntax.Word); ok {
				sc.forget(x.Lit())
			}
		case *syntax.UnaryArithm:
			if x, ok := n.X.(*syntax.Word); ok {
				sc.forget(x.Lit())
			}
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				return true
			}
			switch name := n.Args[0].Lit(); name {
			case "cd", "pushd", "popd":
				moved = true
			case "shift", "set":
				sc.args = nil
			case "read", "mapfile", "readarray", "unset", "getopts", "printf", "command", "builtin":
				for _, a := range n.Args[1:] {
					sc.forget(a.Lit())
				}
			case "eval", "source", ".", "":
				moved = true
				sc.forgetAll()
			default:
				if _, ok := sc.funcs[name]; ok {
					moved = true
					sc.forgetAll()
				}
			}
		}
		return true
	})
	if moved {
		// Each round starts where the one before ended.
		sc.dirs, sc.failed = []workdir{{}}, nil
	}
}

func (w *walker) declare(c *syntax.FuncDecl, sc *scope) {
	if c.Name == nil || c.Body == nil {
		w.fail(&Error{Code: "unsupported", Msg: "a function without a name", Hint: "name it", At: w.pos(c)})
	}
	w.declared = append(w.declared, c)
	sc.setFunc(c.Name.Value, function{body: c.Body})
}

// uncalled follows the functions that nothing called: a trap or an exported name
// could.
func (w *walker) uncalled(sc *scope) {
	for _, d := range w.declared {
		if !w.called[d.Body] {
			w.invoke(d.Name.Value, d.Body, nil, sc.clone(), stream{})
		}
	}
}

func (w *walker) invoke(name string, body *syntax.Stmt, args []field, sc *scope, in stream) {
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
	savedArgs, savedLocals := sc.args, sc.locals
	sc.args, sc.locals = args, nil
	w.within("function", func() { w.stmt(body, sc, in) })
	for _, l := range sc.locals {
		sc.forget(l)
	}
	sc.args, sc.locals = savedArgs, savedLocals
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
