package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Wanted chooses lines of the record. Fields that are zero choose all, but Limit is at least 1.
type Wanted struct {
	Before         uint64 // lines with a lower number
	Session, Event string
	Search         string // in the text of the line or in the values it encodes, in any case
	Connected      bool   // lines of calls that connected, or tried to
	Limit          int    // how many, the newest
}

// wants reports whether a line is one of those. What the bytes rule out is not decoded.
func (w Wanted) wants(line []byte) bool {
	if w.Search != "" && !has(bytes.ToLower(line), strings.ToLower(w.Search)) ||
		w.Connected && !bytes.Contains(line, []byte(`"network":`)) ||
		!has(line, w.Session) || !has(line, w.Event) {
		return false
	}
	var e Entry
	return json.Unmarshal(line, &e) == nil && (w.Session == "" || e.Session == w.Session) &&
		(w.Event == "" || e.Event == w.Event) && (!w.Connected || e.Network != nil)
}

// has reports whether a line has the text, as it is or as JSON encodes it: && is \u0026\u0026.
func has(line []byte, text string) bool {
	if bytes.Contains(line, []byte(text)) {
		return true
	}
	encoded, err := json.Marshal(text)
	return err == nil && bytes.Contains(line, encoded[1:len(encoded)-1])
}

// span is where a line lies.
type span struct {
	from int64
	size int
}

// Find gives the newest of the lines that are wanted to fn, the oldest of them first. It looks back from the
// end, or from the line of Before, until it has enough, so what is rare takes a read of the whole log.
func Find(ctx context.Context, path string, w Wanted, fn func(line []byte) error) error {
	err := find(ctx, path, w, fn)
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	return nil
}

func find(ctx context.Context, path string, w Wanted, fn func(line []byte) error) error {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	if w.Before > 0 {
		if end, err = startOf(f, end, w.Before); err != nil {
			return err
		}
	}
	found := make([]span, 0, w.Limit)
	err = backward(ctx, f, end, func(s span, line []byte) bool {
		if w.wants(line) {
			found = append(found, s)
		}
		return len(found) < w.Limit
	})
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(found) {
		line := make([]byte, s.size)
		if _, err := f.ReadAt(line, s.from); err != nil {
			return err
		}
		if err := fn(line); err != nil {
			return err
		}
	}
	return nil
}

// backward gives the whole lines before end to fn, the last first, until fn has enough.
func backward(ctx context.Context, f io.ReaderAt, end int64, fn func(s span, line []byte) bool) error {
	part := make([]byte, 1<<20)
	var later []byte // what is read already of the line that the part before begins
	for end > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := max(0, end-int64(len(part)))
		have := part[:end-from]
		if _, err := f.ReadAt(have, from); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for {
			at := bytes.LastIndexByte(have, '\n')
			if at < 0 {
				break
			}
			line := append(slices.Clip(have[at+1:]), later...)
			if bytes.HasSuffix(line, []byte("\n")) && !fn(span{from + int64(at) + 1, len(line)}, line) {
				return nil
			}
			later, have = []byte{'\n'}, have[:at]
		}
		later = append(slices.Clone(have), later...)
		if len(later) > maxLine+len(part) {
			return errors.New("a line is longer than any line of the log")
		}
		end = from
	}
	if bytes.HasSuffix(later, []byte("\n")) {
		fn(span{0, len(later)}, later)
	}
	return nil
}

// startOf returns where the first line begins that has this number or a higher one, or size.
func startOf(f io.ReaderAt, size int64, seq uint64) (int64, error) {
	low, high := int64(0), size // the line begins between these
	for low < high {
		middle := low + (high-low)/2
		from, number, err := lineAfter(f, middle, size)
		if err != nil {
			return 0, err
		}
		if from < size && number < seq {
			low = from + 1
			continue
		}
		high = middle
	}
	from, _, err := lineAfter(f, low, size)
	return from, err
}

// lineAfter returns the first whole line that begins at a place or behind it, and its number; size without one.
func lineAfter(f io.ReaderAt, at, size int64) (from int64, seq uint64, err error) {
	before := max(0, at-1)
	r := bufio.NewReader(io.NewSectionReader(f, before, size-before))
	if at > 0 {
		rest, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return size, 0, nil
		}
		if err != nil {
			return 0, 0, err
		}
		from = before + int64(len(rest))
	}
	line, err := r.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return size, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	var e struct{ Seq uint64 }
	if err := json.Unmarshal(line, &e); err != nil {
		return 0, 0, fmt.Errorf("the line at byte %d cannot be read: %w", from, err)
	}
	return from, e.Seq, nil
}
