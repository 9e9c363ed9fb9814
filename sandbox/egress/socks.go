package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"syscall"
	"time"
)

const socksVersion = 5

// What SOCKS5 answers (RFC 1928).
const (
	socksOK          = 0
	socksFailure     = 1
	socksNotAllowed  = 2
	socksUnreachable = 4
	socksRefused     = 5
	socksNoCommand   = 7
	socksNoAddress   = 8
)

// socks serves SOCKS5 after its first byte: no authentication, CONNECT, names.
func (c *Call) socks(cl *client) {
	host, port, code := c.socksRequest(cl.tcp)
	cl.tcp.SetReadDeadline(time.Time{})
	if code != socksOK {
		socksReply(cl, code)
		cl.Close()
		return
	}
	k := Connection{Host: host, Port: port, Protocol: c.protocolOf(host, port), Via: ViaSocks5}
	f, v, err := c.destination(c.ctx, k)
	if told := socksReply(cl, socksCode(err)); told != nil && f != nil {
		f.Close()
	}
	if err != nil {
		cl.Close()
		return
	}
	c.tunnel(cl, k, f, v)
}

// socksRequest reads the greeting and the request. A code other than socksOK refuses it.
func (c *Call) socksRequest(program io.ReadWriter) (host string, port int, code byte) {
	methods, err := socksBytes(program)
	if err != nil {
		return "", 0, socksFailure
	}
	chosen := byte(0xff)
	for _, m := range methods {
		if m == 0 { // no authentication
			chosen = 0
		}
	}
	if _, err := program.Write([]byte{socksVersion, chosen}); err != nil || chosen != 0 {
		return "", 0, socksFailure
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(program, head); err != nil || head[0] != socksVersion {
		return "", 0, socksFailure
	}
	text, code := socksAddress(program, head[3])
	if code != socksOK {
		return "", 0, code
	}
	number := make([]byte, 2)
	if _, err := io.ReadFull(program, number); err != nil {
		return "", 0, socksFailure
	}
	port = int(binary.BigEndian.Uint16(number))
	if head[1] != 1 { // BIND and UDP
		return "", 0, socksNoCommand
	}
	host, err = c.hostName(text)
	if err == nil && port == 0 {
		err = errNoHost
	}
	if err != nil {
		c.refuseText(text, port, ViaSocks5, err)
		return "", 0, socksNotAllowed
	}
	return host, port, socksOK
}

// socksAddress reads an address of a kind as text.
func socksAddress(r io.Reader, kind byte) (string, byte) {
	var raw []byte
	var err error
	switch kind {
	case 1:
		raw = make([]byte, 4)
		_, err = io.ReadFull(r, raw)
	case 3:
		if raw, err = socksBytes(r); err == nil {
			return string(raw), socksOK
		}
	case 4:
		raw = make([]byte, 16)
		_, err = io.ReadFull(r, raw)
	default:
		return "", socksNoAddress
	}
	a, ok := netip.AddrFromSlice(raw)
	if err != nil || !ok {
		return "", socksFailure
	}
	return a.String(), socksOK
}

// socksBytes reads bytes after their number.
func socksBytes(r io.Reader) ([]byte, error) {
	n := make([]byte, 1)
	if _, err := io.ReadFull(r, n); err != nil {
		return nil, err
	}
	raw := make([]byte, n[0])
	_, err := io.ReadFull(r, raw)
	return raw, err
}

// socksReply answers; the address that it names is of no use to a program.
func socksReply(cl *client, code byte) error {
	cl.tcp.SetWriteDeadline(time.Now().Add(patience))
	defer cl.tcp.SetWriteDeadline(time.Time{})
	_, err := cl.tcp.Write([]byte{socksVersion, code, 0, 1, 0, 0, 0, 0, 0, 0})
	return err
}

func socksCode(err error) byte {
	var refused *RefusedError
	switch {
	case err == nil:
		return socksOK
	case errors.As(err, &refused):
		return socksNotAllowed
	case errors.Is(err, syscall.ECONNREFUSED):
		return socksRefused
	}
	return socksUnreachable
}
