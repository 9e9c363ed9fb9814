package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"strings"

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

	covered map[string]uint64 // mounts over denied and protected paths
	pinned  map[string]uint64 // mounts that keep what is above those from being renamed
	calls   map[uint64]*running
	changes int // of the session's mounts
	spares  spares
	groups  groups

	watched   []watched
	above     Places       // the directories of watched
	looked    bool         // at all of watched, since above has changed last
	body, oob []byte       // of the last message
	stat      unix.Statx_t // of the last path
}

// running is a call whose init process lives. Its pid stays ours until the loop
// reaps it.
type running struct {
	id         uint64 // 0 before it is known
	pid, pidfd int
	door       int // the launcher's end, or -1
	a          *arena
	inits      []Op
	aheads     []Op
	cmds       []Op

	limits  groupLimits // those of its group and its pid namespace
	group   *group      // nil without control groups
	changes int         // of the mounts that it has a copy of
	mounts  int         // its mount namespace, or -1

	listener int  // on which the kernel asks about refused calls, or -1
	heard    bool // it had one
	asked    int
	denied   []Denied
}

// loop serves requests and ends of calls as they come, all from one thread: every
// hand-over to another one is a wait for a processor, and those are most of what
// a call costs. What the next call will need is made when nothing else waits.
func (s *server) loop() error {
	runtime.LockOSThread()
	var polled []unix.PollFd
	var order, asking []*running
	for {
		polled = append(polled[:0], unix.PollFd{Fd: socketFD, Events: unix.POLLIN})
		order, asking = order[:0], asking[:0]
		for _, c := range s.calls {
			order = append(order, c)
		}
		order = append(order, s.spares.ending...)
		for _, c := range order {
			polled = append(polled, unix.PollFd{Fd: int32(c.pidfd), Events: unix.POLLIN})
		}
		for _, c := range s.calls {
			if fd := c.listener; fd >= 0 {
				polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
				asking = append(asking, c)
			} else if c.door >= 0 {
				polled = append(polled, unix.PollFd{Fd: int32(c.door), Events: unix.POLLIN})
				asking = append(asking, c)
			}
		}
		n, err := unix.Poll(polled, s.spares.patience())
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
		for i, c := range asking {
			switch got := polled[1+len(order)+i].Revents; {
			case got == 0:
			case c.listener < 0:
				c.hear()
			case got&unix.POLLIN != 0:
				s.answer(c)
			default:
				c.deaf()
			}
		}
		for i, c := range order {
			if polled[i+1].Revents != 0 {
				s.reap(c)
			}
		}
		if polled[0].Revents == 0 {
			continue
		}
		body, fds, err := s.receive()
		if errors.Is(err, io.EOF) {
			return nil // the daemon is gone: this process ends, and all calls with it
		}
		if err != nil {
			return err
		}
		s.handle(body, fds)
	}
}

func (s *server) handle(body []byte, fds []int) {
	var r Request
	if err := json.Unmarshal(body, &r); err != nil {
		closeAll(fds)
		return
	}
	if r.Body {
		if len(fds) == 0 {
			return
		}
		f := os.NewFile(uintptr(fds[0]), "request")
		fds = fds[1:]
		id := r.ID
		body, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
		f.Close()
		if err == nil {
			err = json.Unmarshal(body, &r)
		}
		if r.ID = id; err != nil {
			closeAll(fds)
			_ = s.send(Reply{ID: id, Error: "read the request: " + err.Error()})
			return
		}
	}
	if r.Signal != 0 {
		closeAll(fds)
		s.signal(r.ID, r.Signal)
		return
	}
	if reply := s.start(&r, fds); reply != nil {
		closeAll(fds)
		reply.ID = r.ID
		_ = s.send(*reply)
	}
}

