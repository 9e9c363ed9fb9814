package shellparse

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// printedNames handles a last command that prints only names of files. It returns the roots below which all these
// files lie. Filters between it and the reader (sort, head, grep -v) do not change the roots.
func (w *walker) printedNames(stage *syntax.Stmt, from int, in []program.Word) []program.Word {
	if _, simple := stage.Cmd.(*syntax.CallExpr); !simple || len(w.out.Commands) == from {
		return nil
	}
	c := &w.out.Commands[len(w.out.Commands)-1]
	if c.Path != c.Name || len(c.Via) != len(w.via) || c.At != w.pos(stage.Cmd) {
		return nil
	}
	switch c.Name {
	case "sort", "uniq", "head", "tail", "grep", "shuf", "tac":
		return filtered(c, in)
	case "find", "fd", "fdfind":
		if hasWord(c, "-printf", "-exec", "-execdir", "-ok", "-okdir", "-fls", "-ls", "-x", "-X", "--exec",
			"--exec-batch") {
			return nil
		}
	case "ls":
		if len(c.Files) != 1 || c.Files[0].Path != c.Dir+"/." || !plainList(c) {
			return nil // the names lack their directory
		}
	case "git":
		if len(c.Args) == 0 || c.Args[0].Text != "ls-files" || c.Dir == "" || !namesBelow(c.Args[1:]) {
			return nil
		}
		return []program.Word{program.Literal(".", c.At)}
	case "rg":
		if !hasWord(c, "-l", "--files", "--files-with-matches") {
			return nil
		}
	default:
		return nil
	}
	names := ""
	if c.Name == "find" {
		names = program.Selected(wordsOf(c))
	}
	var roots []program.Word
	for _, f := range c.Files {
		if !f.Known || f.Access != Read || f.OnlyIfMissing != "" {
			return nil
		}
		r := program.Literal(f.Path, f.At)
		if f.Glob {
			r.Glob, r.Pat = true, f.Path
		}
		r.Named = names
		roots = append(roots, r)
	}
	return roots
}

// wordsOf returns the words of a command without its name.
func wordsOf(c *Command) []program.Word {
	out := make([]program.Word, len(c.Args))
	for i, a := range c.Args {
		out[i] = program.Word{Text: a.Text, Known: a.Known, At: a.At}
	}
	return out
}

// plainList reports whether ls prints only names, and neither . nor ...
func plainList(c *Command) bool {
	for _, a := range c.Args {
		if strings.HasPrefix(a.Text, "-") && strings.Trim(a.Text[1:], "1ABCSXchrtuv") != "" {
			return false
		}
	}
	return true
}

// namesBelow reports whether git ls-files with these words prints names that lie
// below the working directory.
func namesBelow(words []Word) bool {
	for _, a := range words {
		switch {
		case strings.ContainsAny(a.Text, "$`") && !a.Known, strings.HasPrefix(a.Text, "/"),
			strings.HasPrefix(a.Text, ":"), strings.HasPrefix(a.Text, "~"), strings.HasPrefix(a.Text, "--format"):
			return false
		case a.Text == "..", strings.HasPrefix(a.Text, "../"), strings.HasSuffix(a.Text, "/.."),
			strings.Contains(a.Text, "/../"), !a.Known && strings.Contains(a.Text, ".."):
			return false
		}
	}
	return true
}

// filtered looks through a filter that prints some of the lines it reads.
func filtered(c *Command, in []program.Word) []program.Word {
	if len(c.Files) > 0 || c.Name == "grep" && hasWord(c, "-o", "--only-matching", "-n", "-c", "-H") {
		return nil
	}
	return in
}

func hasWord(c *Command, words ...string) bool {
	for _, a := range c.Args {
		if slices.Contains(words, a.Text) {
			return true
		}
	}
	return false
}

