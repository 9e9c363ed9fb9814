package guard

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// CanonicalHost is the one spelling of a host: an address without brackets, zone and IPv4 in
// IPv6, or a name in lower case and ASCII without a dot at its end.
func CanonicalHost(host string) (string, error) {
	if len(host) > 4*maxName { // no name of the world is written longer, even before IDNA
		return "", errors.New("the host is too long to be a name")
	}
	host = strings.TrimSuffix(host, ".")
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return plainAddr(a), nil
	}
	ascii, err := idna.Lookup.ToASCII(strings.ToLower(host))
	if err != nil || !isName(ascii) {
		return "", fmt.Errorf("host %q is not a name", host)
	}
	return ascii, nil
}

const maxName = 253 // bytes of a name in DNS, as text

// isName reports whether text that IDNA has mapped can be a name in DNS, and is no address in
// a form that resolvers read although it does not look like one: 127.1, 0x7f.1, 2130706433.
func isName(text string) bool {
	labels := strings.Split(text, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 {
			return false
		}
	}
	last := labels[len(labels)-1]
	if hex, ok := strings.CutPrefix(last, "0x"); ok && strings.Trim(hex, "0123456789abcdef") == "" {
		return false
	}
	return len(text) <= maxName && strings.Trim(last, "0123456789") != ""
}

// plainAddr: ::ffff:10.0.0.1 reaches the same machine as 10.0.0.1.
func plainAddr(a netip.Addr) string { return a.Unmap().WithZone("").String() }

// noWayOut is what to do instead of connecting.
const noWayOut = "an operator can list it in network.allowedDomains; until then work with what the workspace has, " +
	"or ask a person to fetch the rest"

func checkHost(host string, s Settings) *Refusal {
	v, rule := Deny, "network.allowedDomains"
	h, err := CanonicalHost(host)
	if err == nil {
		v, rule = s.Network.Host(h)
	}
	if v == Allow {
		return nil
	}
	ask := v == Ask
	ref := &Refusal{
		Code: "host_denied", Message: fmt.Sprintf("host '%s' is not in the allowed domains", host),
		Hint: noWayOut, Rule: rule, Ask: ask, Caged: ask, Ours: ask,
	}
	if strings.HasPrefix(rule, "network.deniedDomains") {
		ref.Message = fmt.Sprintf("host '%s' is in the denied domains", host)
	}
	return ref
}

// ownLoopback reports whether a program in the cage that dials host reaches only
// the cage's own loopback.
func ownLoopback(host string) bool {
	h, err := CanonicalHost(host)
	if err != nil {
		return false
	}
	if a, err := netip.ParseAddr(h); err == nil {
		return a.IsLoopback()
	}
	return h == "localhost" || strings.HasSuffix(h, ".localhost")
}
