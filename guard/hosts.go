package guard

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
)

// CanonicalHost returns the one spelling of a host: an address without brackets, zone and IPv4 in IPv6, or a name in
// lower-case ASCII without a dot at its end.
func CanonicalHost(host string) (string, error) {
	if len(host) > 4*maxName { // nobody writes a longer name, even before IDNA
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

// isName reports whether text that IDNA has mapped can be a name in DNS. Resolvers also read
// unusual forms of addresses, such as 127.1, 0x7f.1 and 2130706433; these are no names.
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

// plainAddr returns one form of an address: ::ffff:10.0.0.1 reaches the same machine as 10.0.0.1.
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
	if v == Deny && s.Network.Unlisted == UnlistedAsk && isName(h) && !strings.Contains(h, ".") {
		ref.Hint = "a name without a dot is mistyped, or a machine of this network, about which nobody is asked; " +
			noWayOut
	}
	if strings.HasPrefix(rule, "network.deniedDomains") {
		ref.Message = fmt.Sprintf("host '%s' is in the denied domains", host)
	}
	return ref
}

// checkDevice judges a redirection of bash that connects, such as /dev/tcp/HOST/PORT. A name and the cage's own
// loopback are judged as for any program that connects; everything else is refused.
func (r *Rules) checkDevice(u PathUse) *Refusal {
	ref := &Refusal{
		Code:    "path_device",
		Message: fmt.Sprintf("path '%s' is a network connection, not a file", shown(u)),
		Hint:    "connect to a host by its name, over TCP",
		Rule:    "path rules", At: u.At,
	}
	host, port, _ := strings.Cut(strings.TrimPrefix(u.Path, "/dev/tcp/"), "/")
	number, err := strconv.ParseUint(port, 10, 16)
	h, bad := CanonicalHost(host)
	_, notAddr := netip.ParseAddr(h)
	switch {
	case err != nil || bad != nil || strings.HasPrefix(u.Path, "/dev/udp/"):
		return ref
	case ownLoopback(h):
		return nil
	case notAddr == nil:
		return ref
	}
	v, rule := r.s.Network.Connect(h, int(number))
	if v == Allow {
		return nil
	}
	ask := v == Ask
	ref.Message = fmt.Sprintf("host '%s' is not in the allowed domains with port %d", host, number)
	ref.Code, ref.Hint, ref.Rule, ref.Ask, ref.Caged, ref.Ours = "host_denied", noWayOut, rule, ask, ask, ask
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

// ParseURL parses the address of a page, if every program reads it in the same way: http or https, a host in ASCII,
// no user and no password. The host becomes canonical, the fragment is dropped.
func ParseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	odd := strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' })
	if odd || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
		!plainHost().MatchString(u.Hostname()) {
		return nil, fmt.Errorf("%.200q is no address that every program reads in the same way", address)
	}
	host, err := CanonicalHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return nil, fmt.Errorf("%.200q has no port that can be", address)
	}
	u.Host = host
	if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" {
		u.Host += ":" + port
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// plainHost matches a name or a number in ASCII. Some programs write a name with other letters as it is, and others
// translate it.
var plainHost = lazyregexp.New(`^[A-Za-z0-9._:-]+$`)

// Proxy returns the host and port of UpstreamProxy. It reports false if there is none.
func (n Network) Proxy() (host string, port int, ok bool) {
	host, port, err := parseProxy(n.UpstreamProxy)
	return host, port, err == nil
}

// parseProxy reads http://host:port.
func parseProxy(text string) (host string, port int, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", 0, errors.New("write http://host:port") // the error would repeat a password
	case u.User != nil:
		return "", 0, errors.New("a password has no place in the configuration; name it in network.secrets, " +
			"with the host and port of the proxy")
	case u.Scheme != "http":
		return "", 0, fmt.Errorf("%q: write http://host:port; proxies over TLS and SOCKS are not supported", text)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return "", 0, fmt.Errorf("%q: a proxy has no path; write http://host:port", text)
	}
	number, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	if err != nil || number == 0 {
		return "", 0, fmt.Errorf("%q: the port is a number from 1 to 65535", text)
	}
	if host, err = CanonicalHost(u.Hostname()); err != nil {
		return "", 0, err
	}
	return host, int(number), nil
}

// ofProxy reports whether an entry of Secrets is for the proxy.
func (n Network) ofProxy(e endpoint) bool {
	host, port, ok := n.Proxy()
	return ok && e.host == host && cmp.Or(e.port, tlsPort) == port
}

// ProxySecret returns what the proxy gets in Proxy-Authorization. It reports false if there is none.
func (n Network) ProxySecret() (Secret, bool) {
	for _, s := range n.Secrets {
		if e, err := parseEndpoint(s.Host); err == nil && n.ofProxy(e) {
			return s, true
		}
	}
	return Secret{}, false
}

// ProxyAddress returns UpstreamProxy in the form for dialling.
func (n Network) ProxyAddress() string {
	host, port, _ := n.Proxy()
	return net.JoinHostPort(host, strconv.Itoa(port))
}
