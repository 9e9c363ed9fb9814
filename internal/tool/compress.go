package tool

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// CompressArgs returns the short form of arguments for logs: the tool's own, or the JSON with every string cut to 50
// characters (T-32). The caller redacts.
func CompressArgs(t Tool, args json.RawMessage) string {
	if c, ok := t.(Compressor); ok {
		if s, ok := contain(func() string { return c.CompressArgs(args) }); ok {
			return oneLine(cut(s, 120))
		}
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return oneLine(cut(string(args), 50))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(shorten(value, 50)) != nil {
		return ""
	}
	return cut(strings.TrimSuffix(b.String(), "\n"), 120)
}

// CompressResult returns the short form of a result for logs: the tool's own, or its first 200 characters (T-32).
func CompressResult(t Tool, formatted string) string {
	if c, ok := t.(Compressor); ok {
		if s, ok := contain(func() string { return c.CompressResult(formatted) }); ok {
			return oneLine(cut(s, 200))
		}
	}
	return oneLine(cut(formatted, 200))
}

// LogLine is one call in a log: under 300 characters whatever the result is.
func LogLine(t Tool, spec Spec, args json.RawMessage, formatted string, status Status) string {
	line := cut(spec.Name, 64) + " " + CompressArgs(t, args) + " → " + string(status)
	if text := CompressResult(t, formatted); text != "" {
		line += ": " + text
	}
	return cut(line, 298)
}

// CacheDescription describes the variable that keeps a result (T-29): each
// argument redacted, then cut to 20 characters.
func CacheDescription(name string, args json.RawMessage, redact func(string) string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) != nil {
		return "Call " + name + " with args: " + cut(redact(string(args)), 20)
	}
	keys := slices.Sorted(maps.Keys(object))
	parts := make([]string, len(keys))
	for i, k := range keys {
		text := string(object[k])
		var s string
		if json.Unmarshal(object[k], &s) == nil {
			text = s
		}
		parts[i] = cut(redact(k), 20) + "=" + oneLine(cut(redact(text), 20))
	}
	return "Call " + name + " with args: " + strings.Join(parts, ", ")
}

func shorten(value any, limit int) any {
	switch v := value.(type) {
	case string:
		return cut(v, limit)
	case []any:
		for i := range v {
			v[i] = shorten(v[i], limit)
		}
	case map[string]any:
		for k := range v {
			v[k] = shorten(v[k], limit)
		}
	}
	return value
}

// cut keeps at most n characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := runeOffset(s, n)
	if end == len(s) {
		return s
	}
	return s[:runeOffset(s, n-1)] + "…"
}

// oneLine keeps a log entry on its line and free of control characters.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

func contain(f func() string) (s string, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return f(), true
}
