package program

import "strings"

// What git prints of a file is read, also where it comes from a commit or from the index.

// doGitDiff: behind "--" there are files, in front of it revisions and files. A revision is taken for a file that is
// not there. A word that is not known is mostly a revision; it is a file where it can be nothing else.
func doGitDiff(a *Call) {
	front, back := a.pathspecs()
	if a.Sub == "stash" && len(front) > 0 || a.Sub == "cat-file" && len(front) > 1 {
		front = front[1:] // push, blob
	}
	named := false
	for _, f := range front {
		named = !isRevision(f) && a.gitPath(f) || named
	}
	for _, f := range back {
		named = a.gitPath(f) || named
	}
	if a.Sub == "archive" && !named {
		a.use(tree, Literal(".", a.At))
	}
}

// doGitGrep reads the whole tree where no file is named.
func doGitGrep(a *Call) {
	front, back := a.pathspecs()
	if len(front) > 0 && len(a.Values["-e"])+len(a.Values["-f"]) == 0 {
		front = front[1:] // the pattern
	}
	named := false
	for _, f := range front {
		named = !isRevision(f) && a.gitPath(f) || named
	}
	for _, f := range back {
		named = a.gitPath(f) || named
	}
	if !named {
		a.use(tree, Literal(".", a.At))
	}
}

// pathspecs are the operands in front of "--", and those behind it.
func (a *Call) pathspecs() (front, back []Word) {
	_, back = dashes(a.Argv[1:])
	at := max(0, len(a.Operands)-len(back))
	return a.Operands[:at], a.Operands[at:]
}

// gitPath reads what a word names, and reports whether that is a part of the tree: the path of a
// file, REVISION:path, or :path in the index.
func (a *Call) gitPath(f Word) bool {
	text := f.Text
	switch {
	case !f.Known:
		if a.Effects["noindex"] || strings.HasPrefix(text, "/") || strings.HasPrefix(text, "../") {
			a.use(tree, f)
		}
		return false
	case strings.HasPrefix(text, ":!"), strings.HasPrefix(text, ":^"), strings.HasPrefix(text, ":(exclude)"):
		return false
	case a.Effects["noindex"]:
		a.use(tree, f)
		return true
	case strings.HasPrefix(text, ":("): // from the top, or with other magic
		_, text, _ = strings.Cut(text, ")")
	case strings.HasPrefix(text, ":"):
		text = strings.TrimLeft(text, ":/0123")
	default:
		if _, in, ok := strings.Cut(text, ":"); ok {
			text = in
		}
	}
	if text == "" {
		text = "."
	}
	f = f.Sub(text)
	if !f.Glob && strings.ContainsAny(text, "*?[") { // git expands it
		f.Glob, f.Pat = true, text
	}
	a.use(tree, f)
	return true
}

// isRevision reports whether a word names a revision and no file: HEAD~2, main...dev, 4b825dc. Others, such as the
// name of a branch, are taken for files.
func isRevision(f Word) bool {
	text := f.Lit()
	if from, to, ok := strings.Cut(text, ".."); ok {
		return !strings.HasSuffix(from, "/") && from != "" && !strings.HasPrefix(to, "/")
	}
	if strings.Contains(text, "@{") {
		return true
	}
	if end := strings.IndexAny(text, "~^"); end > 0 {
		text = text[:end]
	}
	switch text {
	case "HEAD", "@", "FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD", "main", "master":
		return true
	}
	return len(text) >= 7 && strings.Trim(text, "0123456789abcdef") == ""
}
