package egress

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/sandboxd/sandboxd/guard"
)

// patience is how long a program may take to say what it wants. If it waits for the host to speak
// first, on a port where the client must speak first, it gets an error after this time.
const patience = 30 * time.Second

// maxHello bounds what is read to find a server name. The record layer adds five bytes to
// each fragment, and crypto/tls takes messages of up to 64 KiB.
const maxHello = 128 << 10

// The alerts of TLS that a refusal sends.
const (
	accessDenied     = 49
	unrecognizedName = 112
)

var (
	errSeen  = errors.New("the hello has been seen")
	errLarge = errors.New("the hello is too large")
)

// hello reads a ClientHello, keeps it to be sent on, and refuses it unless it asks for the
// host of the connection.
func (c *Call) hello(cl *client, k Connection) error {
	cl.tcp.SetReadDeadline(time.Now().Add(cmp.Or(c.testOnlyPatience, patience)))
	name, read, err := serverName(cl)
	cl.before = append(read, cl.before...)
	cl.tcp.SetReadDeadline(time.Time{})
	if err != nil {
		reset(cl.tcp)
		what := "port 443 is for TLS, and what was sent is none"
		if len(read) == 0 {
			what = "on port 443 the program speaks first, by TLS, and nothing was sent"
		}
		return c.refuse(k, Verdict{Rule: "network", Reason: what, Hint: "speak TLS, or use another port"})
	}
	if got, err := guard.CanonicalHost(name); name != "" && err == nil && got == k.Host {
		return nil
	}
	what := "the connection asks for the server name " + shown(name)
	if name == "" {
		what = "the connection asks for no server name"
	}
	alert(cl, unrecognizedName)
	return c.refuse(k, Verdict{
		Rule: "network", Reason: what, Hint: "use TLS with the server name " + k.Host,
	})
}

// serverName reads a ClientHello as crypto/tls does, in however many records it comes, and
// returns all that it has read besides.
func serverName(from io.Reader) (name string, read []byte, err error) {
	r := &recorder{from: from}
	seen := false
	err = tls.Server(r, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, seen = h.ServerName, true
		return nil, errSeen
	}}).Handshake()
	if !seen {
		return "", r.read, cmp.Or(err, errSeen)
	}
	return name, r.read, nil
}

// recorder keeps what is read and writes nothing. Of the rest of a connection a handshake
// needs nothing.
type recorder struct {
	net.Conn
	from io.Reader
	read []byte
}

func (r *recorder) Read(p []byte) (int, error) {
	if len(r.read) >= maxHello {
		return 0, errLarge
	}
	n, err := r.from.Read(p[:min(len(p), maxHello-len(r.read))])
	r.read = append(r.read, p[:n]...)
	return n, err
}

func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }
func (r *recorder) Close() error                { return nil }

// alert tells a TLS client why its connection ends, which libraries show to people.
func alert(cl *client, description byte) {
	cl.tcp.SetWriteDeadline(time.Now().Add(time.Second))
	cl.tcp.Write([]byte{21, 3, 1, 0, 2, 2, description})
}
