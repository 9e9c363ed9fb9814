package jobs

import (
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/output"
)

// text returns at most readBytes of output from an offset on, the offset of its first byte, and the offset for the next
// read. It leaves an incomplete character at the end for the next read, unless the output has ended.
func (j *Job) text(from int64, last bool) (text string, at, next int64, err error) {
	b := make([]byte, min(readBytes, max(0, j.out.written()-from)))
	b, at, err = j.whole(b, from, last)
	return strings.ToValidUTF8(string(b), "\uFFFD"), at, at + int64(len(b)), err
}

// whole reads output from an offset on into b. It leaves out an incomplete character at each end: its other
// part was pushed out of the buffer, or has not come yet. at is where the returned text begins.
func (j *Job) whole(b []byte, from int64, last bool) (got []byte, at int64, err error) {
	n, at, err := j.out.read(b, from)
	if err != nil {
		return nil, at, err
	}
	b = b[:n]
	if at > from { // what was pushed out may have ended within a character
		for skip := 0; skip < utf8.UTFMax-1 && len(b) > 0 && !utf8.RuneStart(b[0]); skip++ {
			b = b[1:]
			at++
		}
	}
	if !last || at+int64(len(b)) < j.out.written() {
		b = b[:output.Whole(b)]
	}
	return b, at, nil
}

// lastRead is up to where the model has read.
func (j *Job) lastRead() int64 {
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	return j.seen
}

func (j *Job) read(upTo int64) {
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	j.seen = max(j.seen, upTo)
}
