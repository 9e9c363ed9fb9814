package shellparse

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

func (w *walker) stmts(list []*syntax.Stmt, sc *scope) {
	for _, s := range list {
		w.stmt(s, sc, w.opts.stdin())
		sc.settle()
	}
}

// stmt walks one statement. in is what its standard input is connected to.
func (w *walker) stmt(s *syntax.Stmt, sc *scope, in program.Input) {
	w.step(s)
	if s.Negated {
		w.conds++
		defer func() {
			w.conds--
			sc.swap()
		}()
	}
	if s.Background || s.Coprocess {
		sc = sc.fork()
		w.beside++
		defer func() { w.beside-- }()
	}
	if mayFail(s.Redirs) {
		// If a file cannot be opened, nothing of this happens.
		before := w.borrow(sc)
		defer func() {
			sc.merge(before)
			w.giveBack(before)
		}()
	}
	if len(s.Redirs) > 0 {
		defer w.feeding(s.Redirs)()
	}
	if s.Cmd == nil {
		files, _ := w.redirects(s.Redirs, sc)
		w.out.Files = append(w.out.Files, files...)
		if run, ok := w.madeBy(files); ok {
			w.slurped = append(w.slurped, slurped{w.pos(s), run})
		}
		return
	}
	if c, ok := s.Cmd.(*syntax.CallExpr); ok {
		w.callExpr(c, s.Redirs, sc, in)
		return
	}
	files, redirected := w.redirects(s.Redirs, sc)
	w.out.Files = append(w.out.Files, files...)
	if redirected.Kind != program.Inherited {
		in = redirected
	}
	w.into(files, ownOutput(s.Redirs), func() { w.compound(s.Cmd, sc, in) })
}

func (w *walker) compound(cmd syntax.Command, sc *scope, in program.Input) {
	switch c := cmd.(type) {
	case *syntax.Block:
		w.stmtsIn(c.Stmts, sc, in)
	case *syntax.Subshell:
		inner := sc.fork()
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
		if c.Name != nil && !grouping(c.Stmt.Cmd) || !grouping(c.Stmt.Cmd) && len(c.Stmt.Redirs) > 0 ||
			slices.Contains(w.via, "substitution") || slices.Contains(w.via, "process substitution") {
			// Bash takes a name only in front of a compound command; the parser takes
			// the number of a descriptor for the command. In a substitution bash takes the name that it
			// makes up itself for a command.
			w.fail(&Error{
				Code: "parser_difference", Msg: "coproc with a name in front of a simple command",
				Hint: "leave coproc out", At: w.pos(c),
			})
		}
		if call, ok := c.Stmt.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 &&
			strings.Contains(w.source(call.Args[0]), "=") {
			w.fail(&Error{
				Code: "parser_difference", Msg: "coproc with an assignment in front of the command",
				Hint: "leave coproc out", At: w.pos(c),
			})
		}
		if in.Kind == program.Inherited {
			in.Kind = program.Piped // the shell's end of the pipe
		}
		w.sets("COPROC")
		if c.Name != nil {
			w.sets(c.Name.Lit())
		}
		w.within("coproc", func() { w.stmt(c.Stmt, sc.fork(), in) })
	default:
		w.fail(&Error{
			Code: "unsupported", Msg: fmt.Sprintf("a construct that is not known here (%T)", cmd),
			Hint: "write it in another way", At: w.pos(cmd),
		})
	}
}

// grouping reports whether cmd is a compound command: nothing but its end word or
// bracket ends it.
func grouping(cmd syntax.Command) bool {
	switch cmd.(type) {
	case *syntax.Block, *syntax.Subshell, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause,
		*syntax.ArithmCmd, *syntax.TestClause:
		return true
	}
	return false
}

func (w *walker) stmtsIn(list []*syntax.Stmt, sc *scope, in program.Input) {
	for _, s := range list {
		w.stmt(s, sc, in)
		sc.settle()
	}
}

