// Package later guards what a person's own tools would run later: what git, a shell, an
// editor or an agent executes because of a file in the workspace. Writing such a file is a
// way out of the sandbox with a delay. Package obeyed has their names.
//
// An [Index] knows these files in all directories of the trees that calls may write. It
// reads a tree once. From then on the kernel tells it what has changed, so that before and
// after a call it looks at that alone, whatever the size of the tree.
//
//	trees := index.Trees(roots)
//	before := trees.State()         // before.Kept: the sandbox shows these read-only
//	// … a call runs …
//	created := trees.Quarantine(before, began, dir)
//
// What exists is kept: programs cannot write, remove, rename or link it. What a call makes
// is found when it is over. Moved to quarantine is what git would run a program for, what
// lies in a git directory and is no file of git's, and what was put in the place of a kept
// file by moving its directory away. Everything else that is new is reported, and kept from
// then on. In a git directory, what everyday commands write may be written.
//
// Also kept is what these files lead to inside of their tree: the targets of links, hooks,
// configurations and programs that a configuration names, the git directory that a .git
// file names.
//
// Guaranteed: a name of the table that exists when a call begins is what it was when the
// call is over, or the call's denials name it; one that is made is in the denials. This
// holds at any depth, in the tree of a root, on one machine. Not guaranteed: anything below
// node_modules, whose content runs anyway, except a .git directly in it; what kept files
// name in a way of their own, such as a script that a hook starts; what changes by a name
// that a file has in another tree.
// [State.Missing] says what a host makes uncertain.
package later
