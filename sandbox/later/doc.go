// Package later guards what a person's own tools would run later: what git, a shell, an
// editor or an agent executes because of a file in the workspace. Writing such a file is a
// way out of the sandbox with a delay. Package obeyed has their names.
//
// An [Index] knows these files in all directories of the trees that calls may write. It
// reads a tree once. From then on the kernel reports changes. So before and after a call the
// Index looks only at what has changed, and the size of the tree does not matter.
//
//	trees := index.Trees(roots)
//	before := trees.State()         // before.Kept: the sandbox shows these read-only
//	// … a call runs …
//	created := trees.Quarantine(before, began, dir)
//
// Such files that exist are kept: programs cannot write, remove, rename or link them. Such files
// that a call makes are found when the call is over. Three kinds are moved to quarantine:
//
//   - a file because of which git would run a program;
//   - a file in a git directory that git itself does not make;
//   - a file at the path of a kept file whose directory was moved away.
//
// All other new files are reported, and kept from then on. In a git directory, the files that
// everyday commands write may be written.
//
// Files that a kept file leads to are kept too, inside of their tree: the targets of links;
// hooks, configurations and programs that a configuration names; the git directory that a .git
// file names.
//
// Guaranteed: if a file of the table exists when a call begins, it is the same when the call is
// over, or the denials of the call name it. If a call makes such a file, its denials name it.
// This holds at any depth in the tree of a root, on one machine. Not guaranteed: files below
// node_modules, whose content runs anyway, except a .git directly in it; files that a kept file
// names in a way of its own, such as a script that a hook starts; changes through a name that a
// file has in another tree.
// [State.Missing] says what a host makes uncertain.
package later
