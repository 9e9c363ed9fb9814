package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// launcher is the daemon's end of one child process.
type launcher struct {
	session string
	onGone  func()
	conn    *net.UnixConn
	cmd     *exec.Cmd
	ready   child.Ready
	ended   chan struct{} // closed when the process is gone
	stderr  bytes.Buffer  // read after ended

	groups    *groupTree // nil without control groups
	groupName string

	mu      sync.Mutex
	calls   map[uint64]chan child.Reply // guarded by mu
	next    uint64                      // guarded by mu
	holders int                         // guarded by mu
	dead    bool                        // guarded by mu: takes no more calls
	used    time.Time                   // guarded by mu: when it had its last holder
}

// startDeadline bounds the making of a session's root.
const startDeadline = 30 * time.Second

// startLauncher clones the child into its namespaces. It belongs to no session
// until serve.
func startLauncher(path, root string, attr *syscall.SysProcAttr, groups *groupTree) (*launcher, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket for the launcher: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "launcher"), os.NewFile(uintptr(pair[1]), "launcher")
	defer theirs.Close()
	generic, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return nil, fmt.Errorf("use the socket of the launcher: %w", err)
	}
	l := &launcher{conn: generic.(*net.UnixConn), calls: map[uint64]chan child.Reply{}, ended: make(chan struct{})}
	// One thread does the work; more processors would only wake more threads.
	l.cmd = &exec.Cmd{
		Path: path, Args: []string{child.Arg0}, Env: []string{"GOMAXPROCS=1"}, Dir: "/",
		ExtraFiles: []*os.File{theirs}, Stderr: &l.stderr,
		SysProcAttr: attr,
	}
	if root != "" {
		l.cmd.Env = append(l.cmd.Env, child.RootEnv+"="+root)
	}
	if groups != nil {
		l.groups, l.groupName = groups, rand.Text()
		files, err := groups.open(l.groupName)
		if err != nil {
			l.conn.Close()
			return nil, err
		}
		for _, f := range files {
			defer f.Close()
		}
		l.cmd.ExtraFiles = append(l.cmd.ExtraFiles, files...)
		l.cmd.Env = append(l.cmd.Env, child.GroupsEnv+"="+groups.version)
	}
	if err := l.cmd.Start(); err != nil {
		l.conn.Close()
		if groups != nil {
			groups.close(l.groupName)
		}
		return nil, fmt.Errorf("start the launcher %s: %w", path, err)
	}
	theirs.Close()
	go func() {
		_ = l.cmd.Wait()
		if groups != nil {
			groups.close(l.groupName)
		}
		close(l.ended)
	}()
	return l, nil
}

// serve makes it the launcher of a session. After an error it is closed, and when ctx
// is cancelled meanwhile.
func (l *launcher) serve(ctx context.Context, template []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = l.cmd.Process.Kill() })
	defer stop()
	if err := l.greet(template); err != nil {
		l.close()
		if s := strings.TrimSpace(l.stderr.String()); s != "" {
			err = fmt.Errorf("%w (%s)", err, s)
		}
		return err
	}
	go l.read()
	return nil
}

// gone reports whether the process has ended.
func (l *launcher) gone() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// sessionNamespaces are those of a session. Ids keep their numbers, so that files have
// the right owners and git finds its repositories safe.
func sessionNamespaces(noUserns bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Setsid:     true, // what is typed at the daemon's terminal is not for this process
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	if noUserns {
		return a
	}
	a.Cloneflags |= unix.CLONE_NEWUSER
	if os.Geteuid() != 0 {
		// Keeping its uid, the launcher would lose at exec what the new user
		// namespace gave it. These hold in that namespace only.
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_KILL, unix.CAP_SYS_PTRACE, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH}
	}
	if os.Geteuid() == 0 {
		a.UidMappings, a.GidMappings = sameIDs("/proc/self/uid_map"), sameIDs("/proc/self/gid_map")
		a.GidMappingsEnableSetgroups = true
	}
	if a.UidMappings == nil || a.GidMappings == nil {
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		a.GidMappingsEnableSetgroups = false
	}
	return a
}

// sameIDs maps every id that this process knows to itself.
func sameIDs(file string) []syscall.SysProcIDMap {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var out []syscall.SysProcIDMap
	for line := range strings.Lines(string(b)) {
		var inside, outside, n int
		if _, err := fmt.Sscan(line, &inside, &outside, &n); err != nil {
			return nil
		}
		out = append(out, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: n})
	}
	return out
}

