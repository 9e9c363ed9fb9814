package shellparse

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// printedNames are the roots below which everything lies that the last command
// prints, when it is one that prints names of files and nothing else. Filters in
// front of the reader (sort, head, grep -v) keep them.
func (w *walker) printedNames(stage *syntax.Stmt, from int, in []field) []field {
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
		if hasWord(c, "-printf", "-exec", "-execdir", "-ok", "-okdir", "-fls", "-ls", "-x", "-X", "--exec", "--exec-batch") {
			return nil
		}
	case "ls":
		if len(c.Files) != 1 || c.Files[0].Path != c.Dir+"/." {
			return nil // names without their directory
		}
	case "git":
		if len(c.Args) == 0 || c.Args[0].Text != "ls-files" || c.Dir == "" {
			return nil
		}
		return []field{literal(".", c.At)}
	case "rg":
		if !hasWord(c, "-l", "--files", "--files-with-matches") {
			return nil
		}
	default:
		return nil
	}
	var roots []field
	for _, f := range c.Files {
		if !f.Known || f.Access != Read || f.OnlyIfMissing != "" {
			return nil
		}
		r := literal(f.Path, f.At)
		if f.Glob {
			r.glob, r.pat = true, f.Path
		}
		roots = append(roots, r)
	}
	return roots
}

// filtered looks through a filter that prints some of the lines it reads.
func filtered(c *Command, in []field) []field {
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
