package reaper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Main runs the program that the daemon orders. It never returns.
func Main() {
	kind, err := unix.GetsockoptInt(SocketFD, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		os.Exit(1) // a person has started it
	}
	unix.CloseOnExec(SocketFD)
	// If this thread ended, the kernel would kill the program. Also, each thread has its own capabilities.
	runtime.LockOSThread()
	socket := os.NewFile(SocketFD, "daemon")
	t := &tree{daemon: json.NewEncoder(socket)}
	if err := t.run(socket); err != nil {
		_ = t.daemon.Encode(Report{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// tree is the program, and all that it started.
type tree struct {
	daemon *json.Encoder

	mu   sync.Mutex // guards pid and over; held from the look at a child until it was reaped or killed
	pid  int        // of the program; 0 once it was reaped: the number may be another's then
	over bool       // everything is being killed
}

func (t *tree) run(socket *os.File) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	first, files, err := receive()
	if err != nil || len(first) == 0 {
		return err // the daemon needs no program any more
	}
	from := json.NewDecoder(io.MultiReader(bytes.NewReader(first), socket))
	var o Order
	if err := from.Decode(&o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	if t.pid, err = start(o, files); err != nil {
		return err
	}
	for _, fd := range files { // the daemon sees the end of the output when nobody holds it
		_ = unix.Close(int(fd))
	}
	if t.daemon.Encode(Report{Started: true}) != nil {
		t.killAll()
		return nil
	}
	go func() {
		for from.Decode(&Terminate{}) == nil {
			t.terminate()
		}
		t.killAll()
		os.Exit(0)
	}()
	t.wait()
	return nil
}

// receive takes the first part of the order, with the descriptors that the program has as 0 to 2.
func receive() (first []byte, files []uintptr, err error) {
	body, oob := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4*3))
	n, oobn, _, _, err := unix.Recvmsg(SocketFD, body, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return nil, nil, os.NewSyscallError("recvmsg", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, nil, fmt.Errorf("read the descriptors of the order: %w", err)
	}
	if len(messages) != 1 {
		return nil, nil, errors.New("the order has no descriptors")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, nil, fmt.Errorf("read the descriptors of the order: %w", err)
	}
	if len(fds) != 3 {
		return nil, nil, fmt.Errorf("the order has %d descriptors, want 3", len(fds))
	}
	for _, fd := range fds {
		files = append(files, uintptr(fd))
	}
	return body[:n], files, nil
}

// start starts the program in a process group of its own.
func start(o Order, files []uintptr) (pid int, err error) {
	attr := &syscall.ProcAttr{
		Dir: "/", Env: texts(o.Env), Files: files,
		// If somebody kills the reaper, at least the program ends.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if u := o.User; u != nil {
		if !u.Valid() {
			return 0, fmt.Errorf("no program can have uid %d and gid %d", u.UID, u.GID)
		}
		as := &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
		for _, g := range u.Groups {
			as.Groups = append(as.Groups, uint32(g))
		}
		attr.Sys.Credential = as
		if err := keepNoCapabilities(); err != nil {
			return 0, err
		}
	}
	pid, err = syscall.ForkExec(string(o.Path), texts(o.Argv), attr)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", o.Path, err)
	}
	return pid, nil
}

func texts(all [][]byte) []string {
	out := make([]string, 0, len(all))
	for _, b := range all {
		out = append(out, string(b))
	}
	return out
}

// keepNoCapabilities takes from this thread what its programs would keep of its capabilities with any uid.
// The reaper itself needs CAP_KILL.
func keepNoCapabilities() error {
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) { // a kernel without them
		return os.NewSyscallError("prctl", err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return os.NewSyscallError("capset", unix.Capset(&head, &data[0]))
}

func (t *tree) terminate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pid > 0 {
		_ = unix.Kill(-t.pid, unix.SIGTERM)
	}
}

// wait reaps what ends, until nothing is left.
func (t *tree) wait() {
	for {
		// What has ended keeps its number until it is reaped, below.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return // no child is left, and so no descendant
		}
		t.mu.Lock()
		if t.over {
			t.mu.Unlock()
			select {} // until killAll is done
		}
		ended := t.reap()
		t.mu.Unlock()
		if ended != nil {
			_ = t.daemon.Encode(ended) // the end of the daemon is seen where it is read
		}
	}
}

// reap reaps one child, if one has ended, and says so of the program. t.mu is held.
func (t *tree) reap() *Report {
	var status unix.WaitStatus
	pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
	if err != nil || pid <= 0 || pid != t.pid { // 0: after a signal, none has ended
		return nil
	}
	t.pid = 0
	r := &Report{Ended: true, Code: status.ExitStatus()}
	if status.Signaled() {
		r.Signal = status.Signal().String()
	}
	r.Alone = errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil), unix.ECHILD)
	return r
}

const (
	between = 200 * time.Microsecond
	// patience is how many looks may find nothing that can be killed: about a second.
	patience = 5000
)

// killAll returns when nothing is left, or nothing that could be killed.
func (t *tree) killAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.pid > 0 {
		_ = unix.Kill(-t.pid, unix.SIGKILL) // most of it at once
	}
	left := 0
	for in := 0; in < patience; in++ {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return
			}
			if pid <= 0 {
				break
			}
			in = 0
		}
		// A child that is not reaped keeps its number, so nobody else is killed. Deeper ones become
		// children when their parents end.
		left = 0
		for pid := range children {
			if left++; unix.Kill(pid, unix.SIGKILL) == nil {
				in = 0 // it ends, however long that takes
			}
		}
		time.Sleep(between)
	}
	_ = t.daemon.Encode(Report{Left: max(left, 1)})
}
