package child

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// spares are what is made for calls that are not known yet: init processes whose
// programs are confined and wait at their doors. A call then costs little more
// than an execve.
type spares struct {
	ready   []*running
	want    int
	size    int         // of an arena, for a call that is not known yet; its arguments get 64 KiB
	limits  groupLimits // those that the last call had
	started bool        // a call was started, and nothing has happened since
	stuck   bool        // one could not be made: try again after the next request
	arenas  []*arena
	ending  []*running // discarded and not reaped yet
	gone    []int      // mount namespaces of calls that have ended
}

const (
	maxSpares = 4
	maxGone   = 64
)

// patience is how long the loop waits for something to do, in milliseconds. A
// program that was just started wants this processor; a caller that has its answer
// does not.
func (p *spares) patience() int {
	switch {
	case p.stuck || len(p.ready) >= p.want && len(p.gone) == 0:
		return -1
	case p.started:
		return 5
	case len(p.ready) < p.want || len(p.gone) >= maxGone:
		return 0
	}
	return 200
}

// prepare uses a moment in which nobody waits.
func (s *server) prepare() {
	p := &s.spares
	p.started = false
	if len(p.ready) < p.want && !p.stuck {
		c, err := s.newInit(p.size, p.limits)
		if p.stuck = err != nil; err == nil {
			p.ready = append(p.ready, c)
		}
		return
	}
	// Whoever holds a mount namespace last takes it apart, which waits for every
	// processor. That is neither the init process, whose end is being waited for,
	// nor this thread.
	go closeAll(p.gone)
	p.gone = nil
}

// take gives a spare that fits, or makes what the call needs.
func (s *server) take(r *Request) (*running, error) {
	p := &s.spares
	p.started, p.stuck, p.limits = true, false, groupLimits{r.Limits.Memory, r.Limits.Processes}
	if len(p.ready) == 0 {
		p.want = min(len(s.calls)+1, maxSpares)
	}
	for len(p.ready) > 0 {
		c := p.ready[len(p.ready)-1]
		p.ready = p.ready[:len(p.ready)-1]
		if c.changes == s.changes && c.limits == p.limits && s.size(r) <= p.size {
			return c, nil
		}
		s.discard(c)
	}
	return s.newInit(max(p.size, s.size(r)), p.limits)
}

// newInit clones an init process with the mounts of now.
func (s *server) newInit(size int, limits groupLimits) (*running, error) {
	a, err := s.spares.arena(size)
	if err != nil {
		return nil, err
	}
	door, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		a.free()
		return nil, fmt.Errorf("make the door of a call: %w", err)
	}
	defer unix.Close(door[1])
	c := &running{a: a, inits: a.initOps(s), changes: s.changes, limits: limits, pidfd: -1, door: door[0], mounts: -1, listener: -1}
	if c.group, err = s.groups.take(limits); err != nil {
		s.release(c)
		return nil, err
	}
	c.aheads = append(a.joinOps(c.group), a.aheadOps(s, limits.processes, door[1])...)
	a.env = a.strs(s.t.Env)
	a.init, a.ahead = a.ops(c.inits), a.ops(c.aheads)
	if s.t.Bare {
		a.keep = 3 // see bareInitOps
	}
	if c.pid, c.pidfd, err = a.spawn(s.cloneFlags()); err != nil {
		c.pidfd = -1
		s.release(c)
		return nil, err
	}
	if s.t.Profile == "strict" && !s.t.Bare {
		if fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", c.pid), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			c.mounts = fd
		}
	}
	return c, nil
}

func (s *server) cloneFlags() uint64 {
	if s.t.Bare {
		return 0
	}
	if s.t.Profile == "strict" {
		return unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	}
	return unix.CLONE_NEWPID
}

// arena gives one that is as good as new. Mapping and unmapping one for each call
// would interrupt the other processors.
func (p *spares) arena(size int) (*arena, error) {
	if n := len(p.arenas); n > 0 && size == p.size {
		a := p.arenas[n-1]
		p.arenas = p.arenas[:n-1]
		return a, nil
	}
	return newArena(size)
}

// release lets go of what is left of a call.
func (s *server) release(c *running) {
	p := &s.spares
	c.deaf()
	p.started = false
	p.ending = slices.DeleteFunc(p.ending, func(e *running) bool { return e == c })
	s.groups.put(c.group)
	for _, fd := range []int{c.pidfd, c.door} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if c.mounts >= 0 {
		p.gone = append(p.gone, c.mounts)
	}
	if len(c.a.buf) == p.size+2*stackSize && len(p.arenas) < maxSpares {
		c.a.reset()
		p.arenas = append(p.arenas, c.a)
		return
	}
	c.a.free()
}

// discard ends an init process that runs no program. The loop reaps it.
func (s *server) discard(c *running) {
	_ = unix.Kill(c.pid, s.lastSignal(unix.SIGKILL))
	s.spares.ending = append(s.spares.ending, c)
}
