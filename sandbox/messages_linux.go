package sandbox

import (
	"encoding/json"
	"errors"
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// The conversation with a launcher, and with the init processes of its calls.

// write sends one message; a large one goes into a file of memory.
func (l *launcher) write(body []byte) error {
	var oob []byte
	if len(body) > 48<<10 {
		f, err := child.FileOf(body)
		if err != nil {
			return err
		}
		defer f.Close()
		body, oob = []byte("{}"), unix.UnixRights(int(f.Fd()))
	}
	_, _, err := l.conn.WriteMsgUnix(body, oob, nil)
	return err
}

// read takes what the launcher says until it is gone; then every call that still
// waits gets an empty channel closed.
func (l *launcher) read() {
	buf := make([]byte, 64<<10)
	for {
		m, fd, err := l.receive(buf)
		if err != nil {
			break
		}
		l.take(m, fd)
	}
	l.mu.Lock()
	l.dead = true
	l.drop(func(door) bool { return true })
	waiting, asking := l.calls, l.answers
	l.calls, l.answers = nil, nil
	l.mu.Unlock()
	l.onGone()
	// The socket closes before the processes are gone; an answer promises that
	// they are.
	_ = l.cmd.Process.Kill()
	<-l.ended
	for _, ch := range waiting {
		close(ch)
	}
	for _, ch := range asking {
		close(ch)
	}
	l.conn.Close()
}

// receive waits for one message and the door that comes with it.
func (l *launcher) receive(buf []byte) (m child.Message, fd int, err error) {
	var oob [32]byte
	n, oobn, _, _, err := l.conn.ReadMsgUnix(buf, oob[:])
	if err != nil {
		return m, -1, err
	}
	if n == 0 {
		return m, -1, io.EOF
	}
	fd = -1
	if fds := child.Descriptors(oob[:oobn]); len(fds) > 0 {
		fd = fds[0]
	}
	m, err = child.ParseMessage(buf[:n])
	return m, fd, err
}

// take gives one message to whom it is for.
func (l *launcher) take(m child.Message, fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.For != 0 {
		l.drop(func(d door) bool { return d.Mounts != m.Mounts })
	}
	if m.Door != nil {
		l.seen = max(l.seen, m.Door.Call)
		if fd >= 0 {
			l.doors = append(l.doors, door{Door: *m.Door, fd: fd})
		} else if m.Error == "" {
			m.Error = "a door came without its descriptor; this process may have too many open files"
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
	l.drop(func(d door) bool { return d.Call == m.Reply.Call })
}

var errLauncherGone = errors.New("the launcher of this session ended during the call")

func (l *launcher) signal(call uint64, sig syscall.Signal) {
	body, err := json.Marshal(child.Request{ID: call, Signal: int(sig)})
	if err == nil {
		_ = l.write(body)
	}
}
