package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// TestReadersOfAJob: many who read it, some who never take anything and some who leave do not
// keep a job from its end, and each who stays has the end of its output.
func TestReadersOfAJob(t *testing.T) {
	d := newDaemon(t, "api: {concurrent: 1000}\njobs: {outputRate: 1000000000}\n")
	s := d.session()
	id := d.begin(s, `{"command":"until [ -e go ]; do sleep 0.01; done; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo the end","run_in_background":true}`)
	request := fmt.Sprintf("GET /v1/jobs/%s/output HTTP/1.1\r\nHost: sandboxd\r\nAccept: text/event-stream\r\n\r\n", id)
	for range 20 { // they ask, and take nothing
		c, err := net.Dial("unix", filepath.Join(d.work, "run/a.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
	}
	var readers sync.WaitGroup
	for i := range 100 {
		readers.Go(func() {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			last := ""
			j, err := d.agent.FollowJob(ctx, id, 0, func(o client.Output) {
				if i%2 == 0 {
					leave()
				}
				last = (last + o.Text)[max(0, len(last)+len(o.Text)-100):]
			})
			if i%2 == 0 {
				if err == nil {
					t.Error("who leaves hears of the end")
				}
			} else if err != nil || j.State != "exited" || !strings.HasSuffix(last, "x\nthe end\n") {
				t.Errorf("got %+v, %v, %q", j, err, last)
			}
		})
	}
	d.write("ws/go", "")
	readers.Wait()
	if j := d.ended(id); j.State != "exited" || j.Printed != 20_000_009 {
		t.Errorf("got %+v", j)
	}
}

// TestHalfACharacterForEver: who follows a job gets the begin of a character with its rest.
func TestHalfACharacterForEver(t *testing.T) {
	d := newDaemon(t, "")
	id := d.begin(d.session(), `{"command":"printf 'x\\xe2\\x82'; until [ -e go ]; do sleep 0.05; done; printf '\\xac.'","run_in_background":true}`)
	heard := make(chan string, 100)
	go func() {
		_, err := d.agent.FollowJob(t.Context(), id, 0, func(o client.Output) { heard <- o.Text })
		heard <- fmt.Sprint("end ", err)
	}()
	if got := <-heard; got != "x" {
		t.Errorf("got %q", got)
	}
	d.write("ws/go", "")
	if got := <-heard + <-heard; got != "€.end <nil>" {
		t.Errorf("got %q", got)
	}
}

// TestWhatAJobPrintsIsHarmlessOnATerminal: with a terminal of its own it draws, and without one
// it writes text; a title, the clipboard and questions to the terminal come out in neither case.
func TestWhatAJobPrintsIsHarmlessOnATerminal(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	for _, tt := range []struct{ tty, red string }{{"", `\u001b[31mred`}, {`,"tty":true`, "\x1b[31mred"}} {
		id := d.begin(s, `{"command":"printf 'a\\033]0;owned\\007b\\033[6nc\\033]52;c;eA==\\033\\\\\\\\d\\033P+q\\033\\\\\\\\\\033[31mred\\033[0m end\\n'","run_in_background":true`+tt.tty+`}`)
		d.ended(id)
		out, err := d.exec("sandboxd", "jobs", "output", id)
		if err != nil || !strings.Contains(out, "a\x1b]0;owned\ab\x1b[6nc\x1b]52;c;eA==\x1b\\") {
			t.Errorf("%s: a pipe gets %q, %v, want what was printed", tt.tty, out, err)
		}
		for _, follow := range [][]string{nil, {"-f"}} {
			p := d.on(80, append([]string{"jobs", "output", id}, follow...)...)
			screen := p.read("exited (0)")
			if p.status() != 0 || !strings.Contains(screen, tt.red) || !strings.Contains(screen, "end") ||
				strings.Contains(screen, "\x1b]") || strings.Contains(screen, "\x1b[6n") || strings.Contains(screen, "\x1bP") {
				t.Errorf("%s %v: got %q", tt.tty, follow, screen)
			}
		}
	}
}

// TestAnEscapeThatComesInPieces: is as harmless as one that comes at once.
func TestAnEscapeThatComesInPieces(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	s := d.session()
	for _, tty := range []string{"", `,"tty":true`} {
		id := d.begin(s, `{"command":"for i in 1 2 3 4 5; do until [ -e go$i ]; do sleep 0.01; done; case $i in 1) printf '\\033';; 2) printf ']0;own';; 3) printf 'ed\\007\\302';; 4) printf '\\2350;c1\\234';; 5) echo end;; esac; echo \"$i\" > at; done","run_in_background":true`+tty+`}`)
		p := d.on(80, "jobs", "output", "-f", id)
		for i := range 5 {
			printed := func() int64 {
				j, err := d.agent.Job(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				return j.Printed
			}
			before := printed()
			d.write(fmt.Sprintf("ws/go%d", i+1), "")
			if !waitFor(func() bool { return printed() > before }) {
				t.Fatal("it prints nothing")
			}
			time.Sleep(100 * time.Millisecond) // longer than readers gather: else they get it at once
		}
		screen := p.read("end")
		if p.status(); strings.Contains(screen, "\x1b]") || strings.Contains(screen, "\u009d") {
			t.Errorf("%s: got %q", tty, screen)
		}
		for i := range 5 {
			if err := os.Remove(filepath.Join(d.ws, fmt.Sprintf("go%d", i+1))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestReadersEndWithTheSessionAndTheDaemon: also those who take nothing, which hold up neither.
func TestReadersEndWithTheSessionAndTheDaemon(t *testing.T) {
	d := newDaemon(t, "")
	var readers sync.WaitGroup
	follow := func(session string) {
		id := d.begin(session, `{"command":"echo on; yes","run_in_background":true}`)
		for i := range 100 {
			c := d.follower(t, id)
			t.Cleanup(func() { c.Close() })
			head := make([]byte, 12)
			if _, err := io.ReadFull(c, head); err != nil || string(head) != "HTTP/1.1 200" {
				t.Fatalf("got %q, %v", head, err)
			}
			if i%2 == 0 {
				readers.Go(func() { // until the last chunk, or the end of the connection
					room := make([]byte, 64<<10)
					for n, err := c.Read(room); err == nil && !bytes.HasSuffix(room[:n], []byte("0\r\n\r\n")); {
						n, err = c.Read(room)
					}
				})
			}
		}
	}
	s := d.session()
	follow(s)
	if err := d.agent.Do(t.Context(), "DELETE", "/sessions/"+s, nil, nil); err != nil {
		t.Fatal(err)
	}
	readers.Wait()
	follow(d.session())
	d.stop(syscall.SIGTERM)
	readers.Wait()
}
