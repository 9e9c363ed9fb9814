package tools

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// notUnique returns an error with the line numbers of the matches, so that the model can add text that distinguishes
// them.
func notUnique(content []byte, places []int) error {
	var lines []string
	for _, p := range places[:min(len(places), 10)] {
		lines = append(lines, strconv.Itoa(lineAt(content, p)))
	}
	if len(places) > 10 {
		lines = append(lines, "…")
	}
	times := strconv.Itoa(len(places))
	if len(places) == 1000 {
		times = "1000 or more" // the search stopped there
	}
	return &tool.Error{
		Code: "old_string_not_unique",
		Msg: fmt.Sprintf("old_string is in the file %s times, beginning in lines %s", times,
			strings.Join(lines, ", ")),
		Hint: "add lines before or after it until it is unique, or set replace_all to true",
	}
}

func lineAt(content []byte, at int) int { return bytes.Count(content[:at], []byte{'\n'}) + 1 }

// numbered matches the line number that Read puts before a line.
var numbered = lazyregexp.New(`(?m)^ *-?\d+\t`)

// Bounds of the search for a text that resembles the old one.
const (
	maxHelp     = 1 << 20    // bytes of the file
	maxCompares = 20_000_000 // of lines
)

// notFound returns an error that quotes the text that the model probably meant.
func notFound(content []byte, old string) error {
	e := &tool.Error{Code: "old_string_not_found", Msg: "old_string is not in the file"}
	if bare := numbered().ReplaceAllString(old, ""); bare != old && bytes.Contains(content, []byte(bare)) {
		e.Hint = "leave out the line numbers that Read shows"
		return e
	}
	if len(content) > maxHelp {
		e.Hint = "read the place again and copy it exactly"
		return e
	}
	fileLines, oldLines := splitLines(content), splitLines([]byte(old))
	if at := sameBut(fileLines, oldLines, squeeze); at >= 0 {
		e.Msg += fmt.Sprintf(", but lines %d to %d differ from it only in white space", at+1, at+len(oldLines))
		e.Hint = "copy the white space exactly; the file has\n" + quoteLines(fileLines[at:at+len(oldLines)])
		return e
	}
	if at := sameBut(fileLines, oldLines, plainPunctuation); at >= 0 {
		e.Msg += fmt.Sprintf(", but lines %d to %d differ from it only in case, quotes or dashes",
			at+1, at+len(oldLines))
		e.Hint = "the file has\n" + quoteLines(fileLines[at:at+len(oldLines)])
		return e
	}
	if at, same := nearest(fileLines, oldLines); at >= 0 {
		end := min(at+len(oldLines), len(fileLines))
		e.Msg += fmt.Sprintf("; %d of its %d lines are there from line %d on", same, len(oldLines), at+1)
		e.Hint = "the file has\n" + quoteLines(fileLines[at:end])
		return e
	}
	if at := mostLike(fileLines, oldLines); at >= 0 {
		e.Msg += fmt.Sprintf("; the text from line %d on is most like it", at+1)
		e.Hint = "the file has\n" + quoteLines(fileLines[at:min(at+len(oldLines), len(fileLines))])
		return e
	}
	e.Hint = "nothing like it is in the file: read it again, or look for it with Grep"
	return e
}

func splitLines(b []byte) []string {
	lines := strings.Split(strings.ToValidUTF8(string(b), "\uFFFD"), "\n")
	if n := len(lines); n > 1 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	return lines
}

// squeeze removes differences in white space.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// plainPunctuation removes differences that models often introduce: typographic quotes and dashes, case and white
// space.
func plainPunctuation(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '‘', '’', '`':
			return '\''
		case '“', '”':
			return '"'
		case '–', '—', '‐', '‑':
			return '-'
		}
		return unicode.ToLower(r)
	}, squeeze(s))
}

// sameBut returns the index of the first place where all lines are equal once change has been applied to both sides,
// or -1. Of the first and the last line a part is enough, as for an exact match.
func sameBut(file, old []string, change func(string) string) int {
	want := make([]string, len(old))
	for i, l := range old {
		want[i] = change(l)
	}
	if strings.Join(want, "") == "" {
		return -1
	}
	have := make([]string, len(file))
	for i, l := range file {
		have[i] = change(l)
	}
	budget := maxCompares
	for at := 0; at+len(want) <= len(have) && budget > 0; at++ {
		if sameLines(have[at:at+len(want)], want, &budget) {
			return at
		}
	}
	return -1
}

func sameLines(have, want []string, budget *int) bool {
	last := len(want) - 1
	for i := range want {
		*budget--
		ok := have[i] == want[i]
		switch {
		case last == 0:
			ok = strings.Contains(have[i], want[i])
		case i == 0:
			ok = strings.HasSuffix(have[i], want[i])
		case i == last:
			ok = strings.HasPrefix(have[i], want[i])
		}
		if !ok {
			return false
		}
	}
	return true
}

// nearest returns where most lines of the old text stand in the same order, and how many do. It returns -1 if fewer
// than half do.
func nearest(file, old []string) (at, same int) {
	where := map[string][]int{}
	for i, l := range old {
		if s := squeeze(l); len(s) > 3 {
			where[s] = append(where[s], i)
		}
	}
	votes := map[int]int{}
	best := -1
	for i, l := range file {
		for _, j := range where[squeeze(l)] {
			start := i - j
			if start < 0 {
				continue
			}
			votes[start]++
			if best < 0 || votes[start] > votes[best] {
				best = start
			}
		}
		if len(votes) > 100_000 {
			break
		}
	}
	if best < 0 {
		return -1, 0
	}
	for j, l := range old {
		if best+j < len(file) && squeeze(file[best+j]) == squeeze(l) {
			same++
		}
	}
	if same*2 < len(old) {
		return -1, 0
	}
	return best, same
}

// mostLike finds the line that shares most pairs of characters with the longest old line, and returns the line where
// the old text would begin. It returns -1 if they share less than two thirds.
func mostLike(file, old []string) int {
	longest := 0
	for i, l := range old {
		if len(l) > len(old[longest]) {
			longest = i
		}
	}
	want := squeeze(old[longest])
	if len(want) < 4 || len(want) > 400 {
		return -1
	}
	best, at := 0.65, -1
	for i, l := range file {
		if have := squeeze(l); len(have) > len(want)/2 && len(have) < 2*len(want) && i >= longest {
			if like := sharedPairs(have, want); like > best {
				best, at = like, i-longest
			}
		}
	}
	return at
}

// sharedPairs returns the share of neighbouring bytes that two texts have in common, 0 to 1 (Dice's coefficient).
func sharedPairs(a, b string) float64 {
	pairs := map[[2]byte]int{}
	for i := 0; i+1 < len(a); i++ {
		pairs[[2]byte{a[i], a[i+1]}]++
	}
	shared := 0
	for i := 0; i+1 < len(b); i++ {
		if p := [2]byte{b[i], b[i+1]}; pairs[p] > 0 {
			pairs[p]--
			shared++
		}
	}
	return 2 * float64(shared) / float64(len(a)+len(b)-2)
}

// quoteLines quotes at most ten lines and writes invisible characters as escapes.
func quoteLines(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i == 10 {
			b.WriteString("…")
			break
		}
		if r := []rune(l); len(r) > 200 {
			l = string(r[:200]) + "…"
		}
		fmt.Fprintf(&b, "%s\n", strings.NewReplacer("\t", `\t`, "\r", `\r`).Replace(l))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
