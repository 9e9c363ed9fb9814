package tools

import (
	"context"
	"io"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
)

// outputCap is how many characters of a stream are kept: half from its start,
// half from its end (T-43).
const outputCap = 100_000

// capture keeps the head and the tail of a stream in bounded memory and passes
// everything on to whoever listens.
type capture struct {
	stream  string
	emit    func(tool.Progress)
	also    io.Writer // nil, or where everything goes; its errors are its own
	head    []byte
	tail    []byte // a window over what came after head
	total   int64
	dropped int
	room    *outputRoom // nil: there is no bound
}

// What the output of a program takes: a little is taken with the call, and everything that
// is ever kept of both streams, with the texts that are made of it, in one step. A program
// that writes more waits until that is there.
const (
	littleOutput = 8 << 10 // of each stream
	muchOutput   = 4 << 20
)

// outputRoom takes memory for the output of one program.
type outputRoom struct {
	ctx  context.Context
	once sync.Once
	err  error
}

// full reports whether there is no memory for so many bytes of a stream.
func (r *outputRoom) full(bytes int) bool {
	if r == nil || bytes <= littleOutput {
		return false
	}
	r.once.Do(func() { r.err = toolkit.Need(r.ctx, muchOutput) })
	return r.err != nil
}

// The bounds are in bytes while the stream comes in, at four to a character, and
// in characters when it is read.
const captureHalf = outputCap / 2 * utf8.UTFMax

func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if c.emit != nil {
		c.emit(tool.Progress{Stream: c.stream, Output: p})
	}
	if c.also != nil {
		_, _ = c.also.Write(p)
	}
	if c.room.full(len(c.head) + len(c.tail) + len(p)) {
		c.dropped += len(p) // the call has ended
		return n, nil
	}
	if room := captureHalf - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	if len(p) > captureHalf {
		c.dropped += len(p) - captureHalf
		p = p[len(p)-captureHalf:]
	}
	c.tail = append(c.tail, p...)
	if len(c.tail) > 2*captureHalf { // moved rarely, so that small writes stay cheap
		c.dropped += len(c.tail) - captureHalf
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-captureHalf:]...)
	}
	return n, nil
}

// text is the stream, or its first and last part: outputCap characters, and most
// bytes, at most. cut says that the middle is missing.
func (c *capture) text(most int64) (text string, cut bool) {
	head, tail := strings.ToValidUTF8(string(c.head), "\uFFFD"), strings.ToValidUTF8(string(c.tail), "\uFFFD")
	if c.dropped == 0 {
		whole := strings.ToValidUTF8(string(c.head)+string(c.tail), "\uFFFD")
		if int64(len(whole)) <= most && utf8.RuneCountInString(whole) <= outputCap {
			return whole, false
		}
		head, tail = whole, whole
	}
	return first(head, outputCap/2, most/2) + "...(truncated)..." + last(tail, outputCap/2, most/2), true
}

// first is the beginning of valid text: so many characters and bytes at most.
func first(s string, chars int, bytes int64) string {
	for i, r := range s {
		if chars == 0 || int64(i+utf8.RuneLen(r)) > bytes {
			return s[:i]
		}
		chars--
	}
	return s
}

// last is its end.
func last(s string, chars int, bytes int64) string {
	at := len(s)
	for ; at > 0 && chars > 0; chars-- {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		if int64(len(s)-at+size) > bytes {
			break
		}
		at -= size
	}
	return s[at:]
}

// texts are two streams that share a limit of bytes: 0 is none.
func texts(stdout, stderr *capture, most int64) (out, errs string, cut bool) {
	forOut, forErr := int64(math.MaxInt64), int64(math.MaxInt64)
	if most > 0 {
		forErr = max(most/2, most-stdout.total)
		forOut = max(most/2, most-stderr.total)
	}
	out, cut = stdout.text(forOut)
	errs, cutErr := stderr.text(forErr)
	return out, errs, cut || cutErr
}
