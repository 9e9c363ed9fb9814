package vars

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/tool"
)

// rewriteStrings passes every string value of a JSON text (keys are not values)
// with the top-level field it is under, and puts the answer in its place. Where
// change says that nothing changed the bytes stay as they were, digits, space
// and order of keys included.
func rewriteStrings(raw []byte, change func(field, s string) (new []byte, changed bool, err error)) ([]byte, error) {
	if !json.Valid(raw) {
		return nil, &tool.Error{Code: "validation_error", Stage: "resolve", Msg: "the arguments are not valid JSON", Hint: "send one JSON object"}
	}
	var out []byte
	copied := 0
	w := walker{raw: raw}
	for w.next() {
		s, ok := decodeString(raw[w.start:w.end])
		if !ok {
			return nil, &tool.Error{Code: "validation_error", Stage: "resolve", Msg: "the arguments hold a string that is not valid UTF-8", Hint: "encode binary data"}
		}
		text, changed, err := change(w.field, s)
		if err != nil {
			return nil, err
		}
		if !changed {
			continue
		}
		out = append(out, raw[copied:w.start]...)
		out = appendString(out, text)
		copied = w.end
	}
	if copied == 0 {
		return raw, nil
	}
	return append(out, raw[copied:]...), nil
}

// walker goes over the string values of valid JSON.
type walker struct {
	raw        []byte
	start, end int    // of the string at hand, with its quotes
	field      string // the top-level field it is under

	at    int
	stack []byte // { or [, of what is open
	key   bool   // the next string is a key
}

func (w *walker) next() bool {
	for w.at < len(w.raw) {
		c := w.raw[w.at]
		switch c {
		case '{', '[':
			w.stack = append(w.stack, c)
			w.key = c == '{'
		case '}', ']':
			w.stack = w.stack[:len(w.stack)-1]
		case ',':
			w.key = len(w.stack) > 0 && w.stack[len(w.stack)-1] == '{'
		case '"':
			w.start, w.end = w.at, w.at+stringLength(w.raw[w.at:])
			w.at = w.end
			if !w.key {
				return true
			}
			w.key = false
			if len(w.stack) == 1 {
				w.field, _ = decodeString(w.raw[w.start:w.end])
			}
			continue
		}
		w.at++
	}
	return false
}

// stringLength is the length of the literal at the start of b, which has an end.
func stringLength(b []byte) int {
	for i := 1; ; {
		i += bytes.IndexByte(b[i:], '"')
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
	if !utf8.Valid(literal) {
		return "", false
	}
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(literal[1 : len(literal)-1]), true
	}
	var s string
	err := json.Unmarshal(literal, &s)
	return s, err == nil
}

// appendString appends s as a JSON string. Only what must be is escaped.
func appendString(out, s []byte) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	from := 0
	for i, c := range s {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		out = append(out, s[from:i]...)
		from = i + 1
		switch c {
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
	}
	out = append(out, s[from:]...)
	return append(out, '"')
}
