package wire

import "net/netip"

// Local is an address of the loopback of a session with a way out, and the network around it,
// which is all local there.
var Local = netip.MustParsePrefix("198.19.0.1/15")

// Names is the part of [Local] with the addresses that the resolver gives for names.
//
// A connection to it, or to [Proxy], carries the id of its call as the mark of its socket
// (SO_MARK). The launcher sets it before connect goes on. Programs cannot, and the kernel
// copies it to the socket that the daemon accepts.
var Names = netip.MustParsePrefix("198.18.0.0/16")

// The services of the daemon on the private loopback.
var (
	Resolver = netip.MustParseAddrPort("127.0.0.1:53")
	Proxy    = netip.MustParseAddrPort("127.0.0.1:3128")
)
