package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/sandboxd/sandboxd/approvals"
)

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// summary is the question in one line, as it was answered if it was edited.
func summary(i approvals.Item) string {
	args := i.Args
	if i.EditedArgs != nil {
		args = i.EditedArgs
	}
	fields, err := orderedFields(args)
	if err != nil {
		return string(args)
	}
	for _, f := range fields {
		var text string
		if json.Unmarshal(f.value, &text) == nil && text != "" {
			return text
		}
	}
	return string(args)
}

type jsonField struct {
	name  string
	value json.RawMessage
}

// orderedFields are the fields of an object in the order they were written.
func orderedFields(raw json.RawMessage) ([]jsonField, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var all []jsonField
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		f := jsonField{name: fmt.Sprint(name)}
		if err := dec.Decode(&f.value); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// safeLine makes text harmless for a terminal and honest for the eye: control
// characters, direction marks and invisible characters become \u escapes.
func safeLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteString("    ")
		case r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) ||
			unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Co, r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// wrap breaks a line at width, at a space where there is one near.
func wrap(s string, width int) []string {
	width = max(width, 20)
	runes := []rune(s)
	var all []string
	for len(runes) > width {
		cut := width
		for n := width - 1; n > width/2; n-- {
			if runes[n] == ' ' {
				cut = n + 1
				break
			}
		}
		all = append(all, string(runes[:cut]))
		runes = runes[cut:]
	}
	return append(all, string(runes))
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func prefix(p, s string) string {
	if s == "" {
		return ""
	}
	return p + s
}

func nonEmpty(all ...string) []string {
	var kept []string
	for _, s := range all {
		if s != "" {
			kept = append(kept, s)
		}
	}
	return kept
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
