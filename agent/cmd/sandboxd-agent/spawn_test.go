package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// FuzzOrder: an order is refused, or it names a session, a socket and a prompt.
func FuzzOrder(f *testing.F) {
	const good = `{"session_id":"s","socket":"/a.sock","prompt":"p","max_turns":3,"cwd":"/"}`
	for _, text := range []string{"", "null", "[]", good, good + good, good[:20], strings.Replace(good, "3", "-1", 1)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := readOrder(strings.NewReader(text), 50)
		if err == nil && (o.Session == "" || !filepath.IsAbs(o.Socket) || strings.TrimSpace(o.Prompt) == "" || o.MaxTurns < 1) {
			t.Errorf("%q is the order %+v", text, o)
		}
	})
}
