package client

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// readOutput decodes the data of an output event. Programs print much, so it parses the form that the daemon writes
// by hand, ten times as fast as encoding/json. room is a buffer that is reused for the next event.
func readOutput(data []byte, room *[]byte) (Output, error) {
	if o, ok := plainOutput(data, room); ok {
		return o, nil
	}
	var o Output
	err := json.Unmarshal(data, &o)
	return o, err
}

// plainOutput parses an object with exactly the three fields in their order. It returns false for anything else.
func plainOutput(data []byte, room *[]byte) (o Output, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok {
		return o, false
	}
	stream, rest, ok := bytes.Cut(rest, []byte(`","offset":`))
	if !ok || bytes.ContainsAny(stream, "\\\"") {
		return o, false
	}
	offset, rest, ok := bytes.Cut(rest, []byte(`,"text":"`))
	if !ok || len(offset) == 0 || offset[0] == '+' || len(offset) > 1 && offset[0] == '0' {
		return o, false
	}
	n, err := strconv.ParseUint(string(offset), 10, 63)
	if err != nil {
		return o, false
	}
	text, ok := bytes.CutSuffix(rest, []byte(`"}`))
	if !ok {
		return o, false
	}
	o = Output{Stream: string(stream), Offset: int64(n)}
	o.Text, ok = unescape(text, room)
	return o, ok && utf8.Valid(stream)
}

// escapes maps the character after a backslash in a JSON string to its meaning.
var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// wordBytes is the number of bytes that are examined at a time.
const wordBytes = 8

// unescape returns the content of a JSON string. It returns false for invalid content and for half surrogate pairs.
func unescape(text []byte, room *[]byte) (string, bool) {
	if len(*room) < len(text)+wordBytes {
		*room = make([]byte, len(text)+wordBytes)
	}
	out, n, ascii := *room, 0, true
	for i := 0; i < len(text); {
		if len(text)-i >= wordBytes {
			word := binary.LittleEndian.Uint64(text[i:])
			binary.LittleEndian.PutUint64(out[n:], word) // writes the whole word, and then counts only its first bytes
			plain := wordBytes
			if odd := odd(word); odd != 0 {
				plain = bits.TrailingZeros64(odd) / 8
			}
			i += plain
			n += plain
			if plain == wordBytes {
				continue
			}
		}
		switch c := text[i]; {
		case c == '"':
			return "", false
		case c == '\\':
			took, made := escaped(out[n:], text[i+1:])
			if took == 0 {
				return "", false
			}
			i += 1 + took
			n += made
		default:
			ascii = ascii && c < utf8.RuneSelf
			out[n] = c
			i++
			n++
		}
	}
	s := string(out[:n])
	return s, ascii || utf8.ValidString(s)
}

// odd returns a word whose lowest set bit is the high bit of the first byte of w that is a quote, a backslash or not
// ASCII. It returns 0 if there is none.
func odd(w uint64) uint64 {
	const each, high = 0x0101010101010101, 0x8080808080808080
	return ((w ^ each*'"' - each) | (w ^ each*'\\' - each) | w) & high // a byte can only borrow from bytes above it
}

// escaped decodes an escape; text is what follows its backslash. It returns the number of bytes read, 0 if the
// escape is invalid, and the number of bytes written.
func escaped(out, text []byte) (took, made int) {
	if len(text) == 0 {
		return 0, 0
	}
	if c := escapes[text[0]]; c != 0 {
		out[0] = c
		return 1, 1
	}
	if text[0] != 'u' || len(text) < 5 {
		return 0, 0
	}
	r, err := strconv.ParseUint(string(text[1:5]), 16, 16)
	if err != nil || !utf8.ValidRune(rune(r)) {
		return 0, 0
	}
	return 5, utf8.EncodeRune(out, rune(r))
}
