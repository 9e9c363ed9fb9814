// Package servers is the section mcp of the configuration: which MCP servers sessions have, and how each is started
// and bounded.
//
//	good, wrong := servers.Parse(map[string]json.RawMessage{"git": []byte(`{"command":"mcp-server-git"}`)})
//
// [Config.Check] refuses what cannot be served. [Parse] reads the configuration of servers that an operator sends;
// it has the same keys in JSON. The package starts nothing.
package servers
