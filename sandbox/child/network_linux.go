package child

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// network is the way out of the session: which addresses the daemon serves, and who waits for
// it.
type network struct {
	listening map[netip.AddrPort]uint64 // addresses that the daemon listens at; when each was last used
	used      uint64                    // counts connections, to tell which address was used last

	// Connections that wait for an answer of the daemon: that it listens, or that it has closed
	// the listener at their address.
	waiting, closing map[netip.AddrPort][]connector
}

// connector is a process that waits in connect.
type connector struct {
	call   *running
	notif  uint64 // of the kernel
	socket int    // its socket, held until the answer
}

// maxListening bounds the addresses at which the daemon listens, because each costs it a
// descriptor. The one that was not used for longest is given up.
const maxListening = 256

// openNetwork prepares the network namespace and returns the sockets of the services of the
// daemon: the resolver's, UDP and TCP, and the proxy's. proc is where /proc is mounted.
func openNetwork(proc string) (fds []int, err error) {
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	for _, setting := range []struct{ name, value string }{
		// A socket that is accepted gets the mark of the one that connected. That is how the
		// daemon knows which call a connection is of.
		{"tcp_fwmark_accept", "1"},
		// Otherwise a program could connect by sendto, which the launcher is not asked about.
		{"tcp_fastopen", "0"},
	} {
		if err := os.WriteFile(proc+"/sys/net/ipv4/"+setting.name, []byte(setting.value), 0); err != nil {
			return fds, fmt.Errorf("prepare the network of the session: %w", err)
		}
	}
	if err := addLocal(); err != nil {
		return fds, err
	}
	for _, l := range []struct {
		kind int
		at   netip.AddrPort
	}{{unix.SOCK_DGRAM, wire.Resolver}, {unix.SOCK_STREAM, wire.Resolver}, {unix.SOCK_STREAM, wire.Proxy}} {
		fd, err := listenAt(l.kind, l.at)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// listenAt returns a socket that is bound to an address, and listens if it is one for streams.
func listenAt(kind int, at netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a socket for %s: %w", at, err)
	}
	if kind == unix.SOCK_STREAM {
		// Connections of an earlier listener may still be open.
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	}
	if err == nil && kind == unix.SOCK_STREAM {
		const backlog = 4096
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("listen at %s: %w", at, err)
	}
	return fd, nil
}

// giveSockets makes sockets for the daemon, which connects them: they stay in the network
// namespace in which they were made, and this process waits for nobody.
func (s *server) giveSockets(request uint64) {
	var fds []int
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		if fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	s.mustSend(wire.Message{Sockets: request}, fds...)
	closeAll(fds)
}

// addLocal gives the loopback an address with the prefix [wire.Local]. All addresses with this
// prefix are then local to the kernel. It is needed for AI_ADDRCONFIG too: with this flag the C
// library finds IPv4 addresses only if the machine has another one than 127.0.0.1.
func addLocal() error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open a socket for addresses: %w", err)
	}
	defer unix.Close(s)
	const loopback = 1 // the index of the first interface of a namespace
	own := wire.Local.Addr().As4()
	var b []byte
	b = binary.NativeEndian.AppendUint32(b, 0) // the length, see below
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_NEWADDR)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b = append(b, make([]byte, 8)...) // sequence number and port
	b = append(b, unix.AF_INET, byte(wire.Local.Bits()), 0, unix.RT_SCOPE_HOST)
	b = binary.NativeEndian.AppendUint32(b, loopback)
	for _, kind := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		b = binary.NativeEndian.AppendUint16(b, uint16(4+len(own)))
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = append(b, own[:]...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	if err := unix.Sendto(s, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask for the address %s: %w", wire.Local, err)
	}
	answer := make([]byte, 256)
	n, _, err := unix.Recvfrom(s, answer, 0)
	if err != nil {
		return fmt.Errorf("ask for the address %s: %w", wire.Local, err)
	}
	if n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("ask for the address %s: the answer has %d bytes", wire.Local, n)
	}
	if e := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); e != 0 {
		return fmt.Errorf("add the address %s: %w", wire.Local, unix.Errno(-e))
	}
	return nil
}

