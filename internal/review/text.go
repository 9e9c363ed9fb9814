package review

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"unicode"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Summary returns the question in one line, with the edited arguments if there are any.
func Summary(i approvals.Item) string {
	if c := i.Connection; c != nil && c.Method != "" {
		return fmt.Sprintf("%s %s of %s:%d: %s", c.Method, c.Path, c.Host, c.Port, What(i.Args))
	} else if c != nil {
		return fmt.Sprintf("connect to %s:%d: %s", c.Host, c.Port, What(i.Args))
	}
	if i.EditedArgs != nil {
		return What(i.EditedArgs)
	}
	return What(i.Args)
}

// telling lists the arguments that say most about a call, the best first.
var telling = []string{"command", "file_path", "path", "pattern", "url", "question", "query", "name"}

// What describes a call with these arguments in one text: its command line, its file, or otherwise the first
// argument that is a string.
func What(args json.RawMessage) string {
	fields, err := orderedFields(args)
	if err != nil {
		return string(args)
	}
	texts := map[string]string{}
	first := ""
	for _, f := range fields {
		var text string
		var words []string
		if f.name == "argv" && json.Unmarshal(f.value, &words) == nil {
			return tool.CommandLine(words...)
		}
		if json.Unmarshal(f.value, &text) == nil && text != "" {
			texts[f.name] = text
			first = cmp.Or(first, text)
		}
	}
	for _, name := range telling {
		if texts[name] != "" {
			return texts[name]
		}
	}
	return cmp.Or(first, string(args))
}

type jsonField struct {
	name  string
	value json.RawMessage
}

// orderedFields returns the fields of an object in the order in which they were written.
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

// wrap breaks a line at width, or at a space near it.
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
		for cut < len(runes) && unicode.In(runes[cut], unicode.Mn, unicode.Mc) { // a mark stays with its letter
			cut++
		}
		all = append(all, string(runes[:cut]))
		runes = runes[cut:]
	}
	return append(all, string(runes))
}

// Clip shortens a text to n characters and ends it with an ellipsis, if it is longer.
func Clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
