package guard

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
)

// Proxy is the host and port of UpstreamProxy. It reports false without one.
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

// ProxySecret is what the proxy gets in Proxy-Authorization. It reports false if there is none.
func (n Network) ProxySecret() (Secret, bool) {
	for _, s := range n.Secrets {
		if e, err := parseEndpoint(s.Host); err == nil && n.ofProxy(e) {
			return s, true
		}
	}
	return Secret{}, false
}

// ProxyAddress is UpstreamProxy as it is dialled.
func (n Network) ProxyAddress() string {
	host, port, _ := n.Proxy()
	return net.JoinHostPort(host, strconv.Itoa(port))
}
