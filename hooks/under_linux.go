package hooks

import (
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/reaper"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// under is the daemon's end of a reaper.
type under struct {
	pid    int
	daemon *net.UnixConn // to the reaper
	gone   chan struct{} // closed when it has ended
	alone  bool          // nothing but the reaper itself is left
	cont   func() error  // lets it go on if somebody stopped it
}

// startReaper starts a reaper. It can take the rights of users if it is told to, and the daemon can.
func startReaper(child string, rights bool) (*under, error) {
	if child == "" {
		child = "/proc/self/exe"
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "reaper"), os.NewFile(uintptr(pair[1]), "daemon")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return nil, err
	}
	// One thread does the work; more processors would only wake more threads.
	cmd := &exec.Cmd{
		Path: child, Args: []string{wire.Arg0, reaper.Flag}, Env: []string{"GOMAXPROCS=1"}, Dir: "/",
		ExtraFiles: []*os.File{theirs}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if rights {
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL}
	}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	u := &under{
		pid: cmd.Process.Pid, daemon: conn.(*net.UnixConn), gone: make(chan struct{}),
		cont: func() error { return cmd.Process.Signal(syscall.SIGCONT) },
	}
	go func() {
		defer close(u.gone)
		_ = cmd.Wait() // it has said all
	}()
	return u, nil
}

// send sends the order, with the files of the program.
func (u *under) send(order []byte, files []*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	n, _, err := u.daemon.WriteMsgUnix(order, unix.UnixRights(fds...), nil)
	if err == nil && n < len(order) {
		_, err = u.daemon.Write(order[n:])
	}
	return err
}

// finish has the reaper kill what is left, and waits until nothing is. A reaper that is alone has nothing to
// do, and may say no more.
func (u *under) finish() (alone bool) {
	_ = u.daemon.CloseWrite()
	if u.alone {
		return true
	}
	u.goOn(u.gone)
	return false
}

// contEvery is how often a reaper is let go on.
const contEvery = 10 * time.Millisecond

// goOn lets the reaper go on until something is done: a program has the rights to stop its parent at any moment, and
// as often as it likes.
func (u *under) goOn(until <-chan struct{}) {
	again := time.NewTicker(contEvery)
	defer again.Stop()
	for {
		_ = u.cont()
		select {
		case <-until:
			return
		case <-again.C:
		}
	}
}

// spare is a reaper that has no program yet: to start one takes longer than to start most hooks.
type spare struct {
	mu    sync.Mutex // guards next, child and making
	next  *under     // nil: none is ready
	child string     // of next
	busy  bool       // one is being made
}

// reaper returns a reaper without a program.
func (s *spare) reaper(child string, rights bool) (*under, error) {
	if !rights {
		if u := s.take(child); u != nil {
			return u, nil
		}
	}
	return startReaper(child, rights)
}

func (s *spare) take(child string) *under {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.next
	if s.next = nil; u == nil {
		return nil
	}
	select {
	case <-u.gone:
	default:
		if s.child == child {
			return u
		}
	}
	u.daemon.Close()
	return nil
}

// prepare makes a spare one, if there is none.
func (s *spare) prepare(child string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil || s.busy {
		return
	}
	s.busy = true
	go func() {
		u, err := startReaper(child, false)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy = false; err == nil { // else the next run says why
			s.next, s.child = u, child
		}
	}()
}
