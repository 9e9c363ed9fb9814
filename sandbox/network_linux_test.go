package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestX09_ConnectionsOfPrograms: what the settings list is reached by its name and nothing
// else is, whatever a program uses to connect.
func TestX09_ConnectionsOfPrograms(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		w := newConnected(t)
		box := w.box(t)
		for _, tt := range []struct {
			word, want, rows string
		}{
			{"dial=tcp:db.test:5432", "hello from db.test", "db.test:5432 tcp transparent allow 1\n"},
			{"epoll=db.test:5432", "hello from db.test true <nil> true", "db.test:5432 tcp transparent allow 1\n"},
			{"half=db.test:5432", "sent <nil>", "db.test:5432 tcp transparent allow 1\n"},
			{"bound=db.test:5432,127.0.0.1:0", "hello from db.test", "db.test:5432 tcp transparent allow 1\n"},
			{"bound=db.test:5432,198.19.0.9:0", "hello from db.test", "db.test:5432 tcp transparent allow 1\n"},
			{"times=20,db.test:5432", "map[hello from db.test:20]", "db.test:5432 tcp transparent allow 20\n"},
			{"dial=tcp:db.test:22", "ECONNREFUSED", "db.test:22 tcp transparent deny 1\n"},
			{"dial=tcp:gone.test:5432", "ECONNRESET", "gone.test:5432 tcp transparent allow 1\n"},
			{"dial=tcp:evil.example:443", "no such host", "evil.example:0 dns transparent deny 1\n"},
			{"dial=tcp:198.18.77.77:443", "ECONNREFUSED", ""}, // an address that no name has
			{"dial=tcp:198.19.0.1:443", "ECONNREFUSED", ""},
			{"udp=db.test:443", "ECONNREFUSED", "db.test:443 udp transparent deny 1\n"},
			{"udp=db.test:5432", "ECONNREFUSED", "db.test:5432 udp transparent deny 1\n"}, // where TCP is served
			{"udp=127.0.0.1:3128", "ECONNREFUSED", ""},
			{"lookup=txt,db.test", "no such host", "db.test:0 dns transparent deny 1\n"},
			{"lookup=txt,evil.example", "no such host", "evil.example:0 dns transparent deny 1\n"},
			{"udp=192.0.2.1:53", "ENETUNREACH", ""},
			{"dial=tcp:192.0.2.1:443", "ENETUNREACH", ""},
			{"dial=tcp:[2001:db8::1]:443", "ENETUNREACH", ""},
			{"addrs=localhost.localhost", "[127.0.0.1] <nil>", ""},
			{"raw=", "operation not permitted\npermission denied", ""},
		} {
			e, out := runIn(t, box, w.ws, "./try", "-connect", tt.word)
			if strings.TrimSpace(out) != tt.want || rows(e.Network) != tt.rows {
				t.Errorf("%s: got %q, want %q; rows %q, want %q; %v", tt.word, out, tt.want, rows(e.Network), tt.rows, e.Denials)
			}
			told := fmt.Sprint(e.Denials)
			if literal := strings.Contains(tt.want, "ENETUNREACH"); strings.Contains(told, "netns") != literal {
				t.Errorf("%s: told %s", tt.word, told)
			}
		}
		w.empty(t)
		if got := rows(box.Ledger()); !strings.HasPrefix(got, "db.test:5432 tcp transparent allow 25\ndb.test:22 tcp") {
			t.Errorf("the box: %q", got)
		}
	})
}

// TestX09_NamesUnderAListOfReadablePaths: the files by which names are looked up can be read.
func TestX09_NamesUnderAListOfReadablePaths(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		w := newConnected(t)
		w.s.AllowedReadPaths = []string{w.ws}
		_, out := runIn(t, w.box(t), w.ws, "sh", "-c", // ahostsv4 asks for addresses of the kind that there are
			"getent ahostsv4 db.test | head -1; cat /etc/resolv.conf; ./try -connect dial=tcp:db.test:5432")
		if !strings.HasPrefix(out, "198.18.") || !strings.HasSuffix(out, "\nhello from db.test\n") {
			t.Errorf("got %q", out)
		}
	})
}

