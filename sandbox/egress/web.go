package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// web serves the HTTP of one call: what programs send in the clear, and to the proxy. Each
// request is read whole, judged and written anew, so nothing hides between two readings.
type web struct {
	call      *Call
	once      sync.Once
	server    *http.Server
	transport *http.Transport
	second    *http.Transport // for what programs ask by HTTP/2
	forward   *httputil.ReverseProxy
}

func (w *web) start() {
	silent := log.New(io.Discard, "", 0)
	var clear, both http.Protocols // HTTP/2 inside of TLS alone
	clear.SetHTTP1(true)
	both.SetHTTP1(true)
	both.SetHTTP2(true)
	w.server = &http.Server{
		Handler: w, Protocols: &both, ReadHeaderTimeout: patience, ErrorLog: silent,
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return w.call.ctx },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, clientKey{}, clientOf(conn))
		},
	}
	roots, wrong := w.call.dialer.Roots(w.call.o.Network)
	w.transport = &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		DialContext:     w.dial, DisableCompression: true, Protocols: &clear,
		MaxIdleConns: 64, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second,
		ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: 1 << 20,
	}
	w.second = w.transport.Clone()
	w.second.Protocols = &both
	w.forward = &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: credentials{w.call, w.transport, w.second, wrong},
		FlushInterval: -1, BufferPool: pool{},
		ModifyResponse: w.answered, ErrorHandler: w.failed, ErrorLog: silent,
	}
}

func (w *web) close() {
	if w.transport != nil {
		w.transport.CloseIdleConnections()
		w.second.CloseIdleConnections()
	}
}

type (
	clientKey  struct{}
	requestKey struct{}
)

// request is one that was allowed.
type request struct {
	k       Connection
	v       Verdict
	counted bool
	shared  bool // HTTP/2: other requests have the same connection
	flow    *flow
	to      *lazy
}

// serveHost takes a client over whose requests are for one host, by which v is written down if none
// comes; it returns at once.
func (w *web) serveHost(conn net.Conn, k Connection, v Verdict) {
	cl := clientOf(conn)
	cl.asked.Store(false) // the proxy's CONNECT was none
	r := row(k, v)
	if !v.Allow {
		r.Verdict = Denied
	} else if r.Reason == "" {
		r.Reason = "the program sent no request, and nothing reached the host"
	}
	cl.silent = r
	w.serve(conn)
}

// serve takes the client over; it returns at once.
func (w *web) serve(conn net.Conn) {
	w.once.Do(w.start)
	w.server.Serve(&single{conn: conn})
}

// single is a listener of one connection that is there already.
type single struct{ conn net.Conn }

func (s *single) Accept() (net.Conn, error) {
	conn := s.conn
	s.conn = nil
	if conn == nil {
		return nil, io.EOF
	}
	return conn, nil
}

func (s *single) Close() error   { return nil }
func (s *single) Addr() net.Addr { return &net.TCPAddr{} }

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	cl := r.Context().Value(clientKey{}).(*client)
	cl.asked.Store(true)
	if cl.proxy && r.Method == http.MethodConnect {
		w.connect(rw, r, cl)
		return
	}
	k, code, err := w.target(cl, r)
	if err != nil {
		refuseHTTP(rw, code, err)
		return
	}
	v, err := w.call.judge(r.Context(), k)
	if err != nil {
		refuseHTTP(rw, http.StatusForbidden, err)
		return
	}
	q := &request{k: k, v: v, shared: r.ProtoMajor == 2, to: &lazy{ResponseWriter: rw}}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), requestKey{}, q))
	defer cancel()
	defer w.call.watch(v.Ended, cancel)()
	defer w.ended(cl, q, time.Now())
	// What the host does not say is not made up.
	rw.Header()["Date"], rw.Header()["Content-Type"] = nil, nil
	w.forward.ServeHTTP(q.to, r.WithContext(ctx))
}

// target returns what a request asks for, or the status that refuses it.
func (w *web) target(cl *client, r *http.Request) (Connection, int, error) {
	k := Connection{Host: cl.host, Port: cl.port, Protocol: ProtocolHTTP, Method: r.Method, Via: cl.via}
	k.Path = plainPath(r.URL.EscapedPath())
	if cl.secure {
		k.Protocol = ProtocolTLS
	}
	if cl.proxy {
		k.Host = shown(r.Host) // until it is known to be one
	}
	switch {
	case r.ProtoMajor != 1 && !cl.secure:
		return k, http.StatusHTTPVersionNotSupported, w.odd(k, "HTTP/2 without TLS cannot be judged", "use HTTP/1.1")
	case r.Method == http.MethodConnect:
		return k, http.StatusMethodNotAllowed, w.odd(k, "CONNECT is for the proxy", "send a request")
	case cl.proxy && r.URL.Scheme == "":
		return k, http.StatusBadRequest, w.odd(k, "the proxy needs the whole address", "send an absolute address")
	case r.URL.Scheme != "" && r.URL.Scheme != "http" || r.URL.Opaque != "":
		return k, http.StatusBadRequest, w.odd(k, "only http can be asked for so", "use CONNECT for https")
	}
	if reason, hint := doubtful(r.Method, r.URL.Path); reason != "" {
		return k, http.StatusBadRequest, w.odd(k, reason, hint)
	}
	text := r.Host
	if text == "" && r.ProtoMinor == 0 {
		text = cl.host // HTTP/1.0 had no Host
	}
	port := 80
	if !cl.proxy {
		port = cl.port
	}
	host, port, err := w.call.endpoint(text, port)
	if err != nil {
		return k, http.StatusBadRequest, w.call.refuseText(text, port, cl.via, err)
	}
	if !cl.proxy && (host != cl.host || port != cl.port) {
		k.Host, k.Port = host, port
		return k, http.StatusForbidden, w.odd(k, "the connection is to "+cl.host+", and a request names another host",
			"use a connection for each host")
	}
	k.Host, k.Port = host, port
	if up := r.Header.Get("Upgrade"); up != "" && !strings.EqualFold(up, "websocket") {
		r.Header.Del("Upgrade") // what it would change to cannot be judged, and a server may ignore it
	}
	return k, 0, nil
}

