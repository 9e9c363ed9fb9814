package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/sandbox/egress/mask"
)

// ErrNeedsAuth is the error for a server that answers 401.
var ErrNeedsAuth = errors.New("the server wants credentials (401); set headers or headerFiles, or network.secrets")

// Address says how to reach a remote server.
type Address struct {
	URL    *url.URL
	Push   bool // use HTTP with server-sent events as the only way back (type sse)
	Header func(context.Context) (h http.Header, hide []string, err error)
	Roots  *x509.CertPool
	// Dial judges a connection and connects to the host of the URL.
	Dial func(context.Context, egress.Connection) (net.Conn, error)
}

// Remote connects to a server at an address. The connection ends with lasting; began bounds the time until it is
// established.
func Remote(lasting, began context.Context, o Options, a Address) (*Conn, error) {
	rt := &only{a: a, most: int64(cmp.Or(o.Line, 16<<20))}
	rt.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			to := egress.Connection{
				Host: a.URL.Hostname(), Port: portOf(a.URL), Protocol: egress.ProtocolHTTP, Method: http.MethodPost,
				Path: a.URL.EscapedPath(), Via: egress.ViaFetch,
			}
			if to.Path == "" {
				to.Path = "/"
			}
			if a.URL.Scheme == "https" {
				to.Protocol = egress.ProtocolTLS
			}
			return a.Dial(ctx, to)
		},
		TLSClientConfig: &tls.Config{RootCAs: a.Roots}, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
	}
	client := &http.Client{
		Transport: rt,
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if !rt.same(r.URL) {
				return fmt.Errorf("it leads on to %.100q, and only its own host is asked", r.URL.Host)
			}
			return nil
		},
	}
	var t mcp.Transport = &mcp.StreamableClientTransport{
		Endpoint: a.URL.String(), HTTPClient: client, MaxRetries: 2, MaxEventSize: o.Line,
	}
	if a.Push {
		t = &mcp.SSEClientTransport{Endpoint: a.URL.String(), HTTPClient: client, MaxEventSize: o.Line}
	}
	c, err := connect(lasting, began, o, t, rt.transport.CloseIdleConnections)
	if err != nil {
		if rt.refused.Load() {
			return nil, ErrNeedsAuth
		}
		return nil, err
	}
	return c, nil
}

func portOf(u *url.URL) int {
	if _, port, err := net.SplitHostPort(u.Host); err == nil {
		n := 0
		if _, err := fmt.Sscanf(port, "%d", &n); err == nil {
			return n
		}
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// only sends requests to the host of one address and to no other, with its headers.
type only struct {
	a         Address
	most      int64
	transport *http.Transport
	refused   atomic.Bool // the server answered 401
}

func (o *only) same(u *url.URL) bool {
	want := o.a.URL
	return u.Scheme == want.Scheme && strings.EqualFold(u.Hostname(), want.Hostname()) && portOf(u) == portOf(want)
}

// RoundTrip implements [http.RoundTripper]. It checks the host of each request, because a server of type sse itself
// says where to send messages.
func (o *only) RoundTrip(r *http.Request) (*http.Response, error) {
	if !o.same(r.URL) {
		return nil, fmt.Errorf("it wants requests at %.100q, and only its own host is asked", r.URL.Host)
	}
	header, hide, err := o.a.Header(r.Context())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	for name, values := range header {
		r.Header[name] = values
	}
	answer, err := o.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	o.refused.Store(answer.StatusCode == http.StatusUnauthorized)
	if len(hide) > 0 {
		answer.Body = mask.New(hide).Reader(answer.Body)
	}
	// Events are bounded one by one. The SDK reads the body of a failure as a whole, whatever it says it is.
	events := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream")
	if !events || answer.StatusCode/100 != 2 {
		answer.Body = &bounded{ReadCloser: answer.Body, left: o.most}
	}
	return answer, nil
}

// bounded is a body that fails after so many bytes.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)]) // one more shows whether it ends here
	if b.left -= int64(n); b.left < 0 {
		return 0, errors.New("the answer has more bytes than its limit lineBytes")
	}
	return n, err
}
