// Package servers is the section mcp of the configuration: which MCP servers sessions have, how each
// is started and bounded, what happens to the tools of a new one, and where the daemon itself is an
// MCP server.
//
//	c := servers.Defaults() // the file is decoded over it
//	err := c.Check()
//	good, wrong := servers.Parse(sent) // by name: {"git": {"command": "mcp-server-git"}}
//
// [Config.Check] checks the section. The daemon hides the files of [Config.Hides] from calls, and does
// not start if agents can write what [Config.Trusts] and [Config.Programs] name. [Parse] decodes and
// checks each server that an operator sends, with the same keys in JSON; only Config.Check refuses a
// relative path of a command. A server of the type sdk comes from Go code alone; [Server.Check] checks
// it.
//
// None of the three reads a file; they resolve links in paths. Their errors name the key; with one, a
// file is refused whole, and of what an operator sends the one server.
//
// [Server.Environ] and [Server.Header] read the files with secrets, each time, and may fail then: the
// server cannot be started. What they return must not be logged or shown; their errors have no value in
// them. A limit that nobody set is zero; [Limits.WithDefaults] fills it in. The package starts nothing.
//
// A new key of a server is a field of [Server] with a row in idle, which says for which types it counts,
// and its check in Check. A new type is one of types. A file with secrets must also be in secrets
// (config.go), a program that the daemon runs in Programs.
package servers
