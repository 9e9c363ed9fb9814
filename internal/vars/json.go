package vars

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// rewriteStrings calls change for every string value of a JSON text, with the top-level field that holds it, and
// replaces the string by the answer. Keys are no values. Everything that change leaves alone stays byte for byte:
// digits, white space, and the order of keys. It also returns the names of the top-level fields.
func rewriteStrings(raw []byte, change func(in place, s string) (new []byte, changed bool, err error)) (
	out []byte, fields []string, err error,
) {
	var skeleton []byte // the text with empty strings: what is left to validate
	copied, seen := 0, 0
	w := walker{raw: raw}
	for w.next() {
		s, ok := decodeString(raw[w.start:w.end])
		if !ok {
			return nil, nil, badArguments()
		}
		skeleton = append(append(skeleton, raw[seen:w.start]...), `""`...)
		seen = w.end
		if w.key {
			if len(w.stack) == 1 {
				w.field = s
				fields = append(fields, s)
			}
			continue
		}
		text, changed, err := change(place{w.field, len(w.stack) == 1}, s)
		if err != nil {
			return nil, nil, err
		}
		if !changed {
			continue
		}
		if out == nil {
			out = make([]byte, 0, len(raw)+len(text)/8)
		}
		out = append(out, raw[copied:w.start]...)
		out = appendString(out, text)
		copied = w.end
	}
	if w.broken || !json.Valid(append(skeleton, raw[seen:]...)) {
		return nil, nil, badArguments()
	}
	if copied == 0 {
		return raw, fields, nil
	}
	return append(out, raw[copied:]...), fields, nil
}

func badArguments() error {
	return &tool.Error{
		Code: "validation_error", Stage: "resolve", Msg: "the arguments are not valid JSON in UTF-8",
		Hint: "send one JSON object",
	}
}

// place is where a string stands.
type place struct {
	field string // the top-level field it is under
	whole bool   // it is the value of that field, and not inside a list or an object
}

// walker goes over the strings of a JSON text, which need not be valid: the text
// without its strings is validated after.
type walker struct {
	raw        []byte
	start, end int    // of the string at hand, with its quotes
	key        bool   // it is a key
	field      string // the top-level field it is under
	broken     bool   // a string without an end, or an end without a beginning

	at    int
	stack []byte // { or [, of what is open
	keys  bool   // the next string is a key
}

func (w *walker) next() bool {
	for ; w.at < len(w.raw); w.at++ {
		switch c := w.raw[w.at]; c {
		case '{', '[':
			w.stack = append(w.stack, c)
			w.keys = c == '{'
		case '}', ']':
			if len(w.stack) == 0 {
				w.broken = true
				return false
			}
			w.stack = w.stack[:len(w.stack)-1]
		case ',':
			w.keys = len(w.stack) > 0 && w.stack[len(w.stack)-1] == '{'
		case '"':
			n := stringLength(w.raw[w.at:])
			if n < 0 {
				w.broken = true
				return false
			}
			w.start, w.end = w.at, w.at+n
			w.key, w.keys = w.keys, false
			w.at = w.end
			return true
		}
	}
	return false
}

// stringLength returns the length of the literal at the start of b, or -1.
func stringLength(b []byte) int {
	for i := 1; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i
		}
	}
}

// decodeString refuses what encoding/json would silently replace: bytes that are
// not UTF-8. Half a surrogate pair becomes U+FFFD, there as here.
func decodeString(literal []byte) (string, bool) {
	inner := literal[1 : len(literal)-1]
	if !utf8.Valid(inner) {
		return "", false
	}
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), special(inner) < 0
	}
	var s string
	err := json.Unmarshal(literal, &s)
	return s, err == nil
}

// special returns the index of the first byte that JSON wants escaped, or -1. It looks at eight bytes at once: texts
// are long and such bytes are rare.
func special(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		quote, slash := v^('"'*ones), v^('\\'*ones)
		// The high bit of a byte is set where it is below 0x20, or zero after the xor.
		// A borrow can set more of them, never fewer: the loop below decides.
		if ((v-0x20*ones)&^v|(quote-ones)&^quote|(slash-ones)&^slash)&highs != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return -1
}

// quotedLength returns how long s is as a JSON string, without its quotes.
func quotedLength(s []byte) int {
	n := len(s)
	for {
		i := special(s)
		if i < 0 {
			return n
		}
		switch s[i] {
		case '"', '\\', '\n', '\r', '\t':
			n++
		default:
			n += 5
		}
		s = s[i+1:]
	}
}

// appendString appends s as a JSON string. Only what must be is escaped.
func appendString(out, s []byte) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for {
		n := special(s)
		if n < 0 {
			return append(append(out, s...), '"')
		}
		out = append(out, s[:n]...)
		switch c := s[n]; c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		s = s[n+1:]
	}
}
