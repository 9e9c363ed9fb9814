package vars

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// reference is one $VAR_REF{{…}} in a text.
type reference struct {
	start, end int    // of the whole in the text
	inner      string // between the braces
}

// reading is one way to understand the text inside a reference. Names may contain colons (V-33), so the whole text may
// be a name, or its end may be a slice.
type reading struct {
	name   string
	sliced bool
	start  int
	length int // -1 is to the end
}

// nextReference finds the first reference at or after from. A malformed reference is plain text (V-34).
func nextReference(text string, from int) (reference, bool) {
	for {
		i := strings.Index(text[from:], opening)
		if i < 0 {
			return reference{}, false
		}
		start := from + i
		from = start + len(opening)
		// A name is short: looking no further keeps a text full of openings linear.
		window := text[from:min(len(text), from+maxName+44)]
		n := strings.Index(window, closing)
		if n < 0 {
			continue
		}
		inner := window[:n]
		if all := readings(inner); wrongWithName(all[len(all)-1].name) == "" {
			return reference{start, from + n + len(closing), inner}, true
		}
	}
}

// readings lists the ways to understand inner, the longest name first.
func readings(inner string) []reading {
	all := []reading{{name: inner, length: -1}}
	rest, last, ok := cutNumber(inner)
	if !ok {
		return all
	}
	all = append(all, reading{name: rest, sliced: true, start: last, length: -1})
	rest, first, ok := cutNumber(rest)
	if !ok {
		return all
	}
	return append(all, reading{name: rest, sliced: true, start: first, length: last})
}

// cutNumber splits "name:12" into name and 12. A number too large to hold is as
// good as the largest one: slices clamp.
func cutNumber(s string) (rest string, n int, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 || i == len(s)-1 {
		return s, 0, false
	}
	for _, c := range []byte(s[i+1:]) {
		if c < '0' || c > '9' {
			return s, 0, false
		}
	}
	n, err := strconv.Atoi(s[i+1:])
	if err != nil {
		n = int(^uint(0) >> 1)
	}
	return s[:i], n, true
}

// text is a value from which a call may take many slices by characters. Marks at regular distances make each slice cost
// the same, wherever it begins.
type text struct {
	s      string
	length int   // in characters
	marks  []int // byte offset of every stride-th character; built when needed
}

const stride = 1024

// slice returns length characters from start. What lies outside does not exist
// (V-20).
func (t *text) slice(start, length int) string {
	start = min(start, t.length)
	end := t.length
	if length >= 0 && length < t.length-start {
		end = start + length
	}
	return t.s[t.offset(start):t.offset(end)]
}

func (t *text) offset(char int) int {
	if char >= t.length {
		return len(t.s)
	}
	if t.length == len(t.s) { // one byte each
		return char
	}
	if t.marks == nil {
		n := 0
		for i := range t.s {
			if n%stride == 0 {
				t.marks = append(t.marks, i)
			}
			n++
		}
	}
	at := t.marks[char/stride]
	for range char % stride {
		_, size := utf8.DecodeRuneInString(t.s[at:])
		at += size
	}
	return at
}