// TestX09_ConnectionsOfOthers: programs of another user than the daemon's, with a user namespace
// and without one.
func TestX09_ConnectionsOfOthers(t *testing.T) {
	if os.Getuid() != 0 {
		needs.Elsewhere(t, "only root runs programs as others here")
	}
	for name, o := range map[string]Options{"user namespace": {}, "none": {NoUserns: true}} {
		t.Run(name, func(t *testing.T) {
			w := newConnected(t)
			w.cage = newCage(t, o)
			needCage(t, w.cage)
			if err := os.Chmod(w.ws, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, box := range []Box{w.box(t), w.box(t).As(alice())} {
				e, out := runIn(t, box, w.ws, "./try", "-connect", "dial=tcp:db.test:5432", "dial=tcp:db.test:22")
				if out != "hello from db.test\nECONNREFUSED\n" ||
					rows(e.Network) != "db.test:5432 tcp transparent allow 1\ndb.test:22 tcp transparent deny 1\n" {
					t.Errorf("got %q, %+v, %v", out, e.Network, box.Report().Missing)
				}
			}
		})
	}
}

// TestX09_CallsAreToldApart: calls that run at once share the network of their session, and
// each has its own connections in its ledger.
func TestX09_CallsAreToldApart(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		w := newConnected(t)
		box := w.box(t)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				name := fmt.Sprintf("n%d.test", i)
				e, out := runIn(t, box, w.ws, "./try", "-connect", fmt.Sprintf("times=%d,db.test:5432", 10+i),
					"dial=tcp:"+name+":22")
				want := fmt.Sprintf("db.test:5432 tcp transparent allow %d\n%s:22 tcp transparent deny 1\n", 10+i, name)
				if got := rows(e.Network); got != want {
					t.Errorf("call %d: %q, want %q\n%s", i, got, want, out)
				}
			})
		}
		wg.Wait()
	})
}

// TestX09_WithoutHostsThereIsNoWayOut: settings that reach nothing have no resolver, no
// address of a name, and the files of the host.
func TestX09_WithoutHostsThereIsNoWayOut(t *testing.T) {
	w := newConnected(t)
	w.s.Network.AllowedDomains = []string{}
	box := w.box(t)
	e, out := runIn(t, box, w.ws, "./try", "-connect", "dial=tcp:198.18.0.9:443", "dial=tcp:127.0.0.1:3128")
	if out != "ENETUNREACH\nECONNREFUSED\n" || !strings.Contains(fmt.Sprint(e.Denials), "connect 198.18.0.9:443 netns") {
		t.Errorf("got %q, %v", out, e.Denials)
	}
	want, _ := os.ReadFile("/etc/nsswitch.conf")
	if _, got := runIn(t, box, w.ws, "cat", "/etc/nsswitch.conf"); len(want) > 0 && got != string(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestX09_AJudgeDecides: about each host and port, and it can stop the clock of the call.
func TestX09_AJudgeDecides(t *testing.T) {
	w := newConnected(t)
	var mu sync.Mutex
	var judged []egress.Connection
	stood := 0
	var call *proc
	started := make(chan struct{})
	judge := func(ctx context.Context, c egress.Connection) egress.Verdict {
		resume := egress.Pause(ctx)
		defer resume()
		<-started
		mu.Lock()
		defer mu.Unlock()
		call.clock.mu.Lock()
		stood += call.clock.paused
		call.clock.mu.Unlock()
		judged = append(judged, c)
		return egress.Verdict{Allow: c.Host == "db.test", Rule: "person"}
	}
	box := w.box(t).Judged(judge)
	var out bytes.Buffer
	p, err := box.Start(t.Context(), Spec{
		Argv: []string{"./try", "-connect", "dial=tcp:db.test:5432", "dial=tcp:other.test:5432"}, Dir: w.ws, Stdout: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	call = p.(*proc)
	close(started)
	e, err := p.Wait()
	mu.Lock()
	defer mu.Unlock()
	if err != nil || out.String() != "hello from db.test\nECONNRESET\n" || stood != 2 || len(judged) != 2 ||
		rows(e.Network) != "db.test:5432 tcp transparent allow 1\nother.test:5432 tcp transparent deny 1\n" {
		t.Errorf("got %q, %+v, %v; judged %v; the clock stood %d times", &out, e, err, judged, stood)
	}
}

// TestClockStandsStill: the time of a call passes only while nobody is asked.
func TestClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := newClock(), time.Now()
		early := c.Pause() // before the program runs
		var over time.Duration
		c.start(10*time.Second, func() { over = time.Since(began) })
		time.Sleep(time.Minute)
		early()
		time.Sleep(4 * time.Second)
		one, two := c.Pause(), c.Pause()
		time.Sleep(time.Hour)
		one()
		one() // counts once
		time.Sleep(time.Hour)
		two()
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := time.Minute + 2*time.Hour + 10*time.Second; over != want {
			t.Errorf("it was over after %v, want %v", over, want)
		}
		newClock().stop() // without a limit none is started
		d := newClock()
		d.start(time.Second, func() { t.Error("a stopped clock ended a call") })
		resume := d.Pause()
		d.stop()
		resume()
		time.Sleep(time.Hour)
	})
}

// TestX09_CancelEndsConnections: in each state of a connection.
func TestX09_CancelEndsConnections(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		w := newConnected(t)
		asked := make(chan struct{}, 1)
		judge := func(ctx context.Context, c egress.Connection) egress.Verdict {
			if c.Host != "wait.test" {
				return egress.Verdict{Allow: true}
			}
			asked <- struct{}{}
			<-ctx.Done() // a person is asked, who never answers
			return egress.Verdict{Allow: true}
		}
		box := w.box(t).Judged(judge)
		for _, tt := range []struct{ word, line string }{
			{"hold=db.test:5432", "held"},
			{"dial=tcp:wait.test:5432", ""},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			r, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			p, err := box.Start(ctx, Spec{Argv: []string{"./try", "-connect", tt.word, "stay="}, Dir: w.ws, Stdout: out})
			if err != nil {
				t.Fatal(err)
			}
			out.Close()
			if tt.line == "" {
				<-asked
			} else if s, err := bufio.NewReader(r).ReadString('\n'); s != tt.line+"\n" {
				t.Errorf("%s: %q, %v", tt.word, s, err)
			}
			cancel()
			e, err := p.Wait()
			r.Close()
			if err != nil || e.Signal != "SIGKILL" {
				t.Errorf("%s: %+v, %v", tt.word, e, err)
			}
			w.empty(t)
		}
	})
}

