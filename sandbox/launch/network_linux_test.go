package launch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// fakeNetwork answers every connection with a line that names its call and its address. It
// wants all ports but 22.
type fakeNetwork struct {
	mu     sync.Mutex
	udp    []netip.AddrPort // guarded by mu: refused
	asked  []netip.AddrPort // guarded by mu
	own    []io.Closer      // guarded by mu
	served int              // guarded by mu
	open   int              // guarded by mu: services and listeners
	closed bool             // guarded by mu
}

func (n *fakeNetwork) serve(what io.Closer, f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open++
	n.own = append(n.own, what)
	go func() {
		f()
		n.mu.Lock()
		defer n.mu.Unlock()
		n.open--
	}()
}

// wait waits for a condition, which is called with n.mu held.
func (n *fakeNetwork) wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		n.mu.Lock()
		done := is()
		n.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come: %d services are open, closed %v", what, n.open, n.closed)
		}
	}
}

// ServeResolver answers every question with an address of [wire.Names] that is the length of
// the name.
func (n *fakeNetwork) ServeResolver(packets net.PacketConn, streams net.Listener) {
	n.serve(streams, func() { streams.Accept() })
	n.serve(packets, func() { answer(packets) })
}

func answer(packets net.PacketConn) {
	b := make([]byte, 1500)
	for {
		k, from, err := packets.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b[:k]) != nil || len(m.Questions) != 1 {
			continue
		}
		m.Response = true
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
				Body:   &dnsmessage.AResource{A: [4]byte{198, 18, 0, byte(len(q.Name.String()))}},
			}}
		}
		m.Additionals = nil
		answer, _ := m.Pack()
		packets.WriteTo(answer, from)
	}
}

func (n *fakeNetwork) ServeProxy(l net.Listener) { n.Serve(wire.Proxy, l) }

func (n *fakeNetwork) Serve(at netip.AddrPort, l net.Listener) {
	n.serve(l, func() { n.accept(l) })
}

func (n *fakeNetwork) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			n.mu.Lock()
			n.served++
			n.mu.Unlock()
			fmt.Fprintf(c, "call %d at %s\n", Mark(c.(*net.TCPConn)), c.LocalAddr())
			io.Copy(io.Discard, c)
		}()
	}
}

func (n *fakeNetwork) Wants(_ uint32, at netip.AddrPort) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, at)
	return at.Port() != 22
}

func (n *fakeNetwork) RefuseUDP(_ uint32, at netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.udp = append(n.udp, at)
}

func (n *fakeNetwork) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, c := range n.own {
		c.Close()
	}
}

