package hooks

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/reaper"
)

// runs knows the reapers of the programs that run now.
type runs struct {
	spare

	mu  sync.Mutex          // guards all
	all map[int]*tool.Actor // by the process id of the reaper; nil of hooks
}

func newRuns() *runs { return &runs{all: map[int]*tool.Actor{}} }

func (r *runs) add(reaper int, as *tool.Actor) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[reaper] = as
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, reaper)
	}
}

func (r *runs) none() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all) == 0
}

func (r *runs) has(pid int) (as *tool.Actor, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	as, ok = r.all[pid]
	return as, ok
}

// Descends reports whether a running hook, or a program that runs an agent, started the process; it returns that agent.
// The daemon refuses a call of a hook, because it would wait for the hook that waits for the call. Nothing can be found
// out about a process that has ended, so for that the answer is yes.
func (r *Registry) Descends(pid int) (as *tool.Actor, ok bool) {
	if r.running.none() { // /proc is slow to read, and this is asked of every request
		return nil, false
	}
	for at := pid; at > 1; {
		if as, ok := r.running.has(at); ok {
			return as, true
		}
		up, known := reaper.Parent(at)
		switch {
		case known:
			at = up
		case !errors.Is(unix.Kill(at, 0), unix.ESRCH):
			return nil, false // of another user, whom /proc hides: see finds
		case at == pid:
			return nil, true
		default:
			at = pid // whose parent ended meanwhile has another one
		}
	}
	return nil, false
}
