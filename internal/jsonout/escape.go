package jsonout

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// inner writes what stands between the quotes of a string, in pieces that have room in the
// buffer however much of them is escaped.
func (e encoder) inner(s []byte) error {
	for len(s) > 0 {
		if e.w.Available() < pieceBytes/2 {
			if err := e.w.Flush(); err != nil {
				return err
			}
		}
		n := min(len(s), (e.w.Available()-wordBytes)/maxEscaped)
		for back := 0; n < len(s) && back < utf8.UTFMax-1 && !utf8.RuneStart(s[n]); back++ {
			n-- // no piece ends within a character
		}
		if _, err := e.w.Write(escaped(e.w.AvailableBuffer(), s[:n])); err != nil {
			return err
		}
		s = s[n:]
	}
	return nil
}

const (
	maxEscaped = 6 // bytes that one byte becomes at most
	wordBytes  = 8
)

// escaped appends s to b, which has room for maxEscaped bytes of each byte, and a word.
func escaped(b, s []byte) []byte {
	out, n := b[:cap(b)], len(b)
	for i := 0; i < len(s); {
		if len(s)-i >= wordBytes {
			word := binary.LittleEndian.Uint64(s[i:])
			binary.LittleEndian.PutUint64(out[n:], word) // all of it, and then not all is counted
			odd := odd(word)
			if odd == 0 {
				i += wordBytes
				n += wordBytes
				continue
			}
			plain := bits.TrailingZeros64(odd) / 8
			i += plain
			n += plain
		}
		c := s[i]
		if c < utf8.RuneSelf {
			n += escape(out[n:], c)
			i++
			continue
		}
		whole := runes(s[i:])
		n += copy(out[n:], s[i:i+whole])
		if i += whole; i == len(s) || s[i] < utf8.RuneSelf {
			continue
		}
		if r, size := utf8.DecodeRune(s[i:]); size > 1 { // U+2028 or U+2029
			n += copy(out[n:], `\u202`)
			out[n] = hex[r&15]
			n++
			i += size
		} else {
			n += copy(out[n:], `\ufffd`)
			i++
		}
	}
	return out[:n]
}

// runes returns how many bytes at the start of s are characters beyond ASCII that stand for themselves.
func runes(s []byte) int {
	i := 0
	for i < len(s) && s[i] >= utf8.RuneSelf {
		if i+1 < len(s) && s[i] >= 0xC2 && s[i] < 0xE0 && s[i+1]&0xC0 == 0x80 { // of two bytes
			i += 2
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		if size == 1 || r == '\u2028' || r == '\u2029' {
			break
		}
		i += size
	}
	return i
}

// odd marks, by its high bit, the first byte of a word that may need an escape. No bit below it is
// set. It is 0 if no byte may need one. It looks at all of them at once, because programs print much.
func odd(w uint64) uint64 {
	const each, high = 0x0101010101010101, 0x8080808080808080
	// The high bit of a byte is set where it is below a space or a quote, a backslash, or no ASCII: with one bit
	// turned, the quote is the first behind the control characters. What is borrowed from a byte for one below it
	// changes only bits above the first that is set.
	return ((w ^ each*2 - each*('"'^2+1)) | (w ^ each*'\\' - each) | w) & high
}

const hex = "0123456789abcdef"

// short are the escapes of two bytes.
var short = [utf8.RuneSelf]byte{
	'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't',
}

// escape writes an ASCII character, and returns how many bytes that took.
func escape(out []byte, c byte) int {
	switch {
	case short[c] != 0:
		out[0], out[1] = '\\', short[c]
		return 2
	case c >= ' ':
		out[0] = c
		return 1
	}
	copy(out, `\u00`)
	out[4], out[5] = hex[c>>4], hex[c&15]
	return maxEscaped
}
