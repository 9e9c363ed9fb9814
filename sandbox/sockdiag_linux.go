package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// list asks the kernel for all sockets that have a file.
func (s *sockets) list() ([]boundSocket, error) {
	if s.diag < 0 {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
		if err != nil {
			return nil, err
		}
		_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
		s.diag = fd
	}
	out, err := dumpSockets(s.diag)
	if err != nil {
		unix.Close(s.diag) // half an answer may still lie in it
		s.diag = -1
	}
	return out, err
}

const (
	sockDiagByFamily = 20
	showName         = 1
	showVFS          = 2
	attrName         = 0
	attrVFS          = 1
	diagHeader       = 16 // struct unix_diag_msg
)

func dumpSockets(fd int) ([]boundSocket, error) {
	e := binary.NativeEndian
	req := make([]byte, unix.NLMSG_HDRLEN+24)
	e.PutUint32(req[0:], uint32(len(req)))
	e.PutUint16(req[4:], sockDiagByFamily)
	e.PutUint16(req[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	req[16] = unix.AF_UNIX
	e.PutUint32(req[20:], ^uint32(0)) // every state
	e.PutUint32(req[28:], showName|showVFS)
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var out []boundSocket
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for msg := buf[:n]; len(msg) >= unix.NLMSG_HDRLEN; {
			size := int(e.Uint32(msg))
			if size < unix.NLMSG_HDRLEN || size > len(msg) {
				return nil, errors.New("a netlink message is cut off")
			}
			switch e.Uint16(msg[4:]) {
			case unix.NLMSG_DONE:
				return out, nil
			case unix.NLMSG_ERROR:
				return nil, errors.New("the kernel does not list Unix sockets")
			}
			if b, ok := parseSocket(msg[unix.NLMSG_HDRLEN:size]); ok {
				out = append(out, b)
			}
			msg = msg[min((size+3)&^3, len(msg)):]
		}
	}
}

// parseSocket is false for a socket without a file.
func parseSocket(b []byte) (s boundSocket, ok bool) {
	e := binary.NativeEndian
	if len(b) < diagHeader {
		return s, false
	}
	s.number = e.Uint32(b[4:])
	for b = b[diagHeader:]; len(b) >= 4; {
		size := int(e.Uint16(b))
		if size < 4 || size > len(b) {
			return s, false
		}
		switch value := b[4:size]; e.Uint16(b[2:]) {
		case attrName:
			s.name = strings.TrimRight(string(value), "\x00")
		case attrVFS:
			if len(value) >= 4 {
				s.inode, ok = e.Uint32(value), true
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return s, ok
}

// boundByTable is for kernels that answer no netlink: names without inodes.
func boundByTable() []boundSocket {
	table, err := readProc("/proc/net/unix")
	if err != nil {
		return nil
	}
	var out []boundSocket
	for line := range strings.Lines(string(table)) {
		fields := strings.SplitN(strings.Join(strings.Fields(line), " "), " ", 8)
		var s boundSocket
		if len(fields) != 8 || strings.HasPrefix(fields[7], "@") {
			continue
		}
		if _, err := fmt.Sscan(fields[6], &s.number); err == nil {
			s.name = fields[7]
			out = append(out, s)
		}
	}
	return out
}
