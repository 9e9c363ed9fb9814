package route

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// Read decodes the body of a request into v, a pointer to a struct. A field without
// omitempty must be there and not be null, which is also what the document says. An
// empty body is an empty object. Memory is taken from the budget before it is used, and is
// held until the request has been answered.
func Read(r *http.Request, v any) error { return ReadUpTo(r, v, MaxBody) }

// ReadUpTo is Read of a body that may have another number of bytes.
func ReadUpTo(r *http.Request, v any, most int64) error {
	body, err := readBody(r, most)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	need := heldAgain*len(body) + valueBytes*strictjson.Values(body)
	if err := budget.Of(r.Context()).Take(int64(need)); err != nil {
		return err
	}
	defer budget.Of(r.Context()).Compute(r.Context())()
	if err := strictjson.Check(body); err != nil {
		return BadRequest("malformed JSON: " + err.Error())
	}
	if err := exactFields(body, reflect.TypeOf(v).Elem(), "", true); err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return BadRequest(fmt.Sprintf("%s must be %s, not %s", cmp.Or(wrong.Field, "the body"), inWords(wrong.Type),
				wrong.Value))
		}
		return BadRequest("malformed JSON: " + err.Error())
	}
	return nil
}

// inWords says what a type takes in the words of JSON: who calls does not know Go.
func inWords(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "string"
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Map, reflect.Struct:
		return "object"
	case reflect.Float32, reflect.Float64:
		return "number"
	}
	return "whole number"
}

// exactFields refuses fields that the struct does not have in this spelling, which
// encoding/json would match in any case, and, in what is the request's own, an object
// that lacks a field. A type of another package may say in its tags what it writes.
func exactFields(raw json.RawMessage, t reflect.Type, path string, own bool) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	raw = bytes.TrimSpace(raw)
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && raw[0] == '[':
		i := -1
		return strictjson.Fields(raw, func(_ string, item json.RawMessage) error {
			i++
			return exactFields(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i), own)
		})
	case t.Kind() != reflect.Struct:
		return nil // the type error is reported by Unmarshal
	case raw[0] != '{' && path == "":
		return BadRequest("the body must be a JSON object")
	case raw[0] != '{':
		return nil
	}
	fields := map[string]json.RawMessage{}
	err := strictjson.Fields(raw, func(name string, value json.RawMessage) error {
		fields[name] = value
		return nil
	})
	if err != nil {
		return err
	}
	known := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) { // those of embedded structs too
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		known[name] = f.Type
		given, ok := fields[name]
		if own && options == "" && len(f.Index) == 1 && (!ok || string(given) == "null") {
			return BadRequest(strings.TrimPrefix(path+"."+name, ".") + " is missing")
		}
	}
	for name, value := range fields {
		ft, ok := known[name]
		if !ok {
			return unknownField(strings.TrimPrefix(path+"."+name, "."), known)
		}
		list := ft.Kind() == reflect.Slice // of things that are the request's own
		if err := exactFields(value, ft, strings.TrimPrefix(path+"."+name, "."), own && list); err != nil {
			return err
		}
	}
	return nil
}

func unknownField(name string, known map[string]reflect.Type) error {
	var names []string
	for n := range known {
		names = append(names, n)
	}
	slices.Sort(names)
	e := BadRequest(fmt.Sprintf("unknown field %q", name))
	e.Said.Hint = "fields are: " + strings.Join(names, ", ")
	return e
}

// CheckQuery refuses parameters that a route does not have, values of another type, and
// values that are given twice.
func CheckQuery(r *http.Request, known []Param) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return BadRequest("the query cannot be read: " + err.Error())
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(known, func(p Param) bool { return p.Name == name })
		if i < 0 {
			var names []string
			for _, p := range known {
				names = append(names, p.Name)
			}
			e := BadRequest(fmt.Sprintf("unknown parameter %q", name))
			e.Said.Hint = "parameters are: " + cmp.Or(strings.Join(names, ", "), "none")
			return e
		}
		if err := known[i].check(given[name]); err != nil {
			return err
		}
	}
	return nil
}

func (p Param) check(values []string) error {
	if len(values) > 1 && !p.Repeats {
		return BadRequest(fmt.Sprintf("%s is given twice", p.Name))
	}
	for _, v := range values {
		switch _, err := strconv.Atoi(v); {
		case v == "": // as if it were not there
		case p.Type == "integer" && err != nil:
			return BadRequest(fmt.Sprintf("%s is %q: want a number", p.Name, v))
		case p.Type == "boolean" && v != "true" && v != "false":
			return BadRequest(fmt.Sprintf("%s is %q: want true or false", p.Name, v))
		case p.Enum != nil && !slices.Contains(p.Enum, v):
			return BadRequest(fmt.Sprintf("%s is %q: want %s", p.Name, v, strings.Join(p.Enum, ", ")))
		}
	}
	return nil
}
