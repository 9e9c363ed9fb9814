// Package clients holds tables of the tools of other agents ([ClaudeCode], [Codex], and so on).
//
// There is one text table for each client. It says what the client's hook must do with a call of a
// tool: let it pass, because it touches nothing outside the client; judge it as one of our tools;
// or judge it by its own name. It also names the arguments that are understood. Each table names
// the version of the client that it was made from.
//
//	claude, _ := clients.Find("claude-code")
//	t := claude.Tool("TaskCreate")
//	// t.Act is clients.Pass
//
// A tool that no table has is judged by its name: a permission rule may allow it, and otherwise a
// person is asked. The package only reads the tables. Package adapter acts on them.
//
// A new tool is one line in the table of its client; the function parse describes the columns. A
// new client is a new table and a name in the list order.
package clients
