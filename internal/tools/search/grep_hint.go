package search

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// hint returns a function that skips quickly what cannot match: it returns the offset of something that every match
// of the pattern holds, or -1. This search is many times faster than matching. hint returns nil if it knows nothing
// that every match holds.
func hint(pattern string) func([]byte) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	r := runIn(re)
	if s := literal(re.Simplify()); len(s) > 1 && !strings.Contains(s, "\n") {
		needle := []byte(s)
		return func(b []byte) int { return bytes.Index(b, needle) }
	}
	if r != nil {
		return r.index
	}
	return nil
}

// literal returns the longest text that every match holds.
func literal(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		// U+FFFD in a pattern also matches a byte that is not UTF-8.
		if re.Flags&syntax.FoldCase == 0 && !slices.Contains(re.Rune, utf8.RuneError) {
			return string(re.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literal(re.Sub[0])
	case syntax.OpConcat:
		longest := ""
		for _, sub := range re.Sub {
			if s := literal(sub); len(s) > len(longest) {
				longest = s
			}
		}
		return longest
	}
	return ""
}

// run is a sequence of n bytes of one class, as for [0-9a-f]{32}.
type run struct {
	class [256]bool
	n     int
}

// minRun is the shortest run for which a search is faster than matching.
const minRun = 4

// runIn returns the longest run that every match holds, or nil.
func runIn(re *syntax.Regexp) *run {
	switch re.Op {
	case syntax.OpRepeat:
		if re.Min >= minRun && re.Sub[0].Op == syntax.OpCharClass {
			return newRun(re.Sub[0].Rune, re.Min)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return runIn(re.Sub[0])
	case syntax.OpConcat:
		var longest *run
		for _, sub := range re.Sub {
			if r := runIn(sub); r != nil && (longest == nil || r.n > longest.n) {
				longest = r
			}
		}
		return longest
	}
	return nil
}

// newRun returns the run of n characters from pairs of first and last characters. It returns nil if a character is
// more than one byte or ends a line.
func newRun(pairs []rune, n int) *run {
	r := &run{n: n}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] > 127 {
			return nil
		}
		for c := pairs[i]; c <= pairs[i+1]; c++ {
			r.class[c] = true
		}
	}
	if r.class['\n'] {
		return nil
	}
	return r
}

// index looks at the last byte of each place where a run could be. If that byte is not of the class, it skips n
// bytes.
func (r *run) index(b []byte) int {
	for last := r.n - 1; last < len(b); {
		at := last
		for at > last-r.n && r.class[b[at]] {
			at--
		}
		if at == last-r.n {
			return at + 1
		}
		last = at + r.n
	}
	return -1
}
