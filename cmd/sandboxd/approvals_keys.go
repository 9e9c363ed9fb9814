package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"unicode"
)

// The keys that are not text.
const (
	keyInterrupt = '\x03'
	keyEOF       = '\x04'
	keyBackspace = '\x7f'
	keyDelete    = '\b'
	keyKillLine  = '\x15'
	keyKillWord  = '\x17'
	keyEscape    = '\x1b'
	keyEnter     = '\r'
)

// readKeys sends what is typed. It ends with the input.
func readKeys(in io.Reader) <-chan rune {
	keys := make(chan rune)
	go func() {
		defer close(keys)
		r := bufio.NewReader(in)
		for {
			key, _, err := r.ReadRune()
			if err != nil {
				return
			}
			keys <- key
		}
	}()
	return keys
}

// readLine is a line editor for one line that may already hold text. Escape goes
// back; so do arrow keys, which begin with it.
func (w *watcher) readLine(ctx context.Context, keys <-chan rune, prompt, text string) (string, bool) {
	line := []rune(text)
	defer func() { w.status = "" }()
	for {
		w.say("\r\x1b[K%s%s", prompt, tail(safeLine(string(line)), w.screen.width-len(prompt)-1))
		var key rune
		var ok bool
		select {
		case <-ctx.Done():
			return "", false
		case key, ok = <-keys:
		}
		switch {
		case !ok || key == keyEscape || key == keyInterrupt:
			w.say("\n")
			return "", false
		case key == keyEnter || key == '\n':
			w.say("\n")
			return strings.TrimSpace(string(line)), true
		case key == keyBackspace || key == keyDelete:
			line = line[:max(len(line)-1, 0)]
		case key == keyKillLine:
			line = nil
		case key == keyKillWord:
			rest := strings.TrimRightFunc(string(line), unicode.IsSpace)
			line = []rune(rest[:strings.LastIndexByte(rest, ' ')+1])
		case !unicode.IsControl(key):
			line = append(line, key)
		}
	}
}

// tail keeps the end of a line that is too long, where the cursor is.
func tail(s string, n int) string {
	n = max(n, 10)
	if r := []rune(s); len(r) > n {
		return "…" + string(r[len(r)-n+1:])
	}
	return s
}
