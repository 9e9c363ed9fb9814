package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// The headers of HTTP requests.
const (
	versionHeader = "Mcp-Protocol-Version"
	idHeader      = "Mcp-Session-Id"
	// SessionHeader names a session of the daemon. DirHeader names its directory.
	SessionHeader = "Sandboxd-Session"
	DirHeader     = "Sandboxd-Cwd"
	// requestHeader ties the SDK's handlers to their request. Clients cannot set it.
	requestHeader = "Sandboxd-Request"
)

// Bounds of the HTTP server.
const (
	maxFaces  = 256
	maxOf     = 16 // of one caller
	idleTime  = 30 * time.Minute
	idleCheck = time.Minute
)

// HTTP serves MCP over streamable HTTP: the versions with sessions, each bound to the caller that began it, and the
// version without. The caller is known from the request, as for every route. It is safe for concurrent use.
type HTTP struct {
	api     *client.Client
	version string
	log     *slog.Logger
	holds   *Holds
	stop    context.CancelFunc

	withSessions, without http.Handler

	mu       sync.Mutex // guards what follows
	faces    map[string]*bound
	requests map[string]context.Context // by requestHeader
}

// bound is a face with its caller. Its key is the Mcp-Session-Id, or in the version without sessions the name of the
// daemon's session.
type bound struct {
	*Face
	key, caller string
	used        time.Time
	serving     int
}

// NewHTTP returns a server that makes requests to api as the caller of each request; see [client.Over].
func NewHTTP(api *client.Client, version string, log *slog.Logger) *HTTP {
	ctx, stop := context.WithCancel(context.Background())
	h := &HTTP{
		api: api, version: version, log: log, holds: NewHolds(), stop: stop,
		faces: map[string]*bound{}, requests: map[string]context.Context{},
	}
	face := func(r *http.Request) *mcp.Server {
		if b, ok := r.Context().Value(boundKey{}).(*bound); ok {
			return b.server
		}
		return nil
	}
	h.withSessions = mcp.NewStreamableHTTPHandler(face, &mcp.StreamableHTTPOptions{
		MaxRequestBodyBytes: route.MaxBody, SessionTimeout: idleTime,
	})
	h.without = mcp.NewStreamableHTTPHandler(face, &mcp.StreamableHTTPOptions{
		Stateless: true, MaxRequestBodyBytes: route.MaxBody, PropagateRequestCancellation: true,
	})
	go h.forget(ctx)
	return h
}

type boundKey struct{}

// Routes returns the one route with its three methods.
func (h *HTTP) Routes() []route.Route {
	of := func(method, id, summary string) route.Route {
		return route.Route{
			Pattern: method + " /mcp", Role: tool.RoleAgent, Keeps: method == "POST", Handle: h.handle,
			Spec: route.Spec{ID: id, Summary: summary},
		}
	}
	return []route.Route{
		of("POST", "mcp", "Messages of the Model Context Protocol, over streamable HTTP"),
		of("GET", "mcpStream", "What the server sends unasked, as server-sent events; versions with sessions"),
		of("DELETE", "mcpEnd", "End a session of the protocol; that of the daemon stays"),
	}
}

// handle serves a request with its face. It passes at most one message to the SDK, and only if the caller may send
// it.
func (h *HTTP) handle(r *http.Request) (any, error) {
	me := route.CallerOf(r)
	if me.Role != tool.RoleAgent {
		return nil, route.Forbidden("agents_only", "MCP is for agents", "use the agent socket")
	}
	if err := ours(r); err != nil {
		return nil, err
	}
	method := ""
	var body []byte
	if r.Method == http.MethodPost {
		var err error
		if body, err = route.Body(r); err != nil {
			return nil, err
		}
		if msg, err := jsonrpc.DecodeMessage(body); err == nil {
			if req, ok := msg.(*jsonrpc.Request); ok {
				method = req.Method
			}
		}
	}
	b, handler, err := h.find(r, me, method)
	if err != nil {
		return nil, err
	}
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		h.serve(w, r, b, handler)
	})
	return route.Raw{Serve: serve, Endless: r.Method == http.MethodGet || method == "subscriptions/listen"}, nil
}

// ours refuses requests that a browser sends for a page whose host name was pointed at this address. A client on a
// Unix socket needs no public host name, but somebody may forward a port to it.
func ours(r *http.Request) error {
	hosts := []string{r.Host}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil {
			return route.BadRequest("the header Origin cannot be read")
		}
		hosts = append(hosts, u.Host)
	}
	for _, host := range hosts {
		name := (&url.URL{Host: host}).Hostname()
		if ip := net.ParseIP(name); !ip.IsLoopback() && (ip != nil || strings.Contains(name, ".")) {
			return route.Forbidden("host_refused", fmt.Sprintf("the host %.200q is not of this machine", host),
				"name localhost, or any name without a dot")
		}
	}
	return nil
}

