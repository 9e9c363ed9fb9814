// Package gateway keeps the MCP servers of sessions, and makes their tools tools of the daemon.
// [Definition] is the part of the daemon.
//
//	p, err := gateway.Definition().Open(ctx, host)
//	p.Groups[0].Of(session) // its tools by name; when first asked, its servers begin to connect
//	p.Forget(ctx, session)  // it was deleted: its servers end
//	err = p.Close()         // all servers end
//
// Each session has its own servers: those of the configuration, or those that an operator set for
// it. Each tool that a server offers and that was let in is one [tool.Tool], named
// mcp__server__tool. A call of it takes the one request path.
//
// The server wrote every definition and is not trusted. A definition is first judged by package
// vet, then compared with its pin of package kept. A tool that is refused never reaches a model. A
// tool that is new, changed or flagged waits until a person lets it in. The tools of a server seen
// for the first time are pinned without a question, if the configuration says so. Tools of a server
// that is part of this program are neither judged nor pinned.
//
// Guarantees:
//   - A server that fails takes nothing else with it.
//   - A program runs in a sandbox of its own with settings of its own, and ends with its session.
//   - What a server claims of its tools makes nothing looser.
//
// The part also has the tools ListMcpResources and ReadMcpResource, the routes by which agents see and
// operators set the servers of a session (routes.go), and the port of package listen, on which the
// daemon itself serves MCP. All of it is safe for concurrent use.
//
// A call that fails is a *tool.Error: mcp_not_connected, mcp_tool_withheld and rate_limited were not sent
// to the server; mcp_error and mcp_tool_error were, or may have been. An error of Open is one of the port:
// the daemon does not start.
//
// What a server may offer is decided in offer.go, and by package vet for one definition: a new reason to
// withhold a tool belongs there. What a server says is never believed about rights (M-27).
package gateway
