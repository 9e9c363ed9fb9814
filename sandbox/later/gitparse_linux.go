package later

import (
	"errors"
	"strings"
)

// gitEntry is one key of a configuration.
type gitEntry struct {
	section string // in lower case
	name    string // of the key alone, in lower case
	key     string // section, subsection and name, as git prints it
	value   string
	older   string // the value for git before 2.45, which reads white space inside of it as blanks
	bare    bool   // it has no value, which git takes for true
}

// values returns the value as every git reads it.
func (e gitEntry) values() []string {
	if e.older != e.value {
		return []string{e.value, e.older}
	}
	return []string{e.value}
}

// The errors of parseGit. git refuses such a file too, except for a NUL, where it ends the
// value.
var (
	errGitSyntax = errors.New("this is no configuration of git")
	errGitNUL    = errors.New("a NUL in a configuration of git")
)

// parseGit reads the format of git's configuration, as config.c of git does. With an error
// it returns what comes before.
func parseGit(text string) ([]gitEntry, error) {
	if strings.IndexByte(text, 0) >= 0 {
		entries, _ := parseGit(text[:strings.IndexByte(text, 0)])
		return entries, errGitNUL
	}
	text = strings.TrimPrefix(text, "\ufeff")
	// A carriage return counts as a part of the end of a line only.
	p := gitParser{text: strings.ReplaceAll(text, "\r\n", "\n")}
	var out []gitEntry
	section, stem := "", ""
	for p.at < len(p.text) {
		c := p.next()
		switch {
		case gitSpace(c):
		case c == '#' || c == ';':
			p.line()
		case c == '[':
			var ok bool
			if stem, ok = p.section(); !ok {
				return out, errGitSyntax
			}
			section, _, _ = strings.Cut(stem, ".")
			stem += "."
		case gitLetter(c):
			p.at--
			e, ok := p.variable()
			if !ok || stem == "" { // git does not take a key without a section
				return out, errGitSyntax
			}
			e.section, e.key = section, stem+e.name
			out = append(out, e)
		default:
			return out, errGitSyntax
		}
	}
	return out, nil
}

// gitParser reads a text byte by byte. Its end counts as an end of line.
type gitParser struct {
	text string
	at   int
}

func (p *gitParser) next() byte {
	p.at++
	if p.at > len(p.text) {
		return '\n'
	}
	return p.text[p.at-1]
}

// line skips the rest of a line.
func (p *gitParser) line() {
	for p.next() != '\n' {
	}
}

// section reads what is between brackets.
func (p *gitParser) section() (string, bool) {
	var name []byte
	for {
		c := p.next()
		switch {
		case p.at > len(p.text):
			return "", false
		case c == ']':
			return string(name), len(name) > 0
		case gitSpace(c):
			return p.subsection(append(name, '.'), c)
		case c != '.' && !gitKeyByte(c):
			return "", false
		}
		name = append(name, lower(c))
	}
}

func (p *gitParser) subsection(name []byte, c byte) (string, bool) {
	for gitSpace(c) {
		if c == '\n' {
			return "", false
		}
		c = p.next()
	}
	if c != '"' {
		return "", false
	}
	for {
		switch c = p.next(); c {
		case '\n':
			return "", false
		case '"':
			return string(name), p.next() == ']'
		case '\\':
			if c = p.next(); c == '\n' {
				return "", false
			}
		}
		name = append(name, c)
	}
}

// variable reads a key and its value.
func (p *gitParser) variable() (gitEntry, bool) {
	var name []byte
	c := p.next()
	for ; gitKeyByte(c); c = p.next() {
		name = append(name, lower(c))
	}
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	e := gitEntry{name: string(name), bare: c == '\n'}
	if e.bare {
		return e, true
	}
	if c != '=' {
		return e, false
	}
	var ok bool
	e.value, e.older, ok = p.value()
	return e, ok
}

func (p *gitParser) value() (value, older string, ok bool) {
	var b, old, space []byte
	for quoted := false; ; {
		c := p.next()
		switch {
		case c == '\n':
			return string(b), string(old), !quoted
		case gitSpace(c) && !quoted:
			if len(b) > 0 {
				space = append(space, c)
			}
			continue
		case (c == '#' || c == ';') && !quoted:
			p.line()
			return string(b), string(old), true
		}
		b = append(b, space...)
		old = append(old, strings.Repeat(" ", len(space))...)
		space = space[:0]
		if c == '"' {
			quoted = !quoted
			continue
		}
		if c == '\\' {
			switch c = p.next(); c {
			case '\n':
				continue
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				return "", "", false
			}
		}
		b, old = append(b, c), append(old, c)
	}
}

func gitSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func gitLetter(c byte) bool { return lower(c) >= 'a' && lower(c) <= 'z' }

func gitKeyByte(c byte) bool { return gitLetter(c) || c >= '0' && c <= '9' || c == '-' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
