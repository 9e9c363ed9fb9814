package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Format turns what a tool returned into text, the second of the three stages
// data → formatted → final (T-13). In this order: the tool's own text, its typed
// content, its [Formatter], a string as it is, and JSON with two-space indent.
// The text is valid UTF-8. A formatter that fails or panics costs only the text.
func Format(t Tool, out Output, args json.RawMessage) string {
	return strings.ToValidUTF8(format(t, out, args), "\uFFFD")
}

func format(t Tool, out Output, args json.RawMessage) string {
	if out.Text != "" {
		return out.Text
	}
	if len(out.Content) > 0 {
		return joinText(out.Content)
	}
	if f, ok := t.(Formatter); ok {
		text, err := runFormatter(f, out.Data, args)
		if err != nil {
			return "[format error] " + err.Error()
		}
		return text
	}
	switch data := out.Data.(type) {
	case nil:
		return ""
	case string:
		return data
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out.Data); err != nil {
		return "[format error] " + err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// joinText joins the text parts without a separator (T-37).
func joinText(content []Content) string {
	var b strings.Builder
	for _, c := range content {
		if c.Type == "text" {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}

func runFormatter(f Formatter, data any, args json.RawMessage) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f.Format(data, args)
}
