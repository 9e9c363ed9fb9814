// Package clients holds tables of the tools of other agents ([ClaudeCode], [Codex], and so on).
//
// There is one text table for each client. It says what the client's hook must do with a call of a
// tool ([Act]): let it pass, because it touches nothing outside the client; judge it as one of our
// tools; or judge it by a name, its own or another one. It also names the arguments that are
// understood. Each table names the version of the client that it was made from.
//
//	claude, ok := clients.Find("claude-code") // clients.Names() has the names
//	t := claude.Tool("TaskCreate")
//	// t.Act is clients.Pass
//	f, ok := t.Field("subject") // not ok: the table does not know this argument
//	claude.Newer(claude.Installed("/usr/bin/claude")) // true: the table may be out of date
//
// A tool that no table has is judged by its name: a permission rule may allow it, and otherwise a
// person is asked. Package adapter acts on the tables. This package runs nothing. Installed
// alone looks at the disk, for the version of a program.
//
// A new tool is one line in the table of its client; clients.go describes the columns. A
// new client is a new table, and a name in the list in clients.go.
package clients
