package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/mcp/upstream"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// companion describes the cage of the server.
func (v *server) companion() tool.Companion {
	x := tool.Companion{Name: "mcp/" + v.name, Settings: v.programSettings}
	if v.conf.Remote() {
		x.Settings = func(s guard.Settings) guard.Settings { return v.remoteSettings(s, "") }
	}
	return x
}

// programSettings returns the settings of a server that is a program. An empty list of paths would mean every path.
func (v *server) programSettings(s guard.Settings) guard.Settings {
	own := v.conf.Sandbox
	if s.AllowedReadPaths != nil {
		s.AllowedReadPaths = slices.Concat(s.AllowedReadPaths, own.AllowedReadPaths)
	}
	s.AllowedWritePaths = slices.Clone(own.AllowedWritePaths)
	if len(s.AllowedWritePaths) == 0 {
		s.AllowedWritePaths = []string{guard.NoPath}
	}
	s.DeniedPaths = slices.Concat(s.DeniedPaths, own.DeniedPaths)
	denied := s.Network.DeniedDomains
	s.Network = own.Network
	s.Network.DeniedDomains = slices.Concat(own.Network.DeniedDomains, denied)
	if !s.Network.Reaches() { // denied hosts have no effect if no host can be reached
		s.Network.DeniedDomains = nil
	}
	s.Network.Unlisted = guard.UnlistedDeny
	s.Env = nil // those are for calls; the server has its own (M-06)
	s.AllowedCommands, s.DeniedCommands = nil, nil
	l := v.conf.Limits.WithDefaults()
	s.Limits.MemoryBytes, s.Limits.Processes = l.MemoryBytes, l.Processes
	s.Limits.NetworkBytes = lastingBytes
	return s
}

// lastingBytes is how much a server may send and receive while it lives. The limits of a call do not suit a program
// that lasts.
const lastingBytes = 1 << 40

// remoteSettings let only the host of the address be reached. at is the address of a private name.
func (v *server) remoteSettings(s guard.Settings, at string) guard.Settings {
	n := guard.Network{
		CAFile: cmp.Or(v.conf.Sandbox.Network.CAFile, s.Network.CAFile), Unlisted: guard.UnlistedDeny,
		UpstreamProxy: cmp.Or(v.conf.Sandbox.Network.UpstreamProxy, s.Network.UpstreamProxy),
		DeniedDomains: slices.Concat(v.conf.Sandbox.Network.DeniedDomains, s.Network.DeniedDomains),
		Hosts:         maps.Clone(s.Network.Hosts),
	}
	if u, err := v.conf.Endpoint(); err == nil {
		name := net.JoinHostPort(alias(u.Hostname()), strconv.Itoa(port(u.Scheme, u.Port())))
		n.AllowedDomains = []string{name}
		if at != "" {
			if n.Hosts == nil {
				n.Hosts = map[string]string{}
			}
			n.Hosts[name] = at
		}
	}
	return guard.Settings{
		AllowedReadPaths: []string{guard.NoPath}, AllowedWritePaths: []string{guard.NoPath}, Network: n,
		Limits: guard.Limits{NetworkBytes: lastingBytes}, Require: s.Require,
	}
}

// alias returns the name that the network gives a host. It is another name for an address and for localhost, because
// to programs in the sandbox those mean the sandbox itself.
func alias(host string) string {
	_, err := netip.ParseAddr(host)
	if err != nil && host != "localhost" && !strings.HasSuffix(host, ".localhost") {
		return host
	}
	return strings.NewReplacer(":", "-", ".", "-").Replace(host) + ".mcp.internal"
}

func port(scheme, named string) int {
	if n, err := strconv.Atoi(named); err == nil {
		return n
	}
	if scheme == "https" {
		return 443
	}
	return 80
}

