package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// send sends one message to the daemon.
func (s *server) send(v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > wire.MaxMessage {
		return fmt.Errorf("an answer of %d bytes is too large", len(b))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for {
		if _, err = unix.SendmsgN(wire.SocketFD, b, oob, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive reads one message, or the file that came in its place, and the descriptors that
// came with it. The bytes are valid until the next call.
func (s *server) receive() (body []byte, files []int, err error) {
	b, oob := s.body, s.oob
	var n, oobn, flags int
	for {
		n, oobn, flags, _, err = unix.Recvmsg(wire.SocketFD, b, oob, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("receive a request: %w", err)
	}
	if n == 0 {
		return nil, nil, io.EOF
	}
	fds := wire.Descriptors(oob[:oobn])
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		closeAll(fds)
		return nil, nil, errors.New("a request was cut off")
	}
	if string(b[:n]) != wire.InFile || len(fds) == 0 {
		return b[:n], fds, nil
	}
	f := os.NewFile(uintptr(fds[0]), "request")
	defer f.Close()
	if b, err = io.ReadAll(io.NewSectionReader(f, 0, 1<<30)); err != nil {
		closeAll(fds[1:])
		return nil, nil, fmt.Errorf("read a long request: %w", err)
	}
	return b, fds[1:], nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
