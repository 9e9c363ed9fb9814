package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// BenchmarkStartJob is a job that is begun and ends by itself, beside the same command as a
// call.
func BenchmarkStartJob(b *testing.B) {
	d := newDaemon(b, "api: {perSecond: 1000000}\njobs: {perSession: 1000, perAccount: 1000}\n")
	s := d.session()
	for _, tt := range []struct{ name, args string }{
		{"call", `{"command":"true"}`}, {"job", `{"command":"true","run_in_background":true}`},
	} {
		b.Run(tt.name, func(b *testing.B) {
			for range b.N {
				if r := d.call(s, "Bash", tt.args); r.Status != client.StatusSuccess {
					b.Fatalf("%+v", r)
				}
			}
		})
	}
}

// BenchmarkFirstByte is how long after it was written a byte is at its client.
func BenchmarkFirstByte(b *testing.B) {
	d := newDaemon(b, "")
	var late []time.Duration
	command := fmt.Sprintf(`{"command":"for i in $(seq %d); do date +%%s%%N; sleep 0.02; done","timeout":600000}`, b.N)
	_, err := d.agent.Stream(b.Context(), d.session(), "Bash", json.RawMessage(command), func(p client.Progress) {
		if p.Output == nil {
			return
		}
		now := time.Now()
		for line := range strings.Lines(p.Output.Text) {
			if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
				late = append(late, now.Sub(time.Unix(0, n)))
			}
		}
	})
	if err != nil || len(late) == 0 {
		b.Fatal(err, len(late))
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Microseconds()), "µs/median")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkStream is output through a stream, beside the same through a pipe in the sandbox.
func BenchmarkStream(b *testing.B) {
	d := newDaemon(b, "sandbox: {limits: {outputBytes: 1000000000000}}\n")
	s := d.session()
	const size = 1_000_000_000
	// Lines of text, as programs print them.
	print := fmt.Sprintf("yes 'the quick brown fox jumps over the lazy dog, and prints a line' | head -c %d", size)
	b.Run("pipe", func(b *testing.B) {
		b.SetBytes(size)
		for range b.N {
			d.call(s, "Bash", `{"command":"`+print+` | cat > /dev/null","timeout":600000}`)
		}
	})
	b.Run("stream", func(b *testing.B) {
		defer debug.SetGCPercent(debug.SetGCPercent(300)) // as sandboxd call does
		b.SetBytes(size)
		for range b.N {
			got := 0
			_, err := d.agent.Stream(b.Context(), s, "Bash", json.RawMessage(`{"command":"`+print+`","timeout":600000}`), func(p client.Progress) {
				if p.Output != nil {
					got += len(p.Output.Text)
				}
			})
			if err != nil || got != size {
				b.Fatal(err, got)
			}
		}
	})
}

