package shellparse

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// subst walks $(…) and gives its output where that is certain.
func (e *expansion) subst(c *syntax.CmdSubst, quoted bool) {
	if c.TempFile || c.ReplyVar {
		e.w.fail(&Error{Code: "unsupported", Msg: "a substitution of another shell", Hint: "use $(…)", At: e.w.pos(c)})
	}
	before := len(e.w.out.Commands)
	var names []field
	e.w.within("substitution", func() {
		e.w.piped = nil
		e.w.stmts(c.Stmts, e.sc.clone())
		if len(c.Stmts) == 1 && e.only {
			names = e.w.printedNames(lastStage(c.Stmts[0]), before, e.w.piped)
		}
	})
	e.b.some = true
	if len(names) == 1 && !names[0].glob {
		// However many names it prints, all lie below that root.
		e.b.quoted(names[0].text)
		e.b.tree = true
		return
	}
	if pat, ok := e.w.output(c, before, e.sc); ok {
		if !quoted && strings.ContainsAny(pat.text, " \t\n") {
			e.splitText(pat.text)
			return
		}
		if pat.glob {
			e.b.pattern(pat.text, pat.pat)
		} else {
			e.b.quoted(pat.text)
		}
		return
	}
	e.b.missing()
	e.b.many = e.b.many || !quoted
}

// output is what a substitution prints, for the few commands that print one word
// without "/" or a value that is tracked here.
func (w *walker) output(c *syntax.CmdSubst, before int, sc *scope) (field, bool) {
	if len(c.Stmts) != 1 || len(w.out.Commands) != before+1 {
		return field{}, false
	}
	cmd := &w.out.Commands[before]
	if cmd.Path != cmd.Name || len(c.Stmts[0].Redirs) > 0 && c.Stmts[0].Redirs[0].Op != syntax.RdrOut {
		return field{}, false
	}
	var args []string
	for _, a := range cmd.Args {
		if !a.Known {
			return field{}, false
		}
		args = append(args, a.Text)
	}
	line := strings.Join(args, " ")
	name := field{text: "$(" + cmd.Name + ")", pat: "*", known: true, glob: true}
	switch cmd.Name {
	case "pwd":
		if line == "" && len(sc.dirs) == 1 && sc.dirs[0].path != "" {
			return literal(sc.dirs[0].path, cmd.At), true
		}
	case "date":
		// Formats with / in them: %D %x, and what a locale makes of %c.
		return name, !strings.ContainsAny(line, "/ ") && !strings.Contains(line, "%D") && !strings.Contains(line, "%x") && !strings.Contains(line, "%c") && strings.HasPrefix(line, "+%")
	case "nproc", "hostname", "whoami", "arch", "uname", "id", "tty":
		return name, cmd.Name != "tty" && (line == "" && cmd.Name != "id" || len(args) == 1 && strings.HasPrefix(line, "-") && len(line) == 2)
	case "mktemp":
		if line == "" || line == "-d" {
			return field{text: "$(mktemp)", pat: "/tmp/tmp.*", known: true, glob: true}, true
		}
	case "git":
		return name, line == "rev-parse HEAD" || line == "rev-parse --short HEAD"
	case "echo":
		if line != "" && !strings.HasPrefix(line, "-") && !strings.Contains(line, `\`) {
			return literal(line, cmd.At), true
		}
	}
	return field{}, false
}
