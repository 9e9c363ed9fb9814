// Package search finds files by their names and lines by what they hold: the tools Glob and Grep, and
// the walk over a tree that they share.
//
// Each directory and file is opened through the box of the call. So files that the settings deny are
// left out, and a link that is swapped in leads nowhere. Ignore files hold as for git and ripgrep.
//
//	found, err := search.FindLines(ctx, in, box, root, `func \w+`)
//	ignored := search.NewIgnores(readFile).Ignored("/src", "/src/bin/a.o")
//
// Guaranteed: memory and time are bounded whatever the pattern and the tree are, and what could not be
// read or shown is said. A pattern is a regular expression of package regexp, so its time is linear.
package search