// BenchmarkReaders is how long a job prints, by its own clock, with so many who take all of it. Readers of
// bytes do nothing with them: that is what events cost the job. Clients that decode the events here take
// the processors from the job, too, as any program would.
func BenchmarkReaders(b *testing.B) {
	d := newDaemon(b, "api: {perSecond: 1000000, concurrent: 10000}\njobs: {outputRate: 1000000000000}\n")
	for _, tt := range []struct {
		name    string
		readers int
		read    func(b *testing.B, id string, heard func()) // until the end
	}{
		{"0", 0, nil}, {"1", 1, d.takes}, {"100", 100, d.takes}, {"1000", 1000, d.takes}, {"100-decode", 100, d.decodes},
	} {
		b.Run(tt.name, func(b *testing.B) {
			var took, daemon time.Duration
			for range b.N {
				id := d.begin(d.session(), `{"command":"echo ready; read x; date +%s%N; for i in $(seq 100000); do echo a line of $i; done; date +%s%N","run_in_background":true}`)
				var ready, gone sync.WaitGroup
				for range tt.readers {
					ready.Add(1)
					gone.Go(func() {
						heard := sync.OnceFunc(ready.Done)
						defer heard()
						tt.read(b, id, heard)
					})
				}
				ready.Wait() // they read already
				before := d.used(b)
				if err := d.agent.TypeIntoJob(b.Context(), id, "\n", false); err != nil {
					b.Fatal(err)
				}
				j := d.ended(id)
				if j.State != "exited" {
					b.Fatalf("%+v", j)
				}
				gone.Wait()
				daemon += d.used(b) - before
				took += d.clock(id, j.Printed-int64(len("1234567890123456789\n"))).Sub(d.clock(id, int64(len("ready\n"))))
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/job")
			b.ReportMetric(float64(daemon.Milliseconds())/float64(b.N), "daemon-ms/job")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// takes follows a job as bytes.
func (d *running) takes(b *testing.B, id string, heard func()) {
	c := d.follower(b, id)
	defer c.Close()
	room := make([]byte, 64<<10)
	for n, err := c.Read(room); err == nil; n, err = c.Read(room) {
		if bytes.Contains(room[:n], []byte("ready")) {
			heard()
		}
		if bytes.Contains(room[max(0, n-2000):n], []byte("event: end\n")) {
			return
		}
	}
	b.Error("a reader does not hear of the end")
}

// decodes follows a job as clients do.
func (d *running) decodes(b *testing.B, id string, heard func()) {
	if _, err := d.agent.FollowJob(b.Context(), id, 0, func(client.Output) { heard() }); err != nil {
		b.Error(err)
	}
}

// follower is a connection on which a job is followed.
func (d *running) follower(t testing.TB, id string) net.Conn {
	c, err := net.Dial("unix", filepath.Join(d.work, "run/a.sock"))
	if err == nil {
		_, err = fmt.Fprintf(c, "GET /v1/jobs/%s/output HTTP/1.1\r\nHost: sandboxd\r\nAccept: text/event-stream\r\n\r\n", id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// clock is the time that a job has printed at an offset, as date +%s%N does.
func (d *running) clock(id string, offset int64) time.Time {
	o, err := d.agent.ReadJob(d.t.Context(), id, offset)
	if err != nil {
		d.t.Fatal(err)
	}
	line, _, _ := strings.Cut(o.Output, "\n")
	n, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return time.Unix(0, n)
}

// BenchmarkIdleJobs is what many jobs that wait cost: of a processor, and of memory of the
// daemon and of the launchers. The programs of the jobs are not counted.
func BenchmarkIdleJobs(b *testing.B) {
	const jobs = 200
	d := newDaemon(b, fmt.Sprintf("api: {perSecond: 1000000}\njobs: {perSession: %d, perAccount: %d}\n", jobs, jobs))
	s := d.session()
	d.call(s, "Bash", `{"command":"true"}`)
	memory := func() (bytes float64) {
		for _, pid := range d.own() {
			bytes += proportional(b, pid)
		}
		return bytes
	}
	before := memory()
	for range jobs {
		d.begin(s, `{"command":"exec sleep 100000","run_in_background":true}`)
	}
	time.Sleep(3 * time.Second) // until they rest
	after, used, began := memory(), d.used(b), time.Now()
	time.Sleep(10 * time.Second)
	b.ReportMetric((d.used(b)-used).Seconds()/time.Since(began).Seconds()*100, "%core")
	b.ReportMetric((after-before)/jobs/(1<<20), "MiB/job")
	b.ReportMetric(0, "ns/op")
}

// own are the daemon and its launchers. What waits with each job shares the memory of its launcher.
func (d *running) own() []int {
	return append([]int{d.cmd.Process.Pid}, children(d.cmd.Process.Pid)...)
}

// proportional is the memory of a process, with its part of what it shares.
func proportional(b *testing.B, pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nPss:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) * 1024
}

// used is what the daemon and its launchers have taken of the processors.
func (d *running) used(b *testing.B) (all time.Duration) {
	for _, pid := range d.own() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		for _, ticks := range strings.Fields(rest)[11:13] { // of user and of system, a hundred in a second
			n, err := strconv.Atoi(ticks)
			if err != nil {
				b.Fatal(err)
			}
			all += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return all
}
