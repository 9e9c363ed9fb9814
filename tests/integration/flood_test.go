package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// Why floods are in make long alone.
const (
	tried = "tests/attack floods so in the gate"
	costs = "seconds of processor time"
)

// floodBytes is what all agents of these tests have together.
const floodBytes = 64 << 20

// mostBytes is what the daemon may take then, whatever they send: 256 MiB. That is measured in
// make long. Beside other tests the collector comes late, so the gate holds the daemon to its own
// count, and the kernel's to twice as much.
func mostBytes() int64 {
	if tier.IsLong() {
		return 256 << 20
	}
	return 512 << 20
}

// flood is what alice does to a daemon that bob and an operator use too.
type flood struct {
	name   string
	long   string         // why make long is enough
	before func(*flooded) // done in peace
	run    func(*flooded) // returns when the flood is at its height, or over
	fits   bool           // it takes little, so that nothing of it is refused
}

// flooded is the daemon while the flood lasts.
type flooded struct {
	*running
	alice   *caller
	session string
	ended   func(func()) // to be done when the flood is over
}

// Under every flood the daemon takes little memory, bob and the operator are answered, and
// what ran is in the record and in its variable.
func TestFloods(t *testing.T) {
	needs.Root(t, "to call as other users")
	for _, f := range append(floods(), moreFloods()...) {
		t.Run(f.name, func(t *testing.T) {
			if f.long != "" {
				tier.Long(t, f.long)
			}
			d := newFlooded(t)
			if f.before != nil {
				f.before(d)
			}
			stop := d.watch()
			f.run(d)
			stop()
			d.small()
			text := d.metrics()
			t.Logf("at most %d MiB, %s", d.peak()>>20, text)
			if !f.fits && !regexp.MustCompile(`refused_total\{reason="\w+"\} [1-9]`).MatchString(text) {
				t.Error("nothing was refused: the flood is too small")
			}
		})
	}
}

func newFlooded(t testing.TB) *flooded {
	t.Helper()
	d := newShared(t, fmt.Sprintf("limits:\n  agentBytes: %d\n", floodBytes))
	f := &flooded{running: d, alice: d.as(alice)}
	f.session, f.ended = f.alice.session(""), t.Cleanup
	return f
}

// watch has bob make calls and an operator ask for the status, each on new connections too,
// until the function that it returns is called and bob has made some after that.
func (d *flooded) watch() func() {
	done := make(chan struct{})
	var calls atomic.Int64
	var g sync.WaitGroup
	b := d.as(bob)
	session := b.session("")
	// Neither asks without a pause: these would be two floods more.
	g.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			want := fmt.Sprint("call ", i)
			r := b.call(session, "Bash", map[string]any{"command": "echo " + want})
			if r.Status != client.StatusSuccess || !strings.Contains(r.FinalText, want) {
				d.t.Errorf("bob's %s: %s %s", want, r.Status, r.FinalText)
				return
			}
			v := b.ask("GET", "/sessions/"+session+"/vars/"+r.VarResult, "")
			if v.Status != http.StatusOK || !strings.Contains(string(v.Data), want) {
				d.t.Errorf("bob's %s is not in its variable: %d %s", want, v.Status, v.Raw)
				return
			}
			calls.Add(1)
			if i%5 == 4 {
				b.http.CloseIdleConnections()
			}
		}
	})
	g.Go(func() {
		dial := func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", filepath.Join(d.work, "run/o.sock"))
		}
		operator := caller{t: d.t, http: http.Client{Transport: &http.Transport{
			DialContext: dial, DisableKeepAlives: true,
		}}}
		for {
			for _, path := range []string{"/status", "/approvals", "/audit?limit=10"} {
				if a := operator.ask("GET", path, ""); a.Status != http.StatusOK {
					d.t.Errorf("the operator does not get through: %s: %d %s", path, a.Status, a.Raw)
					return
				}
			}
			if got := d.granted(); got > floodBytes {
				d.t.Errorf("agents have %d bytes, want at most %d", got, floodBytes)
				return
			}
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return func() {
		before := calls.Load()
		if !waitFor(func() bool { return calls.Load() >= before+3 || d.t.Failed() }) {
			d.t.Errorf("bob waits: %d calls in a minute", calls.Load()-before)
		}
		close(done)
		g.Wait()
	}
}

// metrics are the lines about the budget.
func (d *flooded) metrics() string {
	d.t.Helper()
	dial := func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(d.work, "run/o.sock"))
	}
	hc := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	res, err := hc.Get("http://sandboxd/metrics")
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.Join(regexp.MustCompile(`(?m)^sandboxd_budget_.*$`).FindAllString(string(all), -1), ", ")
}