// startNetwork sets the way out up and hands it to the daemon. Without one, calls run as in a
// session that has none, and the daemon is told why.
func (s *server) startNetwork(proc string) error {
	fds, err := openNetwork(proc)
	if err != nil {
		return s.send(wire.Message{NoWay: err.Error()})
	}
	defer closeAll(fds)
	s.network = &network{
		listening: map[netip.AddrPort]uint64{}, waiting: map[netip.AddrPort][]connector{},
		closing: map[netip.AddrPort][]connector{},
	}
	return s.send(wire.Message{Network: true}, fds...)
}

// connects serves a connect to an address of the daemon. It reports false for any other, which
// goes on as it is.
func (s *server) connects(c *running, n *notif) bool {
	if s.network == nil || n.data.nr != unix.SYS_CONNECT {
		return false
	}
	to := addressOf(peekAddress(n))
	proxy := to.Port() == wire.Proxy.Port() && (to.Addr() == wire.Proxy.Addr() || to.Addr().IsUnspecified())
	if !proxy && !wire.Names.Contains(to.Addr()) {
		return false
	}
	fd, err := socketOf(c, n)
	if err != nil {
		// The daemon would reset it, for its socket has no mark.
		act := fmt.Sprintf("connect %s, because its socket cannot be had (%v)", to, err)
		refuseConnection(connector{c, n.id, -1}, act)
		return true
	}
	switch protocolOf(fd) {
	case unix.IPPROTO_TCP:
	case unix.IPPROTO_UDP:
		if proxy {
			unix.Close(fd)
			return false
		}
		// A datagram would go nowhere. Without an error the program would wait for an answer.
		s.mustSend(wire.Message{Connect: &wire.Connect{To: to, Call: c.id, UDP: true}})
		refuseConnection(connector{c, n.id, fd}, "")
		return true
	default:
		unix.Close(fd)
		return false
	}
	w := connector{c, n.id, fd}
	_, listens := s.network.listening[to]
	switch {
	case proxy:
		s.goOn(w)
	case listens:
		s.network.use(to)
		s.goOn(w)
	default:
		s.askDaemon(w, to)
	}
	return true
}

// use notes that an address is used.
func (n *network) use(at netip.AddrPort) {
	n.used++
	n.listening[at] = n.used
}

// goOn lets a connection go on, in the name of its call.
func (s *server) goOn(w connector) {
	v := verdict{id: w.notif, flags: notifContinue}
	if err := unix.SetsockoptInt(w.socket, unix.SOL_SOCKET, unix.SO_MARK, int(int32(uint32(w.call.id)))); err != nil {
		v = verdict{id: w.notif, errno: -int32(unix.ECONNREFUSED)}
	}
	unix.Close(w.socket)
	w.call.respond(v)
}

// refuseConnection refuses a connection. The report names the act, if it is not "".
func refuseConnection(w connector, act string) {
	if act != "" {
		w.call.note(wire.Denied{Act: act, Layer: "egress"})
		w.call.a.launcherReports++
	}
	closeAll([]int{w.socket})
	w.call.respond(verdict{id: w.notif, errno: -int32(unix.ECONNREFUSED)})
}

// askDaemon makes a listener at an address and asks the daemon whether it wants it.
func (s *server) askDaemon(w connector, to netip.AddrPort) {
	n := s.network
	for _, list := range []map[netip.AddrPort][]connector{n.waiting, n.closing} {
		if list[to] != nil {
			list[to] = append(list[to], w)
			return
		}
	}
	fd, err := listenAt(unix.SOCK_STREAM, to)
	if err == nil {
		question := &wire.Connect{To: to, Call: w.call.id}
		if len(n.listening)+len(n.waiting) >= maxListening {
			question.Close = n.oldest()
		}
		err = s.send(wire.Message{Connect: question}, fd)
		if err == nil && question.Close.IsValid() {
			delete(n.listening, question.Close)
			n.closing[question.Close] = []connector{}
		}
		unix.Close(fd)
	}
	if err != nil {
		act := fmt.Sprintf("connect %s, because no connection to it can be taken (%v)", to, err)
		if errors.Is(err, unix.EADDRINUSE) {
			act = fmt.Sprintf("connect %s, because a program of this session serves port %d", to, to.Port())
		}
		refuseConnection(w, act)
		return
	}
	n.waiting[to] = []connector{w}
}

