package visible

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// NewScreen returns a writer for a person's terminal, for a program that draws on a terminal of its
// own: text and what draws pass (colours, the cursor, erasing, inserting, scrolling, the other
// screen, modes of keys and of pasting, the bell). The rest is left out: titles, the clipboard,
// questions that a terminal answers as if the person typed, changes of its size and its fonts,
// strings of any kind, and controls in 8 bits. Sequences and characters may be cut anywhere between
// two writes.
func NewScreen(w io.Writer) io.Writer { return &screen{to: w} }

// screen follows the sequences of a terminal.
type screen struct {
	to   io.Writer
	in   func(*screen, byte) // within a sequence; nil is text
	seq  []byte              // of the sequence so far
	part []byte              // the start of a character
	out  bytes.Buffer
}

// maxSequence bounds a sequence that may pass; a longer one is left out to its end.
const maxSequence = 64

func (s *screen) Write(p []byte) (int, error) {
	s.out.Reset()
	for _, c := range p {
		switch {
		case s.in != nil:
			s.in(s, c)
		case c == 0x1b:
			s.flush()
			s.seq, s.in = append(s.seq[:0], c), (*screen).escape
		default:
			s.text(c)
		}
	}
	if _, err := s.to.Write(s.out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// text takes one byte that is in no sequence.
func (s *screen) text(c byte) {
	if len(s.part) == 0 && c < utf8.RuneSelf {
		if c >= ' ' && c != 0x7f || strings.IndexByte("\a\b\t\n\r", c) >= 0 {
			s.out.WriteByte(c)
		}
		return
	}
	s.part = append(s.part, c)
	if !utf8.FullRune(s.part) {
		return
	}
	r, n := utf8.DecodeRune(s.part)
	rest := append([]byte(nil), s.part[n:]...)
	s.part = s.part[:0]
	switch {
	case r == utf8.RuneError && n == 1:
		s.out.WriteString("\uFFFD")
	case r >= 0x80 && r < 0xa0: // controls in 8 bits: CSI, OSC and others without an ESC
	default:
		s.out.WriteRune(r)
	}
	for _, c := range rest {
		if c == 0x1b { // text never sees it otherwise
			s.seq, s.in = append(s.seq[:0], c), (*screen).escape
			continue
		}
		s.text(c)
	}
}

// flush ends a character that was cut by a sequence.
func (s *screen) flush() {
	if len(s.part) > 0 {
		s.out.WriteString("\uFFFD")
		s.part = s.part[:0]
	}
}

// end is the end of a sequence, which passes or is left out.
func (s *screen) end(passes bool) {
	if passes && len(s.seq) <= maxSequence {
		s.out.Write(s.seq)
	}
	s.seq, s.in = s.seq[:0], nil
}

// add takes one more byte of a sequence, as long as it may pass.
func (s *screen) add(c byte) {
	if len(s.seq) <= maxSequence {
		s.seq = append(s.seq, c)
	}
}

// escape is behind an ESC.
func (s *screen) escape(c byte) {
	s.add(c)
	switch {
	case c == '[':
		s.in = (*screen).control
	case strings.IndexByte("]PX^_", c) >= 0: // OSC, DCS, SOS, PM, APC
		s.in = (*screen).skipString
	case strings.IndexByte("()*+", c) >= 0: // a set of characters, named by the next byte
		s.in = (*screen).charset
	case c == 0x1b:
		s.seq = append(s.seq[:0], c)
	case c >= 0x20 && c < 0x30: // more of these come
		s.in = (*screen).skipEscape
	default:
		s.end(strings.IndexByte("78DEM=>", c) >= 0) // the cursor, a line, the keypad
	}
}

// charset passes the sets that line drawing needs.
func (s *screen) charset(c byte) {
	s.add(c)
	s.end(c == 'B' || c == '0')
}

func (s *screen) skipEscape(c byte) {
	switch {
	case c == 0x1b:
		s.seq, s.in = append(s.seq[:0], c), (*screen).escape
	case c >= 0x30:
		s.end(false)
	}
}

// skipString leaves out what comes until BEL or ESC \.
func (s *screen) skipString(c byte) {
	switch c {
	case 0x07, 0x18, 0x1a:
		s.end(false)
	case 0x1b:
		s.seq, s.in = append(s.seq[:0], c), (*screen).escape // a backslash ends it there, and is left out
	}
}

// control is within CSI: parameters, then a byte that says what is done.
func (s *screen) control(c byte) {
	switch {
	case c == 0x1b:
		s.seq, s.in = append(s.seq[:0], c), (*screen).escape
		return
	case c == 0x18 || c == 0x1a:
		s.end(false)
		return
	case c < 0x20: // a terminal obeys it at once, as if it stood before
		if strings.IndexByte("\b\t\n\r", c) >= 0 {
			s.out.WriteByte(c)
		}
		return
	}
	s.add(c)
	if c >= 0x40 {
		s.end(c < 0x7f && passes(string(s.seq[2:len(s.seq)-1]), c))
	}
}

// drawing are the last bytes of sequences that move the cursor, erase, insert, delete, scroll
// and colour.
const drawing = "@ABCDEFGHJKLMPSTXZ`abdefmrsu"

// modes are those of the private modes of a terminal that programs may set: keys of the
// cursor, wrapping, the cursor, the other screen, and brackets around what is pasted.
var modes = map[string]bool{
	"1": true, "7": true, "12": true, "25": true, "47": true, "1047": true, "1048": true, "1049": true, "2004": true,
}

// passes reports whether a control sequence only draws.
func passes(parameters string, last byte) bool {
	private, isPrivate := strings.CutPrefix(parameters, "?")
	switch {
	case isPrivate && (last == 'h' || last == 'l'):
		for mode := range strings.SplitSeq(private, ";") {
			if !modes[mode] {
				return false
			}
		}
		return true
	case last == 'h' || last == 'l':
		return parameters == "4" // insert
	}
	digits := strings.Trim(parameters, "0123456789;:") == ""
	return digits && strings.IndexByte(drawing, last) >= 0
}
