package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
)

// maxProxyAnswer bounds the head of what a proxy answers.
const maxProxyAnswer = 16 << 10

// errProxy is an answer that opens no connection.
var errProxy = errors.New("network.upstreamProxy")

// tunnel asks the operator's proxy, to which conn leads, for a connection to target.
func (d *Dialer) tunnel(ctx context.Context, n guard.Network, conn *net.TCPConn, target string) error {
	until, _ := ctx.Deadline()
	conn.SetDeadline(until)
	defer conn.SetDeadline(time.Time{})
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	head := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if s, ok := n.ProxySecret(); ok {
		if d.Secret == nil {
			return fmt.Errorf("%w: only the daemon has its secret", errProxy)
		}
		value, err := d.Secret(ctx, s)
		if err != nil {
			return fmt.Errorf("%w: its secret cannot be had: %w", errProxy, err)
		}
		head += "Proxy-Authorization: " + s.Fill(value) + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return fmt.Errorf("%w: %w", errProxy, err)
	}
	status, page, err := proxyAnswer(conn)
	if err != nil {
		return fmt.Errorf("%w: %w", errProxy, err)
	}
	if status/100 != 2 {
		return fmt.Errorf("%w: it answered %d %s", errProxy, status, http.StatusText(status))
	}
	if page { // which a web server sends that takes CONNECT for a request, and may repeat the request
		return fmt.Errorf("%w: it answered with a page, and is no proxy", errProxy)
	}
	return nil
}

// toldProxy returns the forms of the secret that the proxy gets with a connection to a host. It may repeat them
// where there is no TLS.
func (c *Call) toldProxy(ctx context.Context, k Connection) []string {
	s, ok := c.o.Network.ProxySecret()
	if _, pinned := c.o.Network.Address(k.Host, k.Port); !ok || pinned || k.Protocol != ProtocolHTTP {
		return nil
	}
	value, err := c.secret(ctx, s)
	if err != nil {
		return nil // so that nothing connects; the dialer says why
	}
	return s.Forms(value)
}

// proxyAnswer reads an answer up to its empty line and no further: what follows is of the host,
// which may speak first. It reports whether the answer announces a body.
func proxyAnswer(r io.Reader) (status int, page bool, err error) {
	var head strings.Builder
	one := make([]byte, 1)
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		if head.Len() >= maxProxyAnswer {
			return 0, false, errors.New("its answer has no end")
		}
		if _, err := io.ReadFull(r, one); err != nil {
			return 0, false, fmt.Errorf("its answer ends too early: %w", err)
		}
		head.WriteByte(one[0])
	}
	var version string
	line, fields, _ := strings.Cut(head.String(), "\r\n")
	if n, _ := fmt.Sscanf(line, "%s %d", &version, &status); n != 2 || !strings.HasPrefix(version, "HTTP/1.") {
		return 0, false, errors.New("its answer is no HTTP")
	}
	for field := range strings.Lines(fields) {
		name, value, _ := strings.Cut(field, ":")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "content-length":
			page = page || strings.TrimSpace(value) != "0"
		case "transfer-encoding":
			page = true
		}
	}
	return status, page, nil
}
