package lsp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Bounds of the output of a server.
const (
	maxFrame  = 16 << 20 // bytes of one message
	maxHeader = 4 << 10  // bytes of the header of a message
	outRate   = 64 << 20 // bytes that are read per second
)

// readFrame reads one message: header lines with Content-Length, an empty line, and so many bytes. It allocates
// memory as bytes arrive, whatever length the header announces. It returns io.EOF if the input ends between two
// messages.
func readFrame(r *bufio.Reader) ([]byte, error) {
	length, header := -1, 0
	for {
		line, err := r.ReadSlice('\n')
		header += len(line)
		switch {
		case errors.Is(err, io.EOF) && header == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, errors.New("it ended in the middle of a message")
		case errors.Is(err, bufio.ErrBufferFull), err == nil && header > maxHeader:
			return nil, fmt.Errorf("the header of a message has more than %d bytes", maxHeader)
		case err != nil:
			return nil, err
		}
		text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("it printed %.60q, which is no header of a message", text)
		}
		if !strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 63)
		switch {
		case err != nil:
			return nil, fmt.Errorf("Content-Length %.40q is no length", value)
		case length >= 0:
			return nil, errors.New("a message has two lengths")
		case n > maxFrame:
			return nil, fmt.Errorf("a message of %d bytes is larger than %d", n, maxFrame)
		}
		length = int(n)
	}
	if length < 0 {
		return nil, errors.New("a message has no Content-Length")
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(length)); errors.Is(err, io.EOF) {
		return nil, errors.New("it ended in the middle of a message")
	} else if err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// frame returns a message with its header.
func frame(body []byte) []byte {
	return append([]byte("Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"), body...)
}

// paced reads at most outRate bytes per second, so that a flood does not keep a processor busy.
type paced struct {
	io.Reader
	since time.Time
	bytes int
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	now := time.Now()
	if now.Sub(p.since) >= time.Second {
		p.since, p.bytes = now, 0
	}
	if p.bytes += n; p.bytes > outRate {
		time.Sleep(time.Second - now.Sub(p.since))
	}
	return n, err
}
