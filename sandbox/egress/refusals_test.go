package egress

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// TestX13_ANameThatLeadsInsideIsToldWithAHint: whatever way a program asks, it learns that the name is refused, and the
// ledger says why and who may allow it.
func TestX13_ANameThatLeadsInsideIsToldWithAHint(t *testing.T) {
	w := newWorld(t)
	w.dialer.Resolver = resolverAt(t, func(string, int) []string { return []string{"10.1.2.3"} })
	const reason = "in.test leads to 10.1.2.3, which is a private address"
	const hint = "only network.hosts can lead a name to such an address; an operator may add it there"
	conn := w.dial(w.proxy())
	io.WriteString(conn, "CONNECT in.test:5432 HTTP/1.1\r\nHost: in.test:5432\r\n\r\n")
	said, _ := io.ReadAll(conn)
	if got := string(said); !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, reason) ||
		!strings.Contains(got, "hint: "+hint+"\n") {
		t.Errorf("the program reads %s", got)
	}
	if got := socksConnect(t, w.dial(w.proxy()), 3, []byte("\x07in.test"), 5432); got != socksNotAllowed {
		t.Errorf("SOCKS5 says %d, want %d", got, socksNotAllowed)
	}
	if got, err := w.exchange("in.test", 443, clientHello(t, "in.test")); len(got) != 7 || got[6] != accessDenied {
		t.Errorf("TLS reads %q, %v, want the alert that access is denied", got, err)
	}
	for _, r := range w.call.End().Connections {
		if r.Verdict == Denied && (r.Rule != "network.hosts" || r.Reason != reason) {
			t.Errorf("got %+v", r)
		}
	}
}

// TestSOCKS5SaysWhy: a program tells a host that refuses from one that cannot be found.
func TestSOCKS5SaysWhy(t *testing.T) {
	w := newWorld(t)
	l := listen(t)
	w.host("closed.test", l.Addr().String())
	l.Close()
	proxy := w.proxy()
	for name, want := range map[string]byte{"closed.test": socksRefused, "nowhere.test": socksUnreachable} {
		address := append([]byte{byte(len(name))}, name...)
		if got := socksConnect(t, w.dial(proxy), 3, address, 5432); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

// TestUDPIsRefusedInTheLedger: only where the address is that of a name, for others are no host of the settings.
func TestUDPIsRefusedInTheLedger(t *testing.T) {
	w := newWorld(t)
	a, _ := w.net.names.address("a.test")
	id := idOf(w.source)
	w.net.RefuseUDP(id, netip.AddrPortFrom(a, 443))
	w.net.RefuseUDP(id, netip.MustParseAddrPort("9.9.9.9:443"))
	w.net.RefuseUDP(id+1, netip.AddrPortFrom(a, 443)) // no call
	row := one(t, w.call.End())
	if row.Host != "a.test" || row.Port != 443 || row.Protocol != ProtocolUDP || row.Verdict != Denied ||
		row.Reason != "UDP is never relayed: use TCP" {
		t.Errorf("got %+v", row)
	}
}

// TestNothingIsServedWithoutAName: neither an address that no name has nor what comes after Close.
func TestNothingIsServedWithoutAName(t *testing.T) {
	w := newWorld(t)
	closed := func(what string, l net.Listener) {
		t.Helper()
		if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
			conn.Close()
			t.Errorf("%s: it still listens", what)
		}
	}
	l := listen(t)
	w.net.Serve(netip.MustParseAddrPort("198.18.1.1:443"), l)
	closed("an address of no name", l)
	w.net.Close()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = listen(t)
	w.net.ServeResolver(packets, l)
	closed("a resolver after Close", l)
	if _, err := packets.WriteTo([]byte("x"), packets.LocalAddr()); err == nil {
		t.Error("a resolver after Close: it still has its packets")
	}
	l = listen(t)
	w.net.ServeProxy(l)
	closed("a proxy after Close", l)
}

// TestLookUpsOfSeveralCalls: a packet does not say whose it is, so each call is told that it may be another's.
func TestLookUpsOfSeveralCalls(t *testing.T) {
	w := newWorld(t)
	other, _ := w.begin()
	ask := func(query []byte) []byte { return w.net.answer(query, 0) }
	m := answerTo(t, ask, "no.example.", dnsmessage.TypeA, dnsmessage.ClassINET)
	if m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("got %v", m.RCode)
	}
	const reason = "the name was looked up, and the settings do not allow it"
	for _, c := range []*Call{w.call, other} {
		if row := one(t, c.End()); row.Host != "no.example" ||
			row.Reason != reason+"; by this call or by another one that ran in the session" {
			t.Errorf("got %+v", row)
		}
	}
	third, source := w.begin()
	mine := func(query []byte) []byte { return w.net.answer(query, idOf(source)) }
	answerTo(t, mine, "no.example.", dnsmessage.TypeA, dnsmessage.ClassINET)
	if row := one(t, third.End()); row.Reason != reason {
		t.Errorf("got %+v", row)
	}
}

