package review

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/visible"
)

func TestEditorKeys(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		keys       []rune
		want       string // | is the cursor
	}{
		{"it begins at the end", "a\nb", nil, "a\nb|"},
		{"typing", "", []rune("hä\t!"), "hä\t!|"},
		{"a new line in the middle", "ab", []rune{keyLeft, keyEnter}, "a\n|b"},
		{"backspace joins lines", "a\nb", []rune{keyStart, keyBackspace}, "a|b"},
		{"delete joins lines", "a\nb", []rune{keyUp, keyEnd, keyDelete}, "a|b"},
		{"backspace at the start", "a", []rune{keyStart, keyBackspace}, "|a"},
		{"delete at the end", "a", []rune{keyDelete}, "a|"},
		{"up into a shorter line", "a\nbcd", []rune{keyUp}, "a|\nbcd"},
		{"down at the end", "a\nb", []rune{keyDown, keyDown}, "a\nb|"},
		{"left across lines", "a\nb", []rune{keyStart, keyLeft}, "a|\nb"},
		{"right across lines", "a\nb", []rune{keyUp, keyEnd, keyRight}, "a\n|b"},
		{"kill the line", "a\nbc", []rune{keyKillLine, 'x'}, "a\nx|"},
		{"kill the rest", "a\nbcd", []rune{keyStart, keyRight, keyKillRest}, "a\nb|"},
		{"kill a word", "one two  ", []rune{keyKillWord}, "one |"},
		{"kill a word of wide characters", "ä ö ü", []rune{keyLeft, keyKillWord}, "ä |ü"},
		{"kill the only word", "one", []rune{keyKillWord}, "|"},
		{"keys that mean nothing", "a", []rune{keyOther, '\x07', '\x02', 0x9b}, "a|"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEditor(tt.text)
			for _, key := range tt.keys {
				e.press(key)
			}
			if got := e.marked(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// marked is the text with the cursor in it.
func (e *editor) marked() string {
	c := editor{lines: slices.Clone(e.lines)}
	c.lines[e.row] = slices.Insert(slices.Clone(e.lines[e.row]), e.col, '|')
	return c.text()
}

// TestEditorIsNeverWiderThanTheTerminal: whatever is typed, every row fits, shows
// nothing that draws, and all rows together are the text.
func TestEditorIsNeverWiderThanTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(10, 60).Draw(t, "columns")
		e := newEditor(rapid.StringOf(rapid.Rune()).Draw(t, "text"))
		before := e.text()
		if keys := rapid.SliceOf(rapid.Rune()).Draw(t, "keys"); len(keys) > 0 {
			for _, key := range append(keys, keyUp, keyLeft, keyDelete, keyBackspace, keyRight, keyDown) {
				e.press(key)
			}
		} else if strings.ToValidUTF8(before, "\uFFFD") != e.text() {
			t.Fatalf("%q became %q", before, e.text())
		}
		if e.row < 0 || e.row >= len(e.lines) || e.col < 0 || e.col > len(e.lines[e.row]) {
			t.Fatalf("the cursor is at %d, %d", e.row, e.col)
		}
		rows, row, col := e.layout(columns)
		if row >= len(rows) || col > columns {
			t.Fatalf("the cursor is at %d, %d of %d rows of %d", row, col, len(rows), columns)
		}
		var shown strings.Builder
		for _, r := range strings.ReplaceAll(e.text(), "\n", "") {
			shown.WriteString(visible.Text(string(r)))
		}
		for _, r := range rows {
			if n := columnsOf(r); n > columns {
				t.Fatalf("a row has %d columns of %d: %q", n, columns, r)
			}
			for _, c := range r {
				if unicode.IsControl(c) {
					t.Fatalf("%q reaches the terminal", c)
				}
			}
		}
		if got := strings.Join(rows, ""); got != shown.String() {
			t.Fatalf("got %q, want %q", got, shown.String())
		}
	})
}

// TestKeysOfTerminals: a sequence is one key, and an escape by itself is one, too.
func TestKeysOfTerminals(t *testing.T) {
	for typed, want := range map[string][]rune{
		"ab":                  {'a', 'b'},
		"\x1b[A\x1b[B\x1b[D":  {keyUp, keyDown, keyLeft},
		"\x1bOC":              {keyRight},
		"\x1b[3~x":            {keyDelete, 'x'},
		"\x1b[1;5Cx":          {keyOther, 'x'},
		"\x1b[200~a\x1b[201~": {keyOther, 'a', keyOther}, // a paste in brackets
		"\x1b[H\x1b[F":        {keyStart, keyEnd},
		"\x1b\x1b":            {keyEscape, keyEscape},
		"\x1by":               {keyEscape, 'y'},
		"\x1b[":               {keyOther},
		"\x1b | y":            {keyEscape, 'y'}, // | is a pause
		"\x1b[ | A":           {keyOther, 'A'},
	} {
		synctest.Test(t, func(t *testing.T) {
			in, out := io.Pipe()
			go func() {
				for i, part := range strings.Split(typed, " | ") {
					if i > 0 {
						time.Sleep(time.Second)
					}
					io.WriteString(out, part)
				}
				time.Sleep(time.Second)
				out.Close()
			}()
			var got []rune
			for key := range readKeys(in) {
				got = append(got, key)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: got %q, want %q", typed, got, want)
			}
		})
	}
}

// When the person has ended, the cursor goes below what is drawn, and not below all of a long text.
func TestTheCursorLeavesBelowWhatIsDrawn(t *testing.T) {
	for _, tt := range []struct{ lines, row, want int }{
		{3, 0, 3},
		{3, 2, 1},
		{100, 0, 6}, // of ten lines of the screen, six are for the text
		{100, 50, 1},
		{100, 99, 1},
	} {
		var out strings.Builder
		w := &watcher{out: &out, size: func() (int, int) { return 80, 10 }}
		e := newEditor(strings.Repeat("x\n", tt.lines-1) + "x")
		e.row, e.col = tt.row, 0
		w.leave(e)
		if got := strings.Count(out.String(), "\n"); got != tt.want || out.Len() != got {
			t.Errorf("%d lines, cursor in %d: %q, want %d line breaks", tt.lines, tt.row, out.String(), tt.want)
		}
	}
}
