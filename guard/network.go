package guard

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Network is what confined programs may reach. The zero value reaches nothing.
type Network struct {
	// AllowedDomains are hosts that programs may connect to: a name, *.parent for all names
	// below it, or an address. One without a port means ports 80 and 443.
	AllowedDomains []string `json:"allowedDomains" yaml:"allowedDomains"`
	// DeniedDomains win over all else. One without a port means every port.
	DeniedDomains []string `json:"deniedDomains,omitempty" yaml:"deniedDomains,omitempty"`
	// Unlisted is what happens with other hosts: [UnlistedAsk] or [UnlistedDeny]; "" denies.
	Unlisted string `json:"unlisted,omitempty" yaml:"unlisted,omitempty"`
	// Hosts are addresses of names, or of name:port, that are not looked up. Only here a
	// name can lead to a private address. It allows no connection.
	Hosts map[string]string `json:"hosts,omitempty" yaml:"hosts,omitempty"`
	// Intercept are hosts whose TLS ends at the daemon, which reads each request: a name,
	// *.parent, or either with a port; without one it is 443.
	Intercept []string `json:"intercept,omitempty" yaml:"intercept,omitempty"`
	// Secrets are put into requests to hosts of Intercept.
	Secrets []Secret `json:"secrets,omitempty" yaml:"secrets,omitempty"`
	// CAFile has authorities that the daemon trusts beside those of the system.
	CAFile string `json:"caFile,omitempty" yaml:"caFile,omitempty"`
	// UpstreamProxy is an HTTP proxy through which the daemon connects, by CONNECT:
	// http://host:port. Names of Hosts are connected to directly.
	UpstreamProxy string `json:"upstreamProxy,omitempty" yaml:"upstreamProxy,omitempty"`
	// Search is who answers WebSearch. nil: nobody.
	Search *Search `json:"search,omitempty" yaml:"search,omitempty"`
	// AllowLocalBinding lets programs listen on the loopback of the sandbox.
	AllowLocalBinding bool `json:"allowLocalBinding" yaml:"allowLocalBinding"`
}

// What happens with hosts that no list names.
const (
	UnlistedAsk  = "ask"  // a person is asked when a program connects
	UnlistedDeny = "deny" // refused
)

// unlistedActions are the values of Network.Unlisted, the default of a daemon first.
var unlistedActions = []string{UnlistedAsk, UnlistedDeny}

// webPorts are the ports of an entry of allowedDomains that names none.
var webPorts = []int{80, 443}

// Reaches reports whether any host may be reached, perhaps after a question.
func (n Network) Reaches() bool { return len(n.AllowedDomains) > 0 || n.Unlisted == UnlistedAsk }

// Connect returns what these settings say of a connection, and the setting that says so. Ask means that a person may
// allow it; nothing else may allow what is denied.
func (n Network) Connect(host string, port int) (v Verdict, rule string) {
	h, err := CanonicalHost(host)
	if err != nil || port < 1 || port > 65535 {
		return Deny, "network: it is no host with a port"
	}
	for _, d := range n.DeniedDomains {
		if e, err := parseEndpoint(d); err == nil && e.matches(h) && (e.port == 0 || e.port == port) {
			return Deny, "network.deniedDomains: " + d
		}
	}
	for _, d := range n.AllowedDomains {
		if e, err := parseEndpoint(d); err == nil && e.matches(h) && e.opens(port) {
			return Allow, "network.allowedDomains: " + d
		}
	}
	return n.unlisted(h)
}

// unlisted returns the answer for a host that no list names. An address says nothing to a person, and may be any
// machine of the network. A name without a dot is mistyped, or a machine of this network, which has to be listed.
func (n Network) unlisted(host string) (Verdict, string) {
	_, notAddr := netip.ParseAddr(host)
	if notAddr != nil && n.Unlisted == UnlistedAsk && !ownLoopback(host) && strings.Contains(host, ".") {
		return Ask, "network.unlisted: ask"
	}
	return Deny, "network.allowedDomains"
}

// Endpoint returns how a connection is written in allowedDomains: the host alone for the ports that this means, else
// host:port.
func Endpoint(host string, port int) string {
	if slices.Contains(webPorts, port) {
		return host
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]:" + strconv.Itoa(port)
	}
	return host + ":" + strconv.Itoa(port)
}

// Address returns where Hosts says that a connection goes: an address, and the port if it names another one. It
// reports false if the name is not there and has to be looked up.
func (n Network) Address(host string, port int) (netip.AddrPort, bool) {
	found, ok := netip.AddrPort{}, false
	for name, to := range n.Hosts {
		e, err := parseEndpoint(name)
		if err != nil || !e.matches(host) || e.port != 0 && e.port != port || ok && e.port == 0 {
			continue
		}
		if at, err := netip.ParseAddrPort(to); err == nil {
			found, ok = at, true
		} else if at, err := netip.ParseAddr(to); err == nil {
			found, ok = netip.AddrPortFrom(at, uint16(port)), true
		}
	}
	return found, ok
}

// endpoint is an entry of a list of hosts.
type endpoint struct {
	host string // canonical
	wild bool   // every name below host, and not host
	port int    // 0: none is named
}