// TestX09_ManyConnections: a thousand at once.
func TestX09_ManyConnections(t *testing.T) {
	w := newConnected(t)
	w.s.Limits.NetworkConnections = 2000
	e, out := runIn(t, w.box(t), w.ws, "./try", "-connect", "atonce=1000,db.test:5432")
	if out != "1000 0 1000\n" || rows(e.Network) != "db.test:5432 tcp transparent allow 1000\n" {
		t.Errorf("got %q, %+v", out, e.Network)
	}
	w.empty(t)
}

// TestX09_DescriptorsComeBack: after many calls with connections the daemon has as many as
// before.
func TestX09_DescriptorsComeBack(t *testing.T) {
	w := newConnected(t)
	box := w.box(t)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	run := func() {
		if _, out := runIn(t, box, w.ws, "./try", "-connect", "times=3,db.test:5432", "dial=tcp:db.test:22"); out !=
			"map[hello from db.test:3]\nECONNREFUSED\n" {
			t.Fatal(out)
		}
	}
	for range 3 {
		run()
	}
	w.empty(t)
	before := count()
	for range 60 {
		run()
	}
	w.empty(t)
	const spare = 4 // slots that wait
	for deadline := time.Now().Add(time.Minute); count() > before+spare; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors, before %d", count(), before)
		}
	}
}

// listeners is how many sockets of this process listen at a port, in whatever network.
func listeners(t *testing.T, port int) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		if err != nil || listens == 0 {
			continue
		}
		if at, err := unix.Getsockname(fd); err == nil {
			if at, ok := at.(*unix.SockaddrInet4); ok && at.Port == port {
				n++
			}
		}
	}
	return n
}

// TestX09_ManyHosts: the daemon listens at each address of a session while it lasts, up to a bound; hosts beyond it
// are reached as the others are.
func TestX09_ManyHosts(t *testing.T) {
	const hosts, bound, port = 400, 256, 5432
	w := newConnected(t)
	for i := range hosts {
		w.hosts[fmt.Sprintf("h%d.test", i)] = w.hosts["db.test"]
	}
	box := w.box(t)
	if _, out := runIn(t, box, w.ws, "./try", "-connect", fmt.Sprintf("hosts=%d,%d", hosts, port), "dial=tcp:h0.test:5432"); out !=
		fmt.Sprintf("map[hello from db.test:%d]\nhello from db.test\n", hosts) {
		t.Fatalf("got %q", out)
	}
	w.empty(t)
	// Those of a test before this one close late.
	for deadline := time.Now().Add(time.Minute); listeners(t, port) > bound; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the daemon listens at %d addresses, want %d at most", listeners(t, port), bound)
		}
	}
	if got := listeners(t, port); got < bound/2 {
		t.Errorf("the daemon listens at %d addresses: what does the test count?", got)
	}
}

