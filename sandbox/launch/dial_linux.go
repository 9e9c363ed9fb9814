package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// connectTime bounds how long a connection to a program may take. A program that accepts
// none lets its queue fill, and connect waits then.
const connectTime = 5 * time.Second

// Dial connects to a port of the loopback in the network namespace of the launcher: to
// 127.0.0.1, or to ::1 if nothing listens there.
func (l *Launcher) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	files, err := l.askSockets(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to port %d of the session: %w", port, err)
	}
	defer closeFiles(files)
	err = unix.EMFILE // no descriptor came
	for _, f := range files {
		var c net.Conn
		if c, err = connectTo(f, port); err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("connect to port %d of the session: %w", port, err)
}

// askSockets has the launcher make sockets, which nobody has connected.
func (l *Launcher) askSockets(ctx context.Context) ([]*os.File, error) {
	l.mu.Lock()
	if l.sockets == nil {
		l.mu.Unlock()
		return nil, ErrGone
	}
	l.next++
	id, got := l.next, make(chan []*os.File, 1)
	l.sockets[id] = got
	l.mu.Unlock()
	body, err := json.Marshal(wire.Request{ID: id, Sockets: true})
	if err == nil {
		err = l.write(ctx, body)
	}
	if err == nil {
		select {
		case files, ok := <-got:
			if !ok {
				return nil, ErrGone
			}
			return files, nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	l.mu.Lock()
	delete(l.sockets, id)
	l.mu.Unlock()
	select {
	case files := <-got: // they came meanwhile
		closeFiles(files)
	default:
	}
	return nil, err
}

// gotSockets gives sockets to who asked for them.
func (l *Launcher) gotSockets(request uint64, files []*os.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.sockets[request]
	if got == nil {
		closeFiles(files) // abandoned
		return
	}
	delete(l.sockets, request)
	got <- files
}

// connectTo connects a socket to a port of the loopback of its network namespace.
func connectTo(f *os.File, port uint16) (net.Conn, error) {
	fd := int(f.Fd())
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return nil, err
	}
	var to unix.Sockaddr = &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
	if family == unix.AF_INET6 {
		to = &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}}
	}
	most := unix.NsecToTimeval(int64(connectTime))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &most); err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, to); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}
