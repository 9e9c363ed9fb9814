package scopes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// parsePath splits a name such as a.b or a["x.y"] into the key of a variable and a path into its value (S-62). A
// name without a path is a key.
func parsePath(name string) (key string, path []string, err error) {
	bad := func() (string, []string, error) {
		return "", nil, macroError{"macro_parse_failed", fmt.Sprintf(
			"%q is no path: want a.b or a[\"b\"]; there are no indexes, wildcards or filters", clip(name))}
	}
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		return name, nil, nil
	}
	if end == 0 {
		return bad()
	}
	key, rest := name[:end], name[end:]
	for rest != "" {
		var part string
		if after, ok := strings.CutPrefix(rest, "."); ok {
			end := strings.IndexAny(after, ".[")
			if end < 0 {
				end = len(after)
			}
			part, rest = after[:end], after[end:]
			if part == "" || strings.ContainsAny(part, "*]") {
				return bad()
			}
		} else {
			if len(rest) < 4 || rest[1] != '"' && rest[1] != '\'' {
				return bad()
			}
			end := strings.Index(rest[2:], rest[1:2]+"]")
			if end < 1 {
				return bad()
			}
			part, rest = rest[2:2+end], rest[2+end+2:]
			if rest != "" && rest[0] != '.' && rest[0] != '[' {
				return bad()
			}
		}
		path = append(path, part)
	}
	return key, path, nil
}

// fields returns the fields of an object.
func fields(value json.RawMessage) (map[string]json.RawMessage, error) {
	var object map[string]json.RawMessage
	if value = bytes.TrimSpace(value); len(value) == 0 || value[0] != '{' {
		return nil, macroError{"macro_arg_type_invalid", "the path leads through a value that is no object"}
	}
	err := json.Unmarshal(value, &object)
	return object, err
}

// dig returns the value at the end of a path, or nil.
func dig(value json.RawMessage, path []string) (json.RawMessage, error) {
	for _, name := range path {
		if value == nil {
			return nil, nil
		}
		object, err := fields(value)
		if err != nil {
			return nil, err
		}
		value = object[name]
	}
	return value, nil
}

// setAt returns a value with the value at the end of a path replaced; nil removes it. It creates missing objects
// (S-64).
func setAt(value json.RawMessage, path []string, to json.RawMessage) (json.RawMessage, error) {
	if len(path) == 0 {
		return to, nil
	}
	object := map[string]json.RawMessage{}
	if value != nil {
		var err error
		if object, err = fields(value); err != nil {
			return nil, err
		}
	}
	inner, err := setAt(object[path[0]], path[1:], to)
	if err != nil {
		return nil, err
	}
	if inner == nil {
		delete(object, path[0])
	} else {
		object[path[0]] = inner
	}
	return json.Marshal(object)
}

// textOf returns a value as macros insert it: a string as it is, any other value as stable JSON (S-65).
func textOf(value json.RawMessage) (string, error) {
	if value == nil {
		return "", nil
	}
	var text string
	if value[0] == '"' {
		err := json.Unmarshal(value, &text)
		return text, err
	}
	stable, err := strictjson.Canonical(value)
	return string(stable), err
}
