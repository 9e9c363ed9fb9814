package program

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printf returns what printf prints, and whether that is known: the format again while there are arguments. posix is
// the one of sh. The text of a word that is not known stands for its value.
func Printf(format string, args []Word, posix bool) (string, bool) {
	p := printer{args: args, posix: posix}
	for first := true; first || len(p.args) > 0; first = false {
		left := len(p.args)
		if !p.format(format) {
			return "", false
		}
		if len(p.args) == left {
			break
		}
	}
	return p.b.String(), true
}

// Echo returns what echo prints. posix is the one of sh.
func Echo(words []Word, posix bool) (string, bool) {
	escapes, end := posix, "\n"
	for len(words) > 0 {
		text := words[0].Text
		if len(text) < 2 || text[0] != '-' || strings.Trim(text[1:], "neE") != "" || posix && text != "-n" {
			break
		}
		for _, c := range text[1:] {
			switch c {
			case 'n':
				end = ""
			default:
				escapes = c == 'e'
			}
		}
		words = words[1:]
	}
	var texts []string
	for _, w := range words {
		texts = append(texts, w.Text)
	}
	text := strings.Join(texts, " ")
	if !escapes {
		return text + end, true
	}
	p := printer{posix: posix}
	ends, ok := p.escapes(text)
	if ends {
		end = ""
	}
	return p.b.String() + end, ok
}

// printer prints one format.
type printer struct {
	b     strings.Builder
	args  []Word
	posix bool
}

// next takes an argument.
func (p *printer) next() (w Word, ok bool) {
	if len(p.args) == 0 {
		return w, false
	}
	w, p.args = p.args[0], p.args[1:]
	return w, true
}

func (p *printer) format(format string) bool {
	for i := 0; i < len(format); i++ {
		switch format[i] {
		case '\\':
			n, _, ok := p.escape(format[i:], 3)
			if !ok {
				return false
			}
			i += n - 1
		case '%':
			end := i + 1
			for end < len(format) && strings.IndexByte("-+ #0123456789.*", format[end]) >= 0 {
				end++
			}
			if end == len(format) || !p.directive(format[i+1:end], format[end]) {
				return false
			}
			i = end
		default:
			p.b.WriteByte(format[i])
		}
	}
	return true
}

// directive prints an argument as %FLAGS says.
func (p *printer) directive(flags string, verb byte) bool {
	if verb == '%' {
		p.b.WriteByte('%')
		return flags == ""
	}
	for strings.Contains(flags, "*") {
		n, _ := p.next()
		if !AllDigits(n.Lit()) {
			return false
		}
		flags = strings.Replace(flags, "*", n.Text, 1)
	}
	for number := range strings.FieldsFuncSeq(flags, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(number); err != nil || n > pathMax {
			return false
		}
	}
	w, given := p.next()
	text := w.Text
	if flags != "" && (given && !w.Known || len(text) != utf8.RuneCountInString(text)) {
		return false
	}
	switch verb {
	case 's':
	case 'q':
		if strings.ContainsFunc(text, func(r rune) bool { return r > 'z' || !IsWordByte(byte(r)) && r != '/' }) {
			return false
		}
	case 'c':
		if text == "" || !w.Known || text[0] >= utf8.RuneSelf {
			return false
		}
		text = text[:1]
	case 'b':
		inner := printer{posix: p.posix}
		if ends, ok := inner.escapes(text); ends || !ok {
			return false
		}
		text = inner.b.String()
	case 'd', 'i', 'u', 'x', 'X', 'o':
		if !given {
			text = "0"
		}
		n, err := strconv.ParseUint(text, 10, 31)
		switch {
		case !w.Known && given && flags == "" && verb != 'x' && verb != 'X' && verb != 'o':
			p.b.WriteString(text)
			return true
		case err != nil || len(text) > 1 && text[0] == '0':
			return false
		}
		if verb == 'i' || verb == 'u' {
			verb = 'd'
		}
		p.b.WriteString(fmt.Sprintf("%"+flags+string(verb), n))
		return true
	default:
		return false
	}
	if strings.Trim(flags, "-0123456789.") != "" {
		return false
	}
	p.b.WriteString(fmt.Sprintf("%"+flags+"s", text))
	return true
}

// escapes prints the argument of %b, or the words of echo. It reports whether \c ends the output.
func (p *printer) escapes(text string) (ends, ok bool) {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			p.b.WriteByte(text[i])
			continue
		}
		n, ends, ok := p.escape(text[i:], 4)
		if ends || !ok {
			return ends, ok
		}
		i += n - 1
	}
	return false, true
}

// What stands behind a backslash, and what it is.
const (
	escapeLetters = `nrtabfv\"'eE`
	escapeValues  = "\n\r\t\a\b\f\v\\\"'\x1b\x1b"
)

// escape prints what a backslash and the bytes behind it stand for, and returns how many bytes these are. An octal
// number has three digits, behind \0 as many as zeroed with the 0.
func (p *printer) escape(text string, zeroed int) (n int, ends, ok bool) {
	if len(text) == 1 {
		p.b.WriteByte('\\')
		return 1, false, true
	}
	c := text[1]
	digits := func(from, base, most int) int {
		end := from
		for end < len(text) && end-from < most &&
			strings.IndexByte("0123456789abcdefABCDEF"[:base+base/16*6], text[end]) >= 0 {
			end++
		}
		code, _ := strconv.ParseUint(text[from:end], base, 16)
		p.b.WriteByte(byte(code))
		return end
	}
	switch at := strings.IndexByte(escapeLetters, c); {
	case c == 'c' && zeroed == 4:
		return 2, true, true
	case c == 'u' || c == 'U' || c == 'c', p.posix && strings.IndexByte(`xeE"'`, c) >= 0:
		return 0, false, false
	case at >= 0:
		p.b.WriteByte(escapeValues[at])
		return 2, false, true
	case c == 'x' && len(text) > 2 && strings.IndexByte("0123456789abcdefABCDEF", text[2]) >= 0:
		return digits(2, 16, 2), false, true
	case c == '0':
		return digits(1, 8, zeroed), false, true
	case c >= '1' && c <= '7':
		return digits(1, 8, 3), false, true
	}
	p.b.WriteByte('\\')
	return 1, false, true
}
