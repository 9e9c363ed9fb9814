package visible

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/runenames"
	"pgregory.net/rapid"
)

// defaultIgnorable is the property Default_Ignorable_Code_Point of Unicode 16, which the
// standard library has only in parts.
var defaultIgnorable = [][2]rune{
	{0xad, 0xad},
	{0x34f, 0x34f},
	{0x61c, 0x61c},
	{0x115f, 0x1160},
	{0x17b4, 0x17b5},
	{0x180b, 0x180f},
	{0x200b, 0x200f},
	{0x202a, 0x202e},
	{0x2060, 0x206f},
	{0x3164, 0x3164},
	{0xfe00, 0xfe0f},
	{0xfeff, 0xfeff},
	{0xffa0, 0xffa0},
	{0xfff0, 0xfff8},
	{0x1bca0, 0x1bca3},
	{0x1d173, 0x1d17a},
	{0xe0000, 0xe0fff},
}

// Words in the names of characters that may be blank, and those characters with such a name
// that have ink.
var (
	blanks  = []string{"BLANK", "FILLER", "INVISIBLE", "NULL", "SPACE", "JOINER", "SELECTOR", "VOID", "OBJECT"}
	withInk = []string{
		"SYMBOL FOR ", "BLANK SYMBOL", "GAP FILLER", "LINE FILLER", "PUNCTUATION SPACE FILLER", "WORDSPACE", "MONOSPACE",
		"VOID NOTEHEAD", "VOIDED",
	}
)

// Every code point, between two letters: what is left as it is, has ink, and everything else
// is escaped.
func TestEveryCodePoint(t *testing.T) {
	holds := func(name string) func(string) bool {
		return func(word string) bool { return strings.Contains(name, word) }
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || r == '\t' {
			continue
		}
		text := Text("a" + string(r) + "b")
		if text != "a"+string(r)+"b" {
			if !strings.HasPrefix(text, `a\u{`) || !strings.HasSuffix(text, "}b") || r > ' ' && r < 0x7f {
				t.Errorf("%U becomes %q", r, text)
			}
			continue
		}
		name := runenames.Name(r)
		switch {
		case r == ' ':
		case !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S):
			t.Errorf("%U %s is shown", r, name)
		case slices.ContainsFunc(defaultIgnorable, func(in [2]rune) bool { return r >= in[0] && r <= in[1] }):
			t.Errorf("%U %s is shown, and a terminal may leave it out", r, name)
		case slices.ContainsFunc(blanks, holds(name)) && !slices.ContainsFunc(withInk, holds(name)):
			t.Errorf("%U %s is shown, and has no ink by its name", r, name)
		}
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"plain", `git push --force; echo "a|b" > x\n`, `git push --force; echo "a|b" > x\n`},
		{"other scripts", "naïve Ωμέγα 日本語 한국어 שלום مرحبا हिन्दी ไทย", "naïve Ωμέγα 日本語 한국어 שלום مرحبا हिन्दी ไทย"},
		{"marks of their own", "cafe\u0301 Tie\u0302\u0301ng", "cafe\u0301 Tie\u0302\u0301ng"},
		{"marks that Khmer joins with", "\u1781\u17d2\u1798\u17c2\u179a", "\u1781\u17d2\u1798\u17c2\u179a"},
		{"the same between Latin letters", "a\u17d2b", `a\u{17d2}b`},
		{"the same at the end", "\u1781\u17d2", "\u1781" + `\u{17d2}`},
		{"emoji", "done 🎉", "done 🎉"},
		{"an emoji that is joined", "👩\u200d💻 ❤\ufe0f", `👩\u{200d}💻 ❤\u{fe0f}`},
		{"a tab", "a\tb", "a    b"},
		{"lines", "a\nb\r\u2028", `a\u{a}b\u{d}\u{2028}`},
		{"the cursor", "\x1b[2J\u009b1A\x7f", `\u{1b}[2J\u{9b}1A\u{7f}`},
		{"the direction", "a\u202etxt\u2066", `a\u{202e}txt\u{2066}`},
		{"spaces that are none", "rm\u00a0-rf\u3000x\u2003y", `rm\u{a0}-rf\u{3000}x\u{2003}y`},
		{
			"what the notes have", "\u034f\u115f\u1160\u17b4\u2800\u3164\uffa0\ufe0f\U000e0100",
			`\u{34f}\u{115f}\u{1160}\u{17b4}\u{2800}\u{3164}\u{ffa0}\u{fe0f}\u{e0100}`,
		},
		{"a pile of marks", "a" + strings.Repeat("\u0300", 5), "a\u0300\u0300\u0300" + `\u{300}\u{300}`},
		{"marks on nothing", "\u0301 \u0301-\u0301", `\u{301} \u{301}-\u{301}`},
		{"an enclosing mark", "a\u20dd", `a\u{20dd}`},
		{"no code point", "\xff\ufffd", `\u{fffd}\u{fffd}`},
		{"of nobody", "\ue000\u0378", `\u{e000}\u{378}`},
		{"what only looks like an escape", `a\u{202e}b`, `a\u{5c}u{202e}b`},
	} {
		if got := Text(tt.text); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// unescaped is the text that Text was given, if that had no tabs and was valid.
func unescaped(s string) string {
	var b strings.Builder
	for s != "" {
		if code, rest, ok := strings.Cut(strings.TrimPrefix(s, `\u{`), "}"); ok && strings.HasPrefix(s, `\u{`) {
			var r rune
			for _, d := range code {
				r = r*16 + rune(strings.IndexRune("0123456789abcdef", d))
			}
			b.WriteRune(r)
			s = rest
			continue
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}

// No two texts look the same.
func TestTextCanBeReadBack(t *testing.T) {
	any := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune(`\u{}20e`+"a\u0301\u17d2\u1781\u200b"))))
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.ToValidUTF8(strings.ReplaceAll(any.Draw(rt, "text"), "\t", ""), "")
		if got := unescaped(Text(text)); got != text {
			rt.Errorf("%q became %q, which is %q", text, Text(text), got)
		}
	})
}

