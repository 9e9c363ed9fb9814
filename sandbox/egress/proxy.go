package egress

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
)

// proxied serves a connection to the proxy. The first byte says which kind it is.
func (c *Call) proxied(cl *client) {
	first := make([]byte, 1)
	cl.tcp.SetReadDeadline(time.Now().Add(cmp.Or(c.testOnlyPatience, patience)))
	// Not through cl: at the end of the data cl waits for an answer, and here nobody has asked yet.
	if _, err := io.ReadFull(cl.tcp, first); err != nil {
		cl.Close()
		return
	}
	switch first[0] {
	case socksVersion:
		c.socks(cl)
	case 4: // SOCKS4 has no names, and what it answers cannot say why
		cl.Close()
	default:
		cl.tcp.SetReadDeadline(time.Time{})
		cl.before = first
		c.web.serve(cl)
	}
}

var errNoHost = errors.New("write a host name, and perhaps a port")

// endpoint returns the host and port of text such as "Host.Example:443"; without a port it is the one given, and 0
// means that it must be named. The host is canonical. An address that the resolver has given is the name that it
// stands for; every other address is refused.
func (c *Call) endpoint(text string, port int) (string, int, error) {
	host := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		p, err := strconv.ParseUint(text[i+1:], 10, 16)
		if err != nil {
			return "", 0, errNoHost
		}
		host, port = text[:i], int(p)
	}
	if port == 0 {
		return "", 0, errNoHost
	}
	name, err := c.hostName(host)
	return name, port, err
}

// hostName returns a host as it is judged.
func (c *Call) hostName(host string) (string, error) {
	name, err := guard.CanonicalHost(host)
	if err != nil {
		return "", errNoHost
	}
	a, err := netip.ParseAddr(name)
	if err != nil {
		return name, nil
	}
	if c.names != nil {
		if name, ok := c.names.name(a); ok {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s is an address; connect to a name, which an operator can give it in network.hosts", a)
}

// refuseText refuses what a program has written where a host was wanted.
func (c *Call) refuseText(text string, port int, via string, err error) error {
	text = strings.TrimSuffix(text, ":"+strconv.Itoa(port)) // else the port is told twice
	return c.refuse(Connection{Host: shown(text), Port: port, Protocol: c.protocolOf(text, port), Via: via}, Verdict{
		Rule: "network", Reason: "it is no host name: " + err.Error(), Hint: "connect to a host by its name",
	})
}

// shown is text of a program, short and in one line.
func shown(text string) string {
	q := strconv.QuoteToASCII(text[:min(len(text), 253)])
	if plain := q[1 : len(q)-1]; plain == text {
		return text
	}
	return q
}
