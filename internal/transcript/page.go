package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
)

// maxLine is how long a message may be: more than a request can bring.
const maxLine = 16 << 20

// Messages returns how many messages there are.
func (t *File) Messages() int { return t.Meta.Messages }

// Page is a part of the messages.
type Page struct {
	From, Count int
	Longest     int // bytes of the longest message

	t  *File
	at int64 // where the first begins
}

// Page returns at most count messages from the one with this index on, which is not negative. It has looked at each:
// what is damaged there is transcript_corrupt. The others are not read, except those that are nearer to the begin or
// to the end.
func (t *File) Page(from, count int) (Page, error) {
	p := Page{From: min(from, t.Meta.Messages), t: t}
	p.Count = min(count, t.Meta.Messages-p.From)
	if p.Count == 0 {
		return p, nil
	}
	var err error
	if p.at, err = t.startOf(p.From); err != nil {
		return p, err
	}
	for m, err := range p.All() {
		if err != nil {
			return p, err
		}
		p.Longest = max(p.Longest, len(m))
	}
	return p, nil
}

// All passes on the messages. What a message is in is used again for the next.
func (p Page) All() iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		if p.Count == 0 {
			return
		}
		r := bufio.NewReaderSize(io.NewSectionReader(p.t.f, p.at, p.t.end-p.at), 64<<10)
		var line []byte
		for i := range p.Count {
			var err error
			line, err = p.t.line(r, line[:0], p.From+i == p.t.Meta.Messages-1)
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// line reads one message into buf.
func (t *File) line(r *bufio.Reader, buf []byte, last bool) (json.RawMessage, error) {
	for {
		part, err := r.ReadSlice('\n')
		buf = append(buf, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(buf) < maxLine:
			continue
		case last && errors.Is(err, io.EOF):
		case last, err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF):
			if err == nil {
				err = corrupt(t.id, "it has more messages than it says")
			}
			return nil, err
		case !bytes.HasSuffix(buf, []byte(between)):
			return nil, corrupt(t.id, "it has fewer messages than it says, or one is cut off")
		default:
			buf = buf[:len(buf)-len(between)]
		}
		if !json.Valid(buf) || buf[0] != '{' {
			return nil, corrupt(t.id, "a message is damaged")
		}
		return buf, nil
	}
}

// endOf returns where the first n messages end.
func (t *File) endOf(n int) (int64, error) {
	if n >= t.Meta.Messages {
		return t.end, nil
	}
	at, err := t.startOf(n)
	return at - int64(len(between)), err
}

// startOf returns where the message with this index begins. It counts lines from the nearer side.
func (t *File) startOf(index int) (int64, error) {
	if index == 0 {
		return t.start, nil
	}
	count := t.forward
	lines := index
	if behind := t.Meta.Messages - index; behind < index {
		count, lines = t.backward, behind
	}
	at, err := count(lines)
	if err != nil {
		return 0, err
	}
	before := make([]byte, len(between))
	if _, err := t.f.ReadAt(before, at-int64(len(between))); err != nil {
		return 0, err
	}
	if string(before) != between {
		return 0, corrupt(t.id, "a message is cut off")
	}
	return at, nil
}

const blockSize = 64 << 10

func (t *File) forward(lines int) (int64, error) {
	block := make([]byte, blockSize)
	for at := t.start; at < t.end; at += blockSize {
		part := block[:min(blockSize, t.end-at)]
		if _, err := t.f.ReadAt(part, at); err != nil {
			return 0, err
		}
		for i, c := range part {
			if c != '\n' {
				continue
			}
			if lines--; lines == 0 {
				return at + int64(i) + 1, nil
			}
		}
	}
	return 0, corrupt(t.id, "it has fewer messages than it says")
}

func (t *File) backward(lines int) (int64, error) {
	block := make([]byte, blockSize)
	for end := t.end; end > t.start; end -= blockSize {
		begin := max(t.start, end-blockSize)
		part := block[:end-begin]
		if _, err := t.f.ReadAt(part, begin); err != nil {
			return 0, err
		}
		for i := len(part) - 1; i >= 0; i-- {
			if part[i] != '\n' {
				continue
			}
			if lines--; lines == 0 {
				return begin + int64(i) + 1, nil
			}
		}
	}
	return 0, corrupt(t.id, "it has fewer messages than it says")
}

// Find returns the index of the first message whose uuid or id this is, -1 without one.
func (t *File) Find(message string) (int, error) {
	p, err := t.Page(0, t.Meta.Messages)
	if err != nil {
		return -1, err
	}
	i := 0
	for m, err := range p.All() {
		if err != nil {
			return -1, err
		}
		var named map[string]json.RawMessage
		if err := json.Unmarshal(m, &named); err != nil {
			return -1, err
		}
		for _, key := range []string{"uuid", "id"} {
			var name string
			if json.Unmarshal(named[key], &name) == nil && name == message {
				return i, nil
			}
		}
		i++
	}
	return -1, nil
}
