package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// GroupsEnv tells the launcher which control groups it was given from descriptor
// 4 on: "v2" for one directory, "v1" for those of memory and of pids. It makes one
// group below for each call at a time and uses it again; a group that goes away
// with pages still charged would linger in the kernel.
const GroupsEnv = "SANDBOXD_GROUPS"

// groups are the control groups of a launcher. The zero value has none.
type groups struct {
	v2   bool
	dirs []int
	free []*group
	made int
}

// group holds one call at a time: the program and all that comes from it, but not
// the init process, which shares memory with the launcher and must not be what the
// kernel kills when memory runs out.
type group struct {
	limits  groupLimits
	procs   []int   // a process that writes "0" here joins
	memory  int     // directory
	pids    int     // directory
	oom     int     // counts what the kernel killed for want of memory
	refused int     // counts processes refused
	last    counted // when it was last asked
}

type groupLimits struct{ memory, processes uint64 }

// counted only ever grows.
type counted struct{ oomKills, refused int64 }

func groupsFromEnv() groups {
	switch os.Getenv(GroupsEnv) {
	case "v2":
		unix.CloseOnExec(socketFD + 1)
		return groups{v2: true, dirs: []int{socketFD + 1, socketFD + 1}}
	case "v1":
		unix.CloseOnExec(socketFD + 1)
		unix.CloseOnExec(socketFD + 2)
		return groups{dirs: []int{socketFD + 1, socketFD + 2}}
	}
	return groups{}
}

// take gives a group with these limits, or nil when there are no groups.
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
	if s != nil {
		g.free = append(g.free, s)
	}
}

func (g *groups) make() (*group, error) {
	name := "c" + strconv.Itoa(g.made)
	s := &group{}
	open := func(parent int) (int, error) {
		if err := unix.Mkdirat(parent, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, fmt.Errorf("mkdir %s: %w", name, err)
		}
		dir, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		// In version 1 a single thread may join, which is what does; joining with
		// all threads waits for every processor.
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
	s.news()
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

// limit sets what the group may have. Without swap limits memory would go there
// instead; a kernel that has none is told apart by the file.
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
			writeIn(s.memory, "memory.oom.group", "1"), writeIn(s.pids, "pids.max", processes))
	}
	return errors.Join(
		// Memory with swap may never be less than memory.
		optional(writeIn(s.memory, "memory.memsw.limit_in_bytes", "-1")), writeIn(s.memory, "memory.limit_in_bytes", memory),
		optional(writeIn(s.memory, "memory.memsw.limit_in_bytes", memory)), writeIn(s.pids, "pids.max", processes))
}

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
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		return fmt.Errorf("write %s to %s: %w", text, name, err)
	}
	return nil
}

// news reports what has happened in the group since it was last asked.
func (s *group) news() (outOfMemory, noProcess bool) {
	now := counted{oomKills: field(s.oom, "oom_kill "), refused: field(s.refused, "max ")}
	outOfMemory, noProcess = now.oomKills > s.last.oomKills, now.refused > s.last.refused
	s.last = now
	return outOfMemory, noProcess
}

// counters are the files that news reads, the lower descriptor first.
func (s *group) counters() [2]int { return [2]int{min(s.oom, s.refused), max(s.oom, s.refused)} }

// field is the number after a word at the start of a line.
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

// counterOps note what the counters of a group are before the call.
func (a *arena) counterOps(s *group) []Op {
	if s == nil {
		return nil
	}
	var ops opList
	for i, fd := range s.counters() {
		ops.add("read the counters", unix.SYS_PREAD64, uintptr(fd), addr(a.counters[i][:]), uintptr(len(a.counters[i])), 0)
	}
	return ops
}

// joinOps put the process that runs them into the group.
func (a *arena) joinOps(s *group) []Op {
	if s == nil {
		return nil
	}
	var ops opList
	for _, fd := range s.procs {
		ops.add("join the control group", unix.SYS_WRITE, uintptr(fd), a.str("0"), 1)
	}
	return ops
}
