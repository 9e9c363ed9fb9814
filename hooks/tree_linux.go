package hooks

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// runs knows the marks of the commands that run now.
type runs struct {
	mu    sync.Mutex             // guards marks
	marks map[string]*tool.Actor // nil of hooks
}

func newRuns() *runs { return &runs{marks: map[string]*tool.Actor{}} }

func (r *runs) add(mark string, as *tool.Actor) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks[mark] = as
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.marks, mark)
	}
}

func (r *runs) none() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.marks) == 0
}

func (r *runs) has(mark string) (as *tool.Actor, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	as, ok = r.marks[mark]
	return as, ok
}

// Descends reports whether a process was started by a program that still runs: by a hook, or by one
// that runs an agent, which is returned. A call of a hook would wait for the hook that waits for it,
// so it is refused.
func (r *Registry) Descends(pid int) (as *tool.Actor, ok bool) {
	if r.running.none() { // /proc is slow to read, and this is asked of every request
		return nil, false
	}
	for range 64 { // a chain of parents is not longer, or it is not ours
		if pid <= 1 {
			return nil, false
		}
		if mark := markOf(pid); mark != "" {
			if as, ok := r.running.has(mark); ok {
				return as, true
			}
		}
		pid = parent(pid)
	}
	return nil, false
}

// killTree ends the process group of a command and everything that carries the
// mark of the run, also what left the group. Each round ends what the round
// before let be born. The group is 0 once the command was waited for: its number
// may belong to somebody else then.
//
// A process that both leaves the group and clears its environment survives. The
// operator's own programs do not hide; cages are for those who do.
func killTree(group int, mark string) {
	for range 20 {
		if group > 0 {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
		found := marked(mark)
		if len(found) == 0 {
			return
		}
		for _, p := range found {
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
	}
}

// marked lists the living processes with this mark in their environment.
func marked(mark string) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var found []int
	for _, name := range names {
		// A zombie has no environment any more.
		if pid, err := strconv.Atoi(name); err == nil && markOf(pid) == mark {
			found = append(found, pid)
		}
	}
	return found
}

func markOf(pid int) string {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	for pair := range bytes.SplitSeq(env, []byte{0}) {
		if mark, ok := bytes.CutPrefix(pair, []byte(markName+"=")); ok {
			return string(mark)
		}
	}
	return ""
}

func parent(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// "pid (name) state ppid …", where the name may hold anything.
	_, rest, ok := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0
	}
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return ppid
}
