// Package upstream is the connection to one MCP server: a program on two pipes ([Program]), or an
// address ([Remote]).
//
//	conn, err := upstream.Remote(lasting, began, upstream.Options{Line: 1 << 20, Log: log}, address)
//	tools, err := conn.Tools(ctx)
//	answer, err := conn.Call(ctx, "read_file", args, progress)
//	conn.Close()
//
// The context began bounds only the time to connect. Call Close in any case: the end of lasting alone
// does not end every kind of connection. [Conn.Ended] is closed when the connection has ended; for a
// program, [Process.Why] says why. Options.Log, Address.Header and Address.Dial must be set.
//
// The server wrote every byte that comes back and is not trusted. Guarantees:
//   - Every line, answer and list is bounded. A program may print lines that are no messages: they
//     are dropped and counted.
//   - A panic in a handler does not end the process.
//   - A request goes to the host of the address and to no other. Secrets that the function Header
//     names are masked in the bodies that come back.
//   - When Close returns, no process of a program is left.
//
// Definitions are returned as the server gave them; package vet judges them. The server is offered
// no roots, no sampling and no questions.
//
// A new kind of transport is a function that calls connect with what ends the other side, as Program
// and Remote do. A new kind of list has bounds of pages, elements and bytes, as Tools has.
package upstream
