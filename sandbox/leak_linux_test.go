package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestManyCallsLeaveNothing makes calls of all kinds of endings, several at once,
// and looks at the host and at the launcher before and after.
func TestManyCallsLeaveNothing(t *testing.T) {
	calls := tier.Rounds(t, 250, 20_000)
	backend := newCage(t, Options{})
	needCage(t, backend)
	ws := shortTemp(t)
	box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	run := func(i int) {
		scripts := []string{
			"true", "exit 3", "sleep 100 & exit 0", "kill -KILL $$", "echo out",
			"exec 9</etc/passwd; sleep 100 9<&- & disown",
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		p, err := box.Start(ctx, Spec{Argv: []string{"sh", "-c", scripts[i%len(scripts)]}, Dir: ws})
		if err != nil {
			t.Error(err)
			return
		}
		if i%7 == 0 {
			cancel()
		}
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
	batch := func(n int) {
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := w; i < n; i += 4 {
					run(i)
				}
			})
		}
		wg.Wait()
	}
	batch(40) // what is made once and used again is there
	pid := 0
	for _, l := range backend.(*cage).pool.All() {
		pid = l.Process.Pid
	}
	before, host := state(t, pid), state(t, os.Getpid())
	batch(calls)
	run(1) // the last answers are given; the next init process is made
	for name, p := range map[string]struct {
		pid    int
		before held
	}{"the launcher": {pid, before}, "this process": {os.Getpid(), host}} {
		// What a call leaves is taken apart after its answer, and there may be more
		// or fewer processes ready for the next calls: look until it rests. The
		// bound is the same however many calls there were.
		var after held
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			after = state(t, p.pid)
			if after.within(p.before) {
				break
			}
		}
		if !after.within(p.before) {
			t.Errorf("%s held %+v before and %+v after", name, p.before, after)
		}
	}
}

// held is what a process has: descriptors, mounts and children.
type held struct{ fds, mounts, children int }

// within allows for four more calls made ready, each with three descriptors, a process, and
// six descriptors of its control group, and for eight groups that are kept.
func (h held) within(before held) bool {
	return h.fds <= before.fds+4*9+8*6 && h.mounts <= before.mounts && h.children <= before.children+4
}

func state(t *testing.T, pid int) held {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		needs.Root(t, "to look at a process")
		needs.Missing(t, "look at process %d: %v", pid, err)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		needs.Root(t, "to look at a process")
		needs.Missing(t, "look at process %d: %v", pid, err)
	}
	h := held{fds: len(fds), mounts: strings.Count(string(mounts), "\n")}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range lists {
		b, _ := os.ReadFile(f)
		h.children += len(strings.Fields(string(b)))
	}
	return h
}

// TestWhatDoesNotFitIsThrownAway: a denied path that appears makes what was made
// ahead useless, again and again. Nothing of it stays.
func TestWhatDoesNotFitIsThrownAway(t *testing.T) {
	backend := newCage(t, Options{})
	needCage(t, backend)
	ws := shortTemp(t)
	var denied []string
	for i := range 30 {
		denied = append(denied, filepath.Join(ws, fmt.Sprint("secret", i)))
	}
	box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}, DeniedPaths: denied})
	runIn(t, box, ws, "true")
	pid := 0
	for _, l := range backend.(*cage).pool.All() {
		pid = l.Process.Pid
	}
	before := state(t, pid)
	for _, d := range denied {
		if err := os.WriteFile(d, []byte("hunter2"), 0o644); err != nil {
			t.Fatal(err)
		}
		if e, out := runIn(t, box, ws, "cat", d); e.Code == 0 || strings.Contains(out, "hunter2") {
			t.Fatalf("%s was read: %+v %q", d, e, out)
		}
	}
	before.mounts += len(denied)
	var after held
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if after = state(t, pid); after.within(before) {
			return
		}
	}
	t.Errorf("the launcher held %+v before and %+v after", before, after)
}

// TestManyCallsAtOnceLeaveFewDescriptors: of the control groups that many calls at once
// need, the launcher keeps a few.
func TestManyCallsAtOnceLeaveFewDescriptors(t *testing.T) {
	backend := newCage(t, Options{})
	needCage(t, backend)
	ws := shortTemp(t)
	box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	runIn(t, box, ws, "true")
	pid := 0
	for _, l := range backend.(*cage).pool.All() {
		pid = l.Process.Pid
	}
	before := state(t, pid)
	var calls sync.WaitGroup
	for range 24 {
		calls.Go(func() { runIn(t, box, ws, "sleep", "0.5") })
	}
	calls.Wait()
	var after held
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if after = state(t, pid); after.within(before) {
			return
		}
	}
	t.Errorf("the launcher held %+v before and %+v after", before, after)
}
