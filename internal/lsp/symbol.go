package lsp

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// The keywords that stand before a name in its definition (T-52). A file's symbols include interfaces.
const (
	defining  = `func|class|struct|enum|protocol|typealias|let|var|export|type|const`
	declaring = defining + `|interface`
	modifying = `export|default|declare|public|private|protected|internal|fileprivate|open|static|final|abstract|` +
		`override|async`
)

// The borders of a word. \b of package regexp knows ASCII only.
const (
	notWordBefore = `(?:^|[^\p{L}\p{N}_])`
	notWordAfter  = `(?:$|[^\p{L}\p{N}_])`
)

// receiver matches the receiver of a Go method, between func and the name.
const receiver = `func\s*\([^()]*\)\s*`

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// symbolAt returns the word at a position or directly before it. The position counts UTF-16 code units, as LSP does.
func symbolAt(line string, character int) string {
	at := offset(line, character)
	if at < 0 {
		return ""
	}
	begin, end := at, at
	for begin > 0 {
		r, size := utf8.DecodeLastRuneInString(line[:begin])
		if !isWord(r) {
			break
		}
		begin -= size
	}
	for end < len(line) {
		r, size := utf8.DecodeRuneInString(line[end:])
		if !isWord(r) {
			break
		}
		end += size
	}
	return line[begin:end]
}

// offset returns the byte offset of a position in a line. It returns -1 if the position is after the end.
func offset(line string, character int) int {
	units := 0
	for i, r := range line {
		if units >= character {
			return i
		}
		units += utf16.RuneLen(r)
	}
	if units >= character {
		return len(line)
	}
	return -1
}

// definitionOf returns a pattern for lines that define a symbol.
func definitionOf(symbol string) string {
	return notWordBefore + `(?:(?:` + defining + `)\s+|` + receiver + `)` + regexp.QuoteMeta(symbol) + notWordAfter
}

// referencesTo returns a pattern for lines that hold a symbol.
func referencesTo(symbol string) string {
	return notWordBefore + regexp.QuoteMeta(symbol) + notWordAfter
}

// declarations returns a pattern for lines that begin with a declaration whose name holds a text, in upper or lower
// case.
func declarations(named string) string {
	name := `[\p{L}_]`
	if named != "" {
		name = `[\p{L}\p{N}_]*(?i:` + regexp.QuoteMeta(named) + `)`
	}
	return `^\s*(?:(?:` + modifying + `)\s+)*(?:(?:` + declaring + `)\s+|` + receiver + `)` + name
}

// oneLine reports whether a query can be part of a name.
func oneLine(query string) bool {
	return query != "" && len(query) <= 200 && !strings.ContainsFunc(query, unicode.IsControl)
}
