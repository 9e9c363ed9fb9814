package toolkit

import (
	"bytes"
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// SniffSize is the number of bytes at the start of a file that decide its kind.
const SniffSize = 8 << 10

// Kind is the kind of a file, as its first bytes show it.
type Kind struct {
	Encoding string // "utf-8", "utf-8-bom", "utf-16le", "utf-16be", "binary"
	MIME     string // of images and PDFs, which are returned as content of that type
}

// Sniff returns the kind of a file from its first SniffSize bytes.
func Sniff(head []byte) Kind {
	for _, m := range []struct{ magic, mime string }{
		{"\x89PNG\r\n\x1a\n", "image/png"},
		{"\xff\xd8\xff", "image/jpeg"},
		{"GIF87a", "image/gif"},
		{"GIF89a", "image/gif"},
		{"%PDF-", "application/pdf"},
	} {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return Kind{"binary", m.mime}
		}
	}
	if len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP" {
		return Kind{"binary", "image/webp"}
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return Kind{Encoding: "utf-8-bom"}
	case bytes.HasPrefix(head, []byte("\xff\xfe")) && !bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")):
		return Kind{Encoding: "utf-16le"}
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return Kind{Encoding: "utf-16be"}
	case bytes.IndexByte(head, 0) >= 0:
		return Kind{Encoding: "binary"}
	}
	return Kind{Encoding: "utf-8"}
}

// Text returns a reader of the file's text in UTF-8, without its byte order mark.
func (k Kind) Text(r io.Reader) io.Reader {
	switch k.Encoding {
	case "utf-16le", "utf-16be":
		return transform.NewReader(r, unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder())
	case "utf-8-bom":
		return transform.NewReader(r, unicode.BOMOverride(transform.Nop))
	}
	return r
}
