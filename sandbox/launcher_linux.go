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
	ended   chan struct{} // closed when the process is gone
	stderr  bytes.Buffer  // read after ended

	groups    *groupTree // nil without control groups
	groupName string

	mu      sync.Mutex
	calls   map[uint64]chan child.Reply   // guarded by mu
	answers map[uint64]chan child.Message // guarded by mu; by request
	next    uint64                        // guarded by mu: id of a request
	doors   []door                        // guarded by mu: that no call has taken
	seen    uint64                        // guarded by mu: the newest of all
	holders int                           // guarded by mu
	dead    bool                          // guarded by mu: takes no more calls
	used    time.Time                     // guarded by mu: when it had its last holder
	looked  int                           // guarded by mu: the change after which the child has looked

	looking sync.Mutex      // may be held for long: it asks file systems
	places  *child.Places   // guarded by looking; the directories of what must be hidden
	masked  map[string]bool // guarded by looking: sockets among that
	change  int             // guarded by looking: how often something has changed there
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
	l := &launcher{conn: generic.(*net.UnixConn), calls: map[uint64]chan child.Reply{}, answers: map[uint64]chan child.Message{}, ended: make(chan struct{})}
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

// serve makes it the launcher of a session, in which the first door is for a call like
// first. After an error it is closed, and when ctx is cancelled meanwhile.
func (l *launcher) serve(ctx context.Context, t template, first child.Request) error {
	stop := context.AfterFunc(ctx, func() { _ = l.cmd.Process.Kill() })
	defer stop()
	if err := l.greet(t, first); err != nil {
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

// greet sends the template and waits until the root is built.
func (l *launcher) greet(t template, first child.Request) error {
	// What comes to be from now on is noticed: the launcher looks later.
	l.masked, l.places = map[string]bool{}, &child.Places{}
	for _, dir := range t.watch {
		l.places.Add(dir)
	}
	l.change, first.Masks = l.notice(first.Masks)
	l.looked = l.change
	l.next++
	first.ID = l.next
	body, err := json.Marshal(first)
	if err != nil {
		return err
	}
	if err := l.conn.SetReadDeadline(time.Now().Add(startDeadline)); err != nil {
		return err
	}
	for _, b := range [][]byte{t.body, body} {
		if err := l.write(b); err != nil {
			return fmt.Errorf("send the template to the launcher: %w", err)
		}
	}
	m, fd, err := l.receive(make([]byte, 64<<10))
	if err != nil {
		return fmt.Errorf("the launcher did not get ready: %w", err)
	}
	if m.Error != "" {
		return errors.New(m.Error)
	}
	l.take(m, fd)
	return l.conn.SetReadDeadline(time.Time{})
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
