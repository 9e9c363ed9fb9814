package sandbox

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkTree compares calls in a tree of 20,000 directories with calls in an empty one.
// They touch nothing that programs of the host obey. The limit is on processor time, of the
// daemon: no other process looks at the tree.
func BenchmarkTree(b *testing.B) {
	c := benchCage(b, Options{})
	calls := func(dirs, kept int) (quiet, write func()) {
		ws := b.TempDir()
		for i := range dirs {
			if err := os.MkdirAll(fmt.Sprintf("%s/%d/%d", ws, i%200, i), 0o755); err != nil {
				b.Fatal(err)
			}
		}
		for i := range kept {
			dir := fmt.Sprintf("%s/pkg/%d", ws, i)
			err := os.MkdirAll(dir, 0o755)
			if err == nil {
				err = os.WriteFile(dir+"/.envrc", nil, 0o644)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		box, err := c.Box(context.Background(), ws, "strict", guard.DefaultSettings(ws, os.Getenv("HOME"), nil))
		if err != nil {
			b.Fatal(err)
		}
		spec := Spec{Argv: []string{"/bin/sh", "-c", "echo x > new; rm new"}, Dir: ws}
		return func() { benchStart(b, box, ws) }, func() {
			p, err := box.Start(context.Background(), spec)
			if err == nil {
				_, err = p.Wait()
			}
			if err != nil {
				b.Error(err)
			}
		}
	}
	quiet, write := calls(0, 0)
	quietLarge, writeLarge := calls(20_000, 0)
	quietKept, _ := calls(20_000, 10)
	quietMany, _ := calls(20_000, 200)
	bench.Compare(b, []bench.Case{
		{Name: "empty", Run: quiet, N: 350},
		{Name: "large", Run: quietLarge, N: 350},
		{Name: "write in empty", Run: write, N: 350},
		{Name: "write in large", Run: writeLarge, N: 350},
		{Name: "10 kept", Run: quietKept, N: 350},
		{Name: "200 kept", Run: quietMany, N: 350},
	}, bench.Limit{Case: "large", Over: "empty"}, bench.Limit{Case: "write in large", Over: "write in empty"},
		bench.Limit{Case: "10 kept", Over: "empty"}, bench.Limit{Case: "200 kept", Over: "empty"})
	bench.Value(b, "processor time of the daemon, large over empty", processorRatio(b, quietLarge, quiet), "times", 1.05)
	bench.Value(b, "processor time of the daemon, write in large over write in empty",
		processorRatio(b, writeLarge, write), "times", 1.05)
}

// processorRatio is how much more processor time this process needs for a call of the one kind
// than for one of the other. They take turns, and no garbage is collected meanwhile: the
// machine may be busy.
func processorRatio(b *testing.B, one, other func()) float64 {
	spent := func(run func()) int64 {
		var from, to syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &from); err != nil {
			b.Fatal(err)
		}
		run()
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &to); err != nil {
			b.Fatal(err)
		}
		return to.Utime.Nano() + to.Stime.Nano() - from.Utime.Nano() - from.Stime.Nano()
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var ones, others []int64
	for i := range 2000 {
		if i%2 == 0 {
			ones, others = append(ones, spent(one)), append(others, spent(other))
		} else {
			others, ones = append(others, spent(other)), append(ones, spent(one))
		}
	}
	slices.Sort(ones)
	slices.Sort(others)
	return float64(ones[len(ones)/2]) / float64(others[len(others)/2])
}
