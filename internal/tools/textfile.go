package tools

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// sniffSize is how much of a file decides what it is.
const sniffSize = 8 << 10

// fileKind is what the first bytes of a file say.
type fileKind struct {
	encoding string // "utf-8", "utf-8-bom", "utf-16le", "utf-16be", "binary"
	mime     string // of images and PDFs, which are answered as typed content
}

func sniff(head []byte) fileKind {
	for _, m := range []struct{ magic, mime string }{
		{"\x89PNG\r\n\x1a\n", "image/png"},
		{"\xff\xd8\xff", "image/jpeg"},
		{"GIF87a", "image/gif"},
		{"GIF89a", "image/gif"},
		{"%PDF-", "application/pdf"},
	} {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return fileKind{"binary", m.mime}
		}
	}
	if len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP" {
		return fileKind{"binary", "image/webp"}
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return fileKind{encoding: "utf-8-bom"}
	case bytes.HasPrefix(head, []byte("\xff\xfe")) && !bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")):
		return fileKind{encoding: "utf-16le"}
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return fileKind{encoding: "utf-16be"}
	case bytes.IndexByte(head, 0) >= 0:
		return fileKind{encoding: "binary"}
	}
	return fileKind{encoding: "utf-8"}
}

// textReader reads a file of that kind as UTF-8, without its byte order mark.
func (k fileKind) textReader(r io.Reader) io.Reader {
	switch k.encoding {
	case "utf-16le", "utf-16be":
		return transform.NewReader(r, unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder())
	case "utf-8-bom":
		return transform.NewReader(r, unicode.BOMOverride(transform.Nop))
	}
	return r
}

// oddities are what a reader of the text should know, since the text that is
// shown hides it.
type oddities struct {
	kind    fileKind
	crlf    bool // some line ends with \r\n
	invalid bool // some bytes are not UTF-8
	long    bool // some line was cut
}

func (o oddities) notes() []string {
	var notes []string
	switch o.kind.encoding {
	case "utf-8-bom":
		notes = append(notes, "the file begins with a byte order mark")
	case "utf-16le", "utf-16be":
		notes = append(notes, "the file is "+strings.ToUpper(o.kind.encoding)+
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

// maxLine is how many characters of one line are shown.
const maxLine = 2000

// showLine makes one line fit to be shown and notes what that hid.
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