// What comes out of a writer is visible, and JSON is the same JSON.
func TestWriter(t *testing.T) {
	any := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("a\u0301\u17d2\u200b\n\t"))))
	rapid.Check(t, func(rt *rapid.T) {
		text := any.Draw(rt, "text")
		var out, plain bytes.Buffer
		for _, w := range []*json.Encoder{json.NewEncoder(NewWriter(&out)), json.NewEncoder(&plain)} {
			w.SetEscapeHTML(false)
			if err := w.Encode(map[string]string{text: text}); err != nil {
				rt.Fatal(err)
			}
		}
		var got, want map[string]string
		if err := errors.Join(json.Unmarshal(out.Bytes(), &got), json.Unmarshal(plain.Bytes(), &want)); err != nil {
			rt.Fatal(err)
		}
		if got[text] != want[text] || len(got) != 1 {
			rt.Errorf("%q became %q", plain.String(), out.String())
		}
		out.Reset()
		if n, err := NewWriter(&out).Write([]byte(text)); err != nil || n != len(text) {
			rt.Errorf("wrote %d of %d, %v", n, len(text), err)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "")
			if Text(line) != line && !strings.Contains(line, `\u{`) {
				rt.Errorf("%q came out of %q", line, text)
			}
		}
	})
	var out bytes.Buffer
	if _, err := NewWriter(&out).Write([]byte(Red + "no" + Plain + "\x1b[8mhidden\x1b[1A")); err != nil {
		t.Fatal(err)
	}
	if want := Red + "no" + Plain + `\u001b[8mhidden\u001b[1A`; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if _, err := NewWriter(failing{}).Write([]byte("x")); err == nil {
		t.Error("a failure is not told")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("closed") }
