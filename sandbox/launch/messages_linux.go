package launch

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// maxInMessage is the size up to which a message is sent itself.
const maxInMessage = 48 << 10

// write sends one message with files. A longer message goes into a file of memory, which is
// the first of them then. A launcher that is stopped reads nothing, and its socket fills: then
// write waits no longer than ctx.
func (l *Launcher) write(ctx context.Context, body []byte, files ...*os.File) error {
	var oob []byte
	if len(body) > maxInMessage {
		f, err := wire.FileOf(body)
		if err != nil {
			return err
		}
		defer f.Close()
		body, files = []byte(wire.InFile), append([]*os.File{f}, files...)
	}
	if len(files) > 0 {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		oob = unix.UnixRights(fds...)
	}
	for {
		err := l.send(body, oob)
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(fullPause):
		}
	}
}

// fullPause is between two tries to write into a socket that is full.
const fullPause = 5 * time.Millisecond

// send sends one message at once, or returns EAGAIN.
func (l *Launcher) send(body, oob []byte) (err error) {
	closed := l.raw.Control(func(fd uintptr) {
		for {
			err = unix.Sendmsg(int(fd), body, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(closed, err)
}

// read dispatches messages until the launcher is gone. Then it closes the channel of every
// call and every request that still waits.
func (l *Launcher) read() {
	buf := make([]byte, wire.MaxMessage)
	for {
		m, fds, err := l.receive(buf)
		if err != nil {
			break
		}
		l.dispatch(m, fds)
	}
	l.mu.Lock()
	l.dead = true
	l.closeSlots(func(Slot) bool { return true })
	calls, answers, sockets := l.calls, l.answers, l.sockets
	l.calls, l.answers, l.sockets = nil, nil, nil
	l.mu.Unlock()
	if l.onGone != nil {
		l.onGone()
	}
	// The socket closes before the processes are gone, but a closed channel promises that
	// they are.
	l.kill()
	<-l.Ended
	l.closeNetwork()
	for _, ch := range calls {
		close(ch)
	}
	for _, ch := range answers {
		close(ch)
	}
	for _, ch := range sockets {
		close(ch)
	}
	l.conn.Close()
}

// receive waits for one message, and the descriptors that came with it.
func (l *Launcher) receive(buf []byte) (m wire.Message, fds []int, err error) {
	var oob [32]byte // room for three
	n, oobn, _, _, err := l.conn.ReadMsgUnix(buf, oob[:])
	if err != nil {
		return m, nil, err
	}
	if n == 0 {
		return m, nil, io.EOF
	}
	fds = wire.Descriptors(oob[:oobn])
	m, err = wire.ParseMessage(buf[:n])
	return m, fds, err
}

// dispatch gives a message to the call or request that waits for it.
func (l *Launcher) dispatch(m wire.Message, fds []int) {
	if m.Network || m.NoWay != "" || m.Connect != nil {
		l.route(m, fds)
		return
	}
	if m.Sockets != 0 {
		l.gotSockets(m.Sockets, filesOf(fds))
		return
	}
	fd := -1
	if len(fds) > 0 {
		fd = fds[0]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.For != 0 {
		l.closeSlots(func(s Slot) bool { return s.Mounts != m.Mounts })
	}
	if m.Slot != nil {
		l.newest = max(l.newest, m.Slot.Call)
		switch {
		case fd >= 0 && m.Slot.Bound != 0 && l.answers[m.For] == nil:
			_ = unix.Close(fd) // abandoned
		case fd >= 0:
			l.slots = append(l.slots, Slot{Slot: *m.Slot, fd: fd})
		case m.Error == "":
			m.Error = "a slot came without its descriptor; this process may have too many open files"
		}
	}
	if ch := l.answers[m.For]; ch != nil {
		delete(l.answers, m.For)
		ch <- m
	}
	if m.Reply == nil {
		return
	}
	if ch := l.calls[m.Reply.Call]; ch != nil {
		delete(l.calls, m.Reply.Call)
		ch <- *m.Reply
	}
	l.closeSlots(func(s Slot) bool { return s.Call == m.Reply.Call })
}
