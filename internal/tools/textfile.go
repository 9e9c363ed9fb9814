package tools

import (
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
)

// oddities are properties of a text that the reader should know, because the shown text hides them.
type oddities struct {
	kind    toolkit.Kind
	crlf    bool // some line ends with \r\n
	invalid bool // some bytes are not UTF-8
	long    bool // some line was cut
}

func (o oddities) notes() []string {
	var notes []string
	switch o.kind.Encoding {
	case "utf-8-bom":
		notes = append(notes, "the file begins with a byte order mark")
	case "utf-16le", "utf-16be":
		notes = append(notes, "the file is "+strings.ToUpper(o.kind.Encoding)+
			", shown as UTF-8; Edit works on its bytes and will not find this text")
	}
	if o.crlf {
		notes = append(notes, "lines end with CRLF")
	}
	if o.invalid {
		notes = append(notes, "some bytes are not UTF-8 and are shown as \uFFFD")
	}
	if o.long {
		notes = append(notes, "lines of more than 2000 characters are cut")
	}
	return notes
}

// maxLine bounds the characters that are shown of one line.
const maxLine = 2000

// showLine returns a line in a form that can be shown, and notes what that form hides.
func (o *oddities) showLine(line []byte) string {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		o.crlf = true
		line = line[:n-1]
	}
	text := string(line)
	if !utf8.ValidString(text) {
		o.invalid = true
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if len(text) > maxLine && utf8.RuneCountInString(text) > maxLine {
		o.long = true
		text = string([]rune(text)[:maxLine]) + "…"
	}
	return text
}
