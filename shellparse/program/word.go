package program

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/source"
)

// Word is one word after expansion.
type Word struct {
	Text     string // resolved; the source text when not known
	Pat      string // text as a pattern, literal pattern characters escaped; "" when not glob
	Known    bool
	Glob     bool   // stands for any name that pat matches
	Many     bool   // not known, and may become no word or several
	Number   bool   // a pattern only because of numbers that are not known
	Tree     bool   // stands for anything below it
	Named    string // of a tree: patterns of the names that are meant, separated by NUL; "" all
	Skeleton string // of a word that is not known: what of it is, _ for the rest
	Code     bool   // known parts of it hold an index that some builtins execute
	Guess    bool   // of a use of a file: the word only looks like a path
	Keeps    bool   // of a use of a file that is written: what it held before stays in it
	Makes    bool   // of a use of a file: a directory that is made where none is, and taken where it is empty
	Fd       bool   // a process substitution: a descriptor, not a file
	Given    string // what it gives, where a text of the line is all that it reads; else ""
	At       source.Pos
}

// Is reports whether f is known to be exactly s.
func (f Word) Is(s string) bool { return f.Known && !f.Glob && !f.Tree && f.Text == s }

// Lit returns the text of a known word without patterns, else "".
func (f Word) Lit() string {
	if f.Known && !f.Glob && !f.Tree {
		return f.Text
	}
	return ""
}

// names reports whether f is a pattern that stands for as many names as there are, or
// what a program prints: the words behind it may be at another place.
func (f Word) names() bool { return f.Tree || f.Glob && !f.Number }

// Placed reports whether the first n words are what stands at these places.
func Placed(words []Word, n int) bool {
	return !slices.ContainsFunc(words[:n], Word.names)
}

// Sub returns a known part of f, at the same place.
func (f Word) Sub(text string) Word {
	g := f
	if g.Glob {
		// The part keeps its meaning as a pattern when it is the tail.
		if strings.HasSuffix(f.Text, text) && len(f.Pat) >= len(text) {
			if cut := len(f.Text) - len(text); cut <= len(f.Pat) && f.Pat[:cut] == f.Text[:cut] {
				g.Pat = f.Pat[cut:]
			}
		}
	}
	g.Text = text
	if g.Glob && !LivePattern(g.Pat) {
		g.Glob, g.Pat = false, ""
	}
	return g
}

// Literal returns a word that is known.
func Literal(text string, at source.Pos) Word { return Word{Text: text, Known: true, At: at} }

// Numbers is f with 0 for each number that is not known: what it does as code does
// not depend on them.
func (f Word) Numbers() Word {
	if !f.Glob || !f.Number {
		return f
	}
	var b strings.Builder
	for i := 0; i < len(f.Pat); i++ {
		switch {
		case f.Pat[i] == '\\' && i+1 < len(f.Pat):
			i++
			b.WriteByte(f.Pat[i])
		case f.Pat[i] == '*':
			b.WriteByte('0')
		default:
			b.WriteByte(f.Pat[i])
		}
	}
	f.Text, f.Pat, f.Glob, f.Number = b.String(), "", false, false
	return f
}

// part returns a file named inside a program: not known when it holds a value that is not.
func (f Word) part(text string) Word {
	if !f.Known && strings.Contains(text, "_") {
		return Word{Text: text, At: f.At}
	}
	return Literal(text, f.At)
}

// LivePattern reports whether the shell would expand pat: "[" alone is a letter.
func LivePattern(pat string) bool {
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

// EscapePattern returns a pattern that only s matches.
func EscapePattern(s string) string {
	if !strings.ContainsAny(s, `\*?[`) {
		return s
	}
	return patternEscaper.Replace(s)
}

// bracketEscaper also hides what is special in brackets alone.
var bracketEscaper = strings.NewReplacer(
	`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `!`, `\!`, `^`, `\^`, `-`, `\-`,
)

// EscapeBracket is s inside of brackets, where each of its characters stands for itself.
func EscapeBracket(s string) string { return bracketEscaper.Replace(s) }

// OpenBracket reports whether what follows a part of a pattern is inside of brackets.
func OpenBracket(part string) bool {
	for i := 0; i < len(part); i++ {
		switch part[i] {
		case '\\':
			i++
		case '[':
			end, _ := bracket(part[i:])
			if end == 0 {
				return !strings.Contains(part[i:], "/")
			}
			i += end
		}
	}
	return false
}

// PlainPattern returns a pattern of bash as [filepath.Match] reads it. That knows [^x] and not [!x], and no
// [:classes:]; brackets with a class become a character that may be any.
func PlainPattern(pat string) string {
	if !strings.Contains(pat, "[") {
		return pat
	}
	var b strings.Builder
	for i := 0; i < len(pat); i++ {
		switch pat[i] {
		case '\\':
			b.WriteString(pat[i:min(i+2, len(pat))])
			i++
		case '[':
			end, class := bracket(pat[i:])
			switch {
			case end == 0:
				b.WriteByte('[')
			case class:
				b.WriteByte('?')
			case pat[i+1] == '!':
				b.WriteString("[^" + pat[i+2:i+end+1])
			default:
				b.WriteString(pat[i : i+end+1])
			}
			i += end
		default:
			b.WriteByte(pat[i])
		}
	}
	return b.String()
}

// bracket returns where the brackets end with which a pattern begins, and whether they hold a class, an equivalence
// or a name of a character. It is 0 if they do not end in this segment.
func bracket(pat string) (end int, class bool) {
	i := 1
	if i < len(pat) && (pat[i] == '!' || pat[i] == '^') {
		i++
	}
	if i < len(pat) && pat[i] == ']' { // the first one is a letter
		i++
	}
	for ; i < len(pat); i++ {
		switch pat[i] {
		case '/':
			return 0, false
		case '\\':
			i++
		case ']':
			return i, class
		case '[':
			if i+1 < len(pat) && strings.IndexByte(":=.", pat[i+1]) >= 0 {
				if n := strings.Index(pat[i+2:], pat[i+1:i+2]+"]"); n >= 0 {
					i, class = i+n+3, true
				}
			}
		}
	}
	return 0, false
}

// AllDigits reports whether text is digits and nothing else.
func AllDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
