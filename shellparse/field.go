package shellparse

import "strings"

// field is one word after expansion.
type field struct {
	text     string // resolved; the source text when not known
	pat      string // text as a pattern, literal pattern characters escaped; "" when not glob
	known    bool
	glob     bool   // stands for any name that pat matches
	many     bool   // not known, and may become no word or several
	number   bool   // a pattern only because of numbers that are not known
	tree     bool   // stands for anything below it
	skeleton string // of a word that is not known: what of it is, _ for the rest
	code     bool   // known parts of it hold an index that some builtins execute
	fd       bool   // a process substitution: a descriptor, not a file
	at       Pos
}

func (f field) word() Word { return Word{Text: f.text, Known: f.known && !f.glob && !f.tree, At: f.at} }

// is reports whether f is known to be exactly s.
func (f field) is(s string) bool { return f.known && !f.glob && !f.tree && f.text == s }

// lit is the text of a known word without patterns, else "".
func (f field) lit() string {
	if f.known && !f.glob && !f.tree {
		return f.text
	}
	return ""
}

// sub is a known part of f, at the same place.
func (f field) sub(text string) field {
	g := f
	if g.glob {
		// The part keeps its meaning as a pattern when it is the tail.
		if strings.HasSuffix(f.text, text) && len(f.pat) >= len(text) {
			if cut := len(f.text) - len(text); cut <= len(f.pat) && f.pat[:cut] == f.text[:cut] {
				g.pat = f.pat[cut:]
			}
		}
	}
	g.text = text
	if g.glob && !livePattern(g.pat) {
		g.glob, g.pat = false, ""
	}
	return g
}

func literal(text string, at Pos) field { return field{text: text, known: true, at: at} }

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
	b.pat.WriteString(escapePattern(s))
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

// numbers is f with 0 for each number that is not known: what it does as code does
// not depend on them.
func (f field) numbers() field {
	if !f.glob || !f.number {
		return f
	}
	var b strings.Builder
	for i := 0; i < len(f.pat); i++ {
		switch {
		case f.pat[i] == '\\' && i+1 < len(f.pat):
			i++
			b.WriteByte(f.pat[i])
		case f.pat[i] == '*':
			b.WriteByte('0')
		default:
			b.WriteByte(f.pat[i])
		}
	}
	f.text, f.pat, f.glob, f.number = b.String(), "", false, false
	return f
}

func (b *builder) field(src string, at Pos) field {
	f := field{text: b.text.String(), known: !b.unknown, many: b.unknown && b.many, fd: b.fd, tree: b.tree && !b.unknown, at: at}
	if b.unknown {
		f.skeleton, f.code = f.text, codeInIndex(f.text)
		f.text = src
		return f
	}
	if b.glob && livePattern(b.pat.String()) {
		f.glob, f.pat, f.number = true, b.pat.String(), !b.names
	}
	return f
}

// livePattern reports whether the shell would expand pat: "[" alone is a letter.
func livePattern(pat string) bool {
	for i := 0; i < len(pat); i++ {
		switch pat[i] {
		case '\\':
			i++
		case '*', '?':
			return true
		case '[':
			if strings.IndexByte(pat[i:], ']') > 0 {
				return true
			}
		}
	}
	return false
}

var patternEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

func escapePattern(s string) string {
	if !strings.ContainsAny(s, `\*?[`) {
		return s
	}
	return patternEscaper.Replace(s)
}
