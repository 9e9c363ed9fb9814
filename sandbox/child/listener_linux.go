package child

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

const (
	maxDenied = 32  // different acts that are reported of a call
	maxPath   = 256 // bytes of a path: JSON may need six for one, and all must fit a message
	maxAsked  = 512 // system calls of a call that are described; later ones are only answered

	notifRecv     = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	notifSend     = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	notifContinue = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// filterOps install the filter with a listener, and send that to the launcher on the socket
// listeners, with the id of the call. From then on the kernel asks the launcher about each
// system call that the filter refuses, so that the act can be reported. Where another filter
// has a listener already, as in some containers, the kernel gives no second one, and the
// plain filter is installed. A call with bound files must have a listener.
func (a *arena) filterOps(ops *script.List, t wire.Template, b *boundFiles, id uint64, listeners int) {
	listen, flags := t.Listen, uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	if b != nil {
		listen = b.listen
	}
	// Once the launcher has a question, no signal may take it back. Otherwise a process that
	// executes a bound file would stop before the system call instead of after it. And if a signal
	// ends a connect, a Go program thinks that the connect has begun.
	if b != nil || t.Network {
		flags |= unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	}
	if listen == nil {
		ops.Add("seccomp", unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, a.program(t.Filter))
		return
	}
	ctl := a.Alloc(unix.CmsgSpace(4))
	*(*unix.Cmsghdr)(unsafe.Pointer(&ctl[0])) = unix.Cmsghdr{Level: unix.SOL_SOCKET, Type: unix.SCM_RIGHTS}
	(*unix.Cmsghdr)(unsafe.Pointer(&ctl[0])).SetLen(unix.CmsgLen(4))
	listener := a.Cell(ctl, unix.CmsgLen(0))
	text, iov, msg := a.Alloc(8), a.Alloc(16), a.Alloc(int(unsafe.Sizeof(syscall.Msghdr{})))
	a.listenerSent = a.Cell(a.Alloc(4), 0)
	binary.NativeEndian.PutUint64(text, id)
	*(*syscall.Iovec)(unsafe.Pointer(&iov[0])) = syscall.Iovec{Base: &text[0], Len: uint64(len(text))}
	*(*syscall.Msghdr)(unsafe.Pointer(&msg[0])) = syscall.Msghdr{
		Iov: (*syscall.Iovec)(unsafe.Pointer(&iov[0])), Iovlen: 1, Control: &ctl[0], Controllen: uint64(len(ctl)),
	}
	const install = unix.SECCOMP_SET_MODE_FILTER
	program := a.program(listen)
	o := ops.Add("seccomp with a listener", unix.SYS_SECCOMP, install, flags, program)
	o.Out = listener
	var without script.Ignored // what a call without bound files can do without
	if b == nil {
		without = script.AnyError
		o.Ignore = without
		if t.Network { // before Linux 5.19: programs that set SA_RESTART, as Go's do, get on without
			again := ops.Add("seccomp with a listener", unix.SYS_SECCOMP, install,
				unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, program)
			again.Out, again.Unless, again.Ignore = listener, listener, without
		}
		plain := ops.Add("seccomp", unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, a.program(t.Filter))
		plain.Unless = listener
	}
	o = ops.Add("hand the listener over", unix.SYS_SENDMSG, uintptr(listeners), addr(msg), unix.MSG_NOSIGNAL)
	o.Ignore, o.Out = without, a.listenerSent
}

// acceptListeners receives the listeners that calls have sent.
func (s *server) acceptListeners() {
	for {
		var id [8]byte
		var oob [64]byte
		_, n, _, _, err := unix.Recvmsg(s.listeners[0], id[:], oob[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != nil {
			return
		}
		fds := wire.Descriptors(oob[:n])
		if c := s.calls[binary.NativeEndian.Uint64(id[:])]; len(fds) == 1 && c != nil && c.listener < 0 {
			c.listener, c.hadListener = fds[0], true
		} else {
			closeAll(fds)
		}
	}
}

// closeListener closes the listener. No process is left that could use it.
func (c *running) closeListener() {
	if c.listener >= 0 {
		_ = unix.Close(c.listener)
		c.listener = -1
	}
}

// notif is struct seccomp_notif.
type notif struct {
	id         uint64
	pid, flags uint32
	data       callData
}

// verdict is struct seccomp_notif_resp.
type verdict struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// answerKernel receives one question of the kernel and answers it as the filter would have.
// Nothing is decided here. Calls that are allowed do not come here, with one exception:
// connect is reported and then goes on, because only other layers judge its address, or the
// daemon does.
func (s *server) answerKernel(c *running) {
	var n notif
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), notifRecv, uintptr(unsafe.Pointer(&n))); e != 0 {
		return // the process is gone, or interrupted and calls again
	}
	r := verdict{id: n.id}
	switch action := runFilter(s.t.Filter, &n.data); {
	case action == unix.SECCOMP_RET_ALLOW && c.bound != nil && n.data.nr != unix.SYS_CONNECT:
		s.answerBound(c, &n)
		return
	case action == unix.SECCOMP_RET_ALLOW:
		if s.connects(c, &n) {
			return
		}
		r.flags = notifContinue
	case action&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO:
		r.errno = -int32(action & unix.SECCOMP_RET_DATA)
	default:
		r.errno = -int32(unix.EPERM)
	}
	// The caller's memory is read while the kernel holds the caller. The caller can make it
	// say anything, so nothing depends on it.
	c.a.launcherReports++
	if c.a.launcherReports <= maxAsked {
		d := s.describe(&n, r.flags != 0)
		if d.Act != "" {
			c.note(d)
		}
	}
	c.respond(r)
}

// describe names the act of a system call. The zero value is one that no layer stops.
func (s *server) describe(n *notif, goesOn bool) wire.Denied {
	if n.data.nr == unix.SYS_CONNECT && goesOn {
		return s.describeConnect(n)
	}
	d := wire.Denied{Act: fmt.Sprintf("system call %d", n.data.nr), Layer: "seccomp"}
	for _, c := range callNames {
		if c.nr != uint32(n.data.nr) {
			continue
		}
		d.Act = c.name
		if c.path > 0 {
			b := peek(n.pid, n.data.args[c.path-1], maxPath)
			text, _, ended := strings.Cut(string(b), "\x00")
			if !ended && text != "" {
				text += "…"
			}
			d.Act = strings.TrimSpace(d.Act + " " + text)
		}
		if c.nr == unix.SYS_IOCTL && uint32(n.data.args[1])>>8 != unix.TIOCSTI>>8 {
			d.Act = "change a file that is open for reading (ioctl)"
		}
		if c.nr == unix.SYS_SOCKET {
			d.Act += fmt.Sprintf(" of family %d", uint32(n.data.args[0]))
		}
		return d
	}
	return d
}

func (s *server) describeConnect(n *notif) wire.Denied {
	b := peekAddress(n)
	if len(b) > 2 && binary.NativeEndian.Uint16(b) == unix.AF_UNIX && b[2] != 0 {
		name, _, _ := strings.Cut(string(b[2:]), "\x00")
		if s.covered[name] == 0 {
			return wire.Denied{}
		}
		return wire.Denied{Act: "connect " + name, Layer: "mountns"}
	}
	to := addressOf(b)
	switch {
	case !to.IsValid(), to.Addr().IsLoopback(), to.Addr().IsUnspecified(): // the sandbox has its own loopback
		return wire.Denied{}
	case s.network != nil && wire.Local.Contains(to.Addr()): // nothing goes out by itself
		return wire.Denied{}
	}
	return wire.Denied{Act: "connect " + to.String(), Layer: "netns"}
}

// peekAddress reads the address of a connect.
func peekAddress(n *notif) []byte {
	return peek(n.pid, n.data.args[1], int(min(n.data.args[2], 128)))
}

// addressOf returns an address of the Internet, or the zero value.
func addressOf(b []byte) netip.AddrPort {
	if len(b) < 2 {
		return netip.AddrPort{}
	}
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_INET && len(b) >= 8:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case family == unix.AF_INET6 && len(b) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), binary.BigEndian.Uint16(b[2:]))
	}
	return netip.AddrPort{}
}

// peek reads at most n bytes of another process. It stops where memory ends.
func peek(pid uint32, at uint64, n int) []byte {
	const page = 4096
	var out []byte
	for len(out) < n {
		// Never read across pages: the next one may not exist.
		part := make([]byte, min(n-len(out), page-int(at%page)))
		local := []unix.Iovec{{Base: &part[0], Len: uint64(len(part))}}
		got, err := unix.ProcessVMReadv(int(pid), local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(part)}}, 0)
		if err != nil || got <= 0 {
			break
		}
		out = append(out, part[:got]...)
		at += uint64(got)
		if slices.Contains(part[:got], 0) && n > 128 { // the end of a path
			break
		}
	}
	return out
}
