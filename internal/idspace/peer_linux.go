package idspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/identity"
)

// Peer is the process at the other end of a connection, as the kernel described it when it
// connected.
type Peer struct {
	identity.ID
	PID int
}

// maxGroups is how many supplementary groups are told of one peer. The kernel allows 65536.
const maxGroups = 4096

// PeerOf asks the kernel about a connection.
func PeerOf(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, os.NewSyscallError("getsockopt", err)
	}
	p := Peer{ID: identity.ID{UID: int(cred.Uid), GID: int(cred.Gid)}, PID: int(cred.Pid)}
	ids := make([]uint32, 32)
	for {
		size := uint32(4 * len(ids))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&ids[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == unix.ERANGE && int(size/4) > len(ids): // the kernel says how many there are
			ids = make([]uint32, size/4)
			continue
		case errno != 0:
			return Peer{}, os.NewSyscallError("getsockopt", errno)
		}
		for _, g := range ids[:size/4] {
			p.Groups = append(p.Groups, int(g))
		}
		return p, nil
	}
}

// answer is the outer process: for each connection that comes, it says who is at its end.
func answer(socket int) {
	oob, one := make([]byte, unix.CmsgSpace(4)), make([]byte, 1)
	for {
		n, oobn, _, _, err := unix.Recvmsg(socket, one, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return // the inner process is gone
		}
		var out []byte
		for _, fd := range descriptors(oob[:oobn]) {
			if p, err := PeerOf(fd); err == nil && len(p.Groups) <= maxGroups {
				out = out[:0]
				for _, v := range append([]int{p.UID, p.GID, p.PID}, p.Groups...) {
					out = binary.NativeEndian.AppendUint32(out, uint32(v))
				}
			}
			unix.Close(fd)
		}
		if len(out) == 0 {
			out = []byte{0} // unknown
		}
		if err := unix.Send(socket, out, unix.MSG_NOSIGNAL); err != nil {
			return
		}
	}
}

func descriptors(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if more, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, more...)
		}
	}
	return fds
}

// Inside is the inner process.
type Inside struct {
	mu     sync.Mutex // one question at a time
	socket int
	buf    []byte
}

// Enter makes this process the inner one that [Run] has started, and returns nil if it is
// none. Programs that it starts from then on have no capabilities.
func Enter() (*Inside, error) {
	fd, err := strconv.Atoi(os.Getenv(insideEnv))
	if err != nil {
		return nil, nil
	}
	if err := os.Unsetenv(insideEnv); err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return nil, fmt.Errorf("%s is set, and descriptor %d leads to no other process", insideEnv, fd)
	}
	// All threads: any of them may start a program.
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL,
		0, 0, 0, 0)
	if errno != 0 { // a binary with cgo cannot do it for all threads
		return nil, fmt.Errorf("keep capabilities from programs: %w; build sandboxd with CGO_ENABLED=0", errno)
	}
	// The service manager knows the outer process; its sockets are for this one.
	if os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getppid()) {
		if err := os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())); err != nil {
			return nil, err
		}
	}
	go endWithOuter(fd)
	return &Inside{socket: fd, buf: make([]byte, 4*(3+maxGroups))}, nil
}

// endWithOuter kills this process when the outer one is gone. Pdeathsig does it only until the
// first thread takes the rights of an account, as any thread may: then the kernel forgets it
// (prctl(2), PR_SET_PDEATHSIG).
func endWithOuter(socket int) {
	for {
		fds := []unix.PollFd{{Fd: int32(socket)}} // the end of the other side is always told
		if _, err := unix.Poll(fds, -1); err == nil && fds[0].Revents != 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
	}
}

// PeerOf asks the outer process about a connection. The numbers are those of its namespace.
func (in *Inside) PeerOf(fd int) (Peer, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := unix.Sendmsg(in.socket, []byte{0}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL); err != nil {
		return Peer{}, fmt.Errorf("ask who is calling: %w", err)
	}
	var n int
	var err error
	for {
		n, _, err = unix.Recvfrom(in.socket, in.buf, 0)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return Peer{}, fmt.Errorf("ask who is calling: %w", err)
	}
	if n < 12 {
		return Peer{}, fmt.Errorf("who is calling cannot be told, or has more than %d groups", maxGroups)
	}
	word := func(i int) int { return int(binary.NativeEndian.Uint32(in.buf[4*i:])) }
	p := Peer{ID: identity.ID{UID: word(0), GID: word(1)}, PID: word(2)}
	for i := 3; i < n/4; i++ {
		p.Groups = append(p.Groups, word(i))
	}
	return p, nil
}

// Lacks returns those ids that this process has not, and cannot get. Root's group is none of them.
func (in *Inside) Lacks(ids IDs) []string {
	var all []string
	for _, l := range []struct {
		what string
		list []int
		has  func(int) bool
	}{{"uid", ids.UIDs, identity.HasUID}, {"gid", ids.GIDs, identity.HasGID}} {
		list := slices.Clone(l.list)
		slices.Sort(list)
		for _, id := range slices.Compact(list) {
			if id > 0 && !l.has(id) {
				all = append(all, fmt.Sprintf("%s %d", l.what, id))
			}
		}
	}
	return all
}
