// Package jsonout writes JSON without building it first.
//
// [Write] writes what [json.Marshal] returns, but without escapes for HTML, and in pieces: a text
// of 16 MiB takes no memory beside the text and one buffer. Marshal builds a copy that is up to six
// times as long, and holds it twice.
//
//	err := jsonout.Write(w, map[string]any{"data": result})
//
// If Write fails, w may have a part of the text. That part is not valid JSON, and the caller cannot
// send another answer. The error is of w, of a Text, or of a value that has no JSON, such as NaN or
// a RawMessage that is not valid. If w is a [bufio.Writer] with a buffer of at least 32 KiB, Write
// uses it and the caller must flush it. Goroutines may call Write at the same time, each with its own w.
//
// A [Text] is a string that is made while it is written. [Chars] is a string that lies in bytes. A
// type with a method MarshalJSON or MarshalText is marshalled as a whole, so it must be small; so
// is a map whose keys are no plain strings. A [json.RawMessage] is written as it stands, spaces
// included; if it has several lines, it is compacted to one.
//
// Write panics for two things that it does not support: the option string in tags, and two fields
// of one name. A test of package api shows that its answers have neither; those of a part are shown
// by the tests of its routes. It does not end for a value that contains itself.
//
// A new kind of value is a case of value in this file. It needs a field of zoo in the tests, which
// compare each with what Marshal returns.
package jsonout

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Text is a string that comes in pieces, none of which ends within a character. An error
// ends what is written.
type Text iter.Seq2[string, error]

// pieceBytes is how much is written at once.
const pieceBytes = 32 << 10

// Chars are bytes that are written as a string.
type Chars []byte

// Write writes v to w. After an error w has nothing of the text, or a part of it. Into a
// [bufio.Writer] it writes without another buffer, and leaves the last piece to its owner.
func Write(w io.Writer, v any) error {
	if own, ok := w.(*bufio.Writer); ok && own.Size() >= pieceBytes {
		return encoder{own}.value(reflect.ValueOf(v))
	}
	e := encoder{buffers.Get().(*bufio.Writer)}
	defer buffers.Put(e.w)
	e.w.Reset(w)
	if err := e.value(reflect.ValueOf(v)); err != nil {
		return err
	}
	return e.w.Flush()
}

var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, pieceBytes) }}

// encoder writes values; the writer keeps the first error, which Flush returns.
type encoder struct{ w *bufio.Writer }

var (
	textType      = reflect.TypeFor[Text]()
	charsType     = reflect.TypeFor[Chars]()
	rawType       = reflect.TypeFor[json.RawMessage]()
	numberType    = reflect.TypeFor[json.Number]()
	jsonType      = reflect.TypeFor[json.Marshaler]()
	marshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

func (e encoder) value(v reflect.Value) error {
	if !v.IsValid() {
		return e.raw("null")
	}
	t := v.Type()
	switch {
	case t == rawType:
		return e.message(v.Bytes())
	case t == textType:
		return e.pieces(v.Interface().(Text))
	case t == charsType:
		e.w.WriteByte('"')
		e.inner(v.Bytes())
		return e.w.WriteByte('"')
	case t == numberType, marshals(v):
		return e.whole(v)
	}
	switch v.Kind() {
	case reflect.String:
		return e.str(v.String())
	case reflect.Bool:
		return e.raw(strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return e.raw(strconv.FormatInt(v.Int(), 10))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return e.raw(strconv.FormatUint(v.Uint(), 10))
	case reflect.Interface, reflect.Pointer:
		return e.value(v.Elem()) // of nil: not valid
	case reflect.Struct:
		return e.object(v)
	case reflect.Map:
		return e.mapping(v)
	case reflect.Slice, reflect.Array:
		return e.list(v)
	}
	return e.whole(v) // floats, and what cannot be encoded
}

// marshals reports whether a value encodes itself.
func marshals(v reflect.Value) bool {
	t := v.Type()
	if t.Implements(jsonType) || t.Implements(marshalerType) {
		return true
	}
	if !v.CanAddr() || t.Kind() == reflect.Pointer {
		return false
	}
	p := reflect.PointerTo(t)
	return p.Implements(jsonType) || p.Implements(marshalerType)
}

func (e encoder) raw(s string) error {
	_, err := e.w.WriteString(s)
	return err
}

// whole writes a value that is small, or encodes itself.
func (e encoder) whole(v reflect.Value) error {
	if v.CanAddr() {
		v = v.Addr()
	}
	var out bytes.Buffer
	plain := json.NewEncoder(&out)
	plain.SetEscapeHTML(false)
	err := plain.Encode(v.Interface())
	if err == nil {
		_, err = e.w.Write(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
	}
	return err
}

func (e encoder) message(b []byte) error {
	if b == nil {
		return e.raw("null")
	}
	if !json.Valid(b) {
		return errors.New("a message is not valid JSON")
	}
	if bytes.IndexByte(b, '\n') >= 0 {
		var line bytes.Buffer
		if err := json.Compact(&line, b); err != nil {
			return err
		}
		b = line.Bytes()
	}
	_, err := e.w.Write(b)
	return err
}

func (e encoder) object(v reflect.Value) error {
	sep := byte('{')
	for _, f := range fieldsOf(v.Type()) {
		x, ok := f.in(v)
		if !ok {
			continue
		}
		e.w.WriteByte(sep)
		e.w.WriteString(f.name)
		if err := e.value(x); err != nil {
			return err
		}
		sep = ','
	}
	if sep == '{' {
		e.w.WriteByte(sep)
	}
	return e.w.WriteByte('}')
}

func (e encoder) mapping(v reflect.Value) error {
	key := v.Type().Key()
	if key.Kind() != reflect.String || key.Implements(marshalerType) {
		return e.whole(v)
	}
	if v.IsNil() {
		return e.raw("null")
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	e.w.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			e.w.WriteByte(',')
		}
		e.str(k.String())
		e.w.WriteByte(':')
		if err := e.value(v.MapIndex(k)); err != nil {
			return err
		}
	}
	return e.w.WriteByte('}')
}

func (e encoder) list(v reflect.Value) error {
	if v.Kind() == reflect.Slice {
		if v.IsNil() {
			return e.raw("null")
		}
		if elem := v.Type().Elem(); elem.Kind() == reflect.Uint8 && !reflect.PointerTo(elem).Implements(jsonType) &&
			!reflect.PointerTo(elem).Implements(marshalerType) {
			return e.bytes(v.Bytes())
		}
	}
	e.w.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			e.w.WriteByte(',')
		}
		if err := e.value(v.Index(i)); err != nil {
			return err
		}
	}
	return e.w.WriteByte(']')
}

