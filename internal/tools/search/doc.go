// Package search has the tools Glob and Grep, and the walk over a directory tree that they share.
//
// Each directory and file is opened through the box of the call. So files that the settings deny
// are left out, and a link that is swapped in is not followed. Hidden and ignored files are left
// out, too: .gitignore and .git/info/exclude count within a repository, .ignore everywhere.
//
//	found, err := search.FindLines(ctx, in, box, root, `func \w+`)
//	ignored := search.NewIgnores(readFile).Ignored("/src", "/src/bin/a.o")
//
// Guaranteed: memory is bounded whatever the pattern and the tree are. A pattern is a regular
// expression of package regexp, so a match takes linear time. The size of a tree is not bounded: a
// walk ends early only when its context ends, or when Grep has found enough.
//
// The answer counts directories that could not be read, and says what was cut. Files that the
// settings deny are neither named nor counted.
package search
