package scopes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of one preview (S-69).
const (
	macroText   = 32768 // characters
	macroDepth  = 16
	macroSteps  = 256
	macroWrites = 128
)

// warning is a macro that could not be evaluated. Its text stays unchanged.
type warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Macro   string `json:"macro_name,omitempty"`
	Raw     string `json:"raw_text,omitempty"`
}

// mutation is a write of a macro.
type mutation struct {
	Kind  string  `json:"kind"`  // set or delete
	Scope Scope   `json:"scope"` // branch or global
	Key   string  `json:"key"`
	Value *string `json:"value"` // a string as it is, other values as JSON; null for delete
}

// trace is one evaluated macro.
type trace struct {
	Macro string `json:"macro_name"`
	Raw   string `json:"raw_text"`
	Text  string `json:"text"`
}

// macroRun evaluates the macros of one text. Later macros of the text see the writes of earlier ones; nothing else
// does.
type macroRun struct {
	views    map[Scope]*macroView // Branch is for the local view, Global for the global one
	warnings []warning
	writes   []mutation
	names    []string // of the variables that macros read
	traces   []trace
	steps    int
	chars    int                     // that macros produced
	take     func(bytes int64) error // takes memory until the answer was written; its error ends the run
}

// macroView is what macros of one view see: stored values, and over them the writes of this text.
type macroView struct {
	load   func(key string) (json.RawMessage, error) // nil: the variable does not exist
	staged map[string]json.RawMessage                // nil: deleted
}

func (m *macroView) get(key string) (json.RawMessage, error) {
	if value, ok := m.staged[key]; ok {
		return value, nil
	}
	return m.load(key)
}

// macroError is the reason why a macro stays unchanged.
type macroError struct{ code, msg string }

func (e macroError) Error() string { return e.msg }

// macro is a kind of macro.
type macro struct {
	name   string
	scope  Scope
	params int // number of parameters after the name
	run    func(r *macroRun, scope Scope, args []string) (string, error)
}

// macros lists the kinds. {{.name}} means getvar, and {{$name}} means getglobalvar.
var macros = []macro{
	{"getvar", Branch, 1, (*macroRun).get},
	{"getglobalvar", Global, 1, (*macroRun).get},
	{"setvar", Branch, 2, (*macroRun).set},
	{"setglobalvar", Global, 2, (*macroRun).set},
	{"deletevar", Branch, 1, (*macroRun).del},
	{"deleteglobalvar", Global, 1, (*macroRun).del},
}

// text evaluates a text, inner macros before outer ones. It returns an error only if the database fails.
func (r *macroRun) text(s string, depth int) (string, error) {
	var out strings.Builder
	for {
		start := strings.Index(s, "{{")
		if start < 0 {
			out.WriteString(s)
			return out.String(), nil
		}
		out.WriteString(s[:start])
		end := closing(s[start:])
		if end < 0 {
			r.warn(macroError{"macro_parse_failed", "{{ without }}"}, "", s[start:])
			out.WriteString(s[start:])
			return out.String(), nil
		}
		raw := s[start : start+end]
		text, err := r.one(raw, depth)
		if said, ok := errors.AsType[macroError](err); ok {
			r.warn(said, macroName(raw), raw)
			text, err = raw, nil
		}
		if err != nil {
			return "", err
		}
		out.WriteString(text)
		s = s[start+end:]
	}
}

// closing returns the offset of the end of the macro that a text begins with, or -1.
func closing(s string) int {
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch s[i : i+2] {
		case "{{":
			depth++
			i++
		case "}}":
			depth--
			i++
			if depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

func macroName(raw string) string {
	name, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(raw, "{{"), "}}"), "::")
	return clip(strings.TrimSpace(name))
}

// one evaluates one macro, {{…}}.
func (r *macroRun) one(raw string, depth int) (string, error) {
	if depth >= macroDepth {
		return "", macroError{"macro_limit_exceeded", fmt.Sprintf("macros are nested deeper than %d", macroDepth)}
	}
	if r.steps >= macroSteps {
		return "", macroError{"macro_limit_exceeded", fmt.Sprintf("the text has more than %d macros", macroSteps)}
	}
	r.steps++
	inner, err := r.text(raw[2:len(raw)-2], depth+1)
	if err != nil {
		return "", err
	}
	m, args, err := parseMacro(inner)
	if err != nil {
		return "", err
	}
	text, err := m.run(r, m.scope, args)
	if err != nil {
		return "", err
	}
	if r.chars += utf8.RuneCountInString(text); r.chars > macroText {
		return "", macroError{"macro_limit_exceeded", fmt.Sprintf("macros make more than %d characters", macroText)}
	}
	r.traces = append(r.traces, trace{m.name, clip(raw), clip(text)})
	return text, nil
}

