package egress

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress/mask"
)

// credentials puts the secrets of a host into the requests to it, and hides them in what the
// host answers.
type credentials struct {
	call   *Call
	next   http.RoundTripper // HTTP/1
	second http.RoundTripper // of what a program asks by HTTP/2: perhaps HTTP/2
	trust  error             // why the authorities are not known
}

// RoundTrip implements [http.RoundTripper].
func (t credentials) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.Context().Value(requestKey{}).(*request)
	next := t.next
	if q.shared {
		next = t.second
	}
	if q.k.Protocol == ProtocolTLS && t.trust != nil {
		return nil, t.call.refuse(q.k, Verdict{
			Rule: "network.caFile", Reason: t.trust.Error(), Hint: "tell an operator",
		})
	}
	var secrets []guard.Secret
	if q.k.Protocol == ProtocolTLS {
		secrets = t.call.secretsOf(q.k.Host, q.k.Port)
	}
	if len(secrets) > 0 || t.call.hide(t.call.toldProxy(r.Context(), q.k)) != nil {
		r = readable(r)
	}
	var hide []string
	for _, s := range secrets {
		value, err := t.call.secret(r.Context(), s)
		if err != nil {
			return nil, t.call.refuse(q.k, Verdict{
				Rule: "network.secrets", Reason: fmt.Sprintf("%s for %s cannot be had: %v", s.Name(), q.k.Host, err),
				Hint: "tell an operator; sandboxd network secrets says what is wrong",
			})
		}
		r.Header[s.Name()] = []string{s.Fill(value)}
		hide = append(hide, s.Forms(value)...)
	}
	t.call.hide(hide)
	if !q.shared { // else somebody else reads the connection
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), q.found()))
	}
	res, err := next.RoundTrip(r)
	set := t.call.hide(nil) // others may have sent a secret meanwhile
	if err != nil {
		return nil, maskedError(err, set)
	}
	if set == nil {
		return res, nil
	}
	if err := decoded(res); err != nil {
		res.Body.Close()
		return nil, t.call.refuse(q.k, Verdict{Rule: "network.secrets", Reason: err.Error()})
	}
	hidden(res, set)
	return res, nil
}

// readable is r without what would keep a secret in its answer from being seen: a part of a body
// could have a part of a secret, and a compressed one hides it.
func readable(r *http.Request) *http.Request {
	r = r.Clone(untraced{r.Context()})
	for _, name := range []string{"Range", "If-Range", "Sec-Websocket-Extensions"} {
		r.Header.Del(name)
	}
	r.Header.Set("Accept-Encoding", "identity")
	return r
}

// secretsOf returns the secrets of a host; to find them takes as long as there are secrets.
func (c *Call) secretsOf(host string, port int) []guard.Secret {
	key := net.JoinHostPort(host, strconv.Itoa(port))
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.secrets[key]
	if !known {
		if c.secrets == nil || len(c.secrets) > 1024 {
			c.secrets = map[string][]guard.Secret{}
		}
		found = c.o.Network.SecretsFor(host, port)
		c.secrets[key] = found
	}
	return found
}

// maxSent is how many values a call hides: more than those of its hosts, and some before them.
const maxSent = 128

// hide adds values that the answers to the call must not show, and returns all of them. An answer may
// repeat a value that another host was told, or that this host was told without TLS or before its
// secret was renewed. nil: the call has sent no secret.
func (c *Call) hide(values []string) *mask.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := len(c.sent)
	for _, v := range values {
		if !slices.Contains(c.sent, v) {
			c.sent = append(c.sent, v)
		}
	}
	if len(c.sent) > known {
		c.sent = c.sent[max(0, len(c.sent)-maxSent):]
		c.hidden = mask.New(c.sent)
	}
	return c.hidden
}

// maskedError is err, unless it repeats a secret, as one about an answer that cannot be read may.
func maskedError(err error, set *mask.Set) error {
	if text := set.Text(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

func (c *Call) secret(ctx context.Context, s guard.Secret) (string, error) {
	if c.dialer.Secret == nil {
		return "", fmt.Errorf("only the daemon has it, and this call's programs are not its own")
	}
	return c.dialer.Secret(ctx, s)
}

// untraced hides a trace from the transport. The trace would pass on the headers that come before an
// answer (1xx), and nobody would mask these.
type untraced struct{ context.Context }

func (c untraced) Value(key any) any {
	v := c.Context.Value(key)
	if _, ok := v.(*httptrace.ClientTrace); ok {
		return nil
	}
	return v
}

// decoded takes the compression off that nobody asked for.
func decoded(res *http.Response) error {
	coding := strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding")))
	if len(res.Header["Content-Encoding"]) > 1 {
		coding = strings.Join(res.Header["Content-Encoding"], ", ")
	}
	if res.Request.Method == http.MethodHead || res.StatusCode == http.StatusNotModified ||
		res.StatusCode == http.StatusNoContent {
		return nil
	}
	var open func(io.Reader) (io.ReadCloser, error)
	switch coding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		open = func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }
	case "deflate":
		open = zlib.NewReader
	default:
		// Its name is the host's word, which may be the secret.
		return errors.New("the host answers in an encoding that was not asked for and in which " +
			"a secret could not be seen")
	}
	res.Header.Del("Content-Encoding")
	res.Header.Del("Content-Length")
	res.ContentLength, res.Uncompressed = -1, true
	res.Body = &unpacked{packed: res.Body, open: open}
	return nil
}

// unpacked opens a body when it is read first: an answer begins before its body is there.
type unpacked struct {
	packed io.ReadCloser
	open   func(io.Reader) (io.ReadCloser, error)
	plain  io.Reader
}

func (u *unpacked) Read(p []byte) (int, error) {
	if u.plain == nil {
		plain, err := u.open(u.packed)
		if err != nil {
			return 0, err
		}
		u.plain = plain
	}
	return u.plain.Read(p)
}

func (u *unpacked) Close() error { return u.packed.Close() }

// hidden masks an answer: headers, body and trailers.
func hidden(res *http.Response, set *mask.Set) {
	header(res.Header, set)
	if rw, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = switched{set.Reader(rw), rw}
		return
	}
	header(res.Trailer, set) // names, as they are announced
	res.Body = &trailed{ReadCloser: set.Reader(res.Body), res: res, set: set}
}

// switched is a connection that is no longer HTTP.
type switched struct {
	io.ReadCloser
	io.Writer
}

// trailed masks trailers. They are there when the body has been closed, which the reverse proxy
// does before it passes them on.
type trailed struct {
	io.ReadCloser
	res *http.Response
	set *mask.Set
}

func (t *trailed) Close() error {
	err := t.ReadCloser.Close()
	header(t.res.Trailer, t.set)
	return err
}

func header(h http.Header, set *mask.Set) {
	for name, values := range h {
		for i, v := range values {
			values[i] = set.Text(v)
		}
		if plain := set.Name(name); plain != name {
			delete(h, name)
			h[plain] = values
		}
	}
}
