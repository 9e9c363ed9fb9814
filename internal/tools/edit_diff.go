package tools

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// What of a change is shown.
const (
	diffPlaces  = 50       // replacements
	diffContext = 3        // lines around each
	diffBytes   = 64 << 10 // of text on either side
)

// diffAt shows a replacement that is going to be made as a unified diff. It looks
// only at the part of the file that holds the first replacements, so that it costs
// nothing in a large one: that part is diffed and its line numbers are moved.
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

// linesBack is the start of the line that is n lines before the one at.
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

// linesOn is the end of the line that is n lines after the one at.
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
