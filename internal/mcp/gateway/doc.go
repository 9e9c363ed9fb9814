// Package gateway keeps the MCP servers of sessions, and makes their tools tools of the daemon.
//
// Each session has its own servers: those of the configuration, or those that an operator set for it. Each tool that
// a server offers and that was let in is one [tool.Tool], mcp__server__tool, which takes the one request path.
// [Definition] is the part.
//
// Guaranteed: a server that fails takes nothing else with it; what a server says of a tool reaches a model only if it
// is readable, pinned, and unchanged since; a program runs in a cage of its own with settings of its own, and is gone
// with its session. What a server claims of its tools makes nothing looser.
package gateway
