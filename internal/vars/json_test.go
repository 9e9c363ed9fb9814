package vars

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// FuzzRewriteStrings compares with encoding/json: the same texts are valid, the
// same strings are found, and a rewritten text means what it should.
func FuzzRewriteStrings(f *testing.F) {
	for _, seed := range []string{
		`{"a":"b","c":["d",{"e":"f"}],"g":1e400}`, `"\"\\"`, `"\\\""`, `{"a" "b"}`, `]`, `"`, `{"a":"`, "\"\x01\"",
		`"\q"`, "\"\xff\"", `[,"a"]`, `{"a":"b"}"c"`, `"\ud800"`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var found []string
		same, fields, err := rewriteStrings(raw, func(_ place, s string) ([]byte, bool, error) {
			found = append(found, s)
			return nil, false, nil
		})
		if valid := json.Valid(raw) && utf8.Valid(raw); valid != (err == nil) {
			t.Fatalf("got error %v for valid %v", err, valid)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(same, raw) {
			t.Fatalf("unchanged strings changed the text to %q", same)
		}
		upper, _, err := rewriteStrings(raw,
			func(_ place, s string) ([]byte, bool, error) { return []byte("<" + s + ">\n\""), true, nil })
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		_, _, err = rewriteStrings(upper, func(_ place, s string) ([]byte, bool, error) {
			want = append(want, strings.TrimSuffix(strings.TrimPrefix(s, "<"), ">\n\""))
			return nil, false, nil
		})
		if err != nil || strings.Join(want, "\x00") != strings.Join(found, "\x00") {
			t.Fatalf("got %q from %q (%v), want %q", want, upper, err, found)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil {
			for _, field := range fields {
				if _, ok := object[field]; !ok {
					t.Fatalf("field %q is not in %s", field, raw)
				}
			}
		}
	})
}

func TestSpecialIsTheFirstByteToEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.ByteRange(0x1e, 0x90), 0, 40).Draw(t, "b")
		want := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' })
		if got := special(b); utf8.Valid(b) && got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

func FuzzReferences(f *testing.F) {
	for _, seed := range []string{
		"$VAR_REF{{a}}", "$VAR_REF{{a:1:2}}", "$VAR_REF{{a}}}", "$VAR_REF{{$VAR_REF{{a}}}}", "$VAR_REF{{}}",
		"$VAR_REF{{a:99999999999999999999}}",
		"$VAR_REF{{:1}}", "$VAR_REF{{a::1}}", "$VAR_REF{{a\n}}", "$VAR_REF{{a\xff}}",
		strings.Repeat("$VAR_REF{{", 50) + "a}}",
	} {
		f.Add(seed, "value")
	}
	f.Fuzz(func(t *testing.T, in, content string) {
		if !utf8.ValidString(content) {
			return
		}
		e := &expander{
			limit: 1 << 16, values: map[string]*value{},
			available: func() ([]string, error) { return nil, nil },
		}
		e.load = func(name string) (*value, error) {
			if what := wrongWithName(name); what != "" {
				t.Fatalf("asked for the name %q, which %s", name, what)
			}
			if len(name)%2 == 1 {
				return nil, nil
			}
			return &value{text: text{s: content, length: utf8.RuneCountInString(content)}, nested: true}, nil
		}
		out, _, err := e.expand(nil, in, nil)
		if err != nil {
			return
		}
		if len(out) > e.limit {
			t.Fatalf("%d bytes, more than the limit", len(out))
		}
		if utf8.ValidString(in) && !utf8.Valid(out) {
			t.Fatalf("a slice cut a character: %q", out)
		}
		if _, ok := nextReference(in, 0); !ok && string(out) != in {
			t.Fatalf("got %q for a text without references", out)
		}
	})
}

// A slice is the slice of the characters, whatever the marks do.
func TestV20_SlicesAreCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Repeat(rapid.StringOfN(rapid.RuneFrom([]rune("aé😀")), 0, 30, -1).Draw(t, "s"),
			rapid.IntRange(1, 200).Draw(t, "times"))
		runes := []rune(s)
		v := text{s: s, length: len(runes)}
		start := rapid.IntRange(0, len(runes)+5).Draw(t, "start")
		length := rapid.IntRange(-1, len(runes)+5).Draw(t, "length")
		from := min(start, len(runes))
		to := len(runes)
		if length >= 0 {
			to = min(from+length, len(runes))
		}
		if got, want := v.slice(start, length), string(runes[from:to]); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestV28_SlicingWhatIsNotText(t *testing.T) {
	e := &expander{limit: 100, values: map[string]*value{}, load: func(name string) (*value, error) {
		if name != "x" {
			return nil, nil
		}
		return &value{notText: true}, nil
	}}
	_, _, err := e.expand(nil, "$VAR_REF{{x:0:1}}", nil)
	if err == nil || err.Error() != "Cannot slice non-string variable" {
		t.Errorf("got %v", err)
	}
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "not_sliceable" {
		t.Errorf("got %+v", e)
	}
}

func TestQuotedLengthIsWhatAppendStringAppends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := []byte(rapid.String().Draw(t, "s"))
		if got, want := quotedLength(s), len(appendString(nil, s))-2; got != want {
			t.Errorf("%q: got %d, want %d", s, got, want)
		}
	})
}
