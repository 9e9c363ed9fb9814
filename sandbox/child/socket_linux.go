package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (s *server) send(v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxMessage {
		return fmt.Errorf("an answer of %d bytes is too large", len(b))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for {
		if _, err = unix.SendmsgN(socketFD, b, oob, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// ended is a [Reply] from the init process of a call, which can only copy memory.
type ended struct {
	mark   uint64 // 0; everything else begins with a brace
	call   uint64
	status int32
	failed Failure
	usage  syscall.Rusage // of the whole tree
}

// ParseMessage reads what comes from the launcher, or from the init process of a call.
func ParseMessage(b []byte) (Message, error) {
	if len(b) == int(unsafe.Sizeof(ended{})) && b[0] == 0 {
		e := *(*ended)(unsafe.Pointer(&b[0]))
		return Message{Reply: &Reply{Call: e.call, Failed: e.failed, Status: uint32(e.status), CPUUsec: (e.usage.Utime.Sec+e.usage.Stime.Sec)*1e6 + e.usage.Utime.Usec + e.usage.Stime.Usec, MaxRSS: e.usage.Maxrss << 10}}, nil
	}
	var m Message
	err := json.Unmarshal(b, &m)
	return m, err
}

// receive reads one message, or the file that came in its place. The bytes are good
// until the next one.
func (s *server) receive() ([]byte, error) {
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
		return nil, fmt.Errorf("receive a request: %w", err)
	}
	if n == 0 {
		return nil, io.EOF
	}
	fds := Descriptors(oob[:oobn])
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		closeAll(fds)
		return nil, errors.New("a request was cut off")
	}
	if len(fds) == 0 {
		return b[:n], nil
	}
	f := os.NewFile(uintptr(fds[0]), "request")
	defer f.Close()
	closeAll(fds[1:])
	if b, err = io.ReadAll(io.NewSectionReader(f, 0, 1<<30)); err != nil {
		return nil, fmt.Errorf("read a long request: %w", err)
	}
	return b, nil
}

// Descriptors are those that came with a message.
func Descriptors(oob []byte) (fds []int) {
	messages, _ := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// FileOf is a file of memory that holds what does not fit a message.
func FileOf(body []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("message", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file for a long message: %w", err)
	}
	f := os.NewFile(uintptr(fd), "message")
	if _, err := f.Write(body); err != nil {
		f.Close()
		return nil, fmt.Errorf("write a long message: %w", err)
	}
	return f, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
