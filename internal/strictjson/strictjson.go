// Package strictjson refuses JSON that two readers could understand differently.
//
// [Check] accepts one value of valid UTF-8 in which no object has a field twice, no escape is half
// of a surrogate pair, and nothing is nested deeper than 200 levels below the first. encoding/json
// accepts more: it takes the last of two equal fields, and makes U+FFFD of half a pair. Use
// [CheckFolded] before a reader that ignores case in names of fields, as encoding/json does with
// structs.
//
//	err := strictjson.Check([]byte(`{"tool": "Read", "tool": "Bash"}`))
//	// err: field "tool" is given twice
//
// [Decode] reads one value and refuses fields that its target lacks. It does not call Check: call
// that before. [Canonical] checks a value as Check does, and writes it in the form over which
// digests are made. It keeps numbers as they are written, so 1 and 1.0 have different digests.
// [Plain] writes a value of Go in the same spelling. [Fields] is for texts that have passed Check;
// on others it may panic. [Values] counts the values of any text, so that memory can be reserved.
//
// The package knows no types and no bound on the size of a text.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds nesting. No tool needs more; deeper text only costs stack.
const maxDepth = 200

// Canonical returns the one text of a JSON value that digests are made over:
// fields sorted by their bytes, no space, numbers digit for digit as written.
// Text that readers could understand differently (a field given twice, invalid
// UTF-8) is an error.
func Canonical(raw json.RawMessage) ([]byte, error) {
	if err := Check(raw); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	return Plain(value) // maps are written in the order of their keys
}

// Plain is json.Marshal without the escapes that are for HTML: <, > and & stay as they are.
func Plain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Check refuses text that is not one JSON value, and what encoding/json lets through: invalid UTF-8,
// half of a surrogate pair, a field given twice, and nesting beyond 200 levels below the first.
func Check(raw []byte) error { return check(raw, func(name string) string { return name }) }

// CheckFolded is Check for readers that take a field in any case, as encoding/json does:
// "Block" and "block" are one field then, and so are "reason" and "rea\u017fon".
func CheckFolded(raw []byte) error {
	return check(raw, func(name string) string { return strings.Map(least, name) })
}

// least returns the least of the characters that differ from r only in case, by which encoding/json finds a field.
func least(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

func check(raw []byte, fold func(string) string) error {
	if !utf8.Valid(raw) {
		return errors.New("not valid UTF-8")
	}
	if tooDeep(raw) {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	if err := valid(raw); err != nil {
		return err
	}
	if err := checkSurrogates(raw); err != nil {
		return err
	}
	return checkFields(raw, fold)
}

// tooDeep counts what is open at each place, also of a text that is no JSON.
func tooDeep(raw []byte) bool {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if depth++; depth > maxDepth+1 { // a value with all of them lies in the object of its request
				return true
			}
		case '}', ']':
			depth--
		case '"':
			i = skipText(raw, i)
		}
	}
	return false
}

// skipText returns the place of the quote that ends the string at i, or the end of the text.
func skipText(raw []byte, i int) int {
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i
}

// valid reports what is wrong with the grammar; it copies nothing.
func valid(raw []byte) error {
	if json.Valid(raw) {
		return nil
	}
	err := json.Unmarshal(raw, new(json.RawMessage)) // for its words
	if err != nil && strings.HasSuffix(err.Error(), "after top-level value") {
		return errors.New("text after the end of the JSON value")
	}
	return fmt.Errorf("not JSON: %w", err)
}

// checkFields walks over a text of valid JSON, without a copy of it: what is large is
// read as it lies.
func checkFields(raw []byte, fold func(string) string) error {
	var open []map[string]bool // of each value that is open: its fields; nil for a list
	key := false               // the next string is a field
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if key = raw[i] == '{'; key {
				open = append(open, map[string]bool{})
			} else {
				open = append(open, nil)
			}
		case '}', ']':
			open, key = open[:len(open)-1], false
		case ',':
			key = open[len(open)-1] != nil
		case '"':
			end := i + textLength(raw[i:])
			if key {
				name, err := unquote(raw[i:end])
				if err != nil {
					return err
				}
				fields := open[len(open)-1]
				one := fold(name)
				if fields[one] {
					return fmt.Errorf("field %q is given twice", name)
				}
				fields[one] = true
			}
			i, key = end-1, false
		}
	}
	return nil
}

// checkSurrogates finds an escape that is half of a surrogate pair: it is no character
// (RFC 8259, section 8.2), and each reader makes something else of it. raw is JSON, so
// a backslash is in a string, and four digits follow its u.
func checkSurrogates(raw []byte) error {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return nil
		}
		escape := raw[i:]
		raw = escape[2:]
		if !utf16.IsSurrogate(unit(escape)) {
			continue
		}
		if utf16.DecodeRune(unit(escape), unit(escape[6:])) == unicode.ReplacementChar {
			return fmt.Errorf("%s is half of a surrogate pair", escape[:6])
		}
		raw = escape[12:]
	}
}

// unit returns the code unit that an escape at the beginning of b stands for, 0 for another.
func unit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}

// textLength returns the length of the string at the start of valid JSON, with its quotes.
func textLength(b []byte) int {
	for i := 1; ; {
		i += bytes.IndexByte(b[i:], '"') + 1
		slashes := 0
		for b[i-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}

// unquote returns the text of a string.
func unquote(literal []byte) (string, error) {
	if inner := literal[1 : len(literal)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	var s string
	err := json.Unmarshal(literal, &s)
	return s, err
}

// Values returns how many values a text holds, fields included, and at least one: what a reader needs memory for
// beside the text. Of a text that is no JSON it is some number.
func Values(raw []byte) int {
	n := 1
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case ',', ':', '{', '[':
			n++
		case '"':
			i = skipText(raw, i)
		}
	}
	return n
}

// Fields passes each field of an object to add, and each element of a list with the name
// "". The values are parts of the text, which must have passed [Check]. Any other value has
// none.
func Fields(raw []byte, add func(name string, value json.RawMessage) error) error {
	i := space(raw, 0)
	if i == len(raw) || raw[i] != '{' && raw[i] != '[' {
		return nil
	}
	object := raw[i] == '{'
	for i = space(raw, i+1); raw[i] != '}' && raw[i] != ']'; i = space(raw, i) {
		if raw[i] == ',' {
			i = space(raw, i+1)
		}
		name := ""
		if object {
			end := i + textLength(raw[i:])
			var err error
			if name, err = unquote(raw[i:end]); err != nil {
				return err
			}
			i = space(raw, space(raw, end)+1) // behind the colon
		}
		end := i + valueLength(raw[i:])
		if err := add(name, raw[i:end:end]); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// space returns the first place at or behind i that is no space.
func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// valueLength returns the length of the value at the start of valid JSON.
func valueLength(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += textLength(b[i:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		switch {
		case depth < 0: // of what the value lies in
			return i
		case depth == 0:
			return i + 1
		}
	}
	return len(b)
}

// Decode reads one value into v and refuses fields that v does not have, and text behind
// the value. It takes the last of two fields that differ only in case: call [CheckFolded] before.
func Decode(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}
