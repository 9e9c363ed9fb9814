package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/time/rate"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
)

func TestX13_AddressesThatALookUpMayNotLeadTo(t *testing.T) {
	for address, want := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "172.15.255.255": "", "172.32.0.0": "", "100.63.255.255": "", "100.128.0.0": "",
		"198.17.255.255": "", "198.20.0.0": "", "223.255.255.255": "", "192.0.1.0": "",
		"2606:4700::1111": "", "2a00:1450::1": "", "2001:4860::8888": "",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "127.0.0.1": "loopback", "127.255.255.254": "loopback",
		"10.0.0.1": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private",
		"100.64.0.1": "provider", "169.254.169.254": "link-local", "192.0.0.1": "reserved", "192.0.2.1": "documents",
		"192.88.99.1": "6to4 relay", "198.18.0.1": "benchmarks", "198.19.255.255": "benchmarks",
		"198.51.100.7": "documents", "203.0.113.7": "documents", "224.0.0.1": "multicast", "239.1.1.1": "multicast",
		"240.0.0.1": "reserved", "255.255.255.255": "reserved",
		"::": "unspecified", "::1": "loopback", "fc00::1": "private", "fdff::1": "private", "fe80::1": "link-local",
		"fe80::1%eth0": "link-local", "fec0::1": "reserved", "ff02::1": "multicast", "2001:db8::1": "documents",
		"2001::1": "reserved", "2001:10::1": "reserved", "3fff::1": "documents", "4000::1": "reserved", "100::1": "reserved",
		"5f00::1": "reserved", "64:ff9b:1::808:808": "reserved",
		"::ffff:10.0.0.1": "private", "::ffff:127.0.0.1": "loopback", "::ffff:8.8.8.8": "",
		"::127.0.0.1": "reserved", "::8.8.8.8": "reserved",
		"64:ff9b::10.0.0.1": "private", "64:ff9b::7f00:1": "loopback", "64:ff9b::8.8.8.8": "",
		"2002:a00:1::1": "private", "2002:7f00:1::": "loopback", "2002:808:808::1": "",
		"2a00::5efe:10.0.0.1": "private", "2a00::200:5efe:127.0.0.1": "loopback", "2a00::5efe:8.8.8.8": "",
	} {
		got := refusedAddress(netip.MustParseAddr(address))
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
	if refusedAddress(netip.Addr{}) == "" {
		t.Error("no address is taken")
	}
}

// resolverAt answers each query with what answers gives for the how-manieth it is.
func resolverAt(tb testing.TB, answers func(name string, n int) []string) *net.Resolver {
	tb.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { packets.Close() })
	var asked atomic.Int64
	go func() {
		for query := make([]byte, 1500); ; {
			size, from, err := packets.ReadFrom(query)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(query[:size]) != nil {
				continue
			}
			m.Response, m.Authoritative, m.Additionals = true, true, nil
			if m.Questions[0].Type == dnsmessage.TypeA {
				list := answers(m.Questions[0].Name.String(), int(asked.Add(1)))
				if list == nil {
					continue // never answers
				}
				if len(list) == 0 {
					m.RCode = dnsmessage.RCodeNameError
				}
				for _, a := range list {
					m.Answers = append(m.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
						Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
					})
				}
			}
			if packed, err := m.Pack(); err == nil {
				packets.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", packets.LocalAddr().String())
	}}
}

func TestX13_ANameThatLeadsInside(t *testing.T) {
	l := listen(t)
	asked := make(chan string, 1)
	d := &Dialer{Timeout: 10 * time.Second, Resolver: resolverAt(t, func(name string, _ int) []string {
		asked <- name
		return []string{"127.0.0.1", "10.1.2.3", "169.254.169.254"}
	})}
	_, err := d.Dial(t.Context(), guard.Network{}, "a.test", int(addrPort(l).Port()))
	var wrong *AddressError
	if !errors.As(err, &wrong) || wrong.Host != "a.test" || wrong.What != "a loopback address" {
		t.Errorf("got %v", err)
	}
	if name := <-asked; name != "a.test." {
		t.Errorf("asked for %q", name)
	}
	l.(*net.TCPListener).SetDeadline(time.Now())
	if conn, err := l.Accept(); err == nil {
		conn.Close()
		t.Error("a connection was made")
	}
}

