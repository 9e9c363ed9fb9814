package launch

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/ctime"
	"github.com/sandboxd/sandboxd/sandbox/identity"
	"github.com/sandboxd/sandboxd/sandbox/limit"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// ErrGone says that the launcher ended, and every call in it. Another launcher can be had with [Pool.Get].
var ErrGone = errors.New("the launcher of this session ended during the call")

// Launcher is the daemon's end of one launcher process.
type Launcher struct {
	Process   *os.Process
	Ended     <-chan struct{} // closed when the process is gone
	Groups    *limit.Groups   // nil without control groups
	GroupName string          // in Groups
	Network   Network         // set by Serve; nil: there is no way out
	NoNetwork string          // set by Serve: why there is none, although the template has one

	session string
	onGone  func()
	conn    *net.UnixConn
	raw     syscall.RawConn // of conn
	stderr  bytes.Buffer    // read after Ended
	group   *os.File        // the process, as the leader of its group
	config  Config

	mu      sync.Mutex
	calls   map[uint64]chan wire.Reply   // guarded by mu
	answers map[uint64]chan wire.Message // guarded by mu; by request
	sockets map[uint64]chan []*os.File   // guarded by mu; of Dial, by request
	next    uint64                       // guarded by mu: id of a request
	slots   []Slot                       // guarded by mu: not taken by a call yet
	newest  uint64                       // guarded by mu: the newest slot ever received
	holders int                          // guarded by mu
	dead    bool                         // guarded by mu: takes no more calls
	used    time.Time                    // guarded by mu: when it had its last holder
	scanned int                          // guarded by mu: the generation that the launcher has scanned

	listeners map[netip.AddrPort]net.Listener // guarded by mu; at addresses of names; nil: no way out

	scanning   sync.Mutex      // may be held for long: file systems are asked
	dirs       *ctime.Set      // guarded by scanning; directories of what must be hidden
	masked     map[string]bool // guarded by scanning; sockets that must be hidden
	kept       map[string]Kept // guarded by scanning; by root
	keep       []wire.Kept     // guarded by scanning; the paths of all of them
	generation int             // guarded by scanning; counts changes in dirs, masked and kept
}

// Options say how a launcher is started.
type Options struct {
	Child        string // path of the launcher's binary
	Root         string // directory that it builds its root on
	NoUserns     bool   // without a user namespace, which only root can
	NoNamespaces bool   // without any
	Groups       *limit.Groups
}

// Config is what a launcher serves.
type Config struct {
	Template []byte       // a wire.Template
	Key      string       // launchers with the same key are interchangeable
	Watch    []string     // directories on the host in which a path to hide may appear
	Replaces bool         // the session's other launchers take no more calls
	Prepare  func() error // makes directories that the template names; nil: nothing

	// Network makes the daemon's end of the way out, if the template has one.
	Network func() Network
}

// startDeadline bounds how long a launcher may take to build its root.
const startDeadline = 30 * time.Second

// Start starts a launcher in its namespaces. It belongs to no session until Serve.
func Start(o Options) (*Launcher, error) {
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
	ended := make(chan struct{})
	conn := generic.(*net.UnixConn)
	raw, err := conn.SyscallConn()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("use the socket of the launcher: %w", err)
	}
	l := &Launcher{
		Ended: ended, conn: conn, raw: raw,
		calls: map[uint64]chan wire.Reply{}, answers: map[uint64]chan wire.Message{},
		sockets: map[uint64]chan []*os.File{},
	}
	// One thread does the work; more processors would only wake more threads.
	cmd := &exec.Cmd{
		Path: o.Child, Args: []string{wire.Arg0, wire.Flag}, Env: []string{"GOMAXPROCS=1"}, Dir: "/",
		ExtraFiles: []*os.File{theirs}, Stderr: &l.stderr, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if !o.NoNamespaces {
		cmd.SysProcAttr = namespaces(o.NoUserns)
		cmd.Env = append(cmd.Env, wire.RootEnv+"="+o.Root)
	}
	// A launcher that is stopped does not see that its socket closes.
	cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	pidfd := -1
	cmd.SysProcAttr.PidFD = &pidfd
	if o.Groups != nil {
		l.Groups, l.GroupName = o.Groups, rand.Text()
		files, err := o.Groups.Open(l.GroupName)
		if err != nil {
			l.conn.Close()
			return nil, err
		}
		for _, f := range files {
			defer f.Close()
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, files...)
		cmd.Env = append(cmd.Env, wire.GroupsEnv+"="+o.Groups.Version)
	}
	started := make(chan error)
	go func() {
		// That signal comes when the thread ends that has started the launcher: it stays here, and ends with it.
		runtime.LockOSThread()
		start := cmd.Start
		if l.Groups != nil {
			start = func() error { return l.Groups.Start(l.GroupName, cmd.Start) }
		}
		err := identity.Unchanged(start)
		if err == nil && pidfd >= 0 {
			l.group = os.NewFile(uintptr(pidfd), "launcher")
		}
		if started <- err; err != nil {
			return
		}
		yield(cmd.Process.Pid)
		_ = cmd.Wait()
		l.group.Close()
		l.closeGroups()
		close(ended)
	}()
	if err := <-started; err != nil {
		l.conn.Close()
		l.closeGroups()
		return nil, fmt.Errorf("start the launcher %s: %w", o.Child, err)
	}
	l.Process = cmd.Process
	return l, nil
}