// granted is how many bytes agents have by the daemon's own count.
func (d *flooded) granted() (n int64) {
	d.t.Helper()
	_, text, found := strings.Cut(d.metrics(), "sandboxd_budget_bytes ")
	if _, err := fmt.Sscan(text, &n); err != nil || !found {
		d.t.Errorf("no sandboxd_budget_bytes: %v", err)
	}
	return n
}

// small fails the test if the daemon has ever taken too much memory.
func (d *flooded) small() {
	d.t.Helper()
	if got := d.peak(); got >= mostBytes() {
		d.t.Errorf("the daemon took %d MiB, want less than %d", got>>20, mostBytes()>>20)
	}
}

// peak is the most memory that the daemon has taken so far.
func (d *running) peak() int64 {
	d.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return kib << 10
}

// open connects as alice and sends text; the connection stays until the flood is over. What
// is refused is closed by the daemon, which is no error here.
func (d *flooded) open(text string) net.Conn {
	d.t.Helper()
	c, err := dialAs(alice, filepath.Join(d.work, "run/a.sock"))
	if err != nil {
		return nil // there are no more places in the queue of the socket
	}
	d.ended(func() { c.Close() })
	if err := c.SetWriteDeadline(time.Now().Add(5 * time.Second)); err != nil {
		d.t.Fatal(err)
	}
	_, _ = io.WriteString(c, text)
	return c
}

func posted(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func floods() []flood {
	return []flood{
		{name: "the answer of a batch", run: batchAnswer, fits: true, long: tried},
		{name: "answers that nobody reads", before: largeVariable, run: slowReaders, long: tried},
		{name: "large bodies that do not end", run: bigBodies, long: tried},
		{name: "large metadata", run: largeMetadata, long: tried},
		{name: "connections that send nothing", run: idleConnections, long: tried},
	}
}

// loud prints a million characters that take six bytes each in JSON.
const loud = `{"command":"head -c 1000000 /dev/zero | tr '\\\\0' '\\\\001'"}`

func batchAnswer(d *flooded) {
	session := d.session
	body := `{"calls":[` + strings.Repeat(`{"tool":"Bash","args":`+loud+`},`, 79) + `{"tool":"Bash","args":` + loud + `}]}`
	a := d.alice.ask("POST", "/sessions/"+session+"/calls", body)
	var all []client.Result
	if err := json.Unmarshal(a.Data, &all); err != nil || len(all) != 80 {
		d.t.Fatalf("%d results: %v %.300s", len(all), err, a.Raw)
	}
	for i, r := range all {
		if r.Status != client.StatusSuccess || r.VarResult == "" {
			d.t.Fatalf("call %d: %s %.300s", i, r.Status, r.FinalText)
		}
	}
}

const bigValue = 1_300_000

func largeVariable(d *flooded) {
	session := d.alice.session("big")
	a := d.alice.ask("PUT", "/sessions/"+session+"/vars/big", `{"value":"`+strings.Repeat(`\u0001`, bigValue)+`"}`)
	if a.Status != http.StatusCreated {
		d.t.Fatalf("%d %.300s", a.Status, a.Raw)
	}
}

func slowReaders(d *flooded) {
	for range 100 {
		d.open("GET /sessions/big/vars/big HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	refused := regexp.MustCompile(`refused_total\{reason="bytes"\} [1-9]`)
	if !waitFor(func() bool { return refused.MatchString(d.metrics()) }) {
		d.t.Error("none is refused")
	}
}

func bigBodies(d *flooded) {
	body := `{"metadata":{"x":"` + strings.Repeat("x", 7<<20)
	for range 60 {
		d.open(fmt.Sprintf("POST /sessions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 8<<20, body))
	}
}

func largeMetadata(d *flooded) {
	for _, size := range []int{7 << 20, 1 << 20, 64 << 10, 16 << 10, 15 << 10} {
		for range 12 {
			d.alice.ask("POST", "/sessions", `{"metadata":{"x":"`+strings.Repeat("x", size)+`"}}`)
		}
	}
	a := d.alice.ask("GET", "/sessions?limit=100", "")
	if a.Status != http.StatusOK {
		d.t.Errorf("%d %.300s", a.Status, a.Raw)
	}
	for range 50 {
		d.open("GET /sessions?limit=100 HTTP/1.1\r\nHost: x\r\n\r\n")
	}
}

func idleConnections(d *flooded) {
	for range 3000 {
		d.open("")
	}
}
