package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// explain finds the usual mistakes and says them in terms of the arguments; the
// schema library speaks of the schema. It returns "" when it finds none.
func explain(s *jsonschema.Schema, value any, path string) (msg, hint string) {
	if s == nil || s.Ref != "" {
		return "", ""
	}
	if want := types(s); len(want) > 0 && !hasType(want, value) {
		return fmt.Sprintf("%s is %s, want %s", place(path), kind(value), strings.Join(want, " or ")),
			typeHint(want, value)
	}
	if len(s.Enum) > 0 && !isOneOf(s.Enum, value) {
		return fmt.Sprintf("%s is %s, which is not one of the allowed values", place(path), short(value)),
			"use one of " + list(s.Enum)
	}
	if n, ok := value.(float64); ok {
		if s.Minimum != nil && n < *s.Minimum {
			return fmt.Sprintf("%s is %v, the least is %v", place(path), n, *s.Minimum), "raise it"
		}
		if s.Maximum != nil && n > *s.Maximum {
			return fmt.Sprintf("%s is %v, the most is %v", place(path), n, *s.Maximum), "lower it"
		}
	}
	switch value := value.(type) {
	case map[string]any:
		return explainObject(s, value, path)
	case []any:
		for i, item := range value {
			if msg, hint := explain(s.Items, item, path+"["+strconv.Itoa(i)+"]"); msg != "" {
				return msg, hint
			}
		}
	}
	return "", ""
}

func explainObject(s *jsonschema.Schema, object map[string]any, path string) (msg, hint string) {
	known := slices.Sorted(maps.Keys(s.Properties))
	given := slices.Sorted(maps.Keys(object))
	if closed(s, path == "") {
		for _, name := range given {
			if _, ok := s.Properties[name]; !ok {
				return fmt.Sprintf("unknown field %q", join(path, name)), fieldHint(name, known)
			}
		}
	}
	for _, name := range s.Required {
		if _, ok := object[name]; !ok {
			return fmt.Sprintf("field %q is missing", join(path, name)), "add it: " + describe(s.Properties[name])
		}
	}
	for _, name := range given {
		if msg, hint := explain(s.Properties[name], object[name], join(path, name)); msg != "" {
			return msg, hint
		}
	}
	return "", ""
}

// closed reports whether unknown fields are refused: where the schema says so,
// and at the top also where it says nothing.
func closed(s *jsonschema.Schema, top bool) bool {
	if extra := s.AdditionalProperties; extra != nil {
		return extra.Not != nil // how the library reads false
	}
	return top && s.Ref == "" && s.DynamicRef == "" &&
		len(s.PatternProperties)+len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) == 0 &&
		s.If == nil && s.UnevaluatedProperties == nil
}

func types(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

func hasType(want []string, value any) bool {
	for _, w := range want {
		got := typeOf(value)
		if w == got || w == "number" && got == "integer" {
			return true
		}
	}
	return false
}

func typeOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func kind(value any) string {
	t := typeOf(value)
	if strings.ContainsAny(t[:1], "aio") {
		return "an " + t
	}
	if t == "null" {
		return t
	}
	return "a " + t
}

// typeHint recognises the slips of models: quoted numbers and lists.
func typeHint(want []string, value any) string {
	text, isText := value.(string)
	switch {
	case isText && hasType(want, []any{}):
		return "send a JSON array, not text that holds one"
	case isText && hasType(want, map[string]any{}):
		return "send a JSON object, not text that holds one"
	case isText && (hasType(want, 1.0) || hasType(want, true)):
		return "write " + short(text) + " without quotes"
	case len(want) == 1 && want[0] == "string":
		return "send a string in quotes"
	}
	return "send " + strings.Join(want, " or ")
}

func fieldHint(name string, known []string) string {
	plain := func(n string) string { return strings.ToLower(strings.ReplaceAll(n, "_", "")) }
	for _, k := range known {
		if plain(k) == plain(name) {
			return fmt.Sprintf("use %q", k)
		}
	}
	if len(known) == 0 {
		return "leave it out: the tool takes no arguments"
	}
	return "leave it out; known fields: " + strings.Join(known, ", ")
}

func describe(s *jsonschema.Schema) string {
	if s == nil {
		return "it is required"
	}
	parts := strings.Join(types(s), " or ")
	if s.Description != "" {
		parts = strings.TrimPrefix(parts+": "+s.Description, ": ")
	}
	if parts == "" {
		return "it is required"
	}
	return parts
}

func isOneOf(allowed []any, value any) bool {
	for _, a := range allowed {
		if fmt.Sprintf("%T %v", a, a) == fmt.Sprintf("%T %v", value, value) {
			return true
		}
	}
	return false
}

func list(values []any) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts, ", ")
}

func short(value any) string {
	text := fmt.Sprint(value)
	if r := []rune(text); len(r) > 40 {
		return strconv.Quote(string(r[:40]) + "…")
	}
	return strconv.Quote(text)
}

func place(path string) string {
	if path == "" {
		return "the value"
	}
	return "field " + strconv.Quote(path)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
