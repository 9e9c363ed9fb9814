package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultOutputLimit is how many characters of a result a model is shown when
// neither the call nor the tool says (T-22).
const DefaultOutputLimit = 8000

// Truncate shortens formatted text for the model, and reports whether it did.
// In this order (CX-21): not at all for [Spec.NoTruncate], as the tool's own
// [Truncater] wants, else to the limit of the call, the tool or the default.
func Truncate(t Tool, spec Spec, formatted string, args json.RawMessage) (text string, truncated bool) {
	if spec.NoTruncate {
		return formatted, false
	}
	if own, ok := t.(Truncater); ok {
		if text, ok := runTruncater(own, formatted, args); ok {
			return text, text != formatted
		}
	}
	return TruncateText(formatted, outputLimit(spec, args))
}

// TruncateText keeps limit characters, half from the start and half from the
// end, and says between them how many it left out. A limit of 0 or less keeps
// all.
func TruncateText(s string, limit int) (text string, truncated bool) {
	if limit <= 0 || len(s) <= limit {
		return s, false
	}
	total := utf8.RuneCountInString(s)
	if total <= limit {
		return s, false
	}
	head := runeOffset(s, limit/2)
	tail := len(s)
	for range limit - limit/2 {
		_, size := utf8.DecodeLastRuneInString(s[:tail])
		tail -= size
	}
	return fmt.Sprintf("%s\n… (%d characters left out) …\n%s", s[:head], total-limit, s[tail:]), true
}

// Hint tells the model where the result is (T-28), which may itself be cut: formatted is the text
// in the variable, final what Truncate made of it.
func Hint(variable, formatted, final string, truncated bool) string {
	if !truncated {
		return fmt.Sprintf("\n\n[this result is also kept in variable %s: $VAR_REF{{%s}}]", variable, variable)
	}
	full := utf8.RuneCountInString(formatted)
	start, omitted := gap(formatted, final)
	return fmt.Sprintf("\n\n[truncated: %d of %d characters are shown. All of them are in variable %s. "+
		"Use it in an argument as $VAR_REF{{%s}}, or read the part left out: "+
		"ReadVar {\"name\": %q, \"start\": %d, \"length\": %d}]",
		full-omitted, full, variable, variable, variable, start, min(omitted, 2000))
}

// gap finds the part of the formatted text that the final text leaves out: after
// what both have in front, before what both have at the end.
func gap(formatted, final string) (start, length int) {
	head := 0
	for head < len(formatted) && head < len(final) && formatted[head] == final[head] {
		head++
	}
	for head > 0 && head < len(formatted) && !utf8.RuneStart(formatted[head]) {
		head--
	}
	tail := 0
	for tail < len(formatted)-head && tail < len(final)-head &&
		formatted[len(formatted)-1-tail] == final[len(final)-1-tail] {
		tail++
	}
	for tail > 0 && !utf8.RuneStart(formatted[len(formatted)-tail]) {
		tail--
	}
	return utf8.RuneCountInString(formatted[:head]), utf8.RuneCountInString(formatted[head : len(formatted)-tail])
}

// outputLimit finds the limit that holds. The argument limit is the hidden one
// only for tools whose schema has no limit of its own (CX-20); _limit is always.
func outputLimit(spec Spec, args json.RawMessage) int {
	limit := DefaultOutputLimit
	if spec.OutputLimit != 0 {
		limit = spec.OutputLimit
	}
	if !strings.Contains(string(args), "limit") {
		return limit
	}
	var given struct {
		Limit  *int `json:"limit"`
		Hidden *int `json:"_limit"`
	}
	if json.Unmarshal(args, &given) != nil {
		return limit
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(spec.Schema, &schema) != nil {
		schema.Properties = nil
	}
	if _, own := schema.Properties["limit"]; !own && given.Limit != nil {
		limit = *given.Limit
	}
	if _, own := schema.Properties["_limit"]; !own && given.Hidden != nil {
		limit = *given.Hidden
	}
	return limit
}

func runTruncater(t Truncater, formatted string, args json.RawMessage) (text string, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return strings.ToValidUTF8(t.Truncate(formatted, args), "\uFFFD"), true
}

// runeOffset returns the byte offset of the n-th character.
func runeOffset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