// TestX09_NamesOfAnEarlierLauncher: a program gets the same address for a name again, and one
// that was never given leads nowhere.
func TestX09_NamesOfAnEarlierLauncher(t *testing.T) {
	w := newConnected(t)
	var first string
	for i := range 2 {
		box := w.box(t)
		_, out := runIn(t, box, w.ws, "./try", "-connect", "addrs=db.test")
		if i > 0 && out != first {
			t.Errorf("got %q, before %q", out, first)
		}
		first = out
		addr, _, _ := strings.Cut(strings.TrimPrefix(out, "["), "]")
		if err := w.cage.Forget(t.Name()); err != nil {
			t.Fatal(err)
		}
		e, out := runIn(t, w.box(t), w.ws, "./try", "-connect", "dial=tcp:"+addr+":5432")
		if out != "ECONNREFUSED\n" || len(e.Network.Connections) != 0 {
			t.Errorf("a stale address: %q, %+v", out, e.Network)
		}
		if err := w.cage.Forget(t.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestX12_DialIsJudged: a tool reaches what programs reach, and nothing else.
func TestX12_DialIsJudged(t *testing.T) {
	w := newConnected(t)
	box := w.box(t)
	c, err := box.Dial(t.Context(), egress.Connection{Host: "db.test", Port: 5432, Protocol: egress.ProtocolTCP, Via: egress.ViaFetch})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := bufio.NewReader(c).ReadString('\n'); s != "hello from db.test\n" {
		t.Errorf("%q, %v", s, err)
	}
	_, err = box.Dial(t.Context(), egress.Connection{Host: "evil.example", Port: 443, Protocol: egress.ProtocolTLS, Via: egress.ViaFetch})
	var refused *egress.RefusedError
	if !errors.As(err, &refused) || refused.Verdict.Rule != "network.allowedDomains" || refused.Verdict.Reason == "" {
		t.Errorf("got %v", err)
	}
	if got, want := rows(box.Ledger()), "db.test:5432 tcp fetch allow 1\nevil.example:443 tls fetch deny 1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.empty(t)
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := box.Dial(t.Context(), egress.Connection{Host: "db.test", Port: 5432}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestX09_WithoutNamespacesItIsReported: there is no way out, and the report says so.
func TestX09_WithoutNamespacesItIsReported(t *testing.T) {
	w := newConnected(t)
	cage := newCage(t, Options{NoNamespaces: true})
	needCage(t, cage)
	box := newBox(t, cage, "strict", w.s)
	var out bytes.Buffer
	runSpec(t, box, Spec{Argv: []string{"./try", "-connect", "dial=tcp:192.0.2.1:443"}, Dir: w.ws, Stdout: &out})
	if missing := strings.Join(box.Report().Missing, "\n"); !strings.Contains(missing, "\negress: ") {
		t.Errorf("missing %q; %s", missing, &out)
	}
}

// A JVM trusts whom other programs trust: the authorities of the host, and that of the session.
func TestAJVMTrustsTheSame(t *testing.T) {
	w := newConnected(t)
	w.s.Network.Intercept = []string{"db.test"}
	_, out := runIn(t, w.box(t), w.ws, "sh", "-c", "grep -c 'BEGIN CERTIFICATE' $SSL_CERT_FILE; od -An -tu1 -j8 -N4 "+
		wire.JavaTrustFile)
	var files, a, b, c, d int
	if _, err := fmt.Sscan(out, &files, &a, &b, &c, &d); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	host, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		needs.Missing(t, "the authorities of the host: %v", err)
	}
	want := strings.Count(string(host), "BEGIN CERTIFICATE") + 1
	if store := a<<24 | b<<16 | c<<8 | d; files != want || store != want || want < 2 {
		t.Errorf("programs trust %d authorities, JVMs %d; want %d", files, store, want)
	}
}

// TestAnOldAuthorityIsReplaced: calls that begin then trust another one, and their hosts are
// signed for by it.
func TestAnOldAuthorityIsReplaced(t *testing.T) {
	w := newConnected(t)
	w.s.Network.Intercept = []string{"db.test"}
	b := w.box(t)
	trusted := func() string {
		t.Helper()
		_, out := runIn(t, b, w.ws, "sh", "-c", "cat $SSL_CERT_FILE")
		if !strings.Contains(out, "BEGIN CERTIFICATE") {
			t.Fatalf("a program trusts %q", out)
		}
		return out
	}
	first := trusted()
	if again := trusted(); again != first {
		t.Error("each call has another authority")
	}
	p := b.(*box).prepared
	var old *egress.Authority
	synctest.Test(t, func(t *testing.T) { // there it is the year 2000
		var err error
		if old, err = egress.NewAuthority(w.s.Network); err != nil {
			t.Fatal(err)
		}
		for show, r := range p.roots {
			r.authority = old
			p.roots[show] = r
		}
		p.authority = old
	})
	if next := trusted(); next == first || strings.Contains(next, old.PEM()) {
		t.Error("an old authority is still trusted")
	}
}
