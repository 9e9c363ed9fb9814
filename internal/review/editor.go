package review

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/sandboxd/sandboxd/internal/visible"
)

// editor is a text that a person edits. It keeps every character unchanged, also those that the screen shows as
// escapes.
type editor struct {
	lines    [][]rune
	row, col int // position of the cursor
}

// newEditor returns an editor with the cursor at the end of a text.
func newEditor(text string) *editor {
	e := &editor{}
	for line := range strings.SplitSeq(text, "\n") {
		e.lines = append(e.lines, []rune(line))
	}
	e.row = len(e.lines) - 1
	e.col = len(e.lines[e.row])
	return e
}

func (e *editor) text() string {
	lines := make([]string, len(e.lines))
	for i, line := range e.lines {
		lines[i] = string(line)
	}
	return strings.Join(lines, "\n")
}

// press edits the text or moves the cursor. It ignores keys that have no meaning here.
func (e *editor) press(key rune) {
	line := e.lines[e.row]
	switch key {
	case keyEnter, '\n':
		e.lines[e.row] = slices.Clone(line[:e.col])
		e.lines = slices.Insert(e.lines, e.row+1, slices.Clone(line[e.col:]))
		e.row, e.col = e.row+1, 0
	case keyBackspace, keyErase:
		if e.left() {
			e.remove()
		}
	case keyDelete:
		e.remove()
	case keyKillLine:
		e.lines[e.row], e.col = nil, 0
	case keyKillRest:
		e.lines[e.row] = line[:e.col]
	case keyKillWord:
		from := len(strings.TrimRightFunc(string(line[:e.col]), unicode.IsSpace))
		from = strings.LastIndexByte(string(line[:e.col])[:from], ' ') + 1
		from = len([]rune(string(line[:e.col])[:from]))
		e.lines[e.row], e.col = slices.Delete(line, from, e.col), from
	case keyStart:
		e.col = 0
	case keyEnd:
		e.col = len(line)
	case keyLeft:
		e.left()
	case keyRight:
		e.right()
	case keyUp:
		e.row = max(e.row-1, 0)
		e.col = min(e.col, len(e.lines[e.row]))
	case keyDown:
		e.row = min(e.row+1, len(e.lines)-1)
		e.col = min(e.col, len(e.lines[e.row]))
	default:
		if key <= unicode.MaxRune && (key == '\t' || !unicode.IsControl(key)) {
			e.lines[e.row] = slices.Insert(line, e.col, key)
			e.col++
		}
	}
}

// left moves the cursor to the character before. It returns false at the start of the text.
func (e *editor) left() bool {
	switch {
	case e.col > 0:
		e.col--
	case e.row > 0:
		e.row--
		e.col = len(e.lines[e.row])
	default:
		return false
	}
	return true
}

func (e *editor) right() {
	switch {
	case e.col < len(e.lines[e.row]):
		e.col++
	case e.row < len(e.lines)-1:
		e.row, e.col = e.row+1, 0
	}
}

// remove removes the character at the cursor, or the end of the line there.
func (e *editor) remove() {
	line := e.lines[e.row]
	switch {
	case e.col < len(line):
		e.lines[e.row] = slices.Delete(line, e.col, e.col+1)
	case e.row < len(e.lines)-1:
		e.lines[e.row] = append(line, e.lines[e.row+1]...)
		e.lines = slices.Delete(e.lines, e.row+1, e.row+2)
	}
}

// layout wraps the text into rows of so many columns, and returns them with the position of the cursor.
func (e *editor) layout(columns int) (rows []string, row, col int) {
	for i, line := range e.lines {
		var b strings.Builder
		used := 0
		for j, r := range append(slices.Clip(line), 0) { // 0 stands for the end of the line
			shown := ""
			if j < len(line) {
				shown = visible.Text(string(r))
			}
			if used+max(columnsOf(shown), 1) > columns {
				rows = append(rows, b.String())
				b.Reset()
				used = 0
			}
			if i == e.row && j == e.col {
				row, col = len(rows), used
			}
			b.WriteString(shown)
			used += columnsOf(shown)
		}
		rows = append(rows, b.String())
	}
	return rows, row, col
}

// columnsOf returns the number of columns that a text takes on a terminal.
func columnsOf(text string) int {
	n := 0
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}
