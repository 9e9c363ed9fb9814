// Package obeyed says which files decide what other programs of a host run by themselves:
// a shell that enters a directory, an editor or agent that opens one, a debugger that
// starts in one, git at any command. Who writes such a file has a program run later,
// outside of the sandbox.
//
//	n, ok := obeyed.Find("/ws/pkg/.vscode/tasks.json", "/ws")
//	// ok: VS Code obeys .vscode, wherever a person opens it
//	obeyed.Git("hooks/pre-commit") // Keep
//	obeyed.Git("refs/heads/main")  // Free
//
// names.txt has the names, with the program and the source of the fact; git.txt has what
// lies in a git directory, as a list of what may be written. Everything is decided by the
// last segments of a path, so the answer is the same at any depth, for what exists and for
// what does not, and costs no look at the disk.
//
// Guaranteed: the answer depends on the path alone. Not guaranteed: that the list is
// complete. A file that a listed one names (a hook's script, an included configuration) has
// no name of its own; package later follows those that lie in a workspace.
package obeyed
