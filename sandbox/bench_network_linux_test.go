package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkWayOut compares a call of a session that may reach hosts, and connects to none, with
// one of a session that may reach none: by the processor time of the daemon, the launcher and
// the call.
func BenchmarkWayOut(b *testing.B) {
	benchUsers(b, func(b *testing.B) {
		c := benchCage(b, Options{})
		ws := b.TempDir()
		s := guard.DefaultSettings(ws, os.Getenv("HOME"), nil)
		call := func(domains ...string) func() time.Duration {
			s.Network = guard.Network{AllowedDomains: domains, AllowLocalBinding: true}
			return processorTime(b, c, ws, s)
		}
		closed, open := call(), call("*.example")
		runtime.GC()
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		var without, with []time.Duration
		for range 1000 { // they take turns: the machine may be busy
			without, with = append(without, closed()), append(with, open())
		}
		slices.Sort(without)
		slices.Sort(with)
		ratio := float64(with[len(with)/2]) / float64(without[len(without)/2])
		bench.Value(b, "processor time of a call with hosts over one without", ratio, "times", 1.10)
	})
}

// processorTime makes a call and returns how much time of a processor it took.
func processorTime(b *testing.B, c *cage, ws string, s guard.Settings) func() time.Duration {
	box, err := c.Box(context.Background(), fmt.Sprint(s.Network.AllowedDomains), "strict", s)
	if err != nil {
		b.Fatal(err)
	}
	var launcher int
	run := func() time.Duration {
		p, err := box.Start(context.Background(), Spec{Argv: []string{"/bin/true"}, Dir: ws})
		if err != nil {
			b.Fatal(err)
		}
		launcher = p.(*proc).launcher.Process.Pid
		e, err := p.Wait()
		if err != nil || e.Code != 0 {
			b.Fatalf("exit %+v, %v", e, err)
		}
		return e.Usage.CPU
	}
	run()
	return func() time.Duration {
		before := ownTime() + threadsTime(launcher)
		call := run()
		return call + ownTime() + threadsTime(launcher) - before
	}
}

func ownTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// threadsTime is the time that the threads of a process have had a processor.
func threadsTime(pid int) (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, f := range files {
		var ns int64
		text, _ := os.ReadFile(f)
		if _, err := fmt.Sscan(string(text), &ns); err == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}
