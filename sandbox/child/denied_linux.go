package child

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the filter refuses is told: the kernel asks the launcher about such a call,
// which answers as the filter would have and writes down what it was. Nothing is
// decided here, and calls that are allowed never come here, but for connect, whose
// address only the kernel's other layers judge: it goes on after a look.

const (
	maxDenied = 32  // different acts of a call that are told
	maxTold   = 256 // bytes of a path: on the wire a byte may be six, and all of them fit a message
	maxAsked  = 512 // then calls are answered without a look at what they were

	notifRecv     = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	notifSend     = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	notifContinue = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// filterOps install the filter, with a listener that is handed to the launcher with
// the id of the call. A kernel whose filters have a listener already, as in some
// containers, gives no second one.
func (a *arena) filterOps(ops *opList, t Template, id uint64, ears int) {
	if t.Listen == nil {
		ops.add("seccomp", unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, a.program(t.Filter))
		return
	}
	ctl := a.alloc(unix.CmsgSpace(4))
	*(*unix.Cmsghdr)(unsafe.Pointer(&ctl[0])) = unix.Cmsghdr{Level: unix.SOL_SOCKET, Type: unix.SCM_RIGHTS}
	(*unix.Cmsghdr)(unsafe.Pointer(&ctl[0])).SetLen(unix.CmsgLen(4))
	listener := a.slot(ctl, unix.CmsgLen(0))
	text, iov, msg := a.alloc(8), a.alloc(16), a.alloc(int(unsafe.Sizeof(syscall.Msghdr{})))
	a.handed = a.slot(a.alloc(4), 0)
	binary.NativeEndian.PutUint64(text, id)
	*(*syscall.Iovec)(unsafe.Pointer(&iov[0])) = syscall.Iovec{Base: &text[0], Len: uint64(len(text))}
	*(*syscall.Msghdr)(unsafe.Pointer(&msg[0])) = syscall.Msghdr{
		Iov: (*syscall.Iovec)(unsafe.Pointer(&iov[0])), Iovlen: 1, Control: &ctl[0], Controllen: uint64(len(ctl)),
	}
	o := ops.add("seccomp with a listener", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, a.program(t.Listen))
	o.soft, o.out = anyError, listener
	ops.add("seccomp", unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, a.program(t.Filter)).unless = listener
	o = ops.add("hand the listener over", unix.SYS_SENDMSG, uintptr(ears), addr(msg), unix.MSG_NOSIGNAL)
	o.soft, o.out = anyError, a.handed
}

// hear takes the listeners that have come.
func (s *server) hear() {
	for {
		var id [8]byte
		var oob [64]byte
		_, n, _, _, err := unix.Recvmsg(s.ears[0], id[:], oob[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != nil {
			return
		}
		fds := Descriptors(oob[:n])
		if c := s.calls[binary.NativeEndian.Uint64(id[:])]; len(fds) == 1 && c != nil && c.listener < 0 {
			c.listener, c.heard = fds[0], true
		} else {
			closeAll(fds)
		}
	}
}

// deaf lets go of the listener: nobody is left who could ask.
func (c *running) deaf() {
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

// callData is struct seccomp_data.
type callData struct {
	nr   int32
	arch uint32
	ip   uint64
	args [6]uint64
}

// answer tells the kernel what becomes of one call.
func (s *server) answer(c *running) {
	var n notif
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), notifRecv, uintptr(unsafe.Pointer(&n))); e != 0 {
		return // it is gone, or interrupted and asks again
	}
	r := struct {
		id    uint64
		val   int64
		errno int32
		flags uint32
	}{id: n.id}
	switch action := run(s.t.Filter, &n.data); {
	case action == unix.SECCOMP_RET_ALLOW:
		r.flags = notifContinue
	case action&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO:
		r.errno = -int32(action & unix.SECCOMP_RET_DATA)
	default:
		r.errno = -int32(unix.EPERM)
	}
	// Read while the kernel holds the caller where it is. What a caller says of
	// itself may be false, for its memory is its own; so nothing depends on it.
	c.a.news++ // so the end is told here
	if c.a.news <= maxAsked {
		if d := s.describe(&n, r.flags != 0); d.Act != "" && len(c.denied) < maxDenied && !slices.Contains(c.denied, d) {
			c.denied = append(c.denied, d)
		}
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), notifSend, uintptr(unsafe.Pointer(&r)))
}

// describe says what a call was, or nothing for one that no layer stops.
func (s *server) describe(n *notif, goesOn bool) Denied {
	if n.data.nr == unix.SYS_CONNECT && goesOn {
		return s.describeConnect(n)
	}
	d := Denied{Act: fmt.Sprintf("system call %d", n.data.nr), Layer: "seccomp"}
	for _, c := range callNames {
		if c.nr != uint32(n.data.nr) {
			continue
		}
		d.Act = c.name
		if c.path > 0 {
			b := peek(n.pid, n.data.args[c.path-1], maxTold)
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

func (s *server) describeConnect(n *notif) Denied {
	b := peek(n.pid, n.data.args[1], int(min(n.data.args[2], 128)))
	if len(b) < 2 {
		return Denied{}
	}
	var to netip.AddrPort
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_UNIX && len(b) > 2 && b[2] != 0:
		name, _, _ := strings.Cut(string(b[2:]), "\x00")
		if s.covered[name] == 0 {
			return Denied{}
		}
		return Denied{"connect " + name, "mountns"}
	case family == unix.AF_INET && len(b) >= 8:
		to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case family == unix.AF_INET6 && len(b) >= 24:
		to = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), binary.BigEndian.Uint16(b[2:]))
	default:
		return Denied{}
	}
	if to.Addr().IsLoopback() || to.Addr().IsUnspecified() {
		return Denied{} // it has a loopback of its own
	}
	return Denied{"connect " + to.String(), "netns"}
}

// peek reads at most n bytes of another process, fewer at the end of a page.
func peek(pid uint32, at uint64, n int) []byte {
	const page = 4096
	var out []byte
	for len(out) < n {
		// Never across a page, for the next one may not be there.
		part := make([]byte, min(n-len(out), page-int(at%page)))
		local := []unix.Iovec{{Base: &part[0], Len: uint64(len(part))}}
		got, err := unix.ProcessVMReadv(int(pid), local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(part)}}, 0)
		if err != nil || got <= 0 {
			break
		}
		out = append(out, part[:got]...)
		at += uint64(got)
		if slices.Contains(part[:got], 0) && n > 128 { // the end of a text
			break
		}
	}
	return out
}

// run is the kernel's interpreter, for the instructions that [Template.Filter] has.
func run(filter []Insn, d *callData) uint32 {
	var acc uint32
	for pc := 0; pc < len(filter); pc++ {
		in := filter[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			if in.K > uint32(unsafe.Sizeof(*d))-4 {
				return unix.SECCOMP_RET_KILL_PROCESS
			}
			acc = *(*uint32)(unsafe.Add(unsafe.Pointer(d), in.K))
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(acc == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(acc >= in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(acc&in.K != 0)
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			return unix.SECCOMP_RET_KILL_PROCESS
		}
	}
	return unix.SECCOMP_RET_KILL_PROCESS
}
