package visible_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/visible"
)

func through(parts ...string) string {
	var b bytes.Buffer
	w := visible.NewScreen(&b)
	for _, p := range parts {
		io.WriteString(w, p)
	}
	return b.String()
}

func TestAScreenPassesWhatDraws(t *testing.T) {
	for _, s := range []string{
		"plain äöü 漢\r\n\ttab\b\a", "\x1b[1;31mred\x1b[0m", "\x1b[38;2;1;2;3m", "\x1b[2J\x1b[H\x1b[10;20H\x1b[K",
		"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?2004h\x1b[?1;7l", "\x1b7\x1b8\x1bM\x1b(0lqk\x1b(B", "\x1b[5;10r\x1b[3L\x1b[4h",
	} {
		if got := through(s); got != s {
			t.Errorf("got %q, want %q", got, s)
		}
		var one []string
		for i := range len(s) {
			one = append(one, s[i:i+1])
		}
		if got := through(one...); got != s {
			t.Errorf("byte by byte: got %q, want %q", got, s)
		}
	}
}

func TestAScreenLeavesOutWhatDoesMore(t *testing.T) {
	for _, tt := range []struct{ name, s string }{
		{"title", "\x1b]0;owned\x07"},
		{"title, ended by ST", "\x1b]2;owned\x1b\\"},
		{"clipboard", "\x1b]52;c;cm0gLXJmIH4K\x07"},
		{"link", "\x1b]8;;http://evil\x1b\\"},
		{"iterm file", "\x1b]1337;File=name=eA==:AAAA\x07"},
		{"where is the cursor, which the terminal types", "\x1b[6n"},
		{"who are you", "\x1b[c"},
		{"who are you really", "\x1b[>0q\x1b[>c\x1b[=c"},
		{"report the title", "\x1b[21t"},
		{"resize the window", "\x1b[8;10;10t"},
		{"reset", "\x1bc"},
		{"mouse", "\x1b[?1000h\x1b[?1006h"},
		{"one mode of several", "\x1b[?25;1003h"},
		{"device control", "\x1bP$q\"p\x1b\\"},
		{"sixel", "\x1bPq#0;2;0;0;0#0~~\x1b\\"},
		{"tmux passthrough", "\x1bPtmux;\x1b\x1b]0;x\x07\x1b\\"},
		{"private message, command", "\x1b^x\x1b\\\x1b_x\x1b\\\x1bXx\x1b\\"},
		{"answerback", "\x05"},
		{"shift, null, delete", "\x0e\x0f\x00\x7f"},
		{"8 bits", "\u009b6n\u009d0;x\u009c\u0090"},
		{"media copy", "\x1b[5i\x1b[?5i"},
		{"keys of xterm", "\x1b[>4;2m\x1b[>1u"},
		{"soft reset, cursor shape", "\x1b[!p\x1b[ q"},
		{"strings in parameters", "\x1b[0\"p"},
		{"80 columns", "\x1b[?3h\x1b#8"},
		{"utf-8 off", "\x1b%@"},
		{"too long", "\x1b[" + strings.Repeat("1;", 100) + "m"},
		{"never ended", "\x1b]0;x"},
	} {
		got := through(tt.s)
		for _, bad := range []string{"\x1b", "\u009b", "\u009d", "\u0090", "\x05", "\x00", "owned", "rm0g", "evil"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s: %q came out of %q", tt.name, got, tt.s)
			}
		}
	}
	if got := through("a\x1b]0;t\x07b\x1b[6nc\x1b[\x1b[31md\xffe\xe2\x82\x1b[0m"); got != "abc\x1b[31md�e�\x1b[0m" {
		t.Errorf("what follows a sequence: %q", got)
	}
}

// FuzzScreen: what comes out is valid, is the same however it is cut, and comes out again.
func FuzzScreen(f *testing.F) {
	f.Add("\x1b[1;31mred\x1b]0;t\x07\xe2\x82", 3)
	f.Add("\xc2\x9b6n\x1b[?25\x1b\x1b[h", 1)
	f.Fuzz(func(t *testing.T, s string, at int) {
		at = max(0, min(at, len(s)))
		whole, cut := through(s), through(s[:at], s[at:])
		if whole != cut {
			t.Fatalf("whole %q, cut %q", whole, cut)
		}
		if !utf8.ValidString(whole) || strings.ContainsAny(whole, "\x00\x05\u009b\u009d\u0090") {
			t.Fatalf("%q came out of %q", whole, s)
		}
		if again := through(whole); again != whole {
			t.Fatalf("%q became %q", whole, again)
		}
	})
}
