package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/tool"
)

// Bounds of a request body.
const (
	maxBody  = 8 << 20
	maxDepth = 200 // of nested JSON values
)

// read decodes the body of a request into v, a pointer to a struct. An empty body
// is an empty object.
func read(r *http.Request, v any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return httpError{http.StatusRequestTimeout, &tool.Error{Code: "request_timeout", Msg: "the body did not arrive in time"}}
	}
	if err != nil {
		return badRequest("read the body: " + err.Error())
	}
	if len(body) > maxBody {
		return httpError{http.StatusRequestEntityTooLarge, &tool.Error{Code: "too_large", Msg: fmt.Sprintf("the body is larger than %d bytes", maxBody), Hint: "write large texts to a file or a variable and refer to it"}}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if !utf8.Valid(body) {
		return badRequest("the body is not valid UTF-8")
	}
	if err := checkKeys(json.NewDecoder(bytes.NewReader(body))); err != nil {
		return badRequest("malformed JSON: " + err.Error())
	}
	if err := exactFields(body, reflect.TypeOf(v).Elem(), ""); err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return badRequest(fmt.Sprintf("%s must be %s, not %s", or(wrong.Field, "the body"), wrong.Type, wrong.Value))
		}
		return badRequest("malformed JSON: " + err.Error())
	}
	return nil
}

// checkKeys refuses duplicate keys and deep nesting anywhere in one JSON value,
// and anything after it. encoding/json takes the last of two equal keys, so that
// two readers of one body may see different calls.
func checkKeys(d *json.Decoder) error {
	type level struct {
		object bool
		key    bool // the next token is a key
		seen   map[string]bool
	}
	var stack []level
	for {
		t, err := d.Token()
		if err == io.EOF && len(stack) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if n := len(stack); n > 0 && stack[n-1].object {
			top := &stack[n-1]
			if key, ok := t.(string); ok && top.key {
				if top.seen[key] {
					return fmt.Errorf("duplicate key %q", key)
				}
				top.seen[key] = true
			}
			top.key = !top.key
		}
		switch t {
		case json.Delim('{'):
			stack = append(stack, level{object: true, key: true, seen: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		if len(stack) > maxDepth {
			return fmt.Errorf("nested deeper than %d", maxDepth)
		}
		if len(stack) == 0 {
			if _, err := d.Token(); err != io.EOF {
				return errors.New("more than one value")
			}
			return nil
		}
	}
}

// exactFields refuses fields that the struct does not have in this spelling;
// encoding/json would match them in any case.
func exactFields(raw json.RawMessage, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return nil // the type error is reported by Unmarshal
		}
		for i, item := range items {
			if err := exactFields(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	case t.Kind() != reflect.Struct:
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		if path == "" {
			return badRequest("the body must be a JSON object")
		}
		return nil
	}
	known := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) { // those of embedded structs too
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			known[name] = f.Type
		}
	}
	for name, value := range fields {
		ft, ok := known[name]
		if !ok {
			return unknownField(strings.TrimPrefix(path+"."+name, "."), known)
		}
		if err := exactFields(value, ft, strings.TrimPrefix(path+"."+name, ".")); err != nil {
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
	e := badRequest(fmt.Sprintf("unknown field %q", name))
	e.said.Hint = "fields are: " + strings.Join(names, ", ")
	return e
}

// httpError is a failure with its HTTP status.
type httpError struct {
	status int
	said   *tool.Error
}

func (e httpError) Error() string { return e.said.Msg }
func (e httpError) Unwrap() error { return e.said }

func badRequest(msg string) httpError {
	return httpError{http.StatusBadRequest, &tool.Error{Code: "validation_error", Msg: msg}}
}

func forbidden(code, msg, hint string) httpError {
	return httpError{http.StatusForbidden, &tool.Error{Code: code, Msg: msg, Hint: hint}}
}

func missing(code, msg string) httpError {
	return httpError{http.StatusNotFound, &tool.Error{Code: code, Msg: msg}}
}

// statuses says which HTTP status a stable code has, where it is not 400.
var statuses = map[string]int{
	"session_not_found":  http.StatusNotFound,
	"call_not_held":      http.StatusNotFound,
	"not_found":          http.StatusNotFound,
	"variable_not_found": http.StatusNotFound,
	"tool_not_found":     http.StatusNotFound,
	"group_not_found":    http.StatusNotFound,
	"session_exists":     http.StatusConflict,
	"too_many_sessions":  http.StatusTooManyRequests,
	"already_decided":    http.StatusConflict,
	"expired":            http.StatusConflict,
	"variable_protected": http.StatusConflict,
	"record_failed":      http.StatusServiceUnavailable,
}

func writeError(w http.ResponseWriter, err error) {
	var he httpError
	var te *tool.Error
	var retry retryError
	if errors.As(err, &retry) {
		retry.header(w.Header())
	}
	switch {
	case errors.As(err, &he):
		write(w, he.status, map[string]any{"error": he.said})
	case errors.As(err, &te):
		status, ok := statuses[te.Code]
		if !ok {
			status = http.StatusBadRequest
		}
		write(w, status, map[string]any{"error": te})
	default:
		write(w, http.StatusInternalServerError, map[string]any{"error": &tool.Error{Code: "internal", Msg: err.Error()}})
	}
}

func write(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the answer cannot be encoded"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
