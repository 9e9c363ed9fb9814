package search

import (
	"bytes"
	"regexp/syntax"
	"strings"
)

// hint is a quick way to pass over what cannot match: it gives the place of
// something that every match of the pattern holds, or -1. Looking for it first is
// many times faster than matching. nil: nothing is known.
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

// literal is the longest text that every match holds.
func literal(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
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

// run is a sequence of n bytes that are all of a class, as of [0-9a-f]{32}.
type run struct {
	class [256]bool
	n     int
}

// minRun is the length from which looking for a run pays.
const minRun = 4

// runIn is the longest run that every match holds, nil without one.
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

// newRun takes pairs of first and last characters; all of them must be single
// bytes, and none the end of a line.
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

// index looks at the last byte of each place where a run could be, so that it
// skips n bytes at a time where there is none.
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
