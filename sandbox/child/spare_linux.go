package child

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// spares are what is made ahead of calls: processes that are confined and wait behind slots
// which the daemon has. Such a call costs little more than an execve.
type spares struct {
	wanted int         // as many are kept as calls ran at once, up to maxSpares
	limits groupLimits // of the last call
	failed bool        // one could not be made; the next request tries again
	arenas []*arena    // to be used again
	mounts []int       // mount namespaces of calls that have ended
}

const (
	maxSpares = 4
	maxMounts = 64
)

// needsSpare reports whether to make one more. A process with earlier mounts or limits
// counts only if a program runs in it.
func (s *server) needsSpare() bool {
	n := 0
	for _, c := range s.calls {
		if c.a.gotScript != 0 || c.bound == nil && c.changes == s.changes && c.limits == s.spares.limits {
			n++
		}
	}
	return n < s.spares.wanted && !s.spares.failed
}

// pollTimeout returns how many milliseconds the loop waits before it prepares something.
func (s *server) pollTimeout() int {
	switch n := len(s.spares.mounts); {
	case n >= maxMounts || s.needsSpare():
		return 0
	case len(s.traced) > 0:
		return 1
	case n > 0:
		return 200
	}
	return -1
}

// prepare does one piece of work while nobody waits.
func (s *server) prepare() {
	p := &s.spares
	if s.needsSpare() {
		c, err := s.newInit(usualRoom, p.limits, nil)
		if err == nil {
			err = s.sendSlot(0, c)
		}
		p.failed = err != nil
		return
	}
	// Whoever closes a mount namespace last takes it apart, which waits for every
	// processor. It must not be the init process, whose end the daemon waits for, nor this
	// thread.
	go closeAll(p.mounts)
	p.mounts = nil
}

// answer answers a request for a slot. files are the contents of its bound files.
func (s *server) answer(r wire.Request, files []int) {
	b, err := newBoundFiles(r.Bound, files)
	if err == nil {
		err = s.hide(r.Masks, r.Kept)
	}
	if err != nil {
		closeAll(files)
		s.mustSend(wire.Message{For: r.ID, Error: err.Error()})
		return
	}
	p := &s.spares
	p.failed, p.limits = false, groupLimits{r.Limits.Memory, r.Limits.Processes}
	withScript := 0
	for id, c := range s.calls {
		if b == nil && c.bound == nil && c.changes == s.changes && s.fits(c, id, r) {
			s.mustSend(wire.Message{For: r.ID, Mounts: s.changes})
			return
		}
		withScript += int(c.a.gotScript)
	}
	p.wanted = max(p.wanted, min(withScript+1, maxSpares))
	c, err := s.newInit(max(usualRoom, r.Room), p.limits, b)
	if err == nil {
		err = s.sendSlot(r.ID, c)
	}
	if err != nil {
		s.mustSend(wire.Message{For: r.ID, Error: err.Error()})
	}
}

// fits reports whether the slot of a call will do for a request: the daemon says so, or the
// slot is still on its way to the daemon and has the right size and limits.
func (s *server) fits(c *running, id uint64, r wire.Request) bool {
	if slices.Contains(r.Slots, id) {
		return true
	}
	onItsWay := id > r.Newest
	return onItsWay && c.limits == s.spares.limits && r.Room <= c.a.room()
}

// mustSend sends what the daemon waits for. If that fails, this process is of no use any
// more and ends with its calls, which the daemon notices.
func (s *server) mustSend(m wire.Message, fds ...int) {
	if err := s.send(m, fds...); err != nil {
		fmt.Fprintln(os.Stderr, "sandboxd-child:", err)
		os.Exit(1)
	}
}

