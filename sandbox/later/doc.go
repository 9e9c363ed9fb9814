// Package later guards what a person's own tools would run later: what git, a shell, an
// editor or an agent executes because of a file in the workspace. Writing such a file is a
// way out of the sandbox with a delay. Package obeyed has the names.
//
// An [Index] knows these files in all directories of the trees that calls may write. It
// reads a tree once. From then on the kernel reports changes (inotify), so before and after a
// call the Index looks only at what has changed. Where inotify has no room, it compares change
// times of directories or reads the tree again. It forgets a tree when 32 others were used since.
//
//	index := later.NewIndex() // one for all sessions
//	trees := index.Trees(roots)
//	before, began := trees.State(), time.Now() // the sandbox shows its Kept files read-only
//	// … a call runs …
//	created := trees.Quarantine(before, began, dir) // what it made; dir gets what is moved
//
// Take the State before the program starts, and call Quarantine of the same Trees when its processes are
// gone; for a program that lasts, call it again and again. Close the Index last. Before a file tool writes a
// path, package sandbox asks [Trees.Keeps]. All of it is safe for concurrent use.
//
// Such files that exist are kept: the sandbox lets no program write, remove, rename or link
// them. Such files that a call makes are found by Quarantine. It moves these to quarantine:
//
//   - a file because of which git would run a program, or the pointer or HEAD by which git would
//     find it;
//   - a file in a git directory that git itself does not make, or that was changed through
//     another of its names;
//   - a .git file that cannot be read;
//   - a file in the place of a link, or of a kept file whose directory was moved away.
//
// If a file cannot be moved, the result says that it is still there. All other new files are
// reported, and kept from then on. In a git directory, the files that everyday commands write may
// be written.
//
// Files that a kept file leads to are kept too, inside of their tree: the targets of links;
// hooks, configurations and programs that a configuration names; the git directory that a .git
// file names.
//
// Guaranteed: if a file with one of these names exists when a call begins, it is the same when
// the call is over, or what Quarantine returns names it. If a call makes such a file, Quarantine
// names it. This holds at any depth in the tree of a root, on one machine. The result has 32 acts at
// most, and a number for the rest.
//
// Not guaranteed: files below node_modules, whose content runs anyway, except a .git directly in
// it; files that a kept file names in a way of its own, such as a script that a hook starts;
// changes through a name that a file has in another tree. [State.Missing] says what this host
// makes uncertain, and which tree has more directories or such files than are looked at or kept. The
// caller reports that; nothing is denied because of it. Only [Move] returns an error. Package sandbox also
// calls it for denied paths that a program has made.
//
// Where things go: a name of such a file in package guard/obeyed; a key of git's configuration that runs nothing
// in harmless.txt, with a row in TestGitTextRuns; another file of git that can name a program in gitfiles_linux.go.
// An act of a call that is reported has a row in TestWhatACallIsTold.
package later