// private returns the address of a host on this machine or in a private network. The operator has named host and
// port, so they count as named in network.hosts.
func private(ctx context.Context, host string) string {
	public := func(a netip.Addr) bool {
		a = a.Unmap()
		return !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast()
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().String()
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return "127.0.0.1"
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(found) == 0 || slices.ContainsFunc(found, public) {
		return "" // it is looked up again when it is dialled, where private addresses are refused
	}
	return found[0].Unmap().String()
}

// connect connects. began bounds how long that takes; the program or the connection lasts as long as lasting.
func (v *server) connect(began, lasting context.Context) (*upstream.Conn, guard.Settings, func(), error) {
	s, err := v.x.current(began)
	if err != nil {
		return nil, guard.Settings{}, nil, finalError{err}
	}
	x := v.companion()
	if v.conf.Remote() {
		return v.connectRemote(began, lasting, s, x)
	}
	user, err := v.x.g.user(began, s)
	if err != nil {
		return nil, guard.Settings{}, nil, finalError{err}
	}
	box, settings, err := v.x.g.host.Companions.Box(lasting, s, x)
	if err != nil {
		return nil, settings, nil, finalError{err}
	}
	forget := v.forget(box, x)
	env, err := v.conf.Environ()
	if err != nil {
		forget()
		return nil, settings, nil, finalError{err}
	}
	box = box.As(user)
	start := func(stdin *os.File, stdout, stderr io.Writer) (sandbox.Proc, error) {
		return box.Start(lasting, sandbox.Spec{
			Argv: v.argv(box, s.Dir), Dir: s.Dir, Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr,
			Bounded: true, Lasting: true,
		})
	}
	conn, err := upstream.Program(lasting, began, v.options(), start)
	if err != nil {
		forget()
		return nil, settings, nil, err
	}
	return conn, settings, forget, nil
}

// argv returns the words of the program (M-03).
func (v *server) argv(box sandbox.Box, dir string) []string {
	command := v.conf.Command
	if !filepath.IsAbs(command) {
		if found, _ := box.LookPath(command); found == "" || strings.Contains(command, "/") {
			command = filepath.Join(dir, command)
		}
	}
	return append([]string{command}, v.conf.Args...)
}

func (v *server) options() upstream.Options {
	return upstream.Options{
		Line: v.conf.Limits.WithDefaults().LineBytes, Log: v.x.g.log, Patience: v.conf.Timeout(),
		Changed: func() { signal(v.relist) },
	}
}

// forget returns a function that ends what still runs in the box, and removes its private files.
func (v *server) forget(box sandbox.Box, x tool.Companion) func() {
	return func() {
		err := errors.Join(box.Close(), v.x.g.host.Companions.Forget(v.x.id, x))
		if err != nil {
			v.x.g.log.Error("the cage of an MCP server was not removed", "server", v.name, "error", err)
		}
	}
}

func (v *server) connectRemote(began, lasting context.Context, s tool.Session, x tool.Companion) (
	*upstream.Conn, guard.Settings, func(), error,
) {
	fail := func(err error) (*upstream.Conn, guard.Settings, func(), error) {
		return nil, guard.Settings{}, nil, err
	}
	u, err := v.conf.Endpoint()
	if err != nil {
		return fail(finalError{fmt.Errorf("url: %w", err)})
	}
	at := private(began, u.Hostname())
	x.Settings = func(s guard.Settings) guard.Settings { return v.remoteSettings(s, at) }
	box, settings, err := v.x.g.host.Companions.Box(lasting, s, x)
	if err != nil {
		return fail(finalError{err})
	}
	roots, err := (&egress.Dialer{}).Roots(settings.Network)
	if err != nil {
		box.Close()
		return fail(finalError{err})
	}
	conn, err := upstream.Remote(lasting, began, v.options(), upstream.Address{
		URL: u, Push: v.conf.Kind() == servers.TypeSSE, Roots: roots,
		Header: func(ctx context.Context) (http.Header, []string, error) { return v.header(ctx, s, u.Hostname()) },
		Dial: func(ctx context.Context, to egress.Connection) (net.Conn, error) {
			to.Host = alias(to.Host)
			return box.Dial(ctx, to)
		},
	})
	if err != nil {
		box.Close()
		return fail(err)
	}
	return conn, settings, v.forget(box, x), nil
}

// header returns the headers of a request, and which of their values must not come back: those from files, and
// network.secrets of the session for this host.
func (v *server) header(ctx context.Context, s tool.Session, host string) (http.Header, []string, error) {
	h, err := v.conf.Header()
	if err != nil {
		return nil, nil, err
	}
	var hide []string
	for name := range v.conf.HeaderFiles {
		hide = append(hide, h.Get(name))
		if _, token, ok := strings.Cut(h.Get(name), " "); ok { // Bearer token
			hide = append(hide, token)
		}
	}
	u, err := v.conf.Endpoint()
	if err != nil || u.Scheme != "https" {
		return h, hide, err
	}
	of := tool.Companion{Name: "mcp/" + v.name, Settings: func(s guard.Settings) guard.Settings { return s }}
	settings, err := v.x.g.host.Companions.Settings(s, of)
	if err != nil {
		return nil, nil, err
	}
	for _, secret := range settings.Network.SecretsFor(host, port(u.Scheme, u.Port())) {
		value, err := v.x.g.secrets.Value(ctx, secret)
		if err != nil {
			return nil, nil, fmt.Errorf("the secret for %s cannot be had: %w", host, err)
		}
		h.Set(secret.Name(), secret.Fill(value))
		hide = append(hide, secret.Forms(value)...)
	}
	return h, hide, nil
}
