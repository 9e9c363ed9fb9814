// Package upstream is the connection to one MCP server: a program on two pipes ([Program]), or an
// address ([Remote]).
//
//	o := upstream.Options{Line: 1 << 20}
//	conn, err := upstream.Program(lasting, began, o, start) // start starts the program in a sandbox
//	conn, err = upstream.Remote(lasting, began, o, upstream.Address{URL: u, Header: h, Dial: dial})
//	tools, err := conn.Tools(ctx)
//	answer, err := conn.Call(ctx, "read_file", args, func(news string) {})
//	conn.Close()
//
// The connection lasts as long as the context lasting; began bounds only the time to connect. Call
// Close in any case: the end of lasting does not end every kind of connection. [Conn.Ended] is
// closed when the connection has ended; for a program, Why of [Conn.Process] says why. URL, Header and
// Dial of [Address] must be set. [Conn.Resources] lists the resources of the server, and [Conn.Read]
// reads one.
//
// Errors call the server "it" or "the server": put its name in front of them. Remote returns
// [ErrNeedsAuth] if the server answered 401. If the context of a method ends, its error wraps the
// cause of that; so does that of Remote if began ends. Other errors are for people to read.
//
// The server wrote every byte that comes back and is not trusted. Guarantees:
//   - Every line, answer and list is bounded. A program may print lines that are no messages: they
//     are dropped and counted.
//   - A panic in a handler does not end the process.
//   - A request goes to the scheme, host and port of the address and to no other. Secrets that the
//     function Header names are masked in the bodies that come back.
//   - When Close returns, no process of a program is left.
//
// Definitions are returned as the server gave them; package vet judges them. The server is offered
// no roots, no sampling and no elicitation, so it cannot ask the user anything.
//
// A new kind of transport is a function beside Program and Remote; what they share is in conn.go. A
// new kind of list is read by pages in conn.go, which bounds its pages, elements and bytes.
package upstream