// greet sends the template and waits until the root is built.
func (l *launcher) greet(template []byte) error {
	if err := l.conn.SetReadDeadline(time.Now().Add(startDeadline)); err != nil {
		return err
	}
	if err := l.write(template, nil); err != nil {
		return fmt.Errorf("send the template to the launcher: %w", err)
	}
	buf := make([]byte, 64<<10)
	n, err := l.conn.Read(buf)
	if err != nil {
		return fmt.Errorf("the launcher did not get ready: %w", err)
	}
	if err := json.Unmarshal(buf[:n], &l.ready); err != nil {
		return fmt.Errorf("the launcher answered %q: %w", buf[:n], err)
	}
	if l.ready.Error != "" {
		return fmt.Errorf("build the root of the session: %s", l.ready.Error)
	}
	return l.conn.SetReadDeadline(time.Time{})
}

// write sends one message; a large one goes into a sealed file of memory.
func (l *launcher) write(body []byte, files []*os.File) error {
	if len(body) > 48<<10 {
		fd, err := unix.MemfdCreate("request", unix.MFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("make a file for a large request: %w", err)
		}
		f := os.NewFile(uintptr(fd), "request")
		defer f.Close()
		if _, err := f.Write(body); err != nil {
			return err
		}
		files = append([]*os.File{f}, files...)
		var head struct{ ID uint64 }
		_ = json.Unmarshal(body, &head)
		body, _ = json.Marshal(child.Request{ID: head.ID, Body: true})
	}
	var fds []int
	for _, f := range files {
		// Fd, and not SyscallConn: it makes the file blocking again, which is
		// what programs expect of their streams.
		fd := f.Fd()
		if fd == ^uintptr(0) {
			return os.ErrClosed
		}
		fds = append(fds, int(fd))
	}
	var oob []byte
	if fds != nil {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := l.conn.WriteMsgUnix(body, oob, nil)
	return err
}

// read hands the answers to their calls until the launcher is gone; then every
// call that still waits gets an empty channel closed.
func (l *launcher) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := l.conn.Read(buf)
		if err != nil || n == 0 {
			break
		}
		var r child.Reply
		if json.Unmarshal(buf[:n], &r) != nil {
			break
		}
		l.mu.Lock()
		ch := l.calls[r.ID]
		delete(l.calls, r.ID)
		l.mu.Unlock()
		if ch != nil {
			ch <- r
		}
	}
	l.mu.Lock()
	l.dead = true
	waiting := l.calls
	l.calls = nil
	l.mu.Unlock()
	l.onGone()
	// The socket closes before the processes are gone; an answer promises that
	// they are.
	_ = l.cmd.Process.Kill()
	<-l.ended
	for _, ch := range waiting {
		close(ch)
	}
	l.conn.Close()
}

// newID names a call before it starts, for what watches it to use.
func (l *launcher) newID() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next
}

var errLauncherGone = errors.New("the launcher of this session ended during the call")

// call sends a request; its answer comes on the channel, which is closed without
// one when the launcher dies.
func (l *launcher) call(r child.Request, files []*os.File) (<-chan child.Reply, error) {
	l.mu.Lock()
	if l.calls == nil {
		l.mu.Unlock()
		return nil, errLauncherGone
	}
	ch := make(chan child.Reply, 1)
	l.calls[r.ID] = ch
	l.mu.Unlock()
	body, err := json.Marshal(r)
	if err == nil {
		err = l.write(body, files)
	}
	if err != nil {
		l.mu.Lock()
		delete(l.calls, r.ID)
		l.mu.Unlock()
		return nil, fmt.Errorf("send a request to the launcher: %w", err)
	}
	return ch, nil
}

func (l *launcher) signal(id uint64, sig syscall.Signal) {
	body, err := json.Marshal(child.Request{ID: id, Signal: int(sig)})
	if err == nil {
		_ = l.write(body, nil)
	}
}

// hold keeps the launcher from going away for lack of work; false when it is gone.
func (l *launcher) hold() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return false
	}
	l.holders++
	return true
}

func (l *launcher) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders--
	l.used = time.Now()
}

// resting reports whether nobody holds the launcher, and since when.
func (l *launcher) resting() (since time.Time, rests bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used, l.holders == 0
}

// retire makes a launcher that has not been held for that long take no more calls.
// The caller then closes it.
func (l *launcher) retire(after time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead || l.holders > 0 || time.Since(l.used) < after {
		return false
	}
	l.dead = true
	return true
}

// close ends the launcher, and with it, as the init of the session, everything
// that it started. It returns when they are gone.
func (l *launcher) close() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	_ = l.cmd.Process.Kill()
	<-l.ended
	l.conn.Close()
}
