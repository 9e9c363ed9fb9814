// Package servers is the section mcp of the configuration: which MCP servers sessions have, and how each is started
// and bounded.
//
//	good, wrong := servers.Parse(map[string]json.RawMessage{"git": []byte(`{"command":"mcp-server-git"}`)})
//
// [Config.Check] checks the section. [Parse] decodes and checks each server that an operator sends, with the same keys
// in JSON; only Config.Check refuses a relative path of a command. Neither opens a file: [Server.Environ] and
// [Server.Header] read the files with secrets, each time, and may fail then. A limit that nobody set is zero;
// [Limits.WithDefaults] fills it in. The package starts nothing.
package servers
