package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"golang.org/x/sys/unix"
)

// TestNothingRunsWhenTheEndIsTold: two hundred processes take a while to end.
func TestNothingRunsWhenTheEndIsTold(t *testing.T) {
	everywhere(t, func(t *testing.T, backend Backend, ws string) {
		box := newBox(t, backend, "strict", guard.Settings{
			AllowedWritePaths: []string{ws},
			Limits:            guard.Limits{Processes: 1000},
		})
		mark := "END_MARK=" + filepath.Base(ws)
		for range 3 {
			e := runSpec(t, box, Spec{Argv: []string{
				"sh", "-c",
				"i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; exit 4",
			}, Dir: ws, Env: []string{mark}})
			if left := processesOf(t, mark); left != nil || e.Code != 4 {
				t.Fatalf("exit %+v, and left are %d: %v", e, len(left), left[:min(len(left), 3)])
			}
		}
	})
}

// TestBothTellTheSame: the end of most calls is told by their init processes, of those
// in which an act was stopped by the launcher.
func TestBothTellTheSame(t *testing.T) {
	everywhere(t, func(t *testing.T, backend Backend, ws string) {
		box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		const work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; "
		for _, end := range []string{"exit 0", "exit 7", "kill -TERM $$", "kill -KILL $$", "sleep 1000 & exit 3"} {
			plain, _ := runIn(t, box, ws, "sh", "-c", work+end)
			stopped, out := runIn(t, box, ws, "sh", "-c", "unshare -m true 2>/dev/null; "+work+end)
			if len(plain.Denials) != 0 || len(stopped.Denials) == 0 {
				t.Fatalf("%s: denials %v and %v (%s)", end, plain.Denials, stopped.Denials, out)
			}
			if plain.Code != stopped.Code || plain.Signal != stopped.Signal || plain.Limit != stopped.Limit {
				t.Errorf("%s: %+v by the init process, %+v by the launcher", end, plain, stopped)
			}
			for _, u := range []Usage{plain.Usage, stopped.Usage} {
				if u.CPU < time.Millisecond || u.CPU > 10*time.Second || u.MaxRSSBytes < 1<<20 ||
					u.MaxRSSBytes > 1<<30 {
					t.Errorf("%s: usage %+v", end, u)
				}
			}
		}
	})
}

// TestAnswerIsNeverTooLarge: many different acts with the longest names that JSON can
// make of them.
func TestAnswerIsNeverTooLarge(t *testing.T) {
	bothLevels(t, func(t *testing.T, backend Backend) {
		ws := shortTemp(t)
		box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		const script = `n=$(printf '\001%.0s' $(seq 240)); i=0; while [ $i -lt 60 ]; do mknod "$i$n/$n/$n/$n" c 1 3 2>/dev/null; i=$((i+1)); done; exit 5`
		e, out := runIn(t, box, ws, "bash", "-c", script)
		if e.Code != 5 || len(e.Denials) < 10 {
			t.Errorf("exit %d with %d denials: %s", e.Code, len(e.Denials), out)
		}
	})
}

// TestDescriptorsInFlight: the kernel counts what is in messages that nobody has read
// for the user, to whom the launchers belong too. A program that sends as many as it may
// takes neither slots nor listeners from other calls.
func TestDescriptorsInFlight(t *testing.T) {
	everywhere(t, func(t *testing.T, backend Backend, ws string) {
		copyFile(t, "/proc/self/exe", ws+"/inflight", 0o755)
		s := guard.Settings{AllowedWritePaths: []string{ws}, Limits: guard.Limits{OpenFiles: 1 << 30}}
		box := newBox(t, backend, "strict", s)
		r, w := io.Pipe()
		p, err := box.Start(context.Background(), Spec{Argv: []string{"./inflight", "-inflight"}, Dir: ws, Stdout: w})
		if err != nil {
			t.Fatal(err)
		}
		if said, err := bufio.NewReader(r).ReadString('\n'); err != nil ||
			said != "too many references: cannot splice\n" {
			t.Fatalf("%q, %v", said, err)
		}
		go func() { _, _ = io.Copy(io.Discard, r) }()
		other, err := backend.Box(context.Background(), t.Name()+"other", "strict", s)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []Box{box, other, box, other} {
			if e, out := runIn(t, b, ws, "sh", "-c", "unshare -m true 2>/dev/null; echo ok"); e.Code != 0 ||
				out != "ok\n" || len(e.Denials) == 0 {
				t.Errorf("%+v %q", e, out)
			}
		}
		p.Terminate(0)
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// putInFlight sends itself descriptors until the kernel refuses, and stays.
func putInFlight() {
	for {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		for err == nil {
			err = unix.Sendmsg(pair[1], []byte{1}, unix.UnixRights(slices.Repeat([]int{pair[0]}, 50)...), nil,
				unix.MSG_NOSIGNAL)
		}
		if !errors.Is(err, unix.EAGAIN) {
			fmt.Println(err)
			time.Sleep(time.Hour)
		}
	}
}