func (w *walker) binary(c *syntax.BinaryCmd, sc *scope, in program.Input) {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
		w.pipeline(c, sc, in)
	case syntax.AndStmt:
		w.conds++
		w.stmt(c.X, sc, in)
		w.conds--
		after := w.borrow(sc)
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
		w.giveBack(after)
	case syntax.OrStmt:
		w.conds++
		w.stmt(c.X, sc, in)
		w.conds--
		otherwise := sc.clone()
		if otherwise.failed != nil {
			otherwise.swap()
			otherwise.failed = nil
		}
		w.stmt(c.Y, otherwise, in)
		if sc.leaves(c.Y) {
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

func (w *walker) pipeline(c *syntax.BinaryCmd, sc *scope, in program.Input) {
	if n := len(w.via); n > 0 && w.via[n-1] == "pipeline" {
		w.stages(c, sc, in)
		return
	}
	w.within("pipeline", func() { w.stages(c, sc, in) })
}

func (w *walker) stages(c *syntax.BinaryCmd, sc *scope, in program.Input) {
	from := len(w.out.Commands)
	w.piped = nil
	if b, ok := c.X.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.Pipe && len(c.X.Redirs) == 0 && !c.X.Negated {
		w.stmt(c.X, sc, in) // each of its stages has a shell of its own
	} else {
		w.apart(c.X, sc, in)
		w.typed = in.Typed && w.passesOn(from)
	}
	names := w.printedNames(lastStage(c.X), from, w.piped)
	if t, ok := c.Y.Cmd.(*syntax.TimeClause); ok {
		// Bash starts a program of that name here, which has options of its own.
		w.fail(&Error{
			Code: "parser_difference", Msg: "time behind a pipe", Hint: "put time in front of the pipeline",
			At: w.pos(t),
		})
	}
	// With lastpipe the right side would run in this shell; that needs shopt,
	// which is refused.
	to := w.printed(lastStage(c.X), from, names)
	_, to.Own = c.Y.Cmd.(*syntax.CallExpr)
	to.Own = to.Own && to.Kind == program.HereText
	to.Typed = w.typed && to.Kind == program.Piped
	from = len(w.out.Commands)
	w.apart(c.Y, sc, to)
	w.typed = to.Typed && w.passesOn(from)
	w.piped = names
}

// passesOn reports whether a command from number n on prints what it reads on its standard input.
func (w *walker) passesOn(n int) bool {
	return slices.ContainsFunc(w.out.Commands[n:], func(c Command) bool {
		reads := func(f File) bool { return f.Access == Read }
		return program.PassesOn(c.Name) && (c.Name != "cat" || !slices.ContainsFunc(c.Files, reads))
	})
}

// apart walks a statement in a shell of its own.
func (w *walker) apart(s *syntax.Stmt, sc *scope, in program.Input) {
	inner := w.borrow(sc)
	inner.part()
	w.stmt(s, inner, in)
	w.giveBack(inner)
}

// lastStage returns the stage of s that writes into the next pipe.
func lastStage(s *syntax.Stmt) *syntax.Stmt {
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && (b.Op == syntax.Pipe || b.Op == syntax.PipeAll) {
		return b.Y
	}
	return s
}

func (w *walker) ifClause(c *syntax.IfClause, sc *scope, in program.Input) {
	if len(c.Cond) > 0 {
		w.conds++
		w.stmtsIn(c.Cond, sc, in)
		w.conds--
	}
	then := sc.clone()
	w.stmtsIn(c.Then, then, in)
	if c.Else != nil {
		w.ifClause(c.Else, sc, in)
		if sc.listLeaves(c.Else.Then) && c.Else.Else == nil && len(c.Else.Cond) == 0 {
			*sc = *then
			return
		}
	}
	if len(c.Cond) == 0 { // a bare else
		*sc = *then
		return
	}
	if sc.listLeaves(c.Then) {
		return
	}
	sc.merge(then)
}

func (w *walker) whileClause(c *syntax.WhileClause, sc *scope, in program.Input) {
	w.forgetChanged(c, sc)
	w.loop(sc, func(round *scope) {
		w.conds++
		w.stmtsIn(c.Cond, round, in)
		w.conds--
		ends := round.clone() // here, where the condition does
		w.stmtsIn(c.Do, round, in)
		round.merge(ends)
	})
}

func (w *walker) forClause(c *syntax.ForClause, sc *scope, in program.Input) {
	switch loop := c.Loop.(type) {
	case *syntax.CStyleLoop:
		w.forgetChanged(c, sc)
		for _, x := range []syntax.ArithmExpr{loop.Init, loop.Cond, loop.Post} {
			if x != nil {
				w.arithm(x, sc)
			}
		}
		w.loop(sc, func(round *scope) { w.stmtsIn(c.Do, round, in) })
	case *syntax.WordIter:
		w.forWords(c, loop, sc, in)
	default:
		w.fail(&Error{Code: "unsupported", Msg: "a loop that is not known here", At: w.pos(c)})
	}
}

// forWords follows a loop once for each of its words, while they are few and
// known; a wider one is followed once with an unknown variable.
func (w *walker) forWords(c *syntax.ForClause, loop *syntax.WordIter, sc *scope, in program.Input) {
	items := sc.args
	if loop.InPos.IsValid() || len(loop.Items) > 0 {
		items = w.fields(loop.Items, sc, true)
	}
	w.forgetChanged(c, sc)
	name := loop.Name.Value
	known := items != nil && len(items) <= maxUnroll && !c.Select
	for _, it := range items {
		known = known && it.Known
	}
	if !known {
		items = []program.Word{{Text: "$" + name, At: w.pos(loop)}}
	}
	w.rounds++
	defer func() { w.rounds-- }()
	before := sc.clone()
	j, outer := &jumps{}, sc.loops
	sc.loops = append(slices.Clip(outer), j)
	for range 1 + len(sc.vars) {
		start := sc.clone()
		for _, it := range items {
			w.assign(sc, name, value{words: []program.Word{it}}, w.pos(loop))
			w.stmtsIn(c.Do, sc, in)
			w.forgetChanged(c, sc)
			sc.landed(j)
		}
		if known || !start.changes(sc) {
			break // an unknown number of rounds starts from what no round changes
		}
		*sc = *start
	}
	sc.loops = outer
	if known && len(items) == 1 {
		if v, ok := sc.vars.get(name); ok {
			before.set(name, v)
		}
	}
	sc.merge(before)
}

func (w *walker) caseClause(c *syntax.CaseClause, sc *scope, in program.Input) {
	w.single(c.Word, sc)
	after := sc.clone()
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			w.single(p, after)
		}
		branch := after.clone()
		w.stmtsIn(item.Stmts, branch, in)
		if !after.listLeaves(item.Stmts) || item.Op != syntax.Break {
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
				sc.withhold(n.Name.Value)
			}
		case *syntax.WordIter:
			sc.forget(n.Name.Value)
		case *syntax.ParamExp:
			if n.Exp != nil && n.Param != nil &&
				(n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
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
			case "command", "builtin":
				moved = moved || slices.ContainsFunc(n.Args[1:], movesShell)
				for _, a := range n.Args[1:] {
					sc.forget(a.Lit())
					sc.withhold(a.Lit())
				}
			case "shift", "set":
				sc.args = nil
			case "read", "mapfile", "readarray", "unset", "getopts", "printf":
				for _, a := range n.Args[1:] {
					sc.forget(a.Lit())
					sc.withhold(a.Lit())
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

// movesShell reports whether a word behind command or builtin may be one with which the shell changes its directory.
func movesShell(word *syntax.Word) bool {
	switch word.Lit() {
	case "cd", "pushd", "popd", "eval", "source", ".":
		return true
	}
	return false
}

func (w *walker) declare(c *syntax.FuncDecl, sc *scope) {
	if c.Name == nil || c.Body == nil {
		w.fail(&Error{Code: "unsupported", Msg: "a function without a name", Hint: "name it", At: w.pos(c)})
	}
	if !grouping(c.Body.Cmd) || c.Body.Background || c.Body.Negated {
		// For bash a definition in a pipeline is made in a shell of its own.
		w.fail(&Error{
			Code: "parser_difference", Msg: "a function whose body is more than one compound command",
			Hint: "end the definition with a line of its own", At: w.pos(c),
		})
	}
	w.declared = append(w.declared, c)
	if slices.ContainsFunc(w.traps, func(t trap) bool { return !t.atExit && strings.Contains(t.text, c.Name.Value) }) {
		sc.errexit, w.goesOn = false, true // the trap may call it
	}
	sc.setFunc(c.Name.Value, function{body: c.Body, maybe: gone(c.Name.Value, w.trapTakes)})
}

// uncalled follows the functions that nothing called: a trap or an exported name
// could. The one that a shell calls for a command that it does not find gets the words of that.
func (w *walker) uncalled(sc *scope) {
	for _, d := range w.declared {
		name, inner := d.Name.Value, sc.fork()
		switch {
		case name == notFound || name == notFound+"r": // that of zsh
			inner.forgetAll()
		case w.called[d.Body]:
			continue
		}
		w.invoke(name, d.Body, nil, inner, program.Input{})
	}
}
