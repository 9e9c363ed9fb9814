package lsp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that a server is asked about is told whole, or the call fails.
func TestT52_AFileThatIsTooLargeIsNotTold(t *testing.T) {
	w := served(t, "answers", `{"contents":"text"}`)
	w.write("most.go", strings.Repeat("x", 4<<20))
	w.write("more.go", strings.Repeat("x", 4<<20+1))
	about := func(file string) string { return strings.Replace(hovering, "a.go", file, 1) }
	if got, _ := w.ok(about("most.go")); got != "text" {
		t.Errorf("of 4 MiB: %.200q", got)
	}
	if got, _, err := w.call(about("more.go")); err == nil {
		t.Errorf("of more: %.200q", got)
	}
}

// In a directory with very many files the answer says that the server does not know all changes.
func TestT52_ADirectoryWithVeryManyFiles(t *testing.T) {
	w := served(t, "answers", `{"contents":"text"}`)
	const note = "[note: the directory has more than 20000 files; the server is not told of changes in the rest]"
	for i := range 20_000 - 1 { // beside a.go
		name := filepath.Join(w.dir, fmt.Sprintf("f%05d", i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := w.ok(hovering); got != "text" {
		t.Errorf("with 20,000 files: %q", got)
	}
	w.write("more", "")
	if got, _ := w.ok(hovering); got != "text\n"+note {
		t.Errorf("with 20,001 files: %q", got)
	}
}

// The language is what the configuration says, or the name of the server.
func TestT52_TheLanguageOfAServer(t *testing.T) {
	w := served(t, "tells what it heard", "null")
	c := *w.f.config.Load()
	s := c.Servers["go"]
	s.Language = "golang"
	c.Servers = map[string]Server{"go": s}
	w.f.config.Store(&c)
	w.ok(hovering)
	if text, _ := w.ok(hovering); !strings.Contains(text, `"languageId":"golang"`) {
		t.Errorf("it heard %s", text)
	}
}

// A server that asks has no settings of ours, and changes nothing.
func TestT52_WhatAServerAsksFor(t *testing.T) {
	for _, tt := range []struct{ method, params, want string }{
		{"workspace/configuration", `{"items":[{"section":"gopls"},{}]}`, `"result":[null,null]`},
		{"workspace/applyEdit", `{"edit":{}}`, `"result":{"applied":false,"failureReason":"the tool only reads"}`},
		{"client/registerCapability", `{}`, `"result":null`},
		{"window/showDocument", `{}`, `"error":{"code":-32601,"message":"not offered"}`},
	} {
		c := &conn{send: make(chan []byte, 1)}
		asks := message{ID: json.RawMessage("7"), Method: tt.method, Params: json.RawMessage(tt.params)}
		if err := c.serve(asks); err != nil {
			t.Fatal(err)
		}
		body, err := readFrame(frames(string(<-c.send)))
		if want := `{"jsonrpc":"2.0","id":7,` + tt.want + `}`; err != nil || string(body) != want {
			t.Errorf("%s: got %s, %v, want %s", tt.method, body, err, want)
		}
	}
}

func TestT52_HowManyServersRunIsTold(t *testing.T) {
	w := served(t, "answers", "null")
	for want := range 2 {
		gauge := w.part.Metrics[0]
		status, err := json.Marshal(w.part.Status())
		if err != nil || string(status) != fmt.Sprintf(`{"running":%d}`, want) {
			t.Errorf("the status is %s, %v, want %d", status, err, want)
		}
		if gauge.Name != "language_servers" || gauge.Value() != float64(want) {
			t.Errorf("the metric %s is %v, want %d", gauge.Name, gauge.Value(), want)
		}
		w.ok(question)
	}
}
