package view

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// dump asks the kernel for all Unix sockets, and adds its answer to a buffer.
func (s *Sockets) dump(to []byte) ([]byte, error) {
	if s.diag < 0 {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
		if err != nil {
			return nil, err
		}
		_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
		s.diag = fd
	}
	out, err := dumpSockets(s.diag, to)
	if err != nil {
		unix.Close(s.diag) // it may still hold the rest of an answer
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

// dumpSockets sends one request, and adds what the answers say of sockets with a file, each entry
// behind its length.
func dumpSockets(fd int, out []byte) ([]byte, error) {
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
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for kind, content := range messages(buf[:n]) {
			switch {
			case kind == unix.NLMSG_DONE:
				return out, nil
			case kind == unix.NLMSG_ERROR:
				return nil, errors.New("the kernel does not list Unix sockets")
			case kind == cutOff:
				return nil, errors.New("a netlink message is cut off")
			case hasFile(content): // each call makes others, which come and go
				out = append(e.AppendUint32(out, uint32(len(content))), content...)
			}
		}
	}
}

// cutOff is the kind of a message that is not whole.
const cutOff = ^uint16(0)

// messages passes on the kinds and the contents of the messages in an answer.
func messages(answer []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for e := binary.NativeEndian; len(answer) >= unix.NLMSG_HDRLEN; {
			size := int(e.Uint32(answer))
			if size < unix.NLMSG_HDRLEN || size > len(answer) {
				yield(cutOff, nil)
				return
			}
			if !yield(e.Uint16(answer[4:]), answer[unix.NLMSG_HDRLEN:size]) {
				return
			}
			answer = answer[min((size+3)&^3, len(answer)):]
		}
	}
}

// parseDump returns the sockets in an answer of dumpSockets.
func parseDump(answer []byte) (out []boundSocket) {
	for len(answer) >= 4 {
		size := int(binary.NativeEndian.Uint32(answer))
		if b, ok := parseSocket(answer[4 : 4+size]); ok {
			out = append(out, b)
		}
		answer = answer[4+size:]
	}
	return out
}

// hasFile reports whether an entry is of a socket with a file, or cannot be read.
func hasFile(b []byte) bool {
	e := binary.NativeEndian
	for b = b[min(diagHeader, len(b)):]; len(b) >= 4; {
		size := int(e.Uint16(b))
		if size < 4 || size > len(b) || e.Uint16(b[2:]) == attrVFS {
			return true
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false
}

// parseSocket reads one entry. The second result is false for a socket without a file.
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

// boundByTable is for kernels without this netlink family. It gives names without inodes.
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

// readProc reads a file that never blocks. Unlike os.ReadFile it does not involve Go's
// poller.
func readProc(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var out []byte
	for {
		out = slices.Grow(out, 16<<10)
		n, err := unix.Read(fd, out[len(out):cap(out)])
		if n <= 0 || err != nil {
			return out, err
		}
		out = out[:len(out)+n]
	}
}