// printed returns the input of the next command of a pipeline, if the last command since from prints its own words, a
// text of the line, or files.
func (w *walker) printed(stage *syntax.Stmt, from int, names []program.Word) program.Input {
	in := program.Input{Kind: program.Piped, Paths: names}
	n := len(w.out.Commands)
	if n == from {
		return in
	}
	for i := range w.out.Commands[from:] {
		in.Composed = in.Composed || composer(&w.out.Commands[from+i])
	}
	alone := w.alone(stage, len(w.via))
	switch c := &w.out.Commands[n-1]; c.Name {
	case "echo", "printf", "print":
		in.Printed = strings.Join(words(c), " ")
		if args := wordsOf(c); !alone {
		} else if c.Name == "echo" {
			in.Output, _ = program.Echo(args, w.posix)
		} else if len(args) > 0 && args[0].Known && !strings.HasPrefix(args[0].Text, "-") {
			in.Output, _ = program.Printf(args[0].Text, args[1:], w.posix)
		}
	case "git":
		in.Archive = c.Sub == "archive"
	case "cat", "tee":
		if alone && w.said.command == n {
			return program.Input{Kind: program.HereText, Text: w.said.text, At: w.said.at, Composed: true}
		}
		for _, f := range c.Files {
			if f.Access == Read && f.Known && !f.Glob && c.Name == "cat" {
				in.Files = append(in.Files, program.Literal(f.Path, f.At))
			}
		}
	}
	return in
}

// alone reports whether a statement is one simple command, with groups of nothing else around it, and that command was
// followed last: it is no function. depth is how many steps lead to the statement.
func (w *walker) alone(s *syntax.Stmt, depth int) bool {
	for len(w.out.Commands) > 0 && !s.Background && !s.Negated {
		switch c := s.Cmd.(type) {
		case *syntax.CallExpr:
			last := &w.out.Commands[len(w.out.Commands)-1]
			return last.At == w.pos(c) && len(last.Via) == depth && last.Path == last.Name
		case *syntax.Block:
			if len(c.Stmts) != 1 || len(s.Redirs) > 0 {
				return false
			}
			s = c.Stmts[0]
		case *syntax.Subshell:
			if len(c.Stmts) != 1 || len(s.Redirs) > 0 {
				return false
			}
			depth++
			s = c.Stmts[0]
		default:
			return false
		}
	}
	return false
}

// said is a text of the line that a command passes on.
type said struct {
	command int // how many commands were found with it
	text    string
	at      Pos
}

// relays notes a command that passes a text of the line on, as cat does with a here-document.
func (a *act) relays() {
	a.cmd.fedText = a.In.Kind == program.HereText
	a.cmd.relays = a.cmd.fedText && passesOn(a.Name)
	if text, ok := "", false; a.cmd.relays && a.In.Own {
		if text, ok = a.prints(); ok {
			a.w.said = said{len(a.w.out.Commands) + 1, text, a.In.At}
		}
	}
}

// passesOn reports whether a program prints lines of its input as they are.
func passesOn(name string) bool {
	switch name {
	case "cat", "tee", "dd", "sponge", "pv", "grep", "egrep", "fgrep", "rg", "less", "more", "nl", "unexpand", "pr":
		return true
	}
	return false
}

// ofValues returns the origin of a text with variables that the line sets to what is not known. Which variable has
// which text is not remembered.
func (w *walker) ofValues(source string) (run Run, ok bool) {
	if source == "" || !slices.ContainsFunc(variables(source), w.isSet) {
		return Run{}, false
	}
	run = Run{From: "unknown"}
	for _, x := range w.inside {
		run.strengthen(x.Run, true)
	}
	return run, true
}

// composes reports whether the command prints a text that words of the line make, its own or those of a command in
// front of it in the pipeline, in a way that is not known here.
func (a *act) composes() bool {
	if a.In.Composed || composer(&a.cmd) {
		return true
	}
	return a.In.Kind == program.HereText
}

// composer reports whether a command makes a text of its words. A filter that changes a file does not: the file may be
// a script of the workspace.
func composer(c *Command) bool {
	if c.relays {
		return true
	}
	switch name := strings.TrimRight(c.Name, "0123456789."); name {
	case "printf", "echo", "date", "basename", "printenv", "stat", "yes":
		return true
	case "awk", "gawk", "mawk", "nawk", "jq", "yq":
		return hasWord(c, "-n", "--null-input") || slices.ContainsFunc(c.Args, func(a Word) bool {
			return strings.Contains(a.Text, `"`)
		})
	case "seq":
		return slices.ContainsFunc(c.Args, func(a Word) bool { return strings.HasPrefix(a.Text, "-") })
	case "python", "perl", "ruby", "node", "nodejs", "php", "lua", "bun", "deno":
		return hasWord(c, "-c", "-e", "-E", "-r", "-p", "--eval", "--print", "eval")
	}
	return false
}

