package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// groups are the control groups of a launcher; see [wire.GroupsEnv]. The zero value has
// none.
type groups struct {
	v2   bool
	dirs []int    // of memory and of pids; in version 2 the same
	free []*group // that no call uses
	made int
}

// group holds one call at a time: the program and everything it starts. The init process is
// not in it: it shares memory with the launcher, and the kernel must not kill it when memory
// runs out.
type group struct {
	name    string
	limits  groupLimits
	procs   []int   // a process that writes "0" here joins
	memory  int     // directory
	pids    int     // directory
	oom     int     // file that counts processes killed because memory ran out
	refused int     // file that counts processes refused
	last    counted // the counters when they were read last
}

type groupLimits struct{ memory, processes uint64 }

// counted are the counters of a group. They only grow.
type counted struct{ oomKills, refused int64 }

func groupsFromEnv() groups {
	switch os.Getenv(wire.GroupsEnv) {
	case "v2":
		unix.CloseOnExec(wire.SocketFD + 1)
		return groups{v2: true, dirs: []int{wire.SocketFD + 1, wire.SocketFD + 1}}
	case "v1":
		unix.CloseOnExec(wire.SocketFD + 1)
		unix.CloseOnExec(wire.SocketFD + 2)
		return groups{dirs: []int{wire.SocketFD + 1, wire.SocketFD + 2}}
	}
	return groups{}
}

// take returns a group with these limits, or nil if there are no groups.
func (g *groups) take(l groupLimits) (*group, error) {
	if g.dirs == nil {
		return nil, nil
	}
	var s *group
	if n := len(g.free); n > 0 {
		s, g.free = g.free[n-1], g.free[:n-1]
	} else {
		var err error
		if s, err = g.make(); err != nil {
			return nil, fmt.Errorf("make a control group: %w", err)
		}
	}
	if s.limits != l {
		if err := g.limit(s, l); err != nil {
			g.put(s)
			return nil, fmt.Errorf("set the limits of a control group: %w", err)
		}
		s.limits = l
	}
	return s, nil
}

func (g *groups) put(s *group) {
	switch {
	case s == nil:
	case len(g.free) < maxFreeGroups:
		g.free = append(g.free, s)
	default:
		g.remove(s)
	}
}

// maxFreeGroups bounds what many calls at once leave: a group has six descriptors.
const maxFreeGroups = 8

// remove gives a group back to the kernel. What cannot be removed yet goes with the
// launcher.
func (g *groups) remove(s *group) {
	for _, fd := range append(s.procs, s.memory, s.oom, s.refused) {
		unix.Close(fd)
	}
	if s.pids != s.memory {
		unix.Close(s.pids)
	}
	for _, dir := range g.dirs {
		_ = unix.Unlinkat(dir, s.name, unix.AT_REMOVEDIR)
	}
}

func (g *groups) make() (*group, error) {
	name := "c" + strconv.Itoa(g.made)
	s := &group{name: name}
	open := func(parent int) (int, error) {
		if err := unix.Mkdirat(parent, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, fmt.Errorf("mkdir %s: %w", name, err)
		}
		dir, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		// In version 1 a single thread may join, which is all a process has here. A join
		// with all threads would wait for every processor.
		list := "tasks"
		if g.v2 {
			list = "cgroup.procs"
		}
		procs, err := unix.Openat(dir, list, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		s.procs = append(s.procs, procs)
		return dir, nil
	}
	var err error
	if s.memory, err = open(g.dirs[0]); err != nil {
		return nil, err
	}
	if s.pids = s.memory; !g.v2 {
		if s.pids, err = open(g.dirs[1]); err != nil {
			return nil, err
		}
	}
	oom := "memory.oom_control"
	if g.v2 {
		oom = "memory.events"
	}
	if s.oom, err = openIn(s.memory, oom); err != nil {
		return nil, err
	}
	if s.refused, err = openIn(s.pids, "pids.events"); err != nil {
		return nil, err
	}
	s.changes()
	g.made++
	return s, nil
}

func openIn(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", name, err)
	}
	return fd, nil
}

// limit sets the limits of a group. Swap is limited too, because memory would go there
// instead; a kernel that does not limit swap lacks the file.
func (g *groups) limit(s *group, l groupLimits) error {
	memory, processes := "max", "max"
	if !g.v2 {
		memory = "-1"
	}
	if l.memory > 0 {
		memory = strconv.FormatUint(l.memory, 10)
	}
	if l.processes > 0 {
		processes = strconv.FormatUint(l.processes, 10)
	}
	if g.v2 {
		return errors.Join(
			writeIn(s.memory, "memory.max", memory), optional(writeIn(s.memory, "memory.swap.max", "0")),
			writeIn(s.memory, "memory.oom.group", "1"), writeIn(s.pids, "pids.max", processes),
		)
	}
	return errors.Join(
		// The kernel never lets the limit of memory with swap be below that of memory.
		optional(writeIn(s.memory, "memory.memsw.limit_in_bytes", "-1")),
		writeIn(s.memory, "memory.limit_in_bytes", memory),
		optional(writeIn(s.memory, "memory.memsw.limit_in_bytes", memory)),
		writeIn(s.pids, "pids.max", processes),
	)
}

// optional ignores that a file does not exist.
func optional(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func writeIn(dir int, name, text string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	// A limit of memory is set under a lock that the kernel does not wait for once a signal is
	// there, and the runtime of Go sends signals to itself.
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Write(fd, []byte(text))
	}
	if err != nil {
		return fmt.Errorf("write %s to %s: %w", text, name, err)
	}
	return nil
}

// changes reports what has happened in the group since this was called last.
func (s *group) changes() (outOfMemory, noProcess bool) {
	now := counted{oomKills: field(s.oom, "oom_kill "), refused: field(s.refused, "max ")}
	outOfMemory, noProcess = now.oomKills > s.last.oomKills, now.refused > s.last.refused
	s.last = now
	return outOfMemory, noProcess
}

// counters returns the files that changes reads, the lower descriptor first.
func (s *group) counters() [2]int { return [2]int{min(s.oom, s.refused), max(s.oom, s.refused)} }

// field returns the number after a word at the start of a line.
func field(fd int, word string) int64 {
	var buf [512]byte
	n, _ := unix.Pread(fd, buf[:], 0)
	for line := range bytes.Lines(buf[:max(n, 0)]) {
		if rest, ok := strings.CutPrefix(string(line), word); ok {
			v, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return v
		}
	}
	return 0
}

// counterOps store the counters of a group before the call.
func (a *arena) counterOps(s *group) []script.Op {
	if s == nil {
		return nil
	}
	var ops script.List
	for i, fd := range s.counters() {
		ops.Add("read the counters", unix.SYS_PREAD64, uintptr(fd), addr(a.counters[i][:]), uintptr(len(a.counters[i])),
			0)
	}
	return ops
}

// joinOps put the process that runs them into the group.
func (a *arena) joinOps(s *group) []script.Op {
	if s == nil {
		return nil
	}
	var ops script.List
	for _, fd := range s.procs {
		ops.Add("join the control group", unix.SYS_WRITE, uintptr(fd), a.Str("0"), 1)
	}
	return ops
}