// newNetwork returns a launcher with a way out, and how to run this test binary in it.
func newNetwork(t *testing.T) (*fakeNetwork, *Launcher, func(words ...string) (id uint64, out string)) {
	t.Helper()
	p := newPool(t)
	ws := t.TempDir()
	bin := filepath.Join(ws, "client")
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(bin, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := newConfig(t, t.Name(), ws)
	var tmpl wire.Template
	if err := json.Unmarshal(c.Template, &tmpl); err != nil {
		t.Fatal(err)
	}
	tmpl.Network, tmpl.AllowBind = true, true
	if c.Template, err = json.Marshal(tmpl); err != nil {
		t.Fatal(err)
	}
	n := &fakeNetwork{}
	c.Network = func() Network { return n }
	l, err := p.Get(t.Context(), t.Name(), c, Entry{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	if l.Network == nil {
		t.Fatalf("no way out: %s", l.NoNetwork)
	}
	return n, l, func(words ...string) (uint64, string) {
		t.Helper()
		return output(t, l, append([]string{bin, "-client"}, words...)...)
	}
}

// output runs a program and returns what it printed.
func output(t *testing.T, l *Launcher, argv ...string) (uint64, string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := script.Call{Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/"}
	c.Devices[0] = script.Device{Path: "/dev/null", Flags: unix.O_RDWR}
	slot, err := l.Enter(t.Context(), Entry{Room: c.Room()})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Begin(slot, script.Compile(slot.Slot, c), []*os.File{w, w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(r)
	reply, ok := <-slot.End
	if !ok || reply.Error != "" || reply.Failed.Op != 0 {
		t.Fatalf("%q: %+v %v\n%s", argv, reply, ok, out)
	}
	for _, d := range reply.Denied {
		out = fmt.Appendf(out, "denied: %s (%s)\n", d.Act, d.Layer)
	}
	return slot.Call, string(out)
}

// beClient is the program of the tests below.
func beClient(args []string) {
	line := func(c net.Conn, err error) string {
		if err != nil {
			var e syscall.Errno
			if errors.As(err, &e) {
				return unix.ErrnoName(e)
			}
			return err.Error()
		}
		defer c.Close()
		s, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			return "read: " + err.Error()
		}
		return strings.TrimSuffix(s, "\n")
	}
	switch args[0] {
	case "dial": // each, and says what came
		for _, at := range args[1:] {
			network, addr, ok := strings.Cut(at, "=")
			if !ok {
				network, addr = "tcp", at
			}
			c, err := net.DialTimeout(network, addr, 20*time.Second)
			if network == "udp" && err == nil {
				c.SetDeadline(time.Now().Add(time.Minute))
				c.Write([]byte("x"))
			}
			fmt.Println(line(c, err))
		}
	case "many": // addresses at once
		var wg sync.WaitGroup
		var mu sync.Mutex
		counts := map[string]int{}
		for i := range 200 {
			wg.Go(func() {
				got := line(net.DialTimeout("tcp", fmt.Sprintf("198.18.1.%d:443", i+1), 20*time.Second))
				got, _, _ = strings.Cut(got, " at ")
				mu.Lock()
				counts[got]++
				mu.Unlock()
			})
		}
		wg.Wait()
		fmt.Println(counts)
	case "bound": // bind first, also to an address of a name
		for _, from := range []string{"127.0.0.1:0", "198.19.0.7:0"} {
			local, _ := net.ResolveTCPAddr("tcp", from)
			d := net.Dialer{LocalAddr: local}
			fmt.Println(line(d.Dial("tcp", "198.18.0.9:443")))
		}
	case "fastopen":
		fmt.Println(line(net.Dial("tcp", "198.18.0.9:443"))) // now there is a listener
		s, _ := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		to := &unix.SockaddrInet4{Addr: [4]byte{198, 18, 0, 9}, Port: 443}
		fmt.Println(unix.Sendto(s, []byte("x"), unix.MSG_FASTOPEN, to))
		fmt.Println(unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1))
		fmt.Println(unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_MARK, 77))
	case "serve": // a port of its own on every address
		l, err := net.Listen("tcp4", "0.0.0.0:5432")
		fmt.Println(err)
		defer l.Close()
		fmt.Println(line(net.Dial("tcp", "198.18.0.9:5432")))
		_, err = net.Listen("tcp4", "198.18.0.9:443")
		fmt.Println(errors.Is(err, unix.EACCES))
	case "files":
		for _, f := range []string{"/etc/resolv.conf", "/etc/nsswitch.conf"} {
			b, _ := os.ReadFile(f)
			for l := range bytes.Lines(b) {
				if bytes.HasPrefix(l, []byte("nameserver")) || bytes.HasPrefix(l, []byte("hosts:")) {
					fmt.Print(string(l))
				}
			}
			fmt.Println(os.WriteFile(f, nil, 0o644) != nil)
		}
	}
	os.Exit(0)
}

func TestNetwork(t *testing.T) {
	n, l, client := newNetwork(t)
	t.Run("names", func(t *testing.T) {
		id, out := client("dial", "db.example:443", "[::ffff:198.18.0.77]:80", "127.0.0.1:3128", "0.0.0.0:3128")
		want := fmt.Sprintf("call %d at 198.18.0.11:443\ncall %d at 198.18.0.77:80\ncall %d at 127.0.0.1:3128\n"+
			"call %d at 127.0.0.1:3128\n", id, id, id, id)
		if out != want {
			t.Errorf("got %q, want %q", out, want)
		}
		_, out = output(t, l, "getent", "ahosts", "libc.example")
		if !strings.HasPrefix(out, "198.18.0.13 ") || strings.Contains(out, "denied") {
			t.Errorf("the C library: %q", out)
		}
	})
	t.Run("other addresses", func(t *testing.T) {
		_, out := client("dial", "198.18.0.9:22", "192.0.2.1:443", "198.17.255.255:80", "198.20.0.1:80",
			"udp=198.18.0.9:443", "udp=192.0.2.1:53", "127.0.0.1:9", "ip4:1=198.18.0.9")
		want := "ECONNREFUSED\nENETUNREACH\nENETUNREACH\nENETUNREACH\nECONNREFUSED\nENETUNREACH\nECONNREFUSED\nEPERM\n"
		if !strings.HasPrefix(out, want+
			"denied: connect 192.0.2.1:443 (netns)\ndenied: connect 198.17.255.255:80 (netns)\n"+
			"denied: connect 198.20.0.1:80 (netns)\ndenied: connect 192.0.2.1:53 (netns)\n") {
			t.Errorf("got %q", out)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.udp) != 1 || n.udp[0] != netip.MustParseAddrPort("198.18.0.9:443") { // and none of the C library
			t.Errorf("refused UDP to %v", n.udp)
		}
	})
	t.Run("bound first", func(t *testing.T) {
		id, out := client("bound")
		if want := fmt.Sprintf("call %d at 198.18.0.9:443\n", id); out != want+want {
			t.Errorf("got %q", out)
		}
	})
	t.Run("without connect", func(t *testing.T) {
		id, out := client("fastopen")
		if want := fmt.Sprintf("call %d at 198.18.0.9:443\noperation not supported\noperation not supported\n"+
			"operation not permitted\n", id); out != want {
			t.Errorf("got %q", out)
		}
	})
	t.Run("a port that a program serves", func(t *testing.T) {
		_, out := client("serve")
		if !strings.HasPrefix(out, "<nil>\nECONNREFUSED\ntrue\n") || !strings.Contains(out,
			"denied: connect 198.18.0.9:5432, because a program of this session serves port 5432 (egress)\n") {
			t.Errorf("got %q", out)
		}
	})
	t.Run("files", func(t *testing.T) {
		_, out := client("files")
		for file, want := range map[string]string{
			"/etc/resolv.conf": "nameserver 127.0.0.1\ntrue\n", "/etc/nsswitch.conf": "hosts: files dns\ntrue\n",
		} {
			if _, err := os.Lstat(file); err == nil && !strings.Contains(out, want) { // else programs need none
				t.Errorf("%s: got %q", file, out)
			}
		}
	})
}

// TestNetworkTellsCallsApart: calls at once, to the same addresses.
func TestNetworkTellsCallsApart(t *testing.T) {
	n, l, client := newNetwork(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if id, out := client("many"); out != fmt.Sprintf("map[call %d:200]\n", id) {
				t.Errorf("call %d: %s", id, out)
			}
		})
	}
	wg.Wait()
	n.mu.Lock()
	if want := 200 + 3; n.open != want || n.served != 800 || n.closed {
		t.Errorf("%d services, want %d; %d connections; closed %v", n.open, want, n.served, n.closed)
	}
	n.mu.Unlock()
	l.Close()
	n.wait(t, "the end", func() bool { return n.open == 0 && n.closed })
}

// TestNetworkForgetsAddresses: there are so many listeners at most, whatever a program connects
// to, and an address that was given up is served again.
func TestNetworkForgetsAddresses(t *testing.T) {
	n, _, client := newNetwork(t)
	for range 2 {
		words, want := []string{"dial"}, ""
		for i := range 300 {
			words = append(words, fmt.Sprintf("198.18.2.%d:%d", i%100, 1000+i/100))
		}
		id, out := client(words...)
		for _, at := range words[1:] {
			want += fmt.Sprintf("call %d at %s\n", id, at)
		}
		if out != want {
			t.Fatalf("got %s", out)
		}
		n.wait(t, "few services", func() bool { return n.open <= 256+3 })
	}
}

// TestNetworkAsksOnce: an address that is served is not asked about again.
func TestNetworkAsksOnce(t *testing.T) {
	n, _, client := newNetwork(t)
	for range 3 {
		client("dial", "198.18.0.9:443", "198.18.0.9:80", "198.18.0.9:443", "198.18.0.9:22")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr("198.18.0.9"), port) }
	if want := []netip.AddrPort{at(443), at(80), at(22), at(22), at(22)}; !slices.Equal(n.asked, want) {
		t.Errorf("asked about %v, want %v", n.asked, want)
	}
}
