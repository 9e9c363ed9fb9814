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

// outputCap bounds the characters that are kept of a stream: one half from its start, the other from its end (T-43).
const outputCap = 100_000

// capture keeps the head and the tail of a stream in bounded memory, and passes all of it on to another writer.
type capture struct {
	stream  string
	emit    func(tool.Progress)
	also    io.Writer // gets all of it, or nil; its errors are ignored
	head    []byte
	tail    []byte // the most recent bytes behind the head
	total   int64
	dropped int
	room    *outputRoom // nil: there is no bound
}

// The memory for the output of a program comes in two steps: a little when the call begins, and once a stream needs
// more, all that both streams and the texts made from them can ever need. The program's writes wait until the budget
// has given it.
const (
	littleOutput = 8 << 10 // of each stream
	muchOutput   = 4 << 20
)

// outputRoom takes memory from the budget for the output of one program.
type outputRoom struct {
	ctx  context.Context
	once sync.Once
	err  error
}

// full reports whether the budget refuses the memory to keep so many bytes of a stream.
func (r *outputRoom) full(bytes int) bool {
	if r == nil || bytes <= littleOutput {
		return false
	}
	r.once.Do(func() { r.err = toolkit.Need(r.ctx, muchOutput) })
	return r.err != nil
}

// The bounds count bytes while the stream comes in, four to a character, and characters when it is read.
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
	if len(c.tail) > 2*captureHalf { // rarely, so that small writes stay cheap
		c.dropped += len(c.tail) - captureHalf
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-captureHalf:]...)
	}
	return n, nil
}

// text returns the stream, or its first and last parts: at most outputCap characters and most bytes. cut reports
// that the middle is missing.
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

// first returns the longest beginning of valid UTF-8 with at most so many characters and bytes.
func first(s string, chars int, bytes int64) string {
	for i, r := range s {
		if chars == 0 || int64(i+utf8.RuneLen(r)) > bytes {
			return s[:i]
		}
		chars--
	}
	return s
}

// last returns the longest end of valid UTF-8 with at most so many characters and bytes.
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

// texts returns two streams that share a limit of bytes; 0 means no limit.
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