// TestLookUpsWithoutRoom: a name that gets no address any more is a failure of the server and not "no such name".
func TestLookUpsWithoutRoom(t *testing.T) {
	w := newWorld(t)
	for i := range maxNames {
		w.net.names.byName[fmt.Sprint(i)] = netip.Addr{}
	}
	ask := func(query []byte) []byte { return w.net.answer(query, idOf(w.source)) }
	m := answerTo(t, ask, "a.test.", dnsmessage.TypeA, dnsmessage.ClassINET)
	if m.RCode != dnsmessage.RCodeServerFailure {
		t.Errorf("got %v", m.RCode)
	}
}

// TestAStreamThatIsNoQuery: the resolver ends it, and answers nothing that comes behind it.
func TestAStreamThatIsNoQuery(t *testing.T) {
	w := newWorld(t)
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	w.net.ServeResolver(packets, l)
	q := dnsmessage.Message{Questions: []dnsmessage.Question{{
		Name: dnsmessage.MustNewName("a.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
	}}}
	query, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		before   []byte
		answered bool
	}{{"a query", nil, true}, {"behind something else", []byte("\x00\x03abc"), false}} {
		conn := w.dial(l.Addr().String())
		conn.Write(append(binary.BigEndian.AppendUint16(tt.before, uint16(len(query))), query...))
		conn.CloseWrite()
		if got, _ := io.ReadAll(conn); (len(got) > 0) != tt.answered {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
}

// TestSeveralEncodingsHideNoSecret: what is packed twice is not read as if it were packed once.
func TestSeveralEncodingsHideNoSecret(t *testing.T) {
	i := newIntercepted(t)
	i.serve("api.test", certificate(t, "api.test"), func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header()["Content-Encoding"] = []string{"gzip", "br"}
		z := gzip.NewWriter(rw)
		io.WriteString(z, "x")
		z.Close()
	})
	if code, body := get(t, i.programs(false), "https://api.test/"); code != http.StatusForbidden ||
		!strings.Contains(body, "in which a secret could not be seen") {
		t.Errorf("got %d %s", code, body)
	}
}

// TestPlain: a rule and the host read the same path, or there is none.
func TestPlain(t *testing.T) {
	for _, tt := range []struct{ in, want, err string }{
		{"https://a.test/a%2fb%7e?q=%7e", "https://a.test/a%2Fb~?q=%7e", ""},
		{"https://a.test/%61", "https://a.test/a", ""},
		{"https://a.test/x/%2e%2e/y", "", "the path has . or .. in it; write the path that it leads to"},
		{"https://a.test//x", "", "the path begins with //; begin it with one slash"},
		{"https://a.test/x%5cy", "", "the path has a control character or a backslash in it; leave it out"},
	} {
		u, err := url.Parse(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Plain(u)
		switch {
		case tt.err != "" && (err == nil || err.Error() != tt.err):
			t.Errorf("%s: got %v, want %s", tt.in, err, tt.err)
		case tt.err == "" && (err != nil || got.String() != tt.want):
			t.Errorf("%s: got %v, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

// TestOfThisMachine: the address that stands for any one leads to this machine too.
func TestOfThisMachine(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "0.0.0.0", "::1", "::"} {
		if !OfThisMachine(netip.MustParseAddr(a)) {
			t.Errorf("%s is of this machine", a)
		}
	}
}
