package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sys/unix"
)

// server is the launcher: one template, any number of calls at once.
type server struct {
	t          Template
	abi        int
	rules      []rule
	lastCap    int
	privileged bool // has capabilities over its namespaces
	procMasks  []string
	others     uint64 // threads that the user had when this began, where it counts

	covered map[string]uint64   // mounts over denied and protected paths
	pinned  map[string]uint64   // mounts that keep what is above those from being renamed
	calls   map[uint64]*running // that run, or wait for their programs
	last    uint64              // id of a call
	changes int                 // of the session's mounts
	spares  spares
	groups  groups

	watched   []watched
	ears      [2]int       // on which listeners come
	body, oob []byte       // of the last message
	stat      unix.Statx_t // of the last path
}

// running is a call whose init process lives. Its pid stays ours until the loop
// reaps it.
type running struct {
	id         uint64
	pid, pidfd int
	door       int // the daemon's end, or -1 when it has it
	a          *arena
	inits      []Op
	aheads     []Op

	limits  groupLimits // those of its group and its pid namespace
	group   *group      // nil without control groups
	changes int         // of the mounts that it has a copy of
	mounts  int         // its mount namespace, or -1

	signaled bool // on request
	orphans  bool // are left of it

	listener int  // on which the kernel asks about refused calls, or -1
	heard    bool // it had one
	denied   []Denied
}

// loop serves requests and ends of calls as they come, all from one thread: every
// hand-over to another one is a wait for a processor, and those are most of what
// a call costs. What the next call will need is made when nothing else waits.
func (s *server) loop() error {
	runtime.LockOSThread()
	var polled []unix.PollFd
	var order []*running
	for {
		polled = append(polled[:0], unix.PollFd{Fd: socketFD, Events: unix.POLLIN}, unix.PollFd{Fd: int32(s.ears[0]), Events: unix.POLLIN})
		order = order[:0]
		for _, c := range s.calls {
			order = append(order, c)
			// A negative one is left out.
			polled = append(polled, unix.PollFd{Fd: int32(c.pidfd), Events: unix.POLLIN}, unix.PollFd{Fd: int32(c.listener), Events: unix.POLLIN})
		}
		n, err := unix.Poll(polled, s.patience())
		if err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return err
		}
		if n == 0 {
			s.prepare()
			continue
		}
		if polled[1].Revents != 0 {
			s.hear()
		}
		for i, c := range order {
			ended, asks := polled[2+2*i].Revents, polled[3+2*i].Revents
			switch {
			case asks&unix.POLLIN != 0:
				s.answer(c)
			case asks != 0:
				c.deaf()
			}
			if ended != 0 {
				s.reap(c)
			}
		}
		if polled[0].Revents == 0 {
			continue
		}
		body, err := s.receive()
		if errors.Is(err, io.EOF) {
			return nil // the daemon is gone: this process ends, and all calls with it
		}
		if err != nil {
			return err
		}
		var r Request
		if err := json.Unmarshal(body, &r); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		if r.Signal != 0 {
			s.signal(r.ID, r.Signal)
			continue
		}
		s.offer(r)
	}
}

// reap answers a call when its init process, and so everything in it, is gone.
func (s *server) reap(c *running) {
	var ru unix.Rusage
	var ws unix.WaitStatus
	for {
		pid, err := unix.Wait4(c.pid, &ws, unix.WALL|unix.WNOHANG, &ru)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && pid == 0 {
			return // the first thread has ended, the process not yet
		}
		break
	}
	// Without a pid namespace an init process that is killed leaves what it started.
	c.orphans = s.t.Bare && ws.Signaled()
	if c.a.told == 0 {
		s.hear() // its listener may have come only now
		r := c.reply(ws, ru)
		if c.spoiled(ws) {
			s.spares.stuck = true
		}
		s.tell(Message{Reply: &r})
	}
	s.release(c)
}

// spoiled reports whether the process could not be made, or was killed by somebody
// while it waited; the next would fare alike.
func (c *running) spoiled(ws unix.WaitStatus) bool {
	if c.a.initFailed.Op != 0 || c.a.aheadFailed.Op != 0 {
		return true
	}
	return c.a.began == 0 && ws.Signaled() && !c.signaled
}

func (c *running) reply(ws unix.WaitStatus, ru unix.Rusage) Reply {
	a := c.a
	r := Reply{Call: c.id, Denied: c.denied, Deaf: !c.heard}
	switch {
	case a.initFailed.Op != 0:
		r.Error = a.initFailed.explain("set up the call", c.inits)
	case a.aheadFailed.Op != 0:
		r.Error = a.aheadFailed.explain("confine the program", c.aheads)
	case a.began == 0 && !c.signaled:
		r.Error = "the process that waited for this call is gone, and no program was run"
	case ws.Signaled():
		// The whole tree was ended before the program's own status was known.
		r.Status = uint32(ws)
	default:
		r.Failed, r.Status = a.ended.failed, uint32(a.ended.status)
	}
	// The init process has waited for everything, so its figures are the tree's.
	r.CPUUsec = (ru.Utime.Sec+ru.Stime.Sec)*1e6 + ru.Utime.Usec + ru.Stime.Usec
	r.MaxRSS = a.ended.usage.Maxrss << 10
	if ws.Signaled() {
		r.MaxRSS = ru.Maxrss << 10
	}
	if c.group != nil {
		r.OutOfMemory, r.NoProcess = c.group.news()
	}
	return r
}

func (s *server) signal(id uint64, sig int) {
	if c := s.calls[id]; c != nil {
		c.signaled = true
		_ = unix.Kill(c.pid, s.lastSignal(unix.Signal(sig)))
	}
}