// yield lets the session of a launcher, which its programs are in, weigh less than the daemon where the
// kernel weighs sessions (autogroups, sched(7)) and so gives the priority of each process no effect.
func yield(pid int) {
	file := fmt.Sprintf("/proc/%d/autogroup", pid)
	// The kernel takes ten of these a second from those that are not root.
	for errors.Is(os.WriteFile(file, []byte(strconv.Itoa(wire.Nice)), 0), unix.EAGAIN) {
		time.Sleep(100 * time.Millisecond)
	}
}

func (l *Launcher) closeGroups() {
	if l.Groups != nil {
		l.Groups.Close(l.GroupName)
	}
}

// Serve has the launcher build the root of a session. The first slot will fit a call like
// first. If that fails, or if ctx is cancelled meanwhile, the launcher is closed.
func (l *Launcher) Serve(ctx context.Context, c Config, first Entry) error {
	stop := context.AfterFunc(ctx, l.kill)
	defer stop()
	if err := l.handshake(ctx, c, first); err != nil {
		l.Close()
		l.closeNetwork()
		if s := strings.TrimSpace(l.stderr.String()); s != "" {
			err = fmt.Errorf("%w (%s)", err, s)
		}
		return err
	}
	go l.read()
	return nil
}

// handshake sends the template and waits until the root is built.
func (l *Launcher) handshake(ctx context.Context, c Config, e Entry) error {
	l.config = c
	// First watch, then let the launcher scan: what appears from now on is noticed.
	l.masked, l.kept, l.dirs = map[string]bool{}, map[string]Kept{}, &ctime.Set{}
	for _, dir := range c.Watch {
		l.dirs.Add(dir)
	}
	generation, masks, kept := l.mustScan(e)
	l.scanned = generation
	l.next++
	first := wire.Request{ID: l.next, Masks: masks, Kept: kept, Limits: e.Limits}
	body, err := json.Marshal(first)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	if err := l.conn.SetReadDeadline(time.Now().Add(startDeadline)); err != nil {
		return err
	}
	for _, b := range [][]byte{c.Template, body} {
		if err := l.write(ctx, b); err != nil {
			return fmt.Errorf("send the template to the launcher: %w", err)
		}
	}
	for ready := false; !ready; {
		m, fds, err := l.receive(make([]byte, wire.MaxMessage))
		if err != nil {
			return fmt.Errorf("the launcher did not get ready: %w", err)
		}
		if m.Error != "" {
			return errors.New(m.Error)
		}
		l.dispatch(m, fds)
		ready = m.For != 0
	}
	return l.conn.SetReadDeadline(time.Time{})
}

// Gone reports whether the process has ended.
func (l *Launcher) Gone() bool {
	select {
	case <-l.Ended:
		return true
	default:
		return false
	}
}

// hold keeps the launcher from being ended because it rests. It reports false if the
// launcher takes no more calls.
func (l *Launcher) hold() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return false
	}
	l.holders++
	return true
}

// Release ends what [Pool.Get] began: this caller needs the launcher no longer.
func (l *Launcher) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders--
	l.used = time.Now()
}

// resting reports whether nobody holds the launcher, and since when.
func (l *Launcher) resting() (since time.Time, rests bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used, l.holders == 0
}

// retire makes a launcher take no more calls if nobody has held it for that long. The
// caller then closes it.
func (l *Launcher) retire(after time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead || l.holders > 0 || time.Since(l.used) < after {
		return false
	}
	l.dead = true
	return true
}

// Close ends the launcher and everything that it started. It returns when they are gone.
func (l *Launcher) Close() {
	l.kill()
	<-l.Ended
	l.conn.Close()
}
