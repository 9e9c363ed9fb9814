package egress

import (
	"net"
	"net/netip"
)

// notPublic are addresses that a look-up may never lead to: they mean this machine, its
// network, or nobody. IPv6 has them only where the address would otherwise be public.
var notPublic = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address of a provider's own network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"}, // the metadata of clouds too
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address for documents"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for benchmarks"}, // the sandbox's own names too
	{netip.MustParsePrefix("198.51.100.0/24"), "an address for documents"},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address for documents"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"}, // broadcast too
	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("fc00::/7"), "a private address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("2001::/23"), "a reserved address"}, // Teredo, benchmarks, ORCHID
	{netip.MustParsePrefix("2001:db8::/32"), "an address for documents"},
	{netip.MustParsePrefix("3fff::/20"), "an address for documents"},
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
)

// refusedAddress says what an address is that a look-up may not lead to; "" if it may.
func refusedAddress(a netip.Addr) string {
	if !a.IsValid() {
		return "no address"
	}
	a = a.WithZone("").Unmap()
	for _, n := range notPublic {
		if n.prefix.Contains(a) {
			return n.what
		}
	}
	if a.Is4() {
		return ""
	}
	if inner, ok := innerAddress(a); ok {
		return refusedAddress(inner)
	}
	if !globalUnicast.Contains(a) {
		return "a reserved address"
	}
	return ""
}

// innerAddress returns the IPv4 address that an IPv6 address leads to.
func innerAddress(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP
		return netip.AddrFrom4([4]byte(b[12:])), true
	}
	return netip.Addr{}, false
}

// OfThisMachine reports whether a connection to the address would stay on this machine: the
// kernel then takes the address itself as the source. No packet is sent.
func OfThisMachine(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 9)))
	if err != nil {
		return false
	}
	defer c.Close()
	source, err := netip.ParseAddrPort(c.LocalAddr().String())
	return err == nil && source.Addr().Unmap().WithZone("") == a.Unmap().WithZone("")
}
