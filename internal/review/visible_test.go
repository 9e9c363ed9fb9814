package review

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// hostile is in every text: it must not come out as it is.
const hostile = "x\x1b[2J\u202e\u034f\u115f\u1160\u17b4\u2800\u3164\uffa0\ufe0f\U000e0100\u00a0\r\u009b"

// fill puts a text into every string that a value holds.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		if v.Type().Name() == "string" {
			v.SetString(text)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() != reflect.TypeFor[time.Time]() && v.Field(i).CanSet() {
				fill(v.Field(i), text)
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			raw, _ := json.Marshal(map[string]any{text: text, "command": text, "list": []string{text}}) // always encodes
			v.SetBytes(raw)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.SetMapIndex(key, value)
	}
}

// Whatever the model and others wrote into a question or a grant, a person is shown
// characters that can be seen, and lines that this program made.
func TestOnlyVisibleTextIsShown(t *testing.T) {
	var i approvals.Item
	var g approvals.Grant
	fill(reflect.ValueOf(&i).Elem(), hostile+"\n"+hostile)
	fill(reflect.ValueOf(&g).Elem(), hostile+"\n"+hostile)
	shown := map[string]string{}
	for _, kind := range []approvals.Type{approvals.TypeExecution, approvals.TypeResult, approvals.TypeQuestion, "other"} {
		for _, status := range []approvals.Status{approvals.StatusPending, approvals.StatusRefused} {
			i.Type, i.Status, i.ExpiresAt = kind, status, time.Unix(1e9, 0)
			for _, s := range []Screen{{Width: 80}, {Width: 20}} {
				shown["a question"] += Render(i, time.Unix(0, 0), s) + s.help(i)
			}
		}
	}
	var b strings.Builder
	if err := PrintItems(&b, []approvals.Item{i}, time.Now()); err != nil {
		t.Fatal(err)
	}
	shown["a list"] = b.String()
	b.Reset()
	if err := PrintGrants(&b, []approvals.Grant{g}); err != nil {
		t.Fatal(err)
	}
	shown["grants"] = b.String()
	for what, text := range shown {
		if !strings.Contains(text, `\u{34f}`) {
			t.Errorf("%s shows nothing of what was written: %q", what, text)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if got := strings.ReplaceAll(visible.Text(line), `\u{5c}`, `\`); got != line {
				t.Errorf("%s shows %q", what, line)
			}
		}
	}
	if n := strings.Count(shown["a list"], "\n") + strings.Count(shown["grants"], "\n"); n != 4 {
		t.Errorf("tables of one row have %d lines: %q %q", n, shown["a list"], shown["grants"])
	}
}

// A text that takes several lines has its label before the first.
func TestALongTextHasItsLabelOnce(t *testing.T) {
	var b strings.Builder
	Screen{Width: 30}.Row(&b, "reason", 9, strings.Repeat("word ", 12))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) < 3 || strings.Count(b.String(), "reason") != 1 || !strings.HasPrefix(lines[0], "  reason   word") {
		t.Errorf("got\n%s", b.String())
	}
	for _, line := range lines[1:] {
		if !strings.HasPrefix(line, strings.Repeat(" ", 11)+"word") {
			t.Errorf("%q is not below the text", line)
		}
	}
}