// What was looked up is what is dialled: a second answer is never asked for.
func TestX13_AnAddressThatChanges(t *testing.T) {
	own := ownAddress(t)
	l, err := net.Listen("tcp", own.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &Dialer{Resolver: resolverAt(t, func(_ string, n int) []string {
		if n == 1 {
			return []string{"192.0.2.1"}
		}
		return []string{own.String()}
	})}
	_, err = d.Dial(t.Context(), guard.Network{}, "a.test", int(addrPort(l).Port()))
	var wrong *AddressError
	if !errors.As(err, &wrong) || wrong.Address.String() != "192.0.2.1" {
		t.Errorf("got %v", err)
	}
}

// ownAddress is one that this machine has beside its loopback; else the loopback's.
func ownAddress(tb testing.TB) netip.Addr {
	tb.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		tb.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			return p.Addr()
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

func TestX13_ThisMachineIsRefused(t *testing.T) {
	if own := ownAddress(t); !OfThisMachine(own) {
		t.Errorf("%s is of this machine", own)
	}
	for _, other := range []string{"8.8.8.8", "2606:4700::1111"} {
		if OfThisMachine(netip.MustParseAddr(other)) {
			t.Errorf("%s is not of this machine", other)
		}
	}
}

func TestX13_HostsNameAPrivateAddressOnPurpose(t *testing.T) {
	l := listen(t)
	at := addrPort(l)
	n := guard.Network{Hosts: map[string]string{"a.test": at.String(), "b.test": "127.0.0.1"}}
	d := &Dialer{}
	conn, err := d.Dial(t.Context(), n, "a.test", 443)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if conn, err = d.Dial(t.Context(), n, "b.test", int(at.Port())); err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// A host that has only an address of IPv6: programs still reach it by an address of IPv4.
func TestUpstreamOfIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		needs.Missing(t, "no IPv6 on the loopback: %v", err)
	}
	defer l.Close()
	w := newWorld(t)
	w.host("six.test", l.Addr().String())
	conn := w.connect("six.test", 5432)
	up, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	io.WriteString(up, "x")
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if row := one(t, w.call.End()); row.Address != l.Addr().String() {
		t.Errorf("got %+v", row)
	}
}

// The connections that the daemon makes for a call count among those of the call.
func TestDialHasTheLimitOfTheCall(t *testing.T) {
	w := newWorld(t, func(o *CallOptions) { o.Limits.Connections = 2 })
	l := w.server("direct.test", func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	host, port := "direct.test", int(addrPort(l).Port())
	dial := func() (net.Conn, error) {
		return w.call.Dial(t.Context(), Connection{Host: host, Port: port, Protocol: ProtocolTLS})
	}
	var open []net.Conn
	for range 2 {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	if _, err := dial(); err == nil || !strings.Contains(err.Error(), tooMany.Reason) {
		t.Errorf("a third connection: %v", err)
	}
	open[0].Close()
	if c, err := dial(); err != nil {
		t.Errorf("after one was closed: %v", err)
	} else {
		c.Close()
	}
}

func TestDialTakesNames(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "8.8.8.8", "::1"} {
		if _, err := (&Dialer{}).Dial(t.Context(), guard.Network{}, host, 80); err == nil ||
			!strings.Contains(err.Error(), "literal") {
			t.Errorf("%s: got %v", host, err)
		}
	}
}

// A resolver that never answers, and one that says that there is no such name.
func TestResolverOfTheHostFails(t *testing.T) {
	w := newWorld(t)
	for name, answer := range map[string]struct {
		list    []string
		timeout time.Duration
	}{
		"look-up: ": {nil, 50 * time.Millisecond},
		"such host": {[]string{}, 2 * time.Minute},
	} {
		w.dialer.Timeout, w.dialer.Resolver = answer.timeout, resolverAt(t, func(string, int) []string { return answer.list })
		call, _ := w.begin()
		_, err := call.Dial(t.Context(), Connection{Host: "gone.test", Port: 443, Protocol: ProtocolTLS})
		row := one(t, call.End())
		if err == nil || row.Verdict != Allowed || !strings.Contains(row.Reason, name) ||
			strings.Contains(row.Reason, "127.0.0.1") {
			t.Errorf("got %v, %+v, want %q", err, row, name)
		}
	}
}

func addrPort(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }

func TestLookUps(t *testing.T) {
	w := newWorld(t, func(o *CallOptions) {
		o.Network = guard.Network{
			AllowedDomains: []string{"a.test", "db.test:5432", "*.wild.test", "single"}, DeniedDomains: []string{"no.wild.test"},
		}
	})
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	streams := listen(t)
	w.net.ServeResolver(packets, streams)
	udp := func(query []byte) []byte {
		conn, err := net.Dial("udp", packets.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		conn.Write(query)
		answer := make([]byte, 1500)
		n, err := conn.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		return answer[:n]
	}
	stream := w.dial(streams.Addr().String())
	tcp := func(query []byte) []byte {
		stream.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...))
		size := make([]byte, 2)
		if _, err := io.ReadFull(stream, size); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, binary.BigEndian.Uint16(size))
		if _, err := io.ReadFull(stream, answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	const none, synthetic = "", "198.18."
	for _, tt := range []struct {
		name string
		kind dnsmessage.Type
		code dnsmessage.RCode
		want string
	}{
		{"a.test.", dnsmessage.TypeA, 0, synthetic},
		{"A.Test.", dnsmessage.TypeA, 0, synthetic},
		{"a.test.", dnsmessage.TypeALL, 0, synthetic},
		{"a.test.", dnsmessage.TypeAAAA, 0, none},
		{"a.test.", dnsmessage.TypeHTTPS, 0, none},
		{"a.test.", dnsmessage.TypeTXT, 0, none},
		{"db.test.", dnsmessage.TypeA, 0, synthetic},
		{"x.y.wild.test.", dnsmessage.TypeA, 0, synthetic},
		{"single.", dnsmessage.TypeA, 0, synthetic},
		{"wild.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, none},
		{"no.wild.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, none},
		{"b.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, none},
		{"b.test.", dnsmessage.TypeTXT, dnsmessage.RCodeNameError, none},
		{"_x.wild.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, none},
		{"127.1.", dnsmessage.TypeA, dnsmessage.RCodeNameError, none},
		{"1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, none},
		{".", dnsmessage.TypeA, dnsmessage.RCodeNameError, none},
		{"localhost.", dnsmessage.TypeA, 0, "127.0.0.1"},
		{"x.localhost.", dnsmessage.TypeA, 0, "127.0.0.1"},
		{"sandbox.", dnsmessage.TypeA, 0, "127.0.0.1"},
		{"localhost.", dnsmessage.TypeAAAA, 0, none},
	} {
		for how, ask := range map[string]func([]byte) []byte{"udp": udp, "tcp": tcp} {
			m := answerTo(t, ask, tt.name, tt.kind, dnsmessage.ClassINET)
			got := ""
			if len(m.Answers) == 1 {
				a := m.Answers[0].Body.(*dnsmessage.AResource).A
				got = netip.AddrFrom4(a).String()
			}
			if m.RCode != tt.code || (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) ||
				m.Questions[0].Name.String() != tt.name {
				t.Errorf("%s: %s %v: got %v %q for %s, want %v %q", how, tt.name, tt.kind, m.RCode, got, m.Questions[0].Name,
					tt.code, tt.want)
			}
		}
	}
	if m := answerTo(t, udp, "version.bind.", dnsmessage.TypeTXT, dnsmessage.ClassCHAOS); m.RCode != dnsmessage.RCodeRefused {
		t.Errorf("got %v", m.RCode)
	}
	for name, change := range map[string]func(*dnsmessage.Message){
		"not implemented": func(m *dnsmessage.Message) { m.OpCode = 5 },
		"format error":    func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) },
		"no question":     func(m *dnsmessage.Message) { m.Questions = nil },
		"an answer":       func(m *dnsmessage.Message) { m.Response = true },
	} {
		q := dnsmessage.Message{Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName("a.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
		}}}
		change(&q)
		query, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		answer := w.net.answer(query, 0)
		var m dnsmessage.Message
		if err := m.Unpack(answer); (name == "an answer") != (answer == nil) || err == nil && (m.RCode == 0 || len(m.Answers) > 0) {
			t.Errorf("%s: got %+v", name, m)
		}
	}
	refused := ""
	for _, r := range w.call.End().Connections {
		if r.Verdict != Denied || r.Protocol != ProtocolDNS || r.Port != 0 || r.Rule == "" {
			t.Errorf("got %+v", r)
		}
		refused += fmt.Sprintf("%s: %s, %d; ", r.Host, r.Rule, r.Count)
	}
	for _, want := range []string{ // by UDP and by TCP
		"a.test: network, 2", "b.test: network.allowedDomains, 4", "no.wild.test: network.deniedDomains: no.wild.test, 2",
		"_x.wild.test: network, 2",
	} {
		if !strings.Contains(refused, want) {
			t.Errorf("got %s, want %s", refused, want)
		}
	}
	if m := answerTo(t, udp, "a.test.", dnsmessage.TypeA, dnsmessage.ClassINET); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("no call runs, and the answer is %v", m.RCode)
	}
}

func answerTo(
	tb testing.TB, ask func([]byte) []byte, name string, kind dnsmessage.Type, class dnsmessage.Class,
) dnsmessage.Message {
	tb.Helper()
	q := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: class}},
	}
	query, err := q.Pack()
	if err != nil {
		tb.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(ask(query)); err != nil {
		tb.Fatal(err)
	}
	if m.ID != 7 || !m.Response {
		tb.Errorf("got %+v", m.Header)
	}
	return m
}

// TestLookUpsHaveAPace: who floods the resolver gets no answer, and does not keep it from closing.
func TestLookUpsHaveAPace(t *testing.T) {
	w := newWorld(t)
	if got := w.net.paced.Limit(); got != 2000 {
		t.Errorf("%v look-ups a second, want 2000", got)
	}
	w.net.paced = rate.NewLimiter(rate.Every(time.Hour), 3)
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.net.ServeResolver(packets, listen(t))
	conn, err := net.Dial("udp", packets.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 4 {
		q := dnsmessage.Message{Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName("a.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
		}}}
		query, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(query)
		conn.SetReadDeadline(time.Now().Add([]time.Duration{10 * time.Second, 100 * time.Millisecond}[i/3]))
		if _, err := conn.Read(make([]byte, 512)); (err == nil) != (i < 3) {
			t.Errorf("look-up %d: %v", i, err)
		}
	}
	w.net.Close()
}

// Under ask every name that could be one gets an address: the question comes when something
// connects.
func TestLookUpsWhenAPersonIsAsked(t *testing.T) {
	w := newWorld(t, func(o *CallOptions) {
		o.Network = guard.Network{Unlisted: guard.UnlistedAsk, DeniedDomains: []string{"evil.test"}}
	})
	for name, want := range map[string]dnsmessage.RCode{
		"any.example": 0, "1.0.18.198.in-addr.arpa": dnsmessage.RCodeNameError, "evil.test": dnsmessage.RCodeNameError, "typo": dnsmessage.RCodeNameError,
		"a..b": dnsmessage.RCodeNameError, "a b.c": dnsmessage.RCodeNameError, "a\x00.test": dnsmessage.RCodeNameError,
		strings.Repeat("a", 64) + ".test": dnsmessage.RCodeNameError,
	} {
		if _, code := w.net.resolve(name, dnsmessage.TypeA, 0); code != want {
			t.Errorf("%q: got %v, want %v", name, code, want)
		}
	}
}

func TestAddressesAreNeverReused(t *testing.T) {
	n := newNames()
	seen := map[netip.Addr]string{}
	for i := range 16_384 {
		name := "h" + string(rune('a'+i%26)) + "-" + netip.AddrFrom4([4]byte{0, 0, byte(i >> 8), byte(i)}).String() + ".test"
		a, ok := n.address(name)
		if !ok || seen[a] != "" || !netip.MustParsePrefix("198.18.0.0/16").Contains(a) || a.As4()[3] == 0 || a.As4()[3] == 255 {
			t.Fatalf("%s: got %s, %v, that of %q", name, a, ok, seen[a])
		}
		seen[a] = name
	}
	if a, ok := n.address("one.more"); ok {
		t.Errorf("got %s", a)
	}
	for a, name := range seen {
		if again, ok := n.address(name); !ok || again != a {
			t.Fatalf("%s: got %s, want %s", name, again, a)
		}
		if got, ok := n.name(a); !ok || got != name {
			t.Fatalf("%s: got %s, want %s", a, got, name)
		}
	}
}
