package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"golang.org/x/sys/unix"
)

// world is a network with one call, whose hosts are servers on the loopback. Where a program
// would connect to a synthetic address, listen and dial stand in: the addresses are of no
// route here.
type world struct {
	tb     testing.TB
	net    *Network
	dialer *Dialer
	call   *Call
	source netip.Addr
	hosts  map[string]string

	mu     sync.Mutex
	judged []Connection
	seen   []Row
	deny   func(Connection) bool
	at     map[netip.AddrPort]string
}

var sources struct {
	sync.Mutex
	last uint16
}

func newWorld(tb testing.TB, change ...func(*CallOptions)) *world {
	tb.Helper()
	nothing := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no resolver") }
	w := &world{tb: tb, dialer: &Dialer{
		Timeout: 5 * time.Second, Resolver: &net.Resolver{PreferGo: true, Dial: nothing}, // the outside is never asked
	}, hosts: map[string]string{}, at: map[netip.AddrPort]string{}}
	w.net = NewNetwork(w.dialer, callOf)
	tb.Cleanup(w.net.Close)
	w.call, w.source = w.begin(change...)
	return w
}

// callOf tells calls apart by the address from which they connect.
func callOf(c net.Conn) uint32 { return idOf(netip.MustParseAddrPort(c.RemoteAddr().String()).Addr()) }

func idOf(a netip.Addr) uint32 {
	b := a.Unmap().As4()
	if b[1] != 77 {
		return 0
	}
	return uint32(b[2])<<8 | uint32(b[3])
}

// begin begins another call, from its own source.
func (w *world) begin(change ...func(*CallOptions)) (*Call, netip.Addr) {
	sources.Lock()
	sources.last++
	source := netip.AddrFrom4([4]byte{127, 77, byte(sources.last >> 8), byte(sources.last)})
	sources.Unlock()
	o := CallOptions{
		Judge:   w.judge,
		Network: guard.Network{AllowedDomains: []string{"*.test", "*.test:5432", "*.test:8080"}, Hosts: w.hosts},
		Limits:  Limits{Bytes: 1 << 40, Connections: 1 << 20},
		Seen: func(r Row) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen = append(w.seen, r)
		},
	}
	for _, c := range change {
		c(&o)
	}
	return w.net.Begin(idOf(source), o), source
}

func (w *world) judge(_ context.Context, k Connection) Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judged = append(w.judged, k)
	if w.deny != nil && w.deny(k) {
		return Verdict{Rule: "test.denies", Reason: "the test refuses it", Hint: "use another host"}
	}
	return Verdict{Allow: true, Rule: "test.allows"}
}

func (w *world) questions() []Connection {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Connection{}, w.judged...)
}

// requests are the questions about requests alone.
func (w *world) requests() []Connection {
	return slices.DeleteFunc(w.questions(), func(k Connection) bool { return k.Method == "" })
}

// host gives a name the address of a server.
func (w *world) host(name, address string) { w.hosts[name] = address }

// listenAt makes the listener of a host and port, as the launcher would, and returns where
// it really is.
func (w *world) listenAt(host string, port int) string {
	w.tb.Helper()
	a, ok := w.net.names.address(host)
	if !ok {
		w.tb.Fatalf("no address for %s", host)
	}
	to := netip.AddrPortFrom(a, uint16(port))
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.at[to]; at != "" {
		return at
	}
	if !w.net.Wants(idOf(w.source), to) {
		w.tb.Fatalf("%s:%d is not wanted", host, port)
	}
	l := listen(w.tb)
	w.net.Serve(to, l)
	w.at[to] = l.Addr().String()
	return w.at[to]
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	return l
}

func (w *world) proxy() string {
	w.tb.Helper()
	l := listen(w.tb)
	w.net.ServeProxy(l)
	return l.Addr().String()
}

// from dials as a program of the call with that source.
// from dials from an address. The port is chosen by connect(2): one that bind(2) chooses is taken from all
// programs of the host for a minute after the connection, and fuzzing opens 100,000.
func from(source netip.Addr) *net.Dialer {
	return &net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0)), Timeout: 10 * time.Second,
		Control: func(_, _ string, c syscall.RawConn) error {
			var set error
			err := c.Control(func(fd uintptr) {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			})
			return errors.Join(err, set)
		},
	}
}

func (w *world) connect(host string, port int) *net.TCPConn {
	w.tb.Helper()
	return w.dial(w.listenAt(host, port))
}

func (w *world) dial(at string) *net.TCPConn {
	w.tb.Helper()
	conn, err := from(w.source).Dial("tcp", at)
	if err != nil {
		w.tb.Fatal(err)
	}
	w.tb.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return conn.(*net.TCPConn)
}

// exchange connects, sends and reads to the end. A reset may come before the kernel says that
// the connection is there.
func (w *world) exchange(host string, port int, send []byte) (string, error) {
	w.tb.Helper()
	return w.exchangeAt(w.listenAt(host, port), send)
}

func (w *world) exchangeAt(at string, send []byte) (string, error) {
	w.tb.Helper()
	conn, err := from(w.source).Dial("tcp", at)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	_, wrong := conn.Write(send) // the kernel tells a reset once: here or below
	got, err := io.ReadAll(conn)
	return string(got), cmp.Or(wrong, err)
}

// client is an HTTP client as programs of the call have one.
func (w *world) client(pool *x509.CertPool) *http.Client {
	t := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, number, _ := net.SplitHostPort(address)
			port, _ := strconv.Atoi(number)
			return from(w.source).DialContext(ctx, network, w.listenAt(host, port))
		},
		MaxIdleConnsPerHost: 100,
	}
	w.tb.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: 20 * time.Second}
}

// web serves HTTP under a name at port 80.
func (w *world) web(name string, h http.HandlerFunc) {
	s := httptest.NewServer(h)
	w.tb.Cleanup(s.Close)
	w.host(name, s.Listener.Addr().String())
}

// secure serves HTTPS under a name at port 443 and returns who signs it.
func (w *world) secure(name string, h http.HandlerFunc) *x509.CertPool {
	w.tb.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(w.tb, name)}}
	s.StartTLS()
	w.tb.Cleanup(s.Close)
	w.host(name, s.Listener.Addr().String())
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(s.TLS.Certificates[0].Certificate[0])
	if err != nil {
		w.tb.Fatal(err)
	}
	pool.AddCert(leaf)
	return pool
}

// server serves TCP under a name; each connection gets serve.
func (w *world) server(name string, serve func(*net.TCPConn)) net.Listener {
	l := listen(w.tb)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn.(*net.TCPConn))
		}
	}()
	w.host(name, l.Addr().String())
	return l
}

func echo(conn *net.TCPConn) {
	defer conn.Close()
	io.Copy(conn, conn)
}

// one is the only row of a ledger.
func one(tb testing.TB, l Ledger) Row {
	tb.Helper()
	if len(l.Connections) != 1 || l.Omitted != 0 {
		tb.Fatalf("got %+v, want one row", l)
	}
	return l.Connections[0]
}

func get(tb testing.TB, c *http.Client, url string) (int, string) {
	tb.Helper()
	res, err := c.Get(url)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return res.StatusCode, string(body)
}