// find returns the face for a request, and makes it if the request may begin one.
func (h *HTTP) find(r *http.Request, me route.Caller, method string) (*bound, http.Handler, error) {
	caller := fmt.Sprintf("%s/%d/%d/%v", me.Account, me.UID, me.GID, me.Groups)
	named, dir := r.Header.Get(SessionHeader), r.Header.Get(DirHeader)
	if r.Header.Get(versionHeader) >= stateless {
		b, err := h.face(r, caller, fmt.Sprintf("%q %q %q", caller, named, dir), named, dir, true)
		return b, h.without, err
	}
	id := r.Header.Get(idHeader)
	if id == "" && method == "initialize" {
		b, err := h.face(r, caller, rand.Text(), named, dir, false)
		return b, h.withSessions, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.faces[id]
	if b == nil || b.caller != caller { // the answer does not tell whether it belongs to somebody else
		return nil, nil, route.Error{Status: http.StatusNotFound, Said: &tool.Error{
			Code: "mcp_session_not_found", Msg: "there is no such session of MCP",
			Hint: "begin one with initialize, and send its " + idHeader,
		}}
	}
	b.serving++
	return b, h.withSessions, nil
}

// face returns the face with a key, and makes it if there is none.
func (h *HTTP) face(r *http.Request, caller, key, session, dir string, reuse bool) (*bound, error) {
	h.mu.Lock()
	if b := h.faces[key]; b != nil && !b.Gone() {
		defer h.mu.Unlock()
		b.serving++
		return b, nil
	}
	n := 0
	for _, b := range h.faces {
		if b.caller == caller {
			n++
		}
	}
	full := n >= maxOf || len(h.faces) >= maxFaces
	h.mu.Unlock()
	if full && !h.forgetOne(caller) {
		return nil, &tool.Error{
			Code: "too_many_requests", Msg: fmt.Sprintf("%d sessions of MCP are open, %d at most", n, maxOf),
			Hint: "end some with DELETE /mcp; those that are idle end after a while",
		}
	}
	if session == "" {
		in := map[string]any{"tag": "mcp"}
		if reuse {
			in["reuse"] = true
		}
		if dir != "" {
			in["cwd"] = dir
		}
		var s client.Session
		if err := h.api.Do(r.Context(), http.MethodPost, "/sessions", in, &s); err != nil {
			return nil, asRoute(err)
		}
		session = s.ID
	}
	f, err := New(r.Context(), Options{
		API: h.api, Session: session, Version: h.version, Log: h.log, Holds: h.holds, Caller: caller,
		id: key, request: h.request,
	})
	if err != nil {
		return nil, asRoute(err)
	}
	b := &bound{Face: f, key: key, caller: caller, serving: 1, used: time.Now()}
	h.mu.Lock()
	old := h.faces[key]
	if old != nil && !old.Gone() { // another request has made it meanwhile
		old.serving++
		b, f, old = old, nil, b
	} else {
		h.faces[key] = b
	}
	h.mu.Unlock()
	if old != nil {
		go old.Close()
	}
	return b, nil
}

// asRoute returns an error of the daemon as the answer of a route.
func asRoute(err error) error {
	if e, ok := err.(*client.Error); ok { //nolint:errorlint // the client returns it as it is
		return (*tool.Error)(e)
	}
	return err
}

// serve passes a request to the SDK, tied to its context.
func (h *HTTP) serve(w http.ResponseWriter, r *http.Request, b *bound, handler http.Handler) {
	id := rand.Text()
	r.Header.Set(requestHeader, id)
	h.mu.Lock()
	h.requests[id] = r.Context()
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.requests, id)
		b.serving--
		b.used = time.Now()
		h.mu.Unlock()
	}()
	handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), boundKey{}, b)))
	if r.Method == http.MethodDelete {
		h.drop(b)
	}
}

// request returns the context of the request that the SDK serves.
func (h *HTTP) request(header http.Header) (context.Context, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, ok := h.requests[header.Get(requestHeader)]
	return ctx, ok
}

// drop ends a face.
func (h *HTTP) drop(b *bound) {
	h.mu.Lock()
	if h.faces[b.key] == b {
		delete(h.faces, b.key)
	}
	h.mu.Unlock()
	go b.Close()
}

// forget ends idle faces until ctx ends.
func (h *HTTP) forget(ctx context.Context) {
	tick := time.NewTicker(idleCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, b := range h.idle("", now.Add(-idleTime)) {
				h.drop(b)
			}
		}
	}
}

// forgetOne ends the face of a caller that has been idle longest. It returns false if there is none.
func (h *HTTP) forgetOne(caller string) bool {
	var oldest *bound
	for _, b := range h.idle(caller, time.Now()) {
		if oldest == nil || b.used.Before(oldest.used) {
			oldest = b
		}
	}
	if oldest != nil {
		h.drop(oldest)
	}
	return oldest != nil
}

// idle returns the faces of a caller, or of all callers, that have served nothing since a time.
func (h *HTTP) idle(caller string, since time.Time) []*bound {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*bound
	for _, b := range h.faces {
		if b.serving == 0 && b.used.Before(since) && cmp.Or(caller, b.caller) == b.caller {
			out = append(out, b)
		}
	}
	return out
}

// Close ends every face and every held call.
func (h *HTTP) Close() {
	h.stop()
	h.holds.Close()
	h.mu.Lock()
	faces := h.faces
	h.faces = map[string]*bound{}
	h.mu.Unlock()
	for _, b := range faces {
		b.Close()
	}
}
