package audit

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const linedSecret = "first line of it\nsecond-line of it\nthird"

// texts draws texts that are full of secrets and of what announces them: matches of each pattern, with any
// space that it takes, beginnings of them, and what is nearly one.
func texts() *rapid.Generator[string] {
	glue := []string{
		"\n", "\n", "\n", " ", "\r\n", "\r", "", "\n\n", "a word ", "=", "\"", "-----END A PRIVATE KEY-----",
	}
	some := []*rapid.Generator[string]{
		rapid.SampledFrom(glue), rapid.SampledFrom(glue), rapid.SampledFrom(glue),
		rapid.SampledFrom([]string{
			linedSecret, linedSecret[:20], "hunter2-value", "bearer", "password", "Authorization:", "--token", "token:",
			"-----BEGIN A PRIVATE KEY-----\nMIIEpAIBAAKCAQEAx1x2x3x4x5x6x7x8x9x0x1x2x3x4x5x6\nshort=\n",
		}),
		rapid.StringMatching(`[a-z "=:\n\r]{0,9}`),
	}
	for _, p := range planted {
		some = append(some, rapid.Just(p.before+p.secret+p.after))
	}
	for _, p := range patterns() {
		expr := regexp.MustCompile(`\\b|\$`).ReplaceAllString(p.re.String(), "")
		match := rapid.StringMatching(expr)
		some = append(some, match, rapid.Custom(func(t *rapid.T) string {
			s := match.Draw(t, "match")
			return s[:rapid.IntRange(0, len(s)).Draw(t, "of it")]
		}))
	}
	one := rapid.OneOf(some...)
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(one, 0, 12).Draw(t, "parts"), "") })
}

// inPieces cuts a text anywhere.
func inPieces(t *rapid.T, text string) (all []string) {
	for text != "" {
		n := min(rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(1, 200)).Draw(t, "n"), len(text))
		all, text = append(all, text[:n]), text[n:]
	}
	return all
}

// However a text is cut, its pieces read as the whole of it does.
func TestW05_PiecesAreRedactedAsTheWhole(t *testing.T) {
	r := NewRedactor("hunter2-value", linedSecret)
	all := texts()
	rapid.Check(t, func(t *rapid.T) {
		text := all.Draw(t, "text")
		p, got := r.Pieces(), ""
		for _, piece := range inPieces(t, text) {
			got += p.Write(piece)
		}
		got += p.End()
		if want := r.String(text); got != want {
			t.Fatalf("%q\n got %q\nwant %q", text, got, want)
		}
	})
}

// What is left out, since a line is too long or pieces are missing, leaves no half of a secret behind. Only the
// secrets have these letters.
func TestW05_PiecesBesideAHoleGiveNoSecretAway(t *testing.T) {
	const lined = "QQX line of it\nXZQZ of it\nZZXQ"
	r := NewRedactor("QXQX-known-ZZ", lined)
	long := strings.Repeat("QXZZ", 15)
	secrets := []string{
		"ghp_" + long, "sk-ant-" + long, "password=" + long, "token:\n\n" + long, "Authorization:\nBearer\n" + long,
		"--secret \n" + long, "https://me:" + long + "@example.com/", "eyJ" + long + "." + long + "." + long,
		"-----BEGIN A PRIVATE KEY-----\n" + strings.Repeat(long+"\n", 12) + "QX=\n-----END A PRIVATE KEY-----",
		lined, "QXQX-known-ZZ",
	}
	words := rapid.OneOf(
		rapid.StringMatching(`([a-z]{1,7}[ \n]){0,30}`), rapid.StringMatching(`[a-z]{0,900}`), rapid.SampledFrom(secrets),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(words, 1, 9).Draw(t, "text"), "\n")
		p := &redacting{r: r, most: rapid.SampledFrom([]int{200, 800, maxHeld}).Draw(t, "most")}
		got := ""
		for _, piece := range inPieces(t, text) {
			if rapid.IntRange(0, 19).Draw(t, "missed") == 0 {
				p.Missed()
				continue
			}
			got += p.Write(piece)
		}
		if got += p.End(); strings.ContainsAny(got, "QXZ") {
			t.Fatalf("%q\nin pieces %q", text, got)
		}
	})
}

// A known secret may be longer than what is held back behind a hole: its own lines are never a sign that it is over.
func TestW05_ALongSecretThatBeganInAHoleIsLeftOut(t *testing.T) {
	var secret []string
	for i := range 30 {
		secret = append(secret, fmt.Sprintf("QX line %d of it", i))
	}
	p := NewRedactor(strings.Join(secret, "\n")).Pieces()
	p.Missed()
	got := ""
	for _, line := range secret[5:] {
		got += p.Write(line + "\n")
	}
	for range 9 {
		got += p.Write("some words of a line\n")
	}
	if got += p.End(); strings.Contains(got, "QX") || !strings.HasSuffix(got, "some words of a line\n") {
		t.Errorf("behind a hole: %q", got)
	}
}

// Output appears while the program runs: each line that announces no secret as soon as it has ended.
func TestW05_ALineIsPassedOnWhenItHasEnded(t *testing.T) {
	p := NewRedactor(linedSecret).Pieces()
	for _, tt := range []struct{ write, want string }{
		{"one", ""},
		{" line\ntwo", "one line\n"},
		{"\r", "two\r"},
		{"the token\n", ""},
		{"is here\n", "the token\nis here\n"},
		{"password:\n", ""},
		{"hunter22\nnext", "password:\n[redacted:assignment]\n"},
		{"\nfirst line of it\n", "next\n"},
		{"second\n", "first line of it\nsecond\n"},
		{"-----BEGIN PRIVATE KEY-----\nMII", "[redacted:private-key]"},
		{"E\n-----END PRIV", ""},
		{"ATE KEY----- then\n", " then\n"},
	} {
		if got := p.Write(tt.write); got != tt.want {
			t.Errorf("%q passes on %q, want %q", tt.write, got, tt.want)
		}
	}
}

// After a hole, output appears again when it is certain that no secret goes on.
func TestW05_OutputGoesOnBehindAHole(t *testing.T) {
	p := NewRedactor().Pieces()
	p.Missed()
	got := p.Write("0123456789abcdef\n")
	for range 9 {
		got += p.Write("some words of a line\n")
	}
	if rest := strings.ReplaceAll(got, "some words of a line", ""); got == "" || strings.Trim(rest, "\n") != "" {
		t.Errorf("behind a hole: %q", got)
	}
	if got = p.Write(strings.Repeat("x", 64<<10+1)); got != "[redacted:long-line]\n" {
		t.Errorf("of a long line: %q", got)
	}
	got = p.Write("\n")
	for range 9 {
		got += p.Write("some words of a line\n")
	}
	if !strings.HasSuffix(got, "some words of a line\n") {
		t.Errorf("behind a long line: %q", got)
	}
}

func BenchmarkPieces(b *testing.B) {
	p := NewRedactor("some-known-secret").Pieces()
	line := strings.Repeat("go: downloading example.com/x/y v1.2.3\n", 100)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		_ = p.Write(line)
	}
}