// parseMacro splits the text between {{ and }} into a macro and its arguments. Inner macros were replaced before, so
// any part of the text may come from a variable.
func parseMacro(inner string) (macro, []string, error) {
	inner = strings.TrimSpace(inner)
	if name, ok := strings.CutPrefix(inner, "."); ok {
		inner = "getvar::" + name
	} else if name, ok := strings.CutPrefix(inner, "$"); ok {
		inner = "getglobalvar::" + name
	}
	name, rest, _ := strings.Cut(inner, "::")
	i := slices.IndexFunc(macros, func(m macro) bool { return m.name == strings.TrimSpace(name) })
	if i < 0 {
		return macro{}, nil, macroError{"macro_unknown", fmt.Sprintf("there is no macro %q", clip(name))}
	}
	args := strings.SplitN(rest, "::", macros[i].params)
	args[0] = strings.TrimSpace(args[0])
	if len(args) < macros[i].params || args[0] == "" {
		return macro{}, nil, macroError{"macro_parse_failed", fmt.Sprintf("%s takes %d arguments, each behind ::",
			macros[i].name, macros[i].params)}
	}
	return macros[i], args, nil
}

func (r *macroRun) warn(e macroError, name, raw string) {
	r.warnings = append(r.warnings, warning{e.code, e.msg, name, clip(raw)})
}

func (r *macroRun) get(scope Scope, args []string) (string, error) {
	value, _, path, err := r.find(scope, args[0])
	if err != nil {
		return "", err
	}
	if value, err = dig(value, path); err != nil {
		return "", err
	}
	return textOf(value)
}

// find returns the value of a name: of the variable with the whole name as its key, or otherwise of the variable
// that the path begins with (S-63).
func (r *macroRun) find(scope Scope, name string) (value json.RawMessage, key string, path []string, err error) {
	if !slices.Contains(r.names, name) {
		r.names = append(r.names, name)
	}
	value, err = r.views[scope].get(name)
	if err != nil || value != nil {
		return value, name, nil, err
	}
	key, path, err = parsePath(name)
	if err == nil && len(path) > 0 {
		value, err = r.views[scope].get(key)
	}
	return value, key, path, err
}

func (r *macroRun) set(scope Scope, args []string) (string, error) {
	value, key, path, err := r.find(scope, args[0])
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(args[1])
	if err != nil {
		return "", err
	}
	if value, err = setAt(value, path, text); err != nil {
		return "", err
	}
	return "", r.stage("set", scope, key, value)
}

func (r *macroRun) del(scope Scope, args []string) (string, error) {
	value, key, path, err := r.find(scope, args[0])
	if err != nil || value == nil { // a variable that does not exist is not deleted
		return "", err
	}
	if len(path) == 0 {
		return "", r.stage("delete", scope, key, nil)
	}
	if found, err := dig(value, path); err != nil || found == nil {
		return "", err
	}
	if value, err = setAt(value, path, nil); err != nil {
		return "", err
	}
	return "", r.stage("set", scope, key, value)
}

// stage keeps a write for the rest of the text.
func (r *macroRun) stage(kind string, scope Scope, key string, value json.RawMessage) error {
	if len(r.writes) >= macroWrites {
		return macroError{"macro_limit_exceeded", fmt.Sprintf("the text writes more than %d times", macroWrites)}
	}
	if err := checkKey(key); err != nil {
		return macroError{"macro_parse_failed", err.Error()}
	}
	w := mutation{Kind: kind, Scope: scope, Key: key}
	if value != nil {
		// The value was copied, and its text becomes part of the answer: a write takes memory for both.
		if err := r.take(4 * int64(len(value))); err != nil {
			return err
		}
		text, err := textOf(value)
		if err != nil {
			return err
		}
		w.Value = &text
	}
	r.views[scope].staged[key] = value
	r.writes = append(r.writes, w)
	return nil
}
