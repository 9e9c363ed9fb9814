package source

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Heredoc refuses a here-document that bash may end at another line than the parser.
// quoted says that a part of its delimiter is quoted. The caller sets the place.
func Heredoc(src string, r *syntax.Redirect, quoted bool) *Error {
	differs := func(msg, hint string) *Error { return &Error{Code: "parser_difference", Msg: msg, Hint: hint} }
	switch {
	case escapedDelimiter(r.Word):
		return differs("an escape between the quotes of a here-document's delimiter", "use a plain word")
	case !quoted && joinsDelimiter(src, r):
		return differs("a backslash at the end of a here-document line next to its end",
			"quote the delimiter, or leave the backslash out")
	case r.Hdoc != nil && !endsAtDelimiter(src, r):
		return differs("a here-document that may end elsewhere",
			"quote the delimiter, and give it a line of its own")
	}
	return nil
}

// escapedDelimiter reports whether quotes in a delimiter hold a backslash that bash takes
// away and the parser keeps.
func escapedDelimiter(word *syntax.Word) bool {
	for _, p := range word.Parts {
		switch p := p.(type) {
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				return true
			}
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				if l, ok := q.(*syntax.Lit); ok && UnescapeDouble(l.Value) != l.Value {
					return true
				}
			}
		}
	}
	return false
}

// joinsDelimiter reports whether a line that ends in a backslash decides where the
// here-document ends: bash joins such lines before it looks for the delimiter, the
// parser after.
func joinsDelimiter(src string, r *syntax.Redirect) bool {
	from := int(r.Word.End().Offset())
	if i := strings.IndexByte(src[from:], '\n'); i >= 0 {
		from += i + 1
	}
	to := from + min(2, len(src)-from)
	if r.Hdoc != nil {
		to = max(int(r.Hdoc.End().Offset()), to)
	}
	delim := r.Word.Lit()
	body := strings.TrimSuffix(src[from:min(to, len(src))], delim)
	if strings.HasPrefix(body, "\\\n") || strings.HasSuffix(strings.TrimRight(body, "\t"), "\\\n") {
		return true
	}
	for _, line := range strings.Split(unjoined(body), "\n") {
		if r.Op == syntax.DashHdoc {
			line = strings.TrimLeft(line, "\t")
		}
		if line == delim {
			return true
		}
	}
	return false
}

// endsAtDelimiter reports whether the parser ended the body in front of a line that
// is the delimiter and nothing else. It also ends it behind an expansion in the
// middle of a line.
func endsAtDelimiter(src string, r *syntax.Redirect) bool {
	end := min(int(r.Hdoc.End().Offset()), len(src))
	start := strings.LastIndexByte(src[:end], '\n') + 1
	line, _, _ := strings.Cut(src[start:], "\n")
	if r.Op == syntax.DashHdoc {
		line = strings.TrimLeft(line, "\t")
	}
	return line == delimiter(r.Word)
}

// delimiter returns the end of a here-document without its quotes.
func delimiter(word *syntax.Word) string {
	var b strings.Builder
	for _, p := range word.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			for i := 0; i < len(p.Value); i++ {
				if p.Value[i] == '\\' && i+1 < len(p.Value) {
					i++
				}
				b.WriteByte(p.Value[i])
			}
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				if l, ok := q.(*syntax.Lit); ok {
					b.WriteString(l.Value)
				}
			}
		}
	}
	return b.String()
}
