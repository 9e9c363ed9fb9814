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
// What the functions return belongs to all callers: nobody may change it. They are safe for concurrent
// use. A table that cannot be read panics at the first use, and fails the tests.
//
// A new tool is one line in the table of its client; parse in clients.go describes the columns. A tool
// that passes is also in the list of TestPassing: whoever adds it has read what it does. A new client is
// a new table, and a name in the list in clients.go; package adapter says what else it needs.
// testdata has what the package of each client publishes: make test-clients holds it against the package.
// make generate writes the tables of docs/clients.md.
package clients
