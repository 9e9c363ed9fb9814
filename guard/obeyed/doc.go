// Package obeyed lists files that make programs run something by themselves. Most are obeyed
// by programs of the host: a shell that enters a directory, an editor or agent that opens one, git
// at any command. Whoever writes such a file has a program run later, outside the sandbox. Others
// are obeyed where a project is built, tested or run.
//
//	n := obeyed.Find("/ws/pkg/.vscode/tasks.json", "/ws")
//	// n.Name == ".vscode", n.Program: VS Code obeys it in any directory that a person opens
//	obeyed.Find("/ws/main.go", "/ws") // nil
//	obeyed.Git("hooks/pre-commit") // Keep
//	obeyed.Git("refs/heads/main")  // Free
//
// [Plants] is Find for the files of the host and of the project. [FindPattern] is Find for a shell
// pattern. [At] compares the end of a path alone. [Name.Kept] says what the sandbox keeps as it is.
// [Last] is a quick look at the last segment alone, and [Names] returns names.txt.
//
// names.txt has the names, each with its program and the source of the fact. git.txt has the paths
// in a git directory and says which may be written. To add a name, add a line to one of them; their
// first lines explain the columns. make generate writes the tables of docs/later.md. The tests find a
// line of a wrong form; one without all of its columns panics at the first use.
//
// Guaranteed: the answer depends on the text of the path, and on the root that Find is given. It is
// the same at any depth below the root. No function looks at the disk. So links must be resolved
// before, and a path that does not exist has an answer too. Paths must be absolute, clean and below
// the root: for any other, Find and Plants return nil, which then says nothing. All functions are safe
// for concurrent use.
//
// Not guaranteed: that the lists are complete. If a listed file names another file (a script of a
// hook, an included configuration), that one is not found here. Package later follows those that
// lie in a workspace.
package obeyed
