// Package clients holds what is known of other agents' own tools.
//
// One text table for each client says what happens when its hook asks about a tool: the
// call passes because it touches nothing outside the client, it is judged as one of our
// tools, or it is judged by its own name. The tables name the version of the client that
// they were made from.
//
//	claude, _ := clients.Find("claude-code")
//	t := claude.Tool("TaskCreate")
//	// t.Act is clients.Pass
//
// A tool that no table has is judged by its name: a permission rule may allow it, and
// otherwise a person is asked. The tables decide nothing: that is internal/adapter.
package clients
