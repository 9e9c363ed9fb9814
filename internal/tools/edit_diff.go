package tools

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Bounds on what is shown of a change.
const (
	diffPlaces  = 50       // replacements shown
	diffContext = 3        // lines around each replacement
	diffBytes   = 64 << 10 // bytes of text before, and after, the change
)

// diffAt returns a unified diff of replacements before they are made. It diffs only the part of the file with the
// first replacements and corrects its line numbers, so that a large file costs no more than a small one.
func diffAt(name string, before []byte, places []int, size int, text []byte) string {
	shownPlaces := places[:min(len(places), diffPlaces)]
	first, last := shownPlaces[0], shownPlaces[len(shownPlaces)-1]
	start := linesBack(before, first, diffContext)
	oldEnd := linesOn(before, last+size, diffContext)
	if oldEnd-start > diffBytes || len(shownPlaces)*len(text) > diffBytes {
		return fmt.Sprintf("--- %s\n+++ %s\n"+
			"[the change is too large to show: %d places, %d bytes each before, %d after]\n",
			name, name, len(places), size, len(text))
	}
	part := before[start:oldEnd]
	inPart := make([]int, len(shownPlaces))
	for i, p := range shownPlaces {
		inPart[i] = p - start
	}
	old := strings.ToValidUTF8(string(part), "\uFFFD")
	after := replaceAt(bytes.Clone(part), inPart, size, text)
	edits := udiff.Lines(old, strings.ToValidUTF8(string(after), "\uFFFD"))
	d, err := udiff.ToUnifiedDiff("a/"+strings.TrimPrefix(name, "/"), "b/"+strings.TrimPrefix(name, "/"), old, edits,
		diffContext)
	if err != nil {
		return fmt.Sprintf("[diff error] %v\n", err)
	}
	offset := bytes.Count(before[:start], []byte{'\n'})
	for _, h := range d.Hunks {
		h.FromLine += offset
		h.ToLine += offset
	}
	out := d.String()
	if len(places) > len(shownPlaces) {
		out += fmt.Sprintf("[%d more replacements are not shown]\n", len(places)-len(shownPlaces))
	}
	return out
}

// linesBack returns the offset of the start of the line that is n lines before offset at.
func linesBack(b []byte, at, n int) int {
	for ; n >= 0; n-- {
		i := bytes.LastIndexByte(b[:at], '\n')
		if i < 0 {
			return 0
		}
		at = i
	}
	return at + 1
}

// linesOn returns the offset of the end of the line that is n lines after offset at.
func linesOn(b []byte, at, n int) int {
	for ; n >= 0; n-- {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return len(b)
		}
		at += i + 1
	}
	return at
}
