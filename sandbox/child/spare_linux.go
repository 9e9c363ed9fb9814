package child

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// spares are what is made for calls that are not known yet: init processes whose
// programs are confined and wait at their doors, which the daemon has. A call then
// costs little more than an execve.
type spares struct {
	want   int         // as many are kept as calls were there at once
	limits groupLimits // those that the last call had
	stuck  bool        // one could not be made: try again after the next request
	arenas []*arena
	gone   []int // mount namespaces of calls that have ended
}

const (
	maxSpares = 4
	maxGone   = 64
)

// lacking reports whether one more is to be made ahead. What has the mounts or limits
// of an earlier time is of no use unless a program runs in it.
func (s *server) lacking() bool {
	n := 0
	for _, c := range s.calls {
		if c.a.began != 0 || c.changes == s.changes && c.limits == s.spares.limits {
			n++
		}
	}
	return n < s.spares.want && !s.spares.stuck
}

// patience is how long the loop waits for something to do, in milliseconds.
func (s *server) patience() int {
	switch gone := len(s.spares.gone); {
	case gone >= maxGone || s.lacking():
		return 0
	case gone > 0:
		return 200
	}
	return -1
}

// prepare uses a moment in which nobody waits.
func (s *server) prepare() {
	p := &s.spares
	if s.lacking() {
		c, err := s.newInit(usualRoom, p.limits)
		if err == nil {
			err = s.hand(0, c)
		}
		p.stuck = err != nil
		return
	}
	// Whoever holds a mount namespace last takes it apart, which waits for every
	// processor. That is neither the init process, whose end is being waited for,
	// nor this thread.
	go closeAll(p.gone)
	p.gone = nil
}

// offer answers a request for a door.
func (s *server) offer(r Request) {
	if err := s.hide(r.Masks); err != nil {
		s.tell(Message{For: r.ID, Error: err.Error()})
		return
	}
	p := &s.spares
	p.stuck, p.limits = false, groupLimits{r.Limits.Memory, r.Limits.Processes}
	running := 0
	for id, c := range s.calls {
		does := slices.Contains(r.Doors, id) || id > r.Seen && c.limits == p.limits && r.Room <= c.a.room()
		if does && c.changes == s.changes {
			s.tell(Message{For: r.ID, Mounts: s.changes})
			return
		}
		running += int(c.a.began)
	}
	p.want = max(p.want, min(running+1, maxSpares))
	c, err := s.newInit(max(usualRoom, r.Room), p.limits)
	if err == nil {
		err = s.hand(r.ID, c)
	}
	if err != nil {
		s.tell(Message{For: r.ID, Error: err.Error()})
	}
}

// tell is for what the daemon waits for. Where it cannot be said this process has no
// use any more, and ends with its calls, which the daemon notices.
func (s *server) tell(m Message) {
	if err := s.send(m); err != nil {
		fmt.Fprintln(os.Stderr, "sandboxd-child:", err)
		os.Exit(1)
	}
}

// hand gives the door of a call to the daemon. After an error, as when programs of this
// user have too many descriptors on their way, it is closed, and its process ends.
func (s *server) hand(request uint64, c *running) error {
	l := Limits{Memory: c.limits.memory, Processes: c.limits.processes}
	a := c.a
	err := s.send(Message{For: request, Mounts: s.changes, Door: &Door{
		Call: c.id, Arena: uint64(a.at), Area: uint64(a.at) + uint64(a.used), Room: a.room(), Mounts: c.changes, Limits: l, Others: s.others,
	}}, c.door)
	_ = unix.Close(c.door)
	c.door = -1
	if err != nil {
		return fmt.Errorf("hand over the door of a call: %w", err)
	}
	return nil
}

// newInit clones an init process with the mounts of now.
func (s *server) newInit(room int, limits groupLimits) (*running, error) {
	a, err := s.arena(room)
	if err != nil {
		return nil, err
	}
	door, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		a.free()
		return nil, fmt.Errorf("make the door of a call: %w", err)
	}
	defer unix.Close(door[1])
	s.last++
	c := &running{id: s.last, a: a, changes: s.changes, limits: limits, pidfd: -1, door: door[0], mounts: -1, listener: -1}
	if c.group, err = s.groups.take(limits); err != nil {
		s.release(c)
		return nil, err
	}
	c.inits = a.initOps(s, c.group)
	c.aheads = append(a.joinOps(c.group), a.aheadOps(s, limits.processes, c.id, door[1])...)
	a.init, a.ahead = a.ops(c.inits), a.ops(c.aheads)
	a.ended.call = c.id
	a.keepOnly(c.group, s.t.Bare)
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
	s.calls[c.id] = c
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
func (s *server) arena(room int) (*arena, error) {
	p := &s.spares
	if n := len(p.arenas); n > 0 && room == usualRoom {
		a := p.arenas[n-1]
		p.arenas = p.arenas[:n-1]
		return a, nil
	}
	return newArena(s.ahead() + room)
}

// ahead is enough of an arena for what is known before the call.
func (s *server) ahead() int {
	return 48<<10 + 8*(len(s.t.Filter)+len(s.t.Listen)) + 4*256*(len(s.rules)+64)
}

// release lets go of what is left of a call.
func (s *server) release(c *running) {
	p := &s.spares
	c.deaf()
	delete(s.calls, c.id)
	s.groups.put(c.group)
	for _, fd := range []int{c.pidfd, c.door} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if c.mounts >= 0 {
		p.gone = append(p.gone, c.mounts)
	}
	switch {
	case c.orphans:
		// They may use its memory still. It is lost.
	case len(c.a.buf) == s.ahead()+usualRoom && len(p.arenas) < maxSpares:
		c.a.reset()
		p.arenas = append(p.arenas, c.a)
	default:
		c.a.free()
	}
}
