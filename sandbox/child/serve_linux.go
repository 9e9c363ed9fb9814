package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	covered map[string]bool
	pinned  map[string]bool
	calls   map[uint64]*running
	spare   *running // the init process of the next call
	changes int      // of the session's mounts
}

// running is a call whose init process lives. Its pid stays ours until the loop
// reaps it.
type running struct {
	id         uint64
	pid, pidfd int
	fds        []int // of its streams
	a          *arena
	inits      []Op
	cmds       []Op

	changes int // of the mounts that it has a copy of
	mounts  int // its mount namespace, or -1
}

// loop serves requests and ends of calls as they come, all from one thread: every
// hand-over to another one is a wait for a processor, and those are most of what
// a call costs.
func (s *server) loop() error {
	runtime.LockOSThread()
	var polled []unix.PollFd
	var order []*running
	for {
		polled = append(polled[:0], unix.PollFd{Fd: socketFD, Events: unix.POLLIN})
		order = order[:0]
		for _, c := range s.calls {
			polled = append(polled, unix.PollFd{Fd: int32(c.pidfd), Events: unix.POLLIN})
			order = append(order, c)
		}
		if _, err := unix.Poll(polled, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return err
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
	if len(fds) != 3 && !r.Print || len(r.Argv) == 0 {
		return &Reply{Error: "malformed request"}
	}
	if err := s.hide(r.Masks); err != nil {
		return &Reply{Error: err.Error()}
	}
	path, notFound := lookPath(r.Argv[0], r.Dir, r.Env)
	if path == "" {
		return &Reply{NotFound: notFound}
	}
	c, err := s.takeSpare(r)
	if err != nil {
		return &Reply{Error: err.Error()}
	}
	var std [3]int
	copy(std[:], fds)
	c.cmds = c.a.cmdOps(s, r, path, std)
	if r.Print {
		s.discard(c)
		return &Reply{Ops: append(names(c.inits), names(c.cmds)...)}
	}
	c.a.cmd = c.a.ops(c.cmds)
	c.id, c.fds = r.ID, fds
	s.calls[r.ID] = c
	c.a.open()
	return nil
}

// takeSpare gives the init process that was made ahead, if it fits, or a new one.
func (s *server) takeSpare(r *Request) (*running, error) {
	c := s.spare
	s.spare = nil
	if c != nil && c.changes == s.changes && s.size(r) <= spareSize {
		return c, nil
	}
	if c != nil {
		s.discard(c)
	}
	return s.newInit(max(spareSize, s.size(r)))
}

// spareSize is the arena of an init process whose call is not known yet.
const spareSize = 256 << 10

// newInit clones an init process with the mounts of now.
func (s *server) newInit(size int) (*running, error) {
	a, err := newArena(size)
	if err != nil {
		return nil, err
	}
	c := &running{a: a, inits: a.initOps(s), changes: s.changes}
	a.init = a.ops(c.inits)
	if c.pid, c.pidfd, err = a.spawn(s.cloneFlags()); err != nil {
		a.free()
		return nil, err
	}
	// Whoever holds a mount namespace last takes it apart, which waits for every
	// processor. That shall not be the init process, whose end is being waited for.
	c.mounts = -1
	if s.t.Profile == "strict" {
		if fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", c.pid), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			c.mounts = fd
		}
	}
	return c, nil
}

// release lets go of what is left of a call.
func (c *running) release() {
	_ = unix.Close(c.pidfd)
	c.a.free()
	if c.mounts >= 0 {
		go unix.Close(c.mounts)
	}
}

// discard ends an init process that runs no program.
func (s *server) discard(c *running) {
	_ = unix.Kill(c.pid, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(c.pid, nil, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.release()
}

func (s *server) cloneFlags() uint64 {
	if s.t.Profile == "strict" {
		return unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	}
	return unix.CLONE_NEWPID
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
	delete(s.calls, c.id)
	closeAll(c.fds) // before the answer, which promises that nobody writes any more
	_ = s.send(c.a.reply(c.id, ws, ru, c.inits, c.cmds))
	c.release()
	if s.spare == nil {
		// While the caller reads its answer. Without one the next call makes it.
		s.spare, _ = s.newInit(spareSize)
	}
}

func (a *arena) reply(id uint64, ws unix.WaitStatus, ru unix.Rusage, inits, cmds []Op) Reply {
	r := Reply{ID: id}
	switch {
	case a.initFailed.op != 0:
		r.Error = a.initFailed.explain("set up the call", inits)
	case a.cmdFailed.op != 0 && int(a.cmdFailed.op) == len(cmds): // execve, the last one
		why := fmt.Sprintf("%s: %v", strings.TrimPrefix(cmds[len(cmds)-1].Name, "execve "), unix.Errno(a.cmdFailed.errno))
		if unix.Errno(a.cmdFailed.errno) == unix.ENOENT {
			r.NotFound = why
		} else {
			r.NotExecutable = why
		}
	case a.cmdFailed.op != 0:
		r.Error = a.cmdFailed.explain("confine the program", cmds)
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
	return r
}

func (s *server) signal(id uint64, sig int) {
	if c := s.calls[id]; c != nil {
		_ = unix.Kill(c.pid, unix.Signal(sig))
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
