// Package egress is the way out of a sandbox: what programs connect to, what is decided
// about it, and what is kept of it.
//
// A [Network] belongs to one network namespace. Its resolver gives each name that may be
// reached an address of its own in 198.18.0.0/16 and never asks another resolver, so nothing
// leaves by look-ups. When a program connects to such an address, the launcher asks
// [Network.Wants] and listens there; [Network.Serve] relays what arrives. Programs that want
// a proxy find one, for CONNECT, requests with an absolute address, and SOCKS5. Whoever makes
// the network knows of which [Call] a connection is; one of no call is reset.
//
// A [Judge] gets each [Connection] and returns a [Verdict]; the zero verdict refuses. It is
// asked for each connection, and over HTTP for each request too. What is checked besides,
// also inside of tunnels:
//
//   - port 443 carries TLS for the name of the connection;
//   - port 80, and what the proxy is asked for by address, carries HTTP for that name, which
//     is read and written anew; only websockets take a connection over;
//   - a literal address is no host, unless the resolver gave it;
//   - the address that a name leads to is public and not of this machine, or stands in
//     network.hosts; the kernel is given the address that was checked ([Dialer]).
//
// The [Ledger] of a call has what it connected to; rows of the same host, port and verdict
// are one. A tool of the daemon connects with [NewCall] and [Call.Dial]:
//
//	call := egress.NewCall(dialer, egress.CallOptions{Judge: judge, Network: settings, Limits: limits})
//	conn, err := call.Dial(ctx, egress.Connection{Host: "docs.test", Port: 80, Protocol: "http", Via: "fetch"})
//	…
//	for _, r := range call.End().Connections {
//		fmt.Println(r.Host, r.Port, r.Verdict, r.BytesIn > 0)
//	}
//
// Guaranteed: when End returns, no connection of the call is open. A connection that is refused,
// reset or cut never looks like an end of the data. A host that cannot be reached is a reset.
//
// Not guaranteed: the content of TLS, such as the host of a request, and an encrypted server name
// are not seen. Bytes are counted after they have passed. So each open connection may pass more
// than the limit: a 256th of it, and at least 32 KiB.
package egress