// maker returns what makes the bytes that the command writes: itself, or one in front of it in the pipeline.
func (a *act) maker() string {
	commands := a.w.out.Commands
	from := ""
	for n, back := len(commands)-1, 0; n >= 0 && back < maxWritten; n, back = n-1, back+1 {
		c := &commands[n]
		if makes := c.Makes(); stronger(makes, from) {
			from = makes
		}
		if !piped(c) {
			break
		}
	}
	return from
}

// prints returns what the command writes on its output, where the line says it.
func (a *act) prints() (string, bool) {
	w, words := a.w, a.Argv[1:]
	switch a.Name {
	case "echo":
		return program.Echo(words, w.posix)
	case "printf":
		if len(words) > 0 && words[0].Is("--") {
			words = words[1:]
		}
		if len(words) == 0 || words[0].Is("-v") {
			return "", len(words) > 0
		}
		return program.Printf(words[0].Text, words[1:], w.posix)
	case "cat", "tee", "dd", "sponge":
		other := func(f program.Word) bool { return !f.Is("-") && !f.Is("-u") && !f.Is("/dev/stdin") }
		if a.Name == "cat" && (slices.ContainsFunc(words, other) || len(words) > 1) {
			return "", false
		}
		if a.Name == "dd" && slices.ContainsFunc(words, func(f program.Word) bool {
			return !strings.HasPrefix(f.Text, "of=") && !strings.HasPrefix(f.Text, "status=")
		}) {
			return "", false
		}
		if a.In.Kind == program.HereText || a.In.Text != "" {
			return a.In.Text, true
		}
		return a.In.Output, a.In.Output != ""
	}
	return "", false
}

// group is what prints into the same files: the commands of a compound command, of a function, or of a wrapper.
type group struct {
	text strings.Builder // what they print, as far as that is known
	run  Run             // where the rest comes from, the strongest origin
}

// takes adds what one of them prints.
func (g *group) takes(text string, run Run) {
	if g == nil {
		return
	}
	if g.text.Len()+len(text) <= maxScript {
		g.text.WriteString(text)
	} else {
		g.run.strengthen(Run{From: "text", Part: "a group"}, true)
	}
	g.run.strengthen(run, run.From != "")
}

// into follows what prints into these files, and what is around them unless it has an output of its own.
func (w *walker) into(files []File, own bool, follow func()) {
	paths := writtenTo(files)
	if len(paths) == 0 && !own {
		follow()
		return
	}
	around, g := w.group, &group{}
	w.group = g
	follow()
	w.group = around
	text := g.text.String()
	if !own {
		around.takes(text, g.run)
	}
	w.keepsMade(paths, g.run, g.run.From != "")
	appends := slices.ContainsFunc(files, func(f File) bool { return f.Access == Write && f.Keeps })
	for _, p := range paths {
		w.writesText(p, text, appends)
	}
}

// ownOutput reports whether redirections certainly send the output into a file, and not to what is around.
func ownOutput(list []*syntax.Redirect) (own bool) {
	for _, r := range list {
		stdout := r.N == nil || r.N.Value == "1"
		switch r.Op {
		case syntax.RdrAll, syntax.AppAll:
			stdout = true
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob:
		case syntax.DplOut:
			own = own && !stdout
			continue
		default:
			continue
		}
		if to := r.Word.Lit(); stdout {
			device := strings.HasPrefix(to, "/dev/") || strings.HasPrefix(to, "/proc/") || strings.Contains(to, "..")
			own = to == "/dev/null" || to != "" && !device
		}
	}
	return own
}

// inner is what a command in a substitution prints that nobody can read.
type inner struct {
	at      Pos
	process bool // in <(…) or >(…)
	Run
}
