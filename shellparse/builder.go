package shellparse

import (
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// wordOf is a word as the answer has it.
func wordOf(f program.Word) Word {
	return Word{Text: f.Text, Known: f.Known && !f.Glob && !f.Tree, At: f.At}
}

// builder puts one word together from quoted and unquoted parts.
type builder struct {
	text, pat strings.Builder
	some      bool // a part was there, even an empty quoted one
	unknown   bool
	many      bool
	glob      bool
	names     bool // a pattern that stands for names of files
	fd        bool
	tree      bool
}

// quoted adds text in which nothing is special.
func (b *builder) quoted(s string) {
	b.some = true
	b.text.WriteString(s)
	b.pat.WriteString(program.EscapePattern(s))
}

// missing adds a part that is not known.
func (b *builder) missing() {
	b.some, b.unknown = true, true
	b.text.WriteByte('_')
}

// bare adds unquoted text, whose pattern characters are live.
func (b *builder) bare(s string) {
	b.some = b.some || s != ""
	b.text.WriteString(s)
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '*', '?', '[':
			b.glob, b.names = true, true
		case '\\':
			b.pat.WriteByte('\\')
		}
		b.pat.WriteByte(s[i])
	}
}

// pattern adds a value that stands for any name matching pat.
func (b *builder) pattern(text, pat string) {
	b.some, b.glob, b.names = true, true, true
	b.text.WriteString(text)
	b.pat.WriteString(pat)
}

// digits adds a number that is not known.
func (b *builder) digits(text string) {
	names := b.names
	b.pattern(text, "*")
	b.names = names
}

func (b *builder) field(src string, at Pos) program.Word {
	f := program.Word{
		Text: b.text.String(), Known: !b.unknown, Many: b.unknown && b.many, Fd: b.fd,
		Tree: b.tree && !b.unknown, At: at,
	}
	if b.unknown {
		f.Skeleton, f.Code = f.Text, codeInIndex(f.Text)
		f.Text = src
		return f
	}
	if b.glob && program.LivePattern(b.pat.String()) {
		f.Glob, f.Pat, f.Number = true, b.pat.String(), !b.names
	}
	return f
}
