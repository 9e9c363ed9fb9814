package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// server is the launcher: one template, any number of calls at once.
type server struct {
	t            wire.Template
	abi          int // version of Landlock
	rules        []rule
	lastCap      int
	nice         int      // priority of programs
	privileged   bool     // has capabilities over its namespaces
	procMasks    []string // files of /proc to hide in each call
	otherThreads uint64   // of the user, when this began and if the limit counts them

	covered map[string]uint64   // mounts over denied and kept paths
	kept    map[uint64]bool     // those over kept ones
	pinned  map[string]uint64   // mounts that keep directories above those from being renamed
	calls   map[uint64]*running // that run, or wait for their programs
	last    uint64              // id of a call
	changes int                 // of the session's mounts
	spares  spares
	groups  groups

	network *network // nil: there is no way out

	traced    []*traced // processes that are about to execute a bound file
	watched   []watched
	listeners [2]int       // socket pair on which calls send their listeners
	body, oob []byte       // of the last message
	stat      unix.Statx_t // of the last path
}

// running is a call whose init process lives. Nobody else gets its pid until the loop
// reaps it.
type running struct {
	id         uint64
	pid, pidfd int
	slot       int // the daemon's end, or -1 when the daemon has it
	a          *arena
	inits      []script.Op
	confines   []script.Op

	limits  groupLimits // of its control group and its pid namespace
	group   *group      // nil without control groups
	changes int         // the state of the mounts that it has a copy of
	mounts  int         // its mount namespace, or -1

	signaled bool // the daemon sent it a signal
	orphans  bool // its init process was killed and left processes

	bound       *boundFiles // nil without any
	replaced    string      // the bound file for which a process became something else
	listener    int         // on which the kernel asks about refused calls, or -1
	hadListener bool        // it had one
	denied      []wire.Denied
}

// loop serves requests and ends of calls as they come, all on one thread: each hand-over to
// another thread is a wait for a processor, and those waits are most of what a call costs.
// When nothing else waits, it prepares what the next call will need.
func (s *server) loop() error {
	runtime.LockOSThread()
	var polled []unix.PollFd
	var order []*running
	for {
		polled = append(
			polled[:0],
			unix.PollFd{
				Fd:     wire.SocketFD,
				Events: unix.POLLIN,
			},
			unix.PollFd{Fd: int32(s.listeners[0]), Events: unix.POLLIN},
		)
		order = order[:0]
		for _, c := range s.calls {
			order = append(order, c)
			// poll skips a negative descriptor.
			polled = append(
				polled,
				unix.PollFd{
					Fd:     int32(c.pidfd),
					Events: unix.POLLIN,
				},
				unix.PollFd{Fd: int32(c.listener), Events: unix.POLLIN},
			)
		}
		n, err := unix.Poll(polled, s.pollTimeout())
		if err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return err
		}
		if n == 0 {
			s.checkTraced()
			s.prepare()
			continue
		}
		if polled[1].Revents != 0 {
			s.acceptListeners()
		}
		for i, c := range order {
			ended, asks := polled[2+2*i].Revents, polled[3+2*i].Revents
			switch {
			case asks&unix.POLLIN != 0:
				s.answerKernel(c)
			case asks != 0:
				c.closeListener()
			}
			if ended != 0 {
				s.reap(c)
			}
		}
		s.checkTraced()
		if polled[0].Revents == 0 {
			continue
		}
		body, files, err := s.receive()
		if errors.Is(err, io.EOF) {
			return nil // the daemon is gone: this process ends, and all calls with it
		}
		if err != nil {
			return err
		}
		var r wire.Request
		if err := json.Unmarshal(body, &r); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		if r.Connect != nil {
			closeAll(files) // none is expected
			s.answered(*r.Connect)
			continue
		}
		if r.Sockets {
			closeAll(files) // none is expected
			s.giveSockets(r.ID)
			continue
		}
		if r.Signal != 0 {
			closeAll(files) // none is expected
			s.signal(r.ID, r.Signal)
			continue
		}
		s.answer(r, files)
	}
}

// reap reports the end of a call when its init process is gone, and so everything in it.
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
	// Without a pid namespace, an init process that is killed leaves what it started.
	c.orphans = s.t.NoNamespaces && ws.Signaled()
	if c.a.reported == 0 {
		s.acceptListeners() // its listener may have come only now
		r := c.reply(ws, ru)
		if c.wasted(ws) {
			s.spares.failed = true
		}
		s.mustSend(wire.Message{Reply: &r})
	}
	s.release(c)
}

// wasted reports whether the process could not be made, or was killed by somebody while it
// waited. The next one would probably fare the same.
func (c *running) wasted(ws unix.WaitStatus) bool {
	if c.a.initFailed.Op != 0 || c.a.confineFailed.Op != 0 {
		return true
	}
	return c.a.gotScript == 0 && ws.Signaled() && !c.signaled
}

func (c *running) reply(ws unix.WaitStatus, ru unix.Rusage) wire.Reply {
	a := c.a
	r := wire.Reply{Call: c.id, Denied: c.denied, NoListener: !c.hadListener}
	switch {
	case a.initFailed.Op != 0:
		r.Error = script.Explain(a.initFailed, "set up the call", c.inits)
	case a.confineFailed.Op != 0:
		r.Error = script.Explain(a.confineFailed, "confine the program", c.confines)
	case a.gotScript == 0 && !c.signaled:
		r.Error = "the process that waited for this call is gone, and no program was run"
	case c.replaced != "":
		r.Replaced, r.Status = c.replaced, uint32(ws)
	case ws.Signaled():
		// The whole tree was ended before the program's own status was known.
		r.Status = uint32(ws)
	default:
		r.Failed, r.Status = a.ended.Failed, uint32(a.ended.Status)
	}
	// The init process has waited for all others, so its figures include theirs.
	r.CPUUsec = (ru.Utime.Sec+ru.Stime.Sec)*1e6 + ru.Utime.Usec + ru.Stime.Usec
	r.MaxRSS = a.ended.Usage.Maxrss << 10
	if ws.Signaled() {
		r.MaxRSS = ru.Maxrss << 10
	}
	if c.group != nil {
		r.OutOfMemory, r.NoProcess = c.group.changes()
	}
	return r
}

func (s *server) signal(id uint64, sig int) {
	if c := s.calls[id]; c != nil {
		c.signaled = true
		_ = unix.Kill(c.pid, s.signalForInit(unix.Signal(sig)))
		if s.t.NoNamespaces && sig == int(unix.SIGKILL) {
			_ = unix.Kill(c.pid, unix.SIGCONT) // endSignal must run, also in a process that is stopped
		}
	}
}
