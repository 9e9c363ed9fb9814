package integration

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestAJobThatPrintsMuchForAThousandReaders: half of them take nothing, and the others what comes.
// The job ends by itself, the memory of the daemon and what is on the disk are bounded, and
// nothing of the readers is left.
func TestAJobThatPrintsMuchForAThousandReaders(t *testing.T) {
	t.Parallel()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	readers := int(min(1000, files.Cur/16)) // an account has an eighth as connections
	d := newDaemon(t, "api: {concurrent: 10000, perSecond: 100000}\njobs: {outputBytes: 1048576, outputRate: 1000000000000}\n")
	size := int64(tier.Rounds(t, 20, 10_000)) * 1_000_000
	id := d.begin(d.session(), fmt.Sprintf(
		`{"command":"read x; yes 'a line of text that a program prints' | head -c %d; echo; echo the end","run_in_background":true}`, size))
	before := d.open(t)
	var sent, gone sync.WaitGroup
	var all []net.Conn
	for i := range readers {
		c := d.follower(t, id)
		t.Cleanup(func() { c.Close() })
		all = append(all, c)
		if _, err := fmt.Fprintf(c, "GET /v1/jobs/%s/output HTTP/1.1\r\nHost: sandboxd\r\nAccept: text/event-stream\r\n\r\n", id); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			continue
		}
		sent.Add(1)
		gone.Go(func() {
			r := bufio.NewReader(c)
			head, err := r.ReadString('\n')
			sent.Done()
			if err != nil || !strings.Contains(head, " 200 ") {
				t.Errorf("reader %d: %q, %v", i, head, err)
				return
			}
			last := ""
			for text, err := r.ReadString('\n'); err == nil; text, err = r.ReadString('\n') {
				if strings.HasPrefix(text, "event: end") {
					if !strings.HasSuffix(last, `\nthe end\n"}`) {
						t.Errorf("reader %d: at the end it had %q", i, last)
					}
					return
				}
				if strings.HasPrefix(text, "data: ") {
					text = strings.TrimSpace(text)
					last = text[max(0, len(text)-100):]
				}
			}
			t.Errorf("reader %d does not hear of the end", i)
		})
	}
	sent.Wait()
	if err := d.agent.TypeIntoJob(t.Context(), id, "\n", false); err != nil {
		t.Fatal(err)
	}
	most := 0.0
	deadline := time.Now().Add(time.Minute + time.Duration(size/1_000_000)*100*time.Millisecond)
	for j, err := d.agent.Job(t.Context(), id); j.State != "exited"; j, err = d.agent.Job(t.Context(), id) {
		if most = max(most, d.resident()); err != nil || j.State != "running" || time.Now().After(deadline) {
			t.Fatalf("got %+v, %v", j, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if j, err := d.agent.Job(t.Context(), id); err != nil || j.Printed != size+int64(len("\nthe end\n")) {
		t.Errorf("got %+v, %v", j, err)
	}
	gone.Wait()
	if most = max(most, d.resident()); most > 384<<20 {
		t.Errorf("the daemon took %.0f MiB", most/(1<<20))
	}
	t.Logf("the daemon took %.0f MiB at most", most/(1<<20))
	kept, _ := filepath.Glob(filepath.Join(d.work, "state/jobs/*.out"))
	if len(kept) != 1 {
		t.Fatalf("got %v", kept)
	}
	if info, err := os.Stat(kept[0]); err != nil || info.Size() > 1<<20+64<<10+16 {
		t.Errorf("the disk has %d bytes, %v", info.Size(), err)
	}
	for _, c := range all {
		c.Close()
	}
	if !waitFor(func() bool { return d.open(t) <= before+10 }) {
		t.Errorf("%d descriptors are open, %d were before", d.open(t), before)
	}
}

// open is how many descriptors the daemon has.
func (d *running) open(t *testing.T) int {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