func (e encoder) bytes(b []byte) error {
	e.w.WriteByte('"')
	enc := base64.NewEncoder(base64.StdEncoding, e.w)
	if _, err := enc.Write(b); err != nil {
		return err
	}
	if err := enc.Close(); err != nil {
		return err
	}
	return e.w.WriteByte('"')
}

// str writes a string as encoding/json does: what JavaScript would take for the end of a line is
// escaped too, and bytes that are not UTF-8 become U+FFFD.
func (e encoder) str(s string) error {
	e.w.WriteByte('"')
	e.inner([]byte(s))
	return e.w.WriteByte('"')
}

func (e encoder) pieces(all Text) error {
	e.w.WriteByte('"')
	for piece, err := range all {
		if err != nil {
			return err
		}
		if err := e.inner([]byte(piece)); err != nil { // whoever reads them may be gone
			return err
		}
	}
	return e.w.WriteByte('"')
}

// field is one field of a struct on the wire.
type field struct {
	name      string // quoted, with its colon
	index     []int
	omitEmpty bool
	omitZero  bool
}

// in returns the field of v, unless it is left out.
func (f field) in(v reflect.Value) (reflect.Value, bool) {
	x, err := v.FieldByIndexErr(f.index)
	if err != nil { // of an embedded pointer that is nil
		return x, false
	}
	if f.omitZero {
		if z, ok := x.Interface().(interface{ IsZero() bool }); ok && (x.Kind() != reflect.Pointer || !x.IsNil()) {
			if z.IsZero() {
				return x, false
			}
		} else if x.IsZero() {
			return x, false
		}
	}
	return x, !f.omitEmpty || !empty(x)
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

var known sync.Map // reflect.Type → []field

func fieldsOf(t reflect.Type) []field {
	if all, ok := known.Load(t); ok {
		return all.([]field)
	}
	var all []field
	for _, x := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(x.Tag.Get("json"), ",")
		if x.Tag.Get("json") == "-" || !x.IsExported() || x.Anonymous && name == "" && structural(x.Type) ||
			!promoted(t, x.Index) {
			continue
		}
		f := field{index: x.Index, name: strconv.Quote(cmp.Or(name, x.Name)) + ":"}
		for o := range strings.SplitSeq(options, ",") {
			switch o {
			case "omitempty":
				f.omitEmpty = true
			case "omitzero":
				f.omitZero = true
			case "string":
				panic("not supported: the option string of " + t.String() + "." + x.Name)
			}
		}
		if slices.ContainsFunc(all, func(o field) bool { return o.name == f.name }) {
			panic("not supported: two fields " + f.name + " of " + t.String())
		}
		all = append(all, f)
	}
	known.Store(t, all)
	return all
}

// promoted reports whether no struct that the field is embedded in has a name of its own.
func promoted(t reflect.Type, index []int) bool {
	for i := 1; i < len(index); i++ {
		if name, _, _ := strings.Cut(t.FieldByIndex(index[:i]).Tag.Get("json"), ","); name != "" {
			return false
		}
	}
	return true
}

// structural reports whether an embedded type lends its fields to the struct.
func structural(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}
