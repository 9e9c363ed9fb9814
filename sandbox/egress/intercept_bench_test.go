package egress

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// A request to a host that is intercepted, with a secret, and one to a host beside it that is
// not, over direct TLS: small ones on a kept connection, and a stream.
func BenchmarkEgressIntercepted(b *testing.B) {
	i := newIntercepted(b, func(o *CallOptions) {
		o.Network.Intercept = []string{"a.test", "b.test"}
		o.Network.Secrets = []guard.Secret{{Host: "a.test", Value: "Bearer {{file}}", File: "/token"}}
	})
	const size = 256 << 20
	chunk := make([]byte, 256<<10)
	cert := certificate(b, "a.test", "b.test", "c.test")
	for _, name := range []string{"a.test", "b.test", "c.test"} {
		i.serve(name, cert, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				rw.Write(chunk[:5])
				return
			}
			for range size / len(chunk) {
				if _, err := rw.Write(chunk); err != nil {
					return
				}
			}
		})
	}
	i.call.o.Seen = nil
	roots := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		b.Fatal(err)
	}
	roots.AddCert(leaf)
	straight, programs, unread := directly(b, i.hosts["a.test"], roots), i.programs(false), i.client(roots)
	b.Run("Kept", func(b *testing.B) {
		bench.Compare(b, []bench.Case{
			{Name: "direct", Run: fetch(b, straight, "https://a.test/")},
			{Name: "intercepted", Run: fetch(b, programs, "https://b.test/")},
			{Name: "with a secret", Run: fetch(b, programs, "https://a.test/")},
			{Name: "not intercepted", Run: fetch(b, unread, "https://c.test/")},
		},
			bench.Limit{Case: "intercepted", Over: "direct", AtMost: 4},
			bench.Limit{Case: "with a secret", Over: "direct", AtMost: 4},
			bench.Limit{Case: "not intercepted", Over: "direct", AtMost: 2.5})
	})
	b.Run("Stream", func(b *testing.B) {
		bare := directly(b, bareRelay(b, cert, i.hosts["a.test"], roots), roots)
		bench.Compare(b, []bench.Case{
			{Name: "direct", Run: fetch(b, straight, "https://a.test/stream"), N: 5},
			{Name: "bare relay", Run: fetch(b, bare, "https://a.test/stream"), N: 5},
			{Name: "intercepted", Run: fetch(b, programs, "https://b.test/stream"), N: 5},
			{Name: "with a secret", Run: fetch(b, programs, "https://a.test/stream"), N: 5},
		},
			// A relay decrypts and encrypts what both ends do, too: it doubles the processor time, so half the
			// speed of direct is the most that two processors can give (docs/sandbox.md has the figures).
			bench.Limit{Case: "bare relay", Over: "direct", AtMost: 3},
			bench.Limit{Case: "intercepted", Over: "bare relay", AtMost: 1.3},
			bench.Limit{Case: "with a secret", Over: "bare relay", AtMost: 1.3})
	})
}

// bareRelay ends TLS and begins it anew, as interception must, and does nothing else: what is
// between the two is what this machine can do at best.
func bareRelay(b *testing.B, cert tls.Certificate, to string, roots *x509.CertPool) string {
	l := tls.NewListener(listen(b), &tls.Config{Certificates: []tls.Certificate{cert}})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			up, err := tls.Dial("tcp", to, &tls.Config{RootCAs: roots, ServerName: "a.test"})
			if err != nil {
				conn.Close()
				continue
			}
			copied := func(dst, src net.Conn) {
				defer dst.Close()
				io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, bufferSize))
			}
			go copied(up, conn)
			go copied(conn, up)
		}
	}()
	return l.Addr().String()
}
