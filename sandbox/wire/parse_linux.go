package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ended is the [Reply] of an init process. That process cannot encode JSON: it has no
// Go runtime and sends these bytes as they are.
type Ended struct {
	mark   uint64 // 0; a JSON message begins with a brace
	Call   uint64
	Status int32
	Failed Failure
	Usage  syscall.Rusage // of the whole tree
}

// ParseMessage reads a message to the daemon: JSON from the launcher, or [Ended].
func ParseMessage(b []byte) (Message, error) {
	if len(b) == int(unsafe.Sizeof(Ended{})) && b[0] == 0 {
		e := *(*Ended)(unsafe.Pointer(&b[0]))
		return Message{Reply: &Reply{
			Call: e.Call, Failed: e.Failed, Status: uint32(e.Status),
			CPUUsec: (e.Usage.Utime.Sec+e.Usage.Stime.Sec)*1e6 + e.Usage.Utime.Usec + e.Usage.Stime.Usec,
			MaxRSS:  e.Usage.Maxrss << 10,
		}}, nil
	}
	var m Message
	err := json.Unmarshal(b, &m)
	return m, err
}

// Descriptors returns the descriptors in the control data of a received message.
func Descriptors(oob []byte) (fds []int) {
	messages, _ := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// FileOf returns a file of memory that holds a message too long to be sent itself.
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
