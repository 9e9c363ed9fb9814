// Package visible makes text of others safe for a terminal and honest for the eye.
//
//	fmt.Println(visible.Text("rm\u00a0-rf \u202ex")) // rm\u{a0}-rf \u{202e}x
//	out := visible.NewWriter(os.Stdout)              // for everything that a program prints
//
// [Text] is for a field of a line, and [Row] writes such fields as a row of a table. With
// [NewWriter], lines stay lines, and JSON stays the same JSON unless it has carriage returns, which
// are escaped, between its tokens. A Write must not end inside of a character. Both leave only
// characters that are known to be visible, and spaces. Text writes a tab as four spaces; NewWriter
// leaves line breaks, tabs and the styles of this package, whoever wrote them. Everything else is
// written as an escape: what moves the cursor, changes direction, joins, fills or is blank, what a
// font need not know, and marks without a letter or in piles.
//
// [NewScreen] is for a program that draws on a terminal of its own. It passes what draws: colours,
// the cursor, erasing, inserting and scrolling, the other screen, modes of keys and of pasting, the
// bell, and characters that nobody can see. It leaves out the rest: titles, the clipboard, links, the
// mouse, and questions that a terminal answers. There, a character may be cut between two writes.
//
// If Text returns the same line for two texts in valid UTF-8, they differ only in tabs and spaces.
// This does not hold for NewWriter: it does not escape backslashes.
//
// Not guaranteed: that two visible characters look different, such as Latin and Cyrillic a.
//
// Whether a character is visible is decided in shows; which sequences draw, by drawing, modes and
// the methods of screen.
package visible

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s on one line, with escapes as \u{202e}. A tab becomes four spaces.
func Text(s string) string {
	var b strings.Builder
	var at place
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		raw, next := s[:size], s[size:]
		switch {
		case r == '\t':
			b.WriteString("    ")
			at = place{}
		case r == '\\' && strings.HasPrefix(next, "u{"), !at.shows(r, next):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteString(raw)
		}
		s = next
	}
	return b.String()
}

// Row writes the cells of one row of a table, with tabs between them.
func Row(w io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = Text(fmt.Sprint(cell))
	}
	fmt.Fprintln(w, strings.Join(texts, "\t"))
}

// The styles that pass a writer. Plain ends each.
const (
	Bold   = "\x1b[1m"
	Red    = "\x1b[1;31m"
	Yellow = "\x1b[33m"
	Dim    = "\x1b[2m"
	Plain  = "\x1b[0m"
)

// NewWriter returns a writer for a screen or a file: what is written to it comes out at w
// with escapes as \u202e, which mean the same in a string of JSON. Line breaks, tabs and
// styles pass. Each Write is a text of its own.
func NewWriter(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

func (w writer) Write(p []byte) (int, error) {
	var b strings.Builder
	var at place
	for rest := string(p); rest != ""; {
		if style := styleOf(rest); style != "" {
			b.WriteString(style)
			rest = rest[len(style):]
			continue
		}
		r, size := utf8.DecodeRuneInString(rest)
		raw := rest[:size]
		rest = rest[size:]
		switch {
		case r == '\n' || r == '\t':
			b.WriteString(raw)
			at = place{}
		case at.shows(r, rest):
			b.WriteString(raw)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	if _, err := io.WriteString(w.to, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// styleOf returns the style that a text begins with.
func styleOf(s string) string {
	if s[0] != 0x1b {
		return ""
	}
	for _, style := range []string{Bold, Red, Yellow, Dim, Plain} {
		if strings.HasPrefix(s, style) {
			return style
		}
	}
	return ""
}

// place is what the characters before make of the next one.
type place struct {
	letter rune // the last one that is no mark, if that is a letter and is shown
	marks  int  // so many marks are on it
}

// maxMarks is how many marks a letter can bear before they cover other lines. Vietnamese
// has two, Hebrew and Devanagari three.
const maxMarks = 3

// shows reports whether r is known to be visible in this place, in front of next.
func (p *place) shows(r rune, next string) bool {
	if unicode.In(r, unicode.Mn, unicode.Mc) {
		if p.letter == 0 || p.marks == maxMarks || blank(r) || !p.joins(r, next) {
			*p = place{}
			return false
		}
		p.marks++
		return true
	}
	*p = place{}
	if unicode.IsLetter(r) {
		p.letter = r
	}
	return r == ' ' ||
		unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && r != utf8.RuneError && !blank(r)
}

// joins reports whether a mark that joins two letters stands between two of its script; any
// other mark passes. Elsewhere nothing of it is to be seen.
func (p *place) joins(mark rune, next string) bool {
	script := joiners[mark]
	following, _ := utf8.DecodeRuneInString(next)
	return script == nil || unicode.Is(script, p.letter) && unicode.Is(script, following) && unicode.IsLetter(following)
}

var joiners = map[rune]*unicode.RangeTable{0x1039: unicode.Myanmar, 0x17d2: unicode.Khmer, 0x1a60: unicode.Tai_Tham}

// blank characters have no glyph that must be shown, or one without ink.
func blank(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, inkless)
}

// inkless are letters, marks and symbols without ink that Unicode has no property for.
var inkless = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1bab, Hi: 0x1bab, Stride: 1}, // joiner of Sundanese
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // Braille pattern blank
		{Lo: 0x2d7f, Hi: 0x2d7f, Stride: 1}, // joiner of Tifinagh
		{Lo: 0x303f, Hi: 0x303f, Stride: 1}, // ideographic half fill space
		{Lo: 0xaaf6, Hi: 0xaaf6, Stride: 1}, // joiner of Meetei Mayek
		{Lo: 0xfffc, Hi: 0xfffc, Stride: 1}, // object replacement character
	},
	R32: []unicode.Range32{
		{Lo: 0x10a3f, Hi: 0x10a3f, Stride: 1}, // joiner of Kharoshthi
		{Lo: 0x1107f, Hi: 0x1107f, Stride: 1}, // joiner of Brahmi numbers
		{Lo: 0x11133, Hi: 0x11133, Stride: 1}, // joiner of Chakma
		{Lo: 0x113d0, Hi: 0x113d0, Stride: 1}, // joiner of Tulu-Tigalari
		{Lo: 0x1193e, Hi: 0x1193e, Stride: 1}, // joiner of Dives Akuru
		{Lo: 0x11a47, Hi: 0x11a47, Stride: 1}, // joiner of Zanabazar Square
		{Lo: 0x11a99, Hi: 0x11a99, Stride: 1}, // joiner of Soyombo
		{Lo: 0x11d45, Hi: 0x11d45, Stride: 1}, // joiner of Masaram Gondi
		{Lo: 0x11d97, Hi: 0x11d97, Stride: 1}, // joiner of Gunjala Gondi
		{Lo: 0x11f42, Hi: 0x11f42, Stride: 1}, // joiner of Kawi
		{Lo: 0x13441, Hi: 0x13442, Stride: 1}, // Egyptian hieroglyph full and half blank
		{Lo: 0x16fe4, Hi: 0x16fe4, Stride: 1}, // Khitan small script filler
		{Lo: 0x1bc9d, Hi: 0x1bc9d, Stride: 1}, // Duployan letter selector
		{Lo: 0x1d159, Hi: 0x1d159, Stride: 1}, // musical symbol null notehead
		{Lo: 0x1da7f, Hi: 0x1da80, Stride: 1}, // SignWriting spaces
	},
}
