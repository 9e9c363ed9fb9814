// Package egress relays the connections of a sandbox to other hosts: it decides about each,
// checks what it carries, and keeps a ledger. Programs and hosts wrote what it reads; it trusts
// neither.
//
// A [Network] belongs to one network namespace. After [NewNetwork] come [Network.ServeResolver] and
// [Network.ServeProxy], then [Network.Begin] for each call before its program runs, [Call.End] when
// the program has ended, and [Network.Close] when the namespace is gone.
//
//   - The resolver gives each name that a running call may reach an address of its own in
//     198.18.0.0/16. It never asks another resolver, so nothing leaves by look-ups.
//   - When a program connects to such an address, the launcher makes a listener there.
//     [Network.Wants] says whether to take it, and [Network.Serve] relays what arrives.
//   - Programs that want a proxy find one, for CONNECT, requests with an absolute address, and
//     SOCKS5.
//
// A connection to a host or to the proxy that is of no running call is reset. The resolver answers
// every program in the namespace. It has at most 16,384 names; localhost stays 127.0.0.1.
//
// A [Judge] gets each [Connection] and returns a [Verdict]; the zero verdict refuses, and so
// does a nil Judge. It is asked for each connection to a host that no check refused before, and for
// each HTTP request that can be read; for a request that the proxy gets with an absolute address, once.
// The Judge has to apply the settings of the call: otherwise only Wants and the resolver look at them.
// A Verdict may have a [Pace] of the account, which makes it wait and refuses nothing.
//
// What is checked besides for programs, also inside of tunnels:
//
//   - port 443 carries TLS for the name of the connection, except where the proxy gets a request
//     for http://NAME:443;
//   - port 80, and each request that the proxy gets with an absolute address, carries HTTP for that
//     name, which is read and written anew; only websockets take a connection over;
//   - a literal address is no host, unless the resolver gave it;
//   - the address that a name leads to is public and not of this machine, or stands in
//     network.hosts; the kernel is given the address that was checked ([Dialer]). With
//     network.upstreamProxy that proxy looks names up, and no address is checked.
//
// For [Call.Dial] only the last of these is checked, because a tool of the daemon speaks its protocol
// itself. It may also connect to a literal address that network.hosts has.
//
// Bytes on other ports pass unread, unless the host is intercepted there. UDP is refused, except to
// the resolver. For the hosts of network.intercept, TLS ends here (package authority). Their requests
// are judged and get the secrets of network.secrets. The answers are masked (package mask).
//
// The [Ledger] of a call has what it connected to and what was refused; rows of the same host, port and verdict
// are one, and there are [MaxRows] at most. A tool of the daemon connects with [NewCall] and
// [Call.Dial]:
//
//	dialer := &egress.Dialer{}
//	call := egress.NewCall(dialer, egress.CallOptions{Judge: judge, Network: n, Limits: limits})
//	conn, err := call.Dial(ctx, egress.Connection{
//		Host: "docs.test", Port: 80, Protocol: egress.ProtocolHTTP, Via: egress.ViaFetch,
//	})
//	…
//	for _, r := range call.End().Connections {
//		fmt.Println(r.Host, r.Port, r.Verdict, r.BytesIn > 0)
//	}
//
// Guaranteed: when End returns, no connection of the call is open. A connection to a host that
// is refused or cut, or cannot be made, ends with an error of its protocol (HTTP, TLS, SOCKS) or
// with a reset, and never looks like an end of the data. A client that sends nothing for 30 seconds on
// port 80 or to the proxy is closed.
//
// Not guaranteed: without interception nothing inside of TLS is seen, also not the host of a
// request; nor is a server name that is encrypted. Bytes are counted after they have passed. So each
// open connection may pass more than the limit: in each direction a 256th of it (32 KiB to 1 MiB) and
// its first bytes (128 KiB), and with Call.Dial one Write of any size.
//
// Errors of Call.Dial: a [RefusedError] means that the judge, a limit or the address forbids the connection; the
// Hint of its Verdict, if there is one, tells a model what to do. net.ErrClosed means that the call has ended, or has
// no bytes left. Every other error is of the network, or says that the host is a literal address: show a model only its
// [Failure], because its text can have addresses of this machine. Network, Call and Dialer are safe for concurrent use.
//
// Where things go: another protocol of the proxy gets a file beside socks.go, and a case in proxied (proxy.go).
// Addresses to which no name may lead are in notPublic (address.go), with rows in dialer_test.go. What makes a
// request mean one thing to a rule and another to a server is refused in path.go or web.go, with a row in attacks
// (attack_test.go).
package egress
