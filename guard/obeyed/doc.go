// Package obeyed lists the files that make programs of the host run something by themselves: a
// shell that enters a directory, an editor or agent that opens one, git at any command. Whoever
// writes such a file has a program run later, outside the sandbox.
//
//	n := obeyed.Find("/ws/pkg/.vscode/tasks.json", "/ws") // nil: no program obeys this path
//	// n.Name == ".vscode", n.Program: VS Code obeys it in any directory that a person opens
//	obeyed.Git("hooks/pre-commit") // Keep
//	obeyed.Git("refs/heads/main")  // Free
//
// names.txt has the names, each with its program and the source of the fact. git.txt has the paths
// in a git directory and says which may be written. To add a name, add a line to one of them; their
// first lines explain the columns.
//
// Guaranteed: the answer depends on the text of the path alone, and is the same at any depth. No
// function looks at the disk. So links must be resolved before, and a path that does not exist has
// an answer too.
//
// Not guaranteed: that the lists are complete. If a listed file names another file (a script of a
// hook, an included configuration), that one is not found here. Package later follows those that
// lie in a workspace.
package obeyed