func (e endpoint) addr() bool {
	_, err := netip.ParseAddr(e.host)
	return err == nil
}

func (e endpoint) matches(host string) bool {
	if !e.wild {
		return e.host == host
	}
	_, notAddr := netip.ParseAddr(host)
	return notAddr != nil && strings.HasSuffix(host, "."+e.host)
}

func (e endpoint) opens(port int) bool {
	if e.port == 0 {
		return slices.Contains(webPorts, port)
	}
	return e.port == port
}

func parseEndpoint(text string) (endpoint, error) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return endpoint{host: plainAddr(a)}, nil
	}
	name, number, named := text, "", false
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		name, number, named = text[:i], text[i+1:], true
	}
	var e endpoint
	if named {
		port, err := strconv.ParseUint(number, 10, 16)
		if err != nil || port == 0 || strconv.FormatUint(port, 10) != number {
			return endpoint{}, fmt.Errorf("%q: write a host, or host:port with a port from 1 to 65535", text)
		}
		e.port = int(port)
	}
	name, e.wild = strings.CutPrefix(name, "*.")
	if name == "*" || strings.ContainsAny(name, "*/ ") {
		return endpoint{}, fmt.Errorf("%q: write a host, or *.parent for all below it", text)
	}
	var err error
	if e.host, err = CanonicalHost(name); err != nil {
		return endpoint{}, fmt.Errorf("%q: %w", text, err)
	}
	if _, err := netip.ParseAddr(e.host); err == nil && e.wild {
		return endpoint{}, fmt.Errorf("%q: an address has nothing below it", text)
	}
	return e, nil
}

func (n Network) validate() error {
	for _, list := range []struct {
		name    string
		entries []string
	}{{"allowedDomains", n.AllowedDomains}, {"deniedDomains", n.DeniedDomains}} {
		for _, d := range list.entries {
			e, err := parseEndpoint(d)
			if err == nil && list.name == "allowedDomains" && ownLoopback(e.host) {
				err = fmt.Errorf("%q is the sandbox itself, which every program reaches; "+
					"give a service of this machine another name in network.hosts", d)
			}
			if err != nil {
				return fmt.Errorf("network.%s: %w", list.name, err)
			}
		}
	}
	if n.Unlisted != "" && !slices.Contains(unlistedActions, n.Unlisted) {
		return fmt.Errorf("network.unlisted: %q is not %s", n.Unlisted, strings.Join(unlistedActions, " or "))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Hosts)) {
		if err := validHost(name, n.Hosts[name]); err != nil {
			return fmt.Errorf("network.hosts: %w", err)
		}
	}
	if n.UpstreamProxy != "" {
		if _, _, err := parseProxy(n.UpstreamProxy); err != nil {
			return fmt.Errorf("network.upstreamProxy: %w", err)
		}
	}
	if n.Search != nil {
		if _, err := n.Search.Address(); err != nil {
			return fmt.Errorf("network.search: %w", err)
		}
	}
	return n.validateSecrets()
}

func validHost(name, to string) error {
	e, err := parseEndpoint(name)
	switch {
	case err != nil:
		return err
	case e.wild:
		return fmt.Errorf("%q: write each name by itself", name)
	case ownLoopback(e.host):
		return fmt.Errorf("%q is the sandbox itself; choose another name", name)
	}
	if _, err := netip.ParseAddr(e.host); err == nil {
		return fmt.Errorf("%q is an address; give it a name", name)
	}
	if at, err := netip.ParseAddrPort(to); err == nil && at.Port() != 0 && at.Addr().Zone() == "" {
		return nil
	}
	if at, err := netip.ParseAddr(to); err != nil || at.Zone() != "" {
		return fmt.Errorf("%s: %q is no address and no address:port", name, to)
	}
	return nil
}

// warnings name the rules that can never matter.
func (n Network) warnings() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(n.Hosts)) {
		e, err := parseEndpoint(name)
		if err != nil {
			continue
		}
		if v, _ := n.Host(e.host); v == Deny {
			out = append(out, fmt.Sprintf("network.hosts: %s may not be reached, so its address has no effect", name))
		}
	}
	if len(n.DeniedDomains) > 0 && !n.Reaches() {
		out = append(out, "network.deniedDomains has no effect: no host may be reached")
	}
	return append(out, n.interceptWarnings()...)
}

// Host returns what these settings say of a canonical host before its port is known: whether any port may be
// reached.
func (n Network) Host(host string) (Verdict, string) {
	for _, d := range n.DeniedDomains {
		if e, err := parseEndpoint(d); err == nil && e.port == 0 && e.matches(host) {
			return Deny, "network.deniedDomains: " + d
		}
	}
	for _, d := range n.AllowedDomains {
		if e, err := parseEndpoint(d); err == nil && e.matches(host) {
			return Allow, "network.allowedDomains: " + d
		}
	}
	return n.unlisted(host)
}

// checkCage refuses what no sandbox keeps.
func (n Network) checkCage() error {
	for _, d := range n.AllowedDomains {
		if e, err := parseEndpoint(d); err == nil && e.addr() {
			return fmt.Errorf("network.allowedDomains: %q is an address, and programs connect to names alone; "+
				"give it a name in network.hosts, and list the name", d)
		}
	}
	return nil
}
