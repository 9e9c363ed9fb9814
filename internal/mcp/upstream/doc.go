// Package upstream is the connection to one MCP server: a program on two pipes, or an address.
//
//	conn, err := upstream.Remote(lasting, began, upstream.Options{}, address) // or Program
//	tools, err := conn.Tools(ctx)
//	answer, err := conn.Call(ctx, "read_file", args, progress)
//	conn.Close()
//
// The server is not trusted. Guaranteed: no line, answer or list is larger than its bound; what is printed that is no
// message is dropped and counted; what a handler does cannot end the process; a request goes to the host of
// the configuration and to no other, and secrets that were sent are masked in what comes back; Close leaves no
// process of a program. Definitions are returned as the server gave them: package vet judges them.
package upstream
