package lsp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func frames(text string) *bufio.Reader {
	return bufio.NewReaderSize(strings.NewReader(text), maxHeader)
}

func TestReadFrame(t *testing.T) {
	r := frames("Content-Length: 2\r\nContent-Type: x\r\n\r\n{}content-length:3\n\n[1]")
	for _, want := range []string{"{}", "[1]"} {
		if got, err := readFrame(r); string(got) != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if _, err := readFrame(r); err != io.EOF {
		t.Errorf("got %v at the end", err)
	}
	_, err := readFrame(frames("Content-Length: 2"))
	if err == nil || err.Error() != "it ended in the middle of a message" {
		t.Errorf("got %v in a header", err)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}"))
	f.Add([]byte("Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"))
	f.Add([]byte("Content-Length: 18446744073709551615\r\n\r\n{}"))
	f.Add([]byte("Content-Length: +2\r\n\r\n{}"))
	f.Add([]byte("\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(text), maxHeader)
		for left := len(text); ; {
			body, err := readFrame(r)
			if err != nil {
				return
			}
			if left -= len(body); len(body) > maxFrame || left <= 0 && len(text) > 0 {
				t.Fatalf("%q gives a message of %d bytes that it does not have", text, len(body))
			}
			if again, err := readFrame(frames(string(frame(body)))); err != nil || !bytes.Equal(again, body) {
				t.Fatalf("%q becomes %q, %v", body, again, err)
			}
		}
	})
}

func FuzzPlaces(f *testing.F) {
	f.Add([]byte(`[{"uri":"file:///a","range":{"start":{"line":1}}}]`), "file:///b")
	f.Add([]byte(`[{"selectionRange":{"start":{"line":1}},"children":[{"location":{"uri":"file:///%2e%2e/x"}}]}]`), "file:///b")
	f.Fuzz(func(t *testing.T, raw []byte, file string) {
		if !json.Valid(raw) {
			return
		}
		all, _, err := places(raw, file)
		for _, p := range all {
			if err != nil || p.line < 1 || !strings.HasPrefix(p.path, "/") || strings.Contains(p.path+"/", "/../") ||
				strings.Contains(p.path, "\x00") {
				t.Errorf("%q: %+v, %v", raw, p, err)
			}
		}
		_, _ = hoverText(raw)
	})
}
