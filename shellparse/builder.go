package shellparse

import (
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// wordOf returns a word as the answer has it.
func wordOf(f program.Word) Word {
	return Word{Text: f.Text, Known: f.Known && !f.Glob && !f.Tree, At: f.At}
}

// builder puts one word together from quoted and unquoted parts.
type builder struct {
	text    text
	pat     strings.Builder // the text as a pattern, from the first special character on
	some    bool            // there was a part, even an empty quoted one
	unknown bool
	many    bool
	glob    bool
	names   bool // a pattern that stands for names of files
	fd      bool
	given   string // what a process substitution gives, if that is known
	tree    bool
}

// text is built from parts. Most texts have one, which is not copied.
type text struct {
	one  string
	more strings.Builder
}

func (t *text) add(part string) {
	switch {
	case t.more.Len() > 0:
		t.more.WriteString(part)
	case t.one == "":
		t.one = part
	case part != "":
		t.more.Grow(len(t.one) + len(part))
		t.more.WriteString(t.one)
		t.more.WriteString(part)
	}
}

func (t *text) String() string {
	if t.more.Len() > 0 {
		return t.more.String()
	}
	return t.one
}

// quoted adds text in which nothing is special.
func (b *builder) quoted(s string) {
	b.some = true
	b.text.add(s)
	if b.glob {
		p := program.EscapePattern(s)
		if strings.ContainsAny(s, "]!^-") && program.OpenBracket(b.pat.String()) {
			p = program.EscapeBracket(s)
		}
		b.pat.WriteString(p)
	}
}

// missing adds an unknown part.
func (b *builder) missing() {
	b.some, b.unknown = true, true
	b.text.add("_")
}

// bare adds unquoted text, in which pattern characters are special.
func (b *builder) bare(s string) {
	b.some = b.some || s != ""
	if strings.ContainsAny(s, "*?[") {
		b.live()
		b.names = true
	}
	b.text.add(s)
	if b.glob {
		b.pat.WriteString(strings.ReplaceAll(s, `\`, `\\`))
	}
}

// live begins a pattern. The text up to here stands for itself.
func (b *builder) live() {
	if !b.glob {
		b.glob = true
		b.pat.WriteString(program.EscapePattern(b.text.String()))
	}
}

// pattern adds a value that stands for any name matching pat.
func (b *builder) pattern(text, pat string) {
	b.live()
	b.some, b.names = true, true
	b.text.add(text)
	b.pat.WriteString(pat)
}

// digits adds an unknown number.
func (b *builder) digits(text string) {
	names := b.names
	b.pattern(text, "*")
	b.names = names
}

func (b *builder) field(src string, at Pos) program.Word {
	f := program.Word{
		Text: b.text.String(), Known: !b.unknown, Many: b.unknown && b.many, Fd: b.fd, Given: b.given,
		Tree: b.tree && !b.unknown, At: at,
	}
	if b.unknown {
		f.Skeleton, f.Code = f.Text, codeInIndex(f.Text)
		f.Text = src
		return f
	}
	if b.glob && program.LivePattern(b.pat.String()) {
		f.Glob, f.Pat, f.Number = true, program.PlainPattern(b.pat.String()), !b.names
	}
	return f
}
