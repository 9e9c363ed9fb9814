// Package listen opens a port of the loopback for programs that cannot connect to a Unix socket, and says for whom
// each of their requests is.
//
//	p, err := listen.Open("127.0.0.1:8765", "/home/ann/.config/sandboxd/mcp-token")
//	defer p.Close()
//	by, err := p.Caller(w, r) // of each request that came by p, before anything else
//
// A [Port] is a net.Listener for an HTTP server, and serves nothing itself. Caller may set a header
// of the answer; whoever calls it sends the error, with the status that it has, and serves nothing then.
// The Caller is an agent with a uid and groups; it has no account yet.
//
// A port does not say who calls, as a Unix socket does. So a request must bear the token of a file, and is the request
// of whoever owns that file: a user who puts another file there can only let in others as that same user. The file is
// read for each request, so another token counts at once, and without the file nobody is let in.
//
// What is refused: a Host that is not the port itself (a page of the web whose name leads here; localhost with the
// port is itself), another Origin, a request without the token, a path that is not that of MCP; a file that others may
// read or write now, that is a link, or that has a second name. Directories above it may be links.
//
// Not known: the process that sends a request. Whoever knows the token counts as the owner of the file.
package listen

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Port is the listening port. It is safe for concurrent use.
type Port struct {
	net.Listener
	file string
}

// Check refuses an address that is not a loopback address with a port.
func Check(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return &tool.Error{Msg: "mcp.listen: " + err.Error(), Hint: "such as 127.0.0.1:8765"}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() {
		return &tool.Error{
			Msg:  fmt.Sprintf("mcp.listen: %q is no address of the loopback, and the port speaks no TLS", host),
			Hint: "such as 127.0.0.1:8765, or [::1]:8765",
		}
	}
	return nil
}

// Open listens on addr. It fails if the file has no token.
func Open(addr, file string) (*Port, error) {
	if err := Check(addr); err != nil {
		return nil, err
	}
	if _, _, err := readToken(file); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("mcp.listen: %w", err)
	}
	return &Port{l, file}, nil
}

// URL returns the address to which clients send their messages.
func (p *Port) URL() string { return "http://" + p.Addr().String() + "/mcp" }

// Caller returns who has sent a request, or why it is refused.
func (p *Port) Caller(w http.ResponseWriter, r *http.Request) (route.Caller, error) {
	if !p.ours(r.Host) {
		return route.Caller{}, route.Error{Status: http.StatusMisdirectedRequest, Said: &tool.Error{
			Code: "host_refused", Msg: fmt.Sprintf("the host %.200q is not that of mcp.listen", r.Host),
			Hint: "use " + p.URL(),
		}}
	}
	for _, origin := range r.Header.Values("Origin") {
		if host, ok := strings.CutPrefix(origin, "http://"); !ok || !p.ours(host) {
			return route.Caller{}, route.Forbidden("host_refused",
				fmt.Sprintf("the origin %.200q is not that of mcp.listen", origin),
				"pages of other origins are not served")
		}
	}
	token, uid, err := readToken(p.file)
	if err != nil {
		return route.Caller{}, err
	}
	if !bears(r.Header.Values("Authorization"), token) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="sandboxd"`)
		return route.Caller{}, route.Error{Status: http.StatusUnauthorized, Said: &tool.Error{
			Code: "token_refused", Msg: "the request does not bear the token of mcp.tokenFile",
			Hint: "send the header Authorization: Bearer TOKEN",
		}}
	}
	if !slices.Contains([]string{"/mcp", "/v1/mcp"}, r.URL.Path) {
		return route.Caller{}, route.Error{Status: http.StatusNotFound, Said: &tool.Error{
			Code: "not_found", Msg: fmt.Sprintf("mcp.listen does not serve %.200q", r.URL.Path), Hint: "use " + p.URL(),
		}}
	}
	return ofUser(uid)
}

// ours reports whether a host names the port, by its address or as localhost.
func (p *Port) ours(host string) bool {
	_, port, _ := net.SplitHostPort(p.Addr().String())
	return host == p.Addr().String() || host == "localhost:"+port
}

// bears reports whether the headers have the token. It compares hashes, so that the time of the comparison tells
// nothing about the token.
func bears(headers []string, token string) bool {
	if len(headers) != 1 {
		return false
	}
	scheme, said, _ := strings.Cut(headers[0], " ")
	got, want := sha256.Sum256([]byte(strings.TrimSpace(said))), sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}
