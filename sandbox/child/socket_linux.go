package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

func (s *server) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxMessage {
		return fmt.Errorf("an answer of %d bytes is too large", len(b))
	}
	for {
		if _, err = unix.SendmsgN(socketFD, b, nil, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive reads one message and the descriptors that came with it. The bytes are
// good until the next one.
func (s *server) receive() ([]byte, []int, error) {
	b, oob := s.body, s.oob
	var n, oobn, flags int
	var err error
	for {
		n, oobn, flags, _, err = unix.Recvmsg(socketFD, b, oob, unix.MSG_CMSG_CLOEXEC)
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
	var fds []int
	if messages, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil {
		for i := range messages {
			got, err := unix.ParseUnixRights(&messages[i])
			if err == nil {
				fds = append(fds, got...)
			}
		}
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		closeAll(fds)
		return nil, nil, errors.New("a request was cut off")
	}
	return b[:n], fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
