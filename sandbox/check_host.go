package sandbox

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// HostAllowed reports whether host may be reached: the name itself is
// listed, or a parent of it as *.parent. Addresses match only as they are listed.
func HostAllowed(host string, domains []string) bool {
	h, err := canonicalHost(host)
	if err != nil {
		return false
	}
	_, isAddr := netip.ParseAddr(h)
	for _, d := range domains {
		if parent, wild := strings.CutPrefix(d, "*."); wild && isAddr != nil {
			p, err := canonicalHost(parent)
			if err == nil && strings.HasSuffix(h, "."+p) {
				return true
			}
			continue
		}
		if c, err := canonicalHost(d); err == nil && c == h {
			return true
		}
	}
	return false
}

func canonicalHost(host string) (string, error) {
	host = strings.TrimSuffix(host, ".")
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		// ::ffff:10.0.0.1 reaches the same machine as 10.0.0.1.
		return a.Unmap().WithZone("").String(), nil
	}
	ascii, err := idna.Lookup.ToASCII(strings.ToLower(host))
	if err != nil || ascii == "" {
		return "", fmt.Errorf("host %q is not a name", host)
	}
	return ascii, nil
}

func validDomain(d string) error {
	name := strings.TrimPrefix(d, "*.")
	if name == "*" || strings.ContainsAny(name, "*/ ") {
		return fmt.Errorf("network.allowedDomains: %q: write a host, or *.parent for all below it", d)
	}
	if _, err := canonicalHost(name); err != nil {
		return fmt.Errorf("network.allowedDomains: %w", err)
	}
	return nil
}

func checkHost(host string, s Settings) *Refusal {
	if HostAllowed(host, s.Network.AllowedDomains) {
		return nil
	}
	return &Refusal{
		Code:    "host_denied",
		Message: fmt.Sprintf("host '%s' is not in the allowed domains", host),
		Hint:    fmt.Sprintf("add %q to network.allowedDomains", host),
		Rule:    "network.allowedDomains",
	}
}

// ownLoopback reports whether a program in the cage that dials host reaches only
// the cage's own loopback.
func ownLoopback(host string) bool {
	h, err := canonicalHost(host)
	if err != nil {
		return false
	}
	if a, err := netip.ParseAddr(h); err == nil {
		return a.IsLoopback()
	}
	return h == "localhost" || strings.HasSuffix(h, ".localhost")
}
