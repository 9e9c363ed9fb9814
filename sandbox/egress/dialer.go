package egress

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/guard"
)

// Dialer makes every connection to the outside: of relays, of the proxy, of tools. It looks a name
// up when it dials, and checks the address that it gives to the kernel. So the address cannot
// change between check and use. An operator's proxy (network.upstreamProxy) looks names
// up itself: then no address is checked here. The daemon listens on Unix sockets alone, which no
// address means.
type Dialer struct {
	// Resolver looks names up that network.hosts does not have. nil: that of the host.
	Resolver *net.Resolver
	// Secret reads what network.secrets names. nil: none can be had.
	Secret func(context.Context, guard.Secret) (string, error)
	// Timeout is how long the look-up and the connection take at most, together. 0: 15 s.
	Timeout time.Duration
}

// AddressError is a name that leads where nothing may connect to.
type AddressError struct {
	Host    string
	Address netip.Addr
	What    string // "a private address"
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("%s leads to %s, which is %s", e.Host, e.Address, e.What)
}

// Dial connects to a host, of which it checks only the address. An [AddressError] is a refusal, and so is the error for
// a literal address that network.hosts does not have. Every other error is of the network or of the operator's proxy.
func (d *Dialer) Dial(ctx context.Context, n guard.Network, host string, port int) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.Timeout, 15*time.Second))
	defer cancel()
	// A final dot: what was judged is looked up, not that name below a domain of the host.
	target := net.JoinHostPort(host+".", strconv.Itoa(port))
	at, pinned := n.Address(host, port)
	if pinned {
		target = at.String()
	} else if _, err := netip.ParseAddr(host); err == nil {
		return nil, fmt.Errorf("dial %s: a literal address is no host", host)
	}
	_, _, proxied := n.Proxy()
	proxied = proxied && !pinned
	if proxied { // it looks the name up, and is where the operator says
		target = n.ProxyAddress()
	}
	dialer := net.Dialer{
		Resolver: cmp.Or(d.Resolver, &net.Resolver{PreferGo: true}),
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("dial %s: %w", host, err)
			}
			if what := refuses(at.Addr()); what != "" && !pinned && !proxied {
				return &AddressError{Host: host, Address: at.Addr(), What: what}
			}
			return nil
		},
	}
	conn, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, err
	}
	if proxied {
		if err := d.tunnel(ctx, n, conn.(*net.TCPConn), net.JoinHostPort(host, strconv.Itoa(port))); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn.(*net.TCPConn), nil
}

// refuses says what is wrong with an address that a look-up gave.
func refuses(a netip.Addr) string {
	if what := refusedAddress(a); what != "" {
		return what
	}
	if OfThisMachine(a) {
		return "an address of this machine"
	}
	return ""
}