// sendSlot sends the slot of a call to the daemon. That fails, for example, when programs of
// this user have too many descriptors in unread messages. Then the slot is closed, and its
// process ends.
func (s *server) sendSlot(request uint64, c *running) error {
	a, only := c.a, uint64(0)
	if c.bound != nil {
		only = request
	}
	err := s.send(wire.Message{For: request, Mounts: s.changes, Slot: &wire.Slot{
		Call: c.id, Arena: uint64(a.At), Area: uint64(a.At) + uint64(a.Used), Room: a.room(), Mounts: c.changes,
		Limits:       wire.Limits{Memory: c.limits.memory, Processes: c.limits.processes},
		OtherThreads: s.otherThreads, Bound: only,
	}}, c.slot)
	_ = unix.Close(c.slot)
	c.slot = -1
	if err != nil {
		return fmt.Errorf("send the slot of a call: %w", err)
	}
	return nil
}

// newInit clones an init process with the present mounts. It owns the bound files, which
// may be nil.
func (s *server) newInit(room int, limits groupLimits, b *boundFiles) (*running, error) {
	a, err := s.arena(room + b.room())
	if err != nil {
		b.close()
		return nil, err
	}
	slot, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		a.free()
		b.close()
		return nil, fmt.Errorf("make the slot of a call: %w", err)
	}
	defer unix.Close(slot[1])
	s.last++
	c := &running{
		id: s.last, a: a, bound: b, changes: s.changes, limits: limits,
		pidfd: -1, slot: slot[0], mounts: -1, listener: -1,
	}
	if c.group, err = s.groups.take(limits); err != nil {
		s.release(c)
		return nil, err
	}
	c.inits = a.initOps(s, c.group)
	c.confines = append(a.joinOps(c.group), a.confineOps(s, b, limits.processes, c.id, slot[1])...)
	a.init, a.confine = a.Encode(c.inits), a.Encode(c.confines)
	a.ended.Call = c.id
	a.keepOnly(c.group, s.t.NoNamespaces)
	if c.pid, c.pidfd, err = a.spawn(s.cloneFlags()); err != nil {
		c.pidfd = -1
		s.release(c)
		return nil, err
	}
	if s.strict() {
		if fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", c.pid), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			c.mounts = fd
		}
	}
	s.calls[c.id] = c
	return c, nil
}

// strict reports whether each call has a mount namespace and a /proc of its own.
func (s *server) strict() bool { return s.t.Profile == wire.ProfileStrict && !s.t.NoNamespaces }

func (s *server) cloneFlags() uint64 {
	switch {
	case s.t.NoNamespaces:
		return 0
	case s.strict():
		return unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	}
	return unix.CLONE_NEWPID
}

// arena returns a cleared arena. Mapping and unmapping one for each call would interrupt the
// other processors.
func (s *server) arena(room int) (*arena, error) {
	p := &s.spares
	if n := len(p.arenas); n > 0 && room == usualRoom {
		a := p.arenas[n-1]
		p.arenas = p.arenas[:n-1]
		return a, nil
	}
	return newArena(s.fixedRoom() + room)
}

// fixedRoom returns the part of an arena that is filled before the call is known.
func (s *server) fixedRoom() int {
	groups := 0
	if s.t.User != nil {
		groups = len(s.t.User.Groups)
	}
	return 48<<10 + 8*(len(s.t.Filter)+len(s.t.Listen)) + 4*256*(len(s.rules)+64) + 4*groups
}

// release frees what is left of a call.
func (s *server) release(c *running) {
	p := &s.spares
	c.closeListener()
	s.network.forget(c)
	c.bound.close()
	delete(s.calls, c.id)
	s.groups.put(c.group)
	for _, fd := range []int{c.pidfd, c.slot} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if c.mounts >= 0 {
		p.mounts = append(p.mounts, c.mounts)
	}
	switch {
	case c.orphans:
		// They may still use the arena, so it is never freed.
	case len(c.a.Buf) == s.fixedRoom()+usualRoom && len(p.arenas) < maxSpares:
		c.a.reset()
		p.arenas = append(p.arenas, c.a)
	default:
		c.a.free()
	}
}