// oldest returns the address that was not used for longest. The zero value is none.
func (n *network) oldest() (oldest netip.AddrPort) {
	for at, used := range n.listening {
		if !oldest.IsValid() || used < n.listening[oldest] {
			oldest = at
		}
	}
	return oldest
}

// answered lets the connections go on, or refuses them, that waited for an answer of the
// daemon.
func (s *server) answered(c wire.Connect) {
	if s.network == nil {
		return
	}
	list := s.network.waiting[c.To]
	delete(s.network.waiting, c.To)
	if !c.Refused {
		s.network.use(c.To)
	}
	for _, w := range list {
		if c.Refused {
			refuseConnection(w, "") // the daemon knows of it
		} else {
			s.goOn(w)
		}
	}
	list = s.network.closing[c.Close]
	delete(s.network.closing, c.Close)
	for _, w := range list {
		s.askDaemon(w, c.Close)
	}
}

// forget drops the connections of a call that has ended.
func (n *network) forget(c *running) {
	if n == nil {
		return
	}
	for _, lists := range []map[netip.AddrPort][]connector{n.waiting, n.closing} {
		for to, list := range lists {
			lists[to] = slices.DeleteFunc(list, func(w connector) bool {
				if w.call == c {
					unix.Close(w.socket)
				}
				return w.call == c
			})
		}
	}
}

// socketOf returns the socket that a process connects. Another one may have its number by the
// time that connect goes on; that one has no mark then, or that of its own call.
func socketOf(c *running, n *notif) (int, error) {
	const thread = unix.O_EXCL // PIDFD_THREAD, since Linux 6.9: a thread may have descriptors of its own
	p, err := unix.PidfdOpen(int(n.pid), thread)
	if errors.Is(err, unix.EINVAL) {
		p, err = unix.PidfdOpen(processOf(int(n.pid)), 0)
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(p)
	fd, err := unix.PidfdGetfd(p, int(int32(n.data.args[0])), 0)
	if err != nil {
		return -1, err
	}
	// Somebody else may have the pid by now.
	id, listener := n.id, uintptr(c.listener)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, listener, notifIDValid, uintptr(unsafe.Pointer(&id))); e != 0 {
		unix.Close(fd)
		return -1, e
	}
	return fd, nil
}

const notifIDValid = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID

// protocolOf is that of an Internet socket; -1: the descriptor is none.
func protocolOf(fd int) int {
	protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil {
		return -1
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_INET && domain != unix.AF_INET6 {
		return -1
	}
	return protocol
}

// resolvConf is the same in every session that has a way out.
const resolvConf = "nameserver 127.0.0.1\n"

// nsswitchConf returns the host's, with one change: a host is looked up in its file, and then by the resolver. Other
// services are not in the sandbox.
func nsswitchConf(host string) string {
	var out strings.Builder
	for line := range strings.Lines(host) {
		if !strings.HasPrefix(strings.TrimSpace(line), "hosts:") {
			out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return out.String() + "hosts: files dns\n"
}

// names puts the files that say how names are looked up over those of the host, where the host
// has some: without them, programs ask the resolver at 127.0.0.1 anyway.
func (b builder) names() error {
	if !b.t.Network {
		return nil
	}
	for _, name := range []string{"resolv.conf", "nsswitch.conf"} {
		if err := b.cover(b.dir+maskDir+"/"+name, "/etc/"+name); err != nil {
			return err
		}
	}
	return nil
}

// cover mounts a file at the place of another in the new root.
func (b builder) cover(from, p string) error {
	at, err := b.place(p, false)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil // the host has none
	}
	if err != nil {
		return fmt.Errorf("make a place for %s: %w", p, err)
	}
	defer unix.Close(at)
	tree, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone the mount of %s: %w", from, err)
	}
	defer unix.Close(tree)
	// The host's may be a link, which leads to a place that is not in the sandbox. A mount on
	// a link hides it.
	if err := unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", p, err)
	}
	return nil
}
