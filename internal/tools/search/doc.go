// Package search has the tools Glob and Grep, and the walk over a directory tree that they share.
//
// Each directory and file is opened through the box of the call. So Glob and Grep leave out files
// that the settings deny, and a link that is swapped in is not followed. Ignored files, hidden files
// and node_modules are left out, too: .gitignore and .git/info/exclude count within a repository,
// .ignore everywhere. The pattern of Glob, or the glob of Grep, finds hidden files if it has a name
// that begins with a dot, and node_modules if it names it. Grep leaves out binary files, and files
// that policies withhold.
//
//	// in, box: the arguments of the Run of a tool; root: a guard.PathUse of its Uses
//	found, err := search.FindLines(ctx, in, box, root, `func \w+`)
//	ignored := search.NewIgnores(func(path string) []byte { … }).Ignored("/src", "/src/bin/a.o")
//
// [WalkFiles] visits the files, [ReadLines] and [ReadWhole] read one. WalkFiles opens none of the
// files that it visits. So it also gives binary files and files that the settings deny: do not show
// their names.
//
// If a client runs the search itself (Theirs in tool.In), Uses names the whole tree, because nothing is
// left out there.
//
// Guaranteed: memory is bounded whatever the pattern and the tree are. A pattern is a regular
// expression of package regexp, so a match takes linear time. The size of a tree has no
// bound, but a walk enters at most 20,000 subdirectories of each directory. A walk ends early only
// when its context ends, when its visitor says so, or when Grep has found enough.
//
// The answer says what was cut, and counts directories that could not be read or were not entered.
// Neither Glob nor Grep names or counts what the settings deny.
//
// Codes of its own are invalid_pattern, unknown_type and file_too_large. The others are those of
// package toolkit and of tool.Decode.
//
// A new type of files for Grep is a row of grep_types.go.
package search
