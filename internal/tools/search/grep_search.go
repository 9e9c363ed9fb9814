package search

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/budget"
)

const (
	searchChunk  = 1 << 20 // bytes of a file that are searched at a time
	maxMultiline = 8 << 20 // bytes of a file that is searched across lines, and of one line
	maxHitLine   = 500     // characters of a line that are shown
)

// buffer is the memory of one searcher, which it uses for one file after the other.
type buffer struct{ b []byte }

func newBuffer() *buffer { return &buffer{make([]byte, 64<<10)} }

// file searches one file in chunks that end with a line. Of the chunk before, it keeps the lines that the context of
// a match may need.
func (q *query) file(ctx context.Context, f *os.File, buf *buffer) (hits, error) {
	defer budget.Of(ctx).Compute(ctx)()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return hits{}, err
	}
	size := searchChunk
	if q.multiline {
		size = maxMultiline
		if info.Size() > maxMultiline {
			return hits{partial: true}, nil
		}
	}
	if int64(size) > info.Size() {
		size = int(max(info.Size()+1, 4096))
	}
	if len(buf.b) < size {
		buf.b = make([]byte, size)
	}
	var src io.Reader = f
	if info.Size() > 0 { // a file that grows is read up to its size at the time of opening
		src = io.LimitReader(f, info.Size())
	}
	s := scan{q: q, line: 1, lastShown: 0}
	data := buf.b[:0]
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return s.hits, err
		}
		if cap(data)-len(data) < 4096 { // a line is longer than the chunk
			if 2*cap(data) > maxMultiline {
				s.hits.partial = true
				return s.hits, nil
			}
			if budget.Of(ctx).Take(int64(2*cap(data))) != nil {
				s.hits.partial = true
				return s.hits, nil
			}
			bigger := make([]byte, len(data), 2*cap(data))
			copy(bigger, data)
			data = bigger
		}
		n, err := io.ReadFull(src, data[len(data):cap(data)])
		data = data[:len(data)+n]
		end := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !end {
			return s.hits, err
		}
		if first && bytes.IndexByte(data[:min(len(data), 64<<10)], 0) >= 0 {
			return hits{}, nil // binary
		}
		s.piece(data, end)
		if end || q.listOnly && s.hits.count > 0 {
			return s.hits, nil
		}
		keep := s.keepFrom(data)
		rest := copy(data, data[keep:])
		data = data[:rest]
		s.done -= keep
	}
}

// scan is the state of a search in one file.
type scan struct {
	q         *query
	hits      hits
	done      int   // offset in the chunk; all lines before it were searched
	line      int64 // number of the line that begins at done
	lastShown int64 // number of the last line that was kept
}

// piece searches every line of a chunk whose context lines are in the chunk, too.
func (s *scan) piece(data []byte, end bool) {
	limit := len(data)
	if !end {
		limit = s.done + lastLines(data[s.done:], s.q.after)
	}
	for s.done < limit {
		start, stop, ok := s.next(data, limit)
		if !ok {
			s.line += int64(bytes.Count(data[s.done:limit], []byte{'\n'}))
			s.done = limit
			return
		}
		s.line += int64(bytes.Count(data[s.done:start], []byte{'\n'}))
		s.done = start
		s.keep(data, start, stop)
		if s.q.listOnly {
			return
		}
		s.line += int64(bytes.Count(data[start:stop], []byte{'\n'}))
		s.done = stop
	}
}

// next returns the offsets of the next line that matches, or of the lines that a match spans.
func (s *scan) next(data []byte, limit int) (start, stop int, ok bool) {
	for at := s.done; at < limit; {
		begin, endMatch := -1, -1
		if s.q.hint != nil && !s.q.multiline {
			if i := s.q.hint(data[at:limit]); i >= 0 {
				begin, endMatch = at+i, at+i
			}
		} else if m := s.q.re.FindIndex(data[at:limit]); m != nil {
			begin, endMatch = at+m[0], at+m[1]
		}
		if begin < 0 || begin >= limit && data[limit-1] == '\n' {
			return 0, 0, false
		}
		start = bytes.LastIndexByte(data[:begin], '\n') + 1
		stop = lineEnd(data, begin)
		if s.q.multiline {
			return start, lineEnd(data, max(begin, endMatch-1)), true
		}
		if s.q.re.Match(withoutNewline(data[start:stop])) {
			return start, stop, true
		}
		at = stop
	}
	return 0, 0, false
}

func lineEnd(data []byte, at int) int {
	i := bytes.IndexByte(data[at:], '\n')
	if i < 0 {
		return len(data)
	}
	return at + i + 1
}

func withoutNewline(line []byte) []byte { return bytes.TrimSuffix(line, []byte{'\n'}) }

// keep records a match and the lines around it.
func (s *scan) keep(data []byte, start, stop int) {
	s.hits.count += bytes.Count(withoutNewline(data[start:stop]), []byte{'\n'}) + 1
	if !s.q.content {
		return
	}
	if s.q.only {
		for _, m := range s.q.re.FindAll(withoutNewline(data[start:stop]), -1) {
			if len(m) > 0 {
				s.add(s.line, m, true)
			}
		}
		return
	}
	from, number := start, s.line
	for i := 0; i < s.q.before && from > 0 && number-1 > s.lastShown; i++ {
		from = bytes.LastIndexByte(data[:from-1], '\n') + 1
		number--
	}
	for from < start {
		next := lineEnd(data, from)
		s.add(number, withoutNewline(data[from:next]), false)
		from, number = next, number+1
	}
	for from < stop {
		next := lineEnd(data, from)
		s.add(number, withoutNewline(data[from:next]), true)
		from, number = next, number+1
	}
	for i := 0; i < s.q.after && from < len(data); i++ {
		next := lineEnd(data, from)
		if !s.q.multiline && s.q.re.Match(withoutNewline(data[from:next])) {
			break // this line matches, too, and comes next
		}
		s.add(number, withoutNewline(data[from:next]), false)
		from, number = next, number+1
	}
}

func (s *scan) add(number int64, text []byte, match bool) {
	if number <= s.lastShown && !s.q.only {
		if n := len(s.hits.lines); match && n > 0 && s.hits.lines[n-1].number == number {
			s.hits.lines[n-1].match = true
		}
		return
	}
	if len(s.hits.lines) > maxHits {
		return
	}
	s.hits.lines = append(s.hits.lines, hitLine{
		number, showHit(text), match, s.lastShown > 0 && number > s.lastShown+1,
	})
	s.lastShown = number
}

// showHit returns a line in the form of the answer: valid UTF-8, shortened.
func showHit(text []byte) string {
	t := strings.ToValidUTF8(string(bytes.TrimSuffix(text, []byte{'\r'})), "\uFFFD")
	if len(t) > maxHitLine && utf8.RuneCountInString(t) > maxHitLine {
		r := []rune(t)
		return string(r[:maxHitLine]) + "… [line cut]"
	}
	return t
}

// keepFrom returns the offset from which the chunk is still needed: the part that was not searched, and before it
// the lines that a match may show.
func (s *scan) keepFrom(data []byte) int {
	from := s.done
	for i := 0; i < s.q.before && from > 0; i++ {
		from = bytes.LastIndexByte(data[:from-1], '\n') + 1
	}
	return from
}

// lastLines returns the offset behind the last line that is followed by n whole lines.
func lastLines(data []byte, n int) int {
	at := len(data)
	for ; n >= 0; n-- {
		i := bytes.LastIndexByte(data[:at], '\n')
		if i < 0 {
			return 0
		}
		at = i
	}
	return at + 1
}
