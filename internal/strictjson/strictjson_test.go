package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/strictjson"
)

func Example() {
	fmt.Println(strictjson.Check([]byte(`{"tool": "Read", "tool": "Bash"}`)))
	text, _ := strictjson.Canonical([]byte(`{"b": 1.0, "a": [true]}`))
	fmt.Printf("%s\n", text)
	// Output:
	// field "tool" is given twice
	// {"a":[true],"b":1.0}
}

func TestWhatReadersCouldUnderstandDifferently(t *testing.T) {
	for _, tt := range []struct{ name, text, plain, folded string }{
		{"one object", `{"a":{"b":[1,{"c":null}]},"c":2}`, "", ""},
		{"a field twice", `{"a":1,"a":2}`, `field "a" is given twice`, `field "a" is given twice`},
		{"a field twice, written otherwise", `{"a":1,"\u0061":2}`, `field "a" is given twice`, `field "a" is given twice`},
		{"a field twice below", `[{"a":{"b":1,"b":1}}]`, `field "b" is given twice`, `field "b" is given twice`},
		{"a field in two cases", `{"Block":1,"block":2}`, "", `field "block" is given twice`},
		{"a field in two cases of ASCII and beyond", `{"reason":1,"rea\u017fon":2}`, "", `field "reaſon" is given twice`},
		{"a field in three cases beyond ASCII", `{"\u03c2":1,"\u03c3":2}`, "", `field "σ" is given twice`},
		{"texts in a list", `{"k":["x","a","a"]}`, "", ""},
		{"two values", `{} {}`, "text after the end of the JSON value", "text after the end of the JSON value"},
		{"text behind", `{}x`, "text after the end of the JSON value", "text after the end of the JSON value"},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "not valid UTF-8", "not valid UTF-8"},
		{"half a pair", `["\ud800"]`, `\ud800 is half of a surrogate pair`, `\ud800 is half of a surrogate pair`},
		{"the other half", `{"\uDC00":1}`, `\uDC00 is half of a surrogate pair`, `\uDC00 is half of a surrogate pair`},
		{"two first halves", `["\ud83d\ud83d"]`, `\ud83d is half of a surrogate pair`, `\ud83d is half of a surrogate pair`},
		{"half a pair before another escape", `["\ud800\n"]`, `\ud800 is half of a surrogate pair`, `\ud800 is half of a surrogate pair`},
		{"a pair", `["\ud83d\ude00", "\\ud800", "\\\ud83d\ude00\u0041"]`, "", ""},
		{"half an object", `{"a":`, "not JSON", "not JSON"},
		{"nothing", ``, "not JSON", "not JSON"},
		{"200 levels in a list", strings.Repeat("[", 201) + strings.Repeat("]", 201), "", ""},
		{"more levels", strings.Repeat("[", 202) + strings.Repeat("]", 202), "nested deeper than 200 levels", "nested deeper than 200 levels"},
	} {
		for _, c := range []struct {
			want string
			got  error
		}{{tt.plain, strictjson.Check([]byte(tt.text))}, {tt.folded, strictjson.CheckFolded([]byte(tt.text))}} {
			if c.want == "" && c.got != nil || c.want != "" && (c.got == nil || !strings.HasPrefix(c.got.Error(), c.want)) {
				t.Errorf("%s: got %v, want %q", tt.name, c.got, c.want)
			}
		}
	}
}

// What is found by walking over the text is what a decoder finds.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{
		`{"b":1,"a":[1.0,"x"],"":{"c":{}}}`, ` [ "a\\\"b" , {"a\\":[]} ,-1e9, null,[[]]] `, `{"\u0061" : "\\\\"}`, `"x"`, `1`, `{}`, `[{}]`,
		`{"a":1,"\u0061":2}`, `[1,]`, `{"a":}`, `}`, `"`, `{"a":{"a":1},"b":{"a":1}}`, `[1e700]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw := []byte(text)
		err := strictjson.Check(raw)
		if got := decoded(raw); (got == nil) != (err == nil) {
			t.Fatalf("%q: Check says %v, a decoder %v", text, err, got)
		}
		if err != nil {
			return
		}
		var want, got []string
		var object map[string]json.RawMessage
		var list []json.RawMessage
		if json.Unmarshal(raw, &object) == nil {
			for name, value := range object {
				want = append(want, fmt.Sprintf("%q %s", name, bytes.TrimSpace(value)))
			}
		} else if json.Unmarshal(raw, &list) == nil {
			for _, value := range list {
				want = append(want, fmt.Sprintf("%q %s", "", bytes.TrimSpace(value)))
			}
		}
		err = strictjson.Fields(raw, func(name string, value json.RawMessage) error {
			got = append(got, fmt.Sprintf("%q %s", name, value))
			return nil
		})
		slices.Sort(want)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
		if n := strictjson.Values(raw); n < count(raw) {
			t.Errorf("%q: %d values, want at least %d", text, n, count(raw))
		}
	})
}

// decoded refuses what Check does, by way of a decoder.
func decoded(raw []byte) error {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return walk(d, 0)
}

func walk(d *json.Decoder, depth int) error {
	open, err := d.Token()
	if err != nil || open != json.Delim('{') && open != json.Delim('[') {
		return err
	}
	if depth == 201 {
		return errors.New("too deep")
	}
	seen := map[any]bool{}
	for d.More() {
		if open == json.Delim('{') {
			name, err := d.Token()
			if err != nil || seen[name] {
				return errors.New("twice")
			}
			seen[name] = true
		}
		if err := walk(d, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func count(raw []byte) int {
	n := 0
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		t, err := d.Token()
		if err != nil {
			return n
		}
		if t != json.Delim('}') && t != json.Delim(']') {
			n++
		}
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add(`{"b":1,"a":[1.0,"x"]}`)
	f.Add(`"\ud800"`)
	f.Fuzz(func(t *testing.T, text string) {
		one, err := strictjson.Canonical([]byte(text))
		if err != nil {
			return
		}
		again, err := strictjson.Canonical(one)
		if err != nil || string(again) != string(one) {
			t.Errorf("%q: got %q, then %q, %v", text, one, again, err)
		}
	})
}

func TestDecodeRefusesWhatItDoesNotKnow(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1}`: "", `{}`: "", `{"b": 1}`: "unknown field", `{"a": 1} {}`: "more than one JSON value", `{"a": "x"}`: "cannot unmarshal", `{`: "EOF",
	} {
		var v struct{ A int }
		err := strictjson.Decode([]byte(text), &v)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
