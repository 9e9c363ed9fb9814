// Package upstream is the connection to one MCP server: a program on two pipes ([Program]), or an
// address ([Remote]).
//
//	conn, err := upstream.Remote(lasting, began, upstream.Options{Line: 1 << 20, Log: log}, address)
//	tools, err := conn.Tools(ctx)
//	answer, err := conn.Call(ctx, "read_file", args, progress)
//	conn.Close()
//
// The connection ends with the context lasting. The context began bounds only the time to connect.
//
// The server wrote every byte that comes back and is not trusted. Guarantees:
//   - Every line, answer and list is bounded. A program may print lines that are no messages: they
//     are dropped and counted.
//   - A panic in a handler does not end the process.
//   - A request goes to the host of the address and to no other. Secrets that the function Header
//     names are masked in the bodies that come back.
//   - When Close returns, no process of a program is left.
//
// Definitions are returned as the server gave them; package vet judges them.
package upstream