// odd refuses a request that says something else than a program with honest needs says.
func (w *web) odd(k Connection, reason, hint string) error {
	return w.call.refuse(k, Verdict{Rule: "network", Reason: reason, Hint: hint})
}

// rewrite makes the request that goes on out of what was judged.
func rewrite(pr *httputil.ProxyRequest) {
	k := pr.In.Context().Value(requestKey{}).(*request).k
	at := net.JoinHostPort(k.Host, strconv.Itoa(k.Port))
	in := pr.In.URL
	pr.Out.URL = &url.URL{
		Scheme: "http", Host: at, Path: in.Path, RawPath: k.Path, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery,
	}
	pr.Out.Host = at
	if k.Protocol == ProtocolTLS {
		pr.Out.URL.Scheme = "https"
	}
	if k.Port == 80 && k.Protocol == ProtocolHTTP || k.Port == 443 && k.Protocol == ProtocolTLS {
		pr.Out.Host = k.Host
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := pr.In.Header[name]; ok {
			pr.Out.Header[name] = v
		}
	}
	for name := range pr.Out.Header {
		if overrides(name) {
			delete(pr.Out.Header, name)
		}
	}
}

// dial connects for a request; others may use the connection after it.
func (w *web) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	q, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return nil, errors.New("can't happen: a connection for no request")
	}
	f, err := w.call.dial(ctx, q.k, Verdict{Rule: q.v.Rule, Reason: q.v.Reason, Pace: q.v.Pace}, 0)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// answered counts a request whose answer begins, the body of which is read next.
func (w *web) answered(res *http.Response) error {
	w.count(res.Request.Context(), "")
	res.Request.Context().Value(requestKey{}).(*request).reads()
	return nil
}

func (w *web) count(ctx context.Context, reason string) {
	q := ctx.Value(requestKey{}).(*request)
	q.counted = true
	r := row(q.k, q.v)
	if reason != "" {
		r.Reason = reason
	}
	w.call.note(r)
}

// ended adds the time that a request took. An answer that is cut ends with a reset: without
// a length, the end of the data would look like that of the answer.
func (w *web) ended(cl *client, q *request, began time.Time) {
	cut := recover()
	if cut != nil {
		q.to.flush() // what came before the cut
	}
	q.over()
	if q.counted {
		r := row(q.k, q.v)
		r.Count, r.DurationMS = 0, time.Since(began).Milliseconds()
		w.call.mu.Lock()
		w.call.ledger.Add(r)
		w.call.mu.Unlock()
	}
	if cut != nil {
		if !q.shared {
			reset(cl.tcp)
		}
		panic(cut)
	}
}

// failed answers a request that got no answer. A host that cannot be reached is one that
// does not answer: a page that says so would be taken for its own.
func (w *web) failed(rw http.ResponseWriter, r *http.Request, err error) {
	var refused *RefusedError
	if errors.As(err, &refused) {
		refuseHTTP(rw, http.StatusForbidden, refused)
		return
	}
	if told := w.call.untrusted(r.Context().Value(requestKey{}).(*request).k, err); told != nil {
		refuseHTTP(rw, http.StatusBadGateway, told)
		return
	}
	w.count(r.Context(), Failure(err))
	panic(http.ErrAbortHandler)
}

// connect serves CONNECT: it judges and dials before it answers, so that the answer is true.
func (w *web) connect(rw http.ResponseWriter, r *http.Request, cl *client) {
	host, port, err := w.call.endpoint(r.Host, 0)
	if err != nil {
		refuseHTTP(rw, http.StatusBadRequest, w.call.refuseText(r.Host, 0, ViaConnect, err))
		return
	}
	k := Connection{Host: host, Port: port, Protocol: w.call.protocolOf(host, port), Via: ViaConnect}
	f, v, err := w.call.destination(r.Context(), k)
	if err != nil {
		if errors.As(err, new(*RefusedError)) {
			refuseHTTP(rw, http.StatusForbidden, err)
		} else {
			refuseHTTP(rw, http.StatusBadGateway, fmt.Errorf("%s cannot be reached: %s", r.Host, Failure(err)))
		}
		return
	}
	conn, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		if f != nil {
			f.Close()
		}
		return
	}
	ahead, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	cl.before = append(append([]byte{}, ahead...), cl.before...)
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		if f != nil {
			f.Close()
		}
		cl.Close()
		return
	}
	w.call.tunnel(cl, k, f, v)
}

// refuseHTTP answers with the reason; the program may print it, and the model reads it.
func refuseHTTP(rw http.ResponseWriter, status int, err error) {
	text := "sandboxd: " + err.Error() + "\n"
	var refused *RefusedError
	if errors.As(err, &refused) && refused.Verdict.Hint != "" {
		text += "hint: " + refused.Verdict.Hint + "\n"
	}
	h := rw.Header()
	h.Del("Date")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Connection", "close")
	rw.WriteHeader(status)
	io.WriteString(rw, text)
}

// pool lends the reverse proxy the buffers of the relays.
type pool struct{}

func (pool) Get() []byte  { return buffers.Get().(*[bufferSize]byte)[:] }
func (pool) Put(b []byte) { buffers.Put((*[bufferSize]byte)(b)) }
