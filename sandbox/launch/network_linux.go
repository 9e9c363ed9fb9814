package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Network is the daemon's end of the way out of a launcher. It accepts connections at the proxy
// and at the addresses of names. The mark of each ([Mark]) is the id of its call, or 0 if no call
// made it.
type Network interface {
	// ServeResolver, ServeProxy and Serve return at once, and own what they serve. The
	// listener of an address may be closed here, and the address be served again later.
	ServeResolver(packets net.PacketConn, streams net.Listener)
	ServeProxy(net.Listener)
	Serve(at netip.AddrPort, l net.Listener)
	// Wants reports whether connections of a call to an address shall be taken. A program
	// waits for the answer.
	Wants(call uint32, at netip.AddrPort) bool
	// RefuseUDP notes that a call has connected a UDP socket to an address, and was refused.
	RefuseUDP(call uint32, at netip.AddrPort)
	// Close ends everything that is served, when the launcher has ended.
	Close()
}

// route takes what a launcher says about its way out.
func (l *Launcher) route(m wire.Message, fds []int) {
	switch files := filesOf(fds); {
	case m.Connect != nil && m.Connect.UDP:
		closeFiles(files)
		if l.Network != nil {
			l.Network.RefuseUDP(uint32(m.Connect.Call), m.Connect.To)
		}
	case m.Connect != nil:
		go l.connect(*m.Connect, files)
	case m.NoWay != "":
		l.NoNetwork = m.NoWay
	case l.config.Network != nil:
		if err := l.startNetwork(files); err != nil {
			l.NoNetwork = err.Error()
		}
	}
}

// startNetwork serves the way out. It is called before the launcher is known.
func (l *Launcher) startNetwork(files []*os.File) error {
	defer closeFiles(files)
	if len(files) != 3 {
		return fmt.Errorf("of three sockets %d came; this process may have too many open files", len(files))
	}
	packets, err := net.FilePacketConn(files[0])
	if err != nil {
		return fmt.Errorf("use the socket of the resolver: %w", err)
	}
	streams, err := net.FileListener(files[1])
	if err != nil {
		packets.Close()
		return fmt.Errorf("use the listener of the resolver: %w", err)
	}
	proxy, err := net.FileListener(files[2])
	if err != nil {
		packets.Close()
		streams.Close()
		return fmt.Errorf("use the listener of the proxy: %w", err)
	}
	l.listeners = map[netip.AddrPort]net.Listener{}
	l.Network = l.config.Network()
	l.Network.ServeResolver(packets, streams)
	l.Network.ServeProxy(proxy)
	return nil
}

// connect decides about a listener that the launcher has made for a program that connects, and
// answers.
func (l *Launcher) connect(c wire.Connect, files []*os.File) {
	l.mu.Lock()
	old := l.listeners[c.Close]
	delete(l.listeners, c.Close)
	l.mu.Unlock()
	if old != nil {
		old.Close()
	}
	taken := l.Network != nil && len(files) == 1 && l.Network.Wants(uint32(c.Call), c.To) && l.listen(c.To, files[0])
	closeFiles(files) // before the answer: while it is open, the address is in use
	body, err := json.Marshal(wire.Request{Connect: &wire.Connect{To: c.To, Close: c.Close, Refused: !taken}})
	if err == nil {
		_ = l.write(context.Background(), body) // fails when the launcher is gone
	}
}

// listen serves a listener, and reports whether it does.
func (l *Launcher) listen(at netip.AddrPort, f *os.File) bool {
	listener, err := net.FileListener(f)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listeners == nil { // the launcher is gone
		listener.Close()
		return false
	}
	l.listeners[at] = listener
	l.Network.Serve(at, listener)
	return true
}

// closeNetwork ends the way out. All calls have ended.
func (l *Launcher) closeNetwork() {
	l.mu.Lock()
	l.listeners = nil
	l.mu.Unlock()
	if l.Network != nil {
		l.Network.Close()
	}
}

// Mark returns the id of the call that a connection of [Network] is of, and 0 if it is of none.
func Mark(c *net.TCPConn) uint32 {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	mark := 0
	if e := raw.Control(func(fd uintptr) {
		mark, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK)
	}); e != nil || err != nil {
		return 0
	}
	return uint32(int32(mark))
}

func filesOf(fds []int) []*os.File {
	var out []*os.File
	for _, fd := range fds {
		out = append(out, os.NewFile(uintptr(fd), "socket"))
	}
	return out
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