// start begins one call. The answer is nil when it runs; reap answers then.
func (s *server) start(r *Request, fds []int) *Reply {
	if len(fds)+bits.OnesCount8(r.Null&7) != 3 && !r.Print || len(r.Argv) == 0 {
		return &Reply{Error: "malformed request"}
	}
	if err := s.hide(r.Masks); err != nil {
		return &Reply{Error: err.Error()}
	}
	path, notFound := lookPath(r.Argv[0], r.Dir, withEnv(s.t.Env, r.Env))
	if path == "" {
		return &Reply{NotFound: notFound}
	}
	std := fds
	if r.Null != 0 {
		null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return &Reply{Error: fmt.Sprintf("open /dev/null: %v", err)}
		}
		defer unix.Close(null)
		std = withNull(fds, r.Null, null)
	}
	c, err := s.take(r)
	if err != nil {
		return &Reply{Error: err.Error()}
	}
	if c.group != nil {
		// The group counts all processes together, and what is over the limit
		// ends with a reason that can be told.
		r.Limits.Memory = 0
	}
	if s.t.Bare && r.Limits.Processes > 0 {
		r.Limits.Processes += s.others // it is counted for the user, not for the call
	}
	c.cmds = c.a.cmdOps(s, r, path)
	if r.Print {
		s.discard(c)
		return &Reply{Ops: append(append(names(c.inits), names(c.aheads)...), names(c.cmds)...)}
	}
	c.a.cmd = c.a.ops(c.cmds)
	// An error means that its process has ended, and why is told when it is reaped.
	c.hear()
	if !s.t.Bare {
		ownDevices(fds)
	}
	_ = c.a.open(c.door, std)
	closeAll(fds)
	c.id = r.ID
	if c.listener >= 0 || s.t.Listen == nil {
		_ = unix.Close(c.door)
		c.door = -1
	}
	s.calls[r.ID] = c
	return nil
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
	if c.id != 0 {
		c.hear()
		delete(s.calls, c.id)
		_ = s.send(c.reply(ws, ru))
	}
	s.release(c)
}

func (c *running) reply(ws unix.WaitStatus, ru unix.Rusage) Reply {
	a, cmds := c.a, c.cmds
	r := Reply{ID: c.id, Denied: c.denied, Deaf: !c.heard}
	switch {
	case a.initFailed.op != 0:
		r.Error = a.initFailed.explain("set up the call", c.inits)
	case a.aheadFailed.op != 0:
		r.Error = a.aheadFailed.explain("confine the program", c.aheads)
	case a.cmdFailed.op != 0 && int(a.cmdFailed.op) == len(cmds): // execve, the last one
		why := fmt.Sprintf("%s: %v", strings.TrimPrefix(cmds[len(cmds)-1].Name, "execve "), unix.Errno(a.cmdFailed.errno))
		if unix.Errno(a.cmdFailed.errno) == unix.ENOENT {
			r.NotFound = why
		} else {
			r.NotExecutable = why
		}
	case a.cmdFailed.op != 0:
		r.Error = a.cmdFailed.explain("start the program", cmds)
	case ws.Signaled():
		// The whole tree was ended before the program's own status was known.
		r.Status = uint32(ws)
	default:
		r.Status = uint32(a.status)
	}
	// The init process has waited for everything, so its figure is the tree's.
	r.CPUUsec = (ru.Utime.Sec+ru.Stime.Sec)*1e6 + ru.Utime.Usec + ru.Stime.Usec
	r.MaxRSS = a.usage.Maxrss << 10
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
		_ = unix.Kill(c.pid, s.lastSignal(unix.Signal(sig)))
	}
}

// lookPath finds the program as a shell would, in the root of the session. The
// second result says why there is none.
func lookPath(name, dir string, env []string) (path, notFound string) {
	if strings.Contains(name, "/") {
		return name, "" // relative to Dir, for execve comes after chdir
	}
	if name == "" {
		return "", "the name of the program is empty"
	}
	for _, e := range env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(list) {
			if !filepath.IsAbs(d) {
				continue // a program of the workspace by a bare name is never meant
			}
			p := filepath.Join(d, name)
			if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return p, ""
			}
		}
	}
	return "", fmt.Sprintf("%s: not found in PATH", name)
}
