package shellparse

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// subst walks $(…) and gives its output where that is certain.
func (e *expansion) subst(c *syntax.CmdSubst, quoted bool) {
	if c.TempFile || c.ReplyVar {
		e.w.fail(&Error{
			Code: "unsupported", Msg: "a substitution of another shell", Hint: "use $(…)", At: e.w.pos(c),
		})
	}
	before := len(e.w.out.Commands)
	var names []program.Word
	around := e.w.group
	e.w.group = nil // what it prints goes into the word
	e.w.within("substitution", func() {
		e.w.piped = nil
		inner := e.sc.fork()
		inner.errexit = false // bash takes -e back here
		e.w.stmts(c.Stmts, inner)
		if len(c.Stmts) == 1 && e.only {
			names = e.w.printedNames(lastStage(c.Stmts[0]), before, e.w.piped)
		}
	})
	e.w.group = around
	e.b.some = true
	if len(names) == 1 && !names[0].Glob {
		// However many names it prints, all lie below that root.
		e.b.quoted(names[0].Text)
		e.b.tree = true
		return
	}
	if pat, ok := e.w.output(c, before, e.sc); ok {
		if !quoted && !pat.Glob {
			if e.split {
				e.splitText(pat.Text)
			} else {
				e.b.bare(pat.Text)
			}
			return
		}
		if pat.Glob {
			e.b.pattern(pat.Text, pat.Pat)
		} else {
			e.b.quoted(pat.Text)
		}
		return
	}
	e.b.missing()
	e.b.many = e.b.many || !quoted
}

// plainDate reports whether date prints one word with a number in it and no slash:
// %D has one, %n is a line feed, and what has no number may be a dot.
func plainDate(line string) bool {
	format, ok := strings.CutPrefix(line, "+")
	if !ok || strings.ContainsAny(format, "/ \n\t") {
		return false
	}
	numbers := 0
	for {
		var next string
		var found bool
		if _, next, found = strings.Cut(format, "%"); !found {
			return numbers > 0
		}
		next = strings.TrimLeft(next, "-0_")
		if next == "" || strings.IndexByte("abhjmpsuwyBCFGHIMNSTUVWYd", next[0]) < 0 {
			return false
		}
		if strings.IndexByte("abhpB", next[0]) < 0 {
			numbers++
		}
		format = next[1:]
	}
}

// onlyDate reports whether date prints nothing of its words but marks between numbers and names.
func onlyDate(c *Command) bool {
	for _, a := range c.Args {
		format, ok := strings.CutPrefix(a.Text, "+")
		if !a.Known || ok && strings.ContainsAny(format, ";&|<>()`$\n\\") {
			return false
		}
		for i := 0; ok && i < len(format); i++ {
			switch b := format[i]; {
			case b == '%':
				for i++; i < len(format) && strings.IndexByte("-_0^#:", format[i]) >= 0; i++ {
				}
				if i < len(format) && strings.IndexByte("nt", format[i]) >= 0 {
					return false
				}
			case b >= 'a' && b <= 'z' && b != 'h' || b >= 'A' && b <= 'Z' && b != 'T' && b != 'Z':
				return false
			}
		}
	}
	return true
}

// output returns what a substitution prints. It knows only the few commands that print one word without "/", or a
// value that is tracked here.
func (w *walker) output(c *syntax.CmdSubst, before int, sc *scope) (program.Word, bool) {
	if len(c.Stmts) != 1 || len(w.out.Commands) != before+1 {
		return program.Word{}, false
	}
	cmd := &w.out.Commands[before]
	if call, ok := c.Stmts[0].Cmd.(*syntax.CallExpr); !ok || len(call.Args) == 0 || len(cmd.Via) != len(w.via)+1 {
		// In a list, a loop or a function it may not run, or print elsewhere.
		return program.Word{}, false
	}
	if cmd.Name == "cat" && cmd.relays && w.said.command == before+1 && w.alone(c.Stmts[0], len(w.via)+1) {
		cmd.relays = false // the word is what it prints
		return program.Literal(strings.TrimRight(w.said.text, "\n"), cmd.At), true
	}
	if cmd.Path != cmd.Name || slices.ContainsFunc(c.Stmts[0].Redirs, func(r *syntax.Redirect) bool {
		return r.Op != syntax.RdrOut || r.N == nil || r.N.Value != "2"
	}) {
		return program.Word{}, false
	}
	var args []string
	for _, a := range cmd.Args {
		if !a.Known {
			return program.Word{}, false
		}
		args = append(args, a.Text)
	}
	line := strings.Join(args, " ")
	name := program.Word{Text: "$(" + cmd.Name + ")", Pat: "*", Known: true, Glob: true}
	switch cmd.Name {
	case "pwd":
		if line == "" && len(sc.dirs) == 1 && sc.dirs[0].path != "" {
			return program.Literal(sc.dirs[0].path, cmd.At), true
		}
	case "date":
		return name, plainDate(line)
	case "nproc", "hostname", "whoami", "arch", "uname", "id", "tty":
		return name, cmd.Name != "tty" &&
			(line == "" && cmd.Name != "id" || len(args) == 1 && strings.HasPrefix(line, "-") && len(line) == 2)
	case "mktemp":
		if line == "" || line == "-d" {
			return program.Word{Text: "$(mktemp)", Pat: "/tmp/tmp.*", Known: true, Glob: true}, true
		}
	case "git":
		return name, line == "rev-parse HEAD" || line == "rev-parse --short HEAD"
	case "echo":
		if line != "" && !strings.HasPrefix(line, "-") && !strings.Contains(line, `\`) {
			return program.Literal(line, cmd.At), true
		}
	}
	return program.Word{}, false
}
