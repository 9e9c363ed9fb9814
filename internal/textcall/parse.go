package textcall

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// Call is a call that a model has written.
type Call struct {
	Name    string          `json:"name"`
	Args    json.RawMessage `json:"args"`     // an object, or the array or string that was written
	RawArgs string          `json:"raw_args"` // as they were written, without blanks around them
}

// Parse returns the first calls of a text, at most most of them, and the number of tags after them. It looks
// at each byte a bounded number of times.
func Parse(text string, most int) (calls []Call, ignored int) {
	if !strings.Contains(text, "CALL") {
		return nil, 0
	}
	s := scanner{text: text, left: 8*len(text) + 1024}
	for at := 0; ; {
		name, raw, next, ok := s.tag(at)
		if !ok {
			return calls, ignored
		}
		if len(calls) < most {
			calls = append(calls, Call{name, argsOf(raw), raw})
		} else {
			ignored++
		}
		at = next
	}
}

// scanner finds tags. What is left bounds its work: a text that is made to be scanned again and
// again has no call.
type scanner struct {
	text string
	left int
}

// tag returns the first tag from a place on, and where it ends.
func (s *scanner) tag(at int) (name, args string, end int, ok bool) {
	for at < len(s.text) && s.left > 0 {
		open := strings.IndexByte(s.text[at:], '[')
		if open < 0 {
			return "", "", 0, false
		}
		at += open
		begin := s.head(at)
		if begin < 0 {
			at++
			continue
		}
		name, rest := word(s.text, begin)
		switch {
		case name == "" || rest == len(s.text):
			at++
			continue
		case s.text[rest] == ']':
			return name, "", rest + 1, true
		case s.text[rest] != '(':
			at++
			continue
		}
		close, end, next := s.end(rest + 1)
		if close >= 0 {
			return name, strings.TrimSpace(s.text[rest+1 : close]), end, true
		}
		if next < 0 {
			return "", "", 0, false
		}
		at = next
	}
	return "", "", 0, false
}

// head returns where "[CALL:" ends, -1 if it does not stand there.
func (s *scanner) head(at int) int {
	i := blanks(s.text, at+1)
	if !strings.HasPrefix(s.text[i:], "CALL") {
		return -1
	}
	if i = blanks(s.text, i+4); i == len(s.text) || s.text[i] != ':' {
		return -1
	}
	return blanks(s.text, i+1)
}

func blanks(s string, i int) int {
	for i < len(s) && strings.IndexByte(" \t\r\n", s[i]) >= 0 {
		i++
	}
	return i
}

// word returns the name at a place, and what follows it and its blanks.
func word(s string, i int) (name string, rest int) {
	from := i
	for i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || s[i] >= '0' && s[i] <= '9' ||
		s[i] == '_' || s[i] == '.' || s[i] == '-') {
		i++
	}
	return s[from:i], blanks(s, i)
}

// end finds the end of a tag whose arguments begin at a place: the first ")]" outside of strings
// and brackets, else the first outside of strings, else the first, before the next head. close is
// -1 if there is none; next is that head, or -1.
func (s *scanner) end(from int) (close, end, next int) {
	type place struct{ close, end int }
	outside, any := place{-1, 0}, place{-1, 0}
	var nest []byte
	quote := -1 // where the string began
	next = -1
	i := from
scan:
	for ; i < len(s.text); i++ {
		if s.left--; s.left <= 0 {
			return -1, 0, -1
		}
		c := s.text[i]
		if c == ')' && any.close < 0 || c == ')' && quote < 0 {
			if b := blanks(s.text, i+1); b < len(s.text) && s.text[b] == ']' {
				here := place{i, b + 1}
				if any.close < 0 {
					any = here
				}
				if quote < 0 && outside.close < 0 {
					outside = here
				}
				if quote < 0 && len(nest) == 0 {
					return here.close, here.end, -1
				}
			}
		}
		switch {
		case quote >= 0:
			if c == '\\' {
				i++
			} else if c == '"' {
				quote = -1
			}
		case c == '"':
			quote = i
		case c == '[' && s.head(i) >= 0:
			next = i
			break scan
		case c == '(' || c == '[' || c == '{':
			nest = append(nest, c)
		case len(nest) > 0 && closes(nest[len(nest)-1], c):
			nest = nest[:len(nest)-1]
		}
	}
	if quote >= 0 { // the quote is none
		for i := quote + 1; i < len(s.text); i++ {
			if s.left--; s.text[i] == '[' && s.head(i) >= 0 {
				next = i
				break
			}
		}
	}
	best := outside
	if best.close < 0 {
		best = any
	}
	if best.close >= 0 && (next < 0 || best.close < next) {
		return best.close, best.end, next
	}
	return -1, 0, next
}

func closes(open, c byte) bool {
	return open == '(' && c == ')' || open == '[' && c == ']' || open == '{' && c == '}'
}

// argsOf reads arguments: JSON, else pairs, else as they are.
func argsOf(raw string) json.RawMessage {
	if raw == "" {
		return json.RawMessage("{}")
	}
	switch raw[0] {
	case '{', '[', '"':
		if b := []byte(raw); json.Valid(b) && strictjson.Check(b) == nil {
			return b
		}
	}
	if raw[0] != '{' && raw[0] != '[' {
		if args := pairs(raw); args != nil {
			return args
		}
	}
	return encode(map[string]any{"_raw": raw})
}

var (
	keyForm = lazyregexp.New(`^[\p{L}\p{N}_][\p{L}\p{N}\p{M}_.-]*$`)
	number  = lazyregexp.New(`^-?(0|[1-9]\d*)(\.\d+)?$`)
)

// pairs reads a=1, b="x, y". Parts that are no pair are kept in _raw. It returns nil without a pair.
func pairs(raw string) json.RawMessage {
	args := map[string]any{}
	var rest []string
	for _, part := range parts(raw) {
		key, value, is := strings.Cut(part, "=")
		if key = strings.TrimSpace(key); is && keyForm().MatchString(key) {
			args[key] = typed(strings.TrimSpace(value))
		} else if part != "" {
			rest = append(rest, part)
		}
	}
	if len(args) == 0 {
		return nil
	}
	if len(rest) > 0 {
		args["_raw"] = strings.Join(rest, ", ")
	}
	return encode(args)
}

// parts returns what commas divide, outside of quotes and brackets. A quote opens only where a part or its value
// begins.
func parts(raw string) (list []string) {
	var quote byte
	depth, from, begins := 0, 0, true
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
			continue
		case begins && (c == '"' || c == '\''):
			quote = c
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth = max(0, depth-1)
		case c == ',' && depth == 0:
			list = append(list, strings.TrimSpace(raw[from:i]))
			from = i + 1
		}
		begins = depth == 0 && (c == '=' || c == ',') || begins && strings.IndexByte(" \t\r\n", c) >= 0
	}
	return append(list, strings.TrimSpace(raw[from:]))
}

// typed returns a value as JSON has it.
func typed(s string) any {
	switch {
	case number().MatchString(s):
		return json.Number(s)
	case strings.EqualFold(s, "true"):
		return true
	case strings.EqualFold(s, "false"):
		return false
	case strings.EqualFold(s, "null"):
		return nil
	}
	if n := len(s); n > 1 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		var text string
		if s[0] == '"' && json.Unmarshal([]byte(s), &text) == nil {
			return text
		}
		return s[1 : n-1]
	}
	return s
}

// encode is json.Marshal as it is written by hand.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage(`{}`) // cannot happen: strings, numbers, booleans and nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// oneLine returns a text without line ends, of so many characters at most.
func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most-1]) + "…"
	}
	return s
}
