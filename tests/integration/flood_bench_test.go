package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/bench"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// floodRounds is how often each flood comes. A round has only hundreds of calls, so its slowest hundredth are four of
// them, and one sync of a busy disk among them changes the ratio by half.
const floodRounds = 5

// BenchmarkFlood is how long bob waits for a call while alice floods the daemon, beside how long he waits at rest: the
// median of rounds, each with a daemon of its own. Bob is a process of his own, as accounts are: beside alice in one
// process, he would wait for her clients and not for the daemon. The clients run only where others leave them a
// processor: how this host shares its processors is not what is measured.
func BenchmarkFlood(b *testing.B) {
	needs.Root(b, "to call as other users")
	for _, f := range append(floods(), moreFloods()...) {
		b.Run(f.name, func(b *testing.B) {
			var ratios []float64
			for range floodRounds {
				b.Run("round", func(b *testing.B) {
					b.ReportMetric(0, "ns/op")
					ratios = append(ratios, floodRound(b, f))
				})
			}
			if len(ratios) < floodRounds {
				b.Fatalf("%d of %d rounds came to their end", len(ratios), floodRounds)
			}
			b.Logf("rounds %.1f", ratios)
			slices.Sort(ratios)
			bench.Value(b, "p99 of another account over its rest", ratios[floodRounds/2], "times", 3)
		})
	}
}

// floodRound returns the slowest hundredth of bob's calls under a flood, over that at rest before it.
func floodRound(b *testing.B, f flood) float64 {
	d := newFlooded(b)
	if f.before != nil {
		f.before(d)
	}
	waited := d.waits()
	rest := waited(400)
	over := make(chan struct{})
	schedule(b, unix.SCHED_IDLE)
	defer schedule(b, 0) // what is started next has it from here
	go func() { defer close(over); f.run(d) }()
	var busy []time.Duration
	for going := true; going || len(busy) < 400; {
		busy = append(busy, waited(1)...)
		select {
		case <-over:
			going = false
		default:
		}
	}
	r, x := p99(rest), p99(busy)
	b.Logf("p99 at rest %v, under the flood %v, %d calls", r, x, len(busy))
	return float64(x) / float64(r)
}

// schedule gives all threads of this process a policy of sched(7), from which new ones have it. A thread with SCHED_IDLE
// gives way at once to any other; one of the lowest priority keeps its processor for a tick of the kernel, 4 ms here.
func schedule(b *testing.B, policy uint32) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		b.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err == nil {
			err = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}, 0)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			b.Fatal(err)
		}
	}
}

func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100]
}

// callerSocket names the socket of the daemon to a process of this program that calls it as bob.
const callerSocket = "SANDBOXD_TEST_CALLER"

// waits starts bob, who calls until the test ends. The returned function is how long he has waited
// for each of his next n calls.
func (d *flooded) waits() func(n int) []time.Duration {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), callerSocket+"="+filepath.Join(d.work, "run/a.sock"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	return func(n int) (took []time.Duration) {
		for range n {
			if !lines.Scan() {
				d.t.Fatalf("bob ended: %v", lines.Err())
			}
			one, err := time.ParseDuration(lines.Text())
			if err != nil {
				d.t.Fatalf("bob's call: %s", lines.Text())
			}
			took = append(took, one)
		}
		return took
	}
}

// callAsBob makes one small call after the other, and prints how long each took.
func callAsBob(socket string) {
	var c *http.Client
	ask := func(path, body string) (code int, answer struct{ Data json.RawMessage }, err error) {
		res, err := c.Post("http://sandboxd/v1"+path, "application/json", strings.NewReader(body))
		if err != nil {
			return 0, answer, err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		return res.StatusCode, answer, err
	}
	dial := func(context.Context, string, string) (net.Conn, error) { return dialAs(bob, socket) }
	c = &http.Client{Transport: &http.Transport{DialContext: dial}}
	var session client.Session
	_, a, err := ask("/sessions", "{}")
	if err == nil {
		err = json.Unmarshal(a.Data, &session)
	}
	for err == nil {
		start := time.Now()
		var r client.Result
		code, a, failed := ask("/sessions/"+session.ID+"/calls", `{"tool":"Config","args":{"action":"get","key":"mode"}}`)
		took := time.Since(start)
		if err = failed; err == nil {
			err = json.Unmarshal(a.Data, &r)
		}
		if err == nil && r.Status != client.StatusSuccess {
			err = fmt.Errorf("%d %s %s", code, r.Status, r.FinalText)
		}
		if err == nil {
			_, err = fmt.Println(took)
		}
		time.Sleep(time.Millisecond) // a caller does not only call
	}
	fmt.Println(err)
}
