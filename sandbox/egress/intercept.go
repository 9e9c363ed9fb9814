package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress/authority"
)

// Authority signs for intercepted hosts in one session, whose programs trust it.
type Authority = authority.Authority

// NewAuthority makes one for the hosts that are intercepted.
func NewAuthority(n guard.Network) (*Authority, error) { return authority.New(n.Intercepted()...) }

// intercept ends the TLS of a program here, and serves the requests inside of it. The hello
// names the host of the connection.
func (c *Call) intercept(cl *client, k Connection, v Verdict) {
	if c.o.Authority == nil {
		alert(cl, accessDenied)
		cl.Close()
		c.refuse(k, Verdict{
			Rule: "network.intercept", Reason: "the requests to this host are read, and nothing here can do that",
			Hint: "run the command with Bash, which the daemon runs itself",
		})
		return
	}
	if c.hello(cl, k) != nil {
		cl.Close()
		return
	}
	cl.secure = true
	conn := tls.Server(cl, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.o.Authority.Leaf(k.Host) },
	})
	ctx, cancel := context.WithTimeout(c.ctx, cmp.Or(c.testOnlyPatience, patience))
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		reset(cl.tcp)
		cl.Close()
		if c.ctx.Err() == nil {
			c.refuse(k, distrusted(err))
		}
		return
	}
	c.web.serveHost(conn, k, v)
}

// distrusted says why a program did not speak TLS with the daemon.
func distrusted(err error) Verdict {
	what := err.Error()
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		what = op.Err.Error()
	}
	return Verdict{
		Rule:   "network.intercept",
		Reason: "the program does not take the certificate of this session (" + strings.TrimPrefix(what, "tls: ") + ")",
		Hint: "it pins a certificate or has a trust store of its own; lead it to the file in $SSL_CERT_FILE, " +
			"or ask an operator to take the host out of network.intercept",
	}
}

// clientOf returns the program's end of a connection that a web server serves.
func clientOf(conn net.Conn) *client {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	return conn.(*client)
}

// untrusted is the refusal of a host whose certificate is not valid; nil: it is another error.
func (c *Call) untrusted(k Connection, err error) error {
	var wrong *tls.CertificateVerificationError
	if !errors.As(err, &wrong) {
		return nil
	}
	var unknown x509.UnknownAuthorityError
	hint := "the host has to renew it; nothing was sent"
	if errors.As(err, &unknown) {
		hint = "an operator can name the authority that signed it in network.caFile; nothing was sent"
	}
	reason := fmt.Sprintf("the certificate of %s is not valid: %v", k.Host, wrong.Err)
	return c.refuse(k, Verdict{Rule: "network.caFile", Reason: reason, Hint: hint})
}

// protocolOf returns what is spoken with a host: also on another port than that of TLS if it is intercepted there.
func (c *Call) protocolOf(host string, port int) string {
	if c.o.Network.Intercepts(host, port) {
		return ProtocolTLS
	}
	return protocol(port)
}
