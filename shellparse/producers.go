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
