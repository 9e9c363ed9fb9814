package scopes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var idName = regexp.MustCompile(`\b[FP]\d\b`)

// TestTheWalkOfTheDocuments runs the walk of docs/scopes.md: below a request stands what its answer
// must hold, or its code. A name such as F0 is the id in whose place it stands first.
func TestTheWalkOfTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/scopes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walk, _ := strings.Cut(string(text), "\n```walk\n")
	walk, _, ok := strings.Cut(walk, "\n```\n")
	if !ok {
		t.Fatal("the page has no walk")
	}
	w, ids := newWorld(t), map[string]string{}
	answer, checked := "", 0
	for line := range strings.Lines(walk) {
		line = strings.TrimRight(line, "\n")
		want, isWant := strings.CutPrefix(line, "  ")
		switch {
		case line == "":
		case isWant && want[0] != '{':
			checked++
			if !strings.HasPrefix(answer, want+":") {
				t.Errorf("got %s, want %s", answer, want)
			}
		case isWant:
			checked++
			if err := holdsAll(ids, decoded(t, strings.TrimPrefix(answer, "created ")), decoded(t, want)); err != nil {
				t.Errorf("%s: %v\n%s", want, err, answer)
			}
		default:
			line = idName.ReplaceAllStringFunc(line, func(name string) string { return ids[name] })
			if answer = w.step(line); isCode.MatchString(answer) && !strings.Contains(walk, "\n  "+isCode.FindStringSubmatch(answer)[1]+"\n") {
				t.Errorf("%s: %s", line, answer)
			}
		}
	}
	if checked < 15 || len(ids) < 3 {
		t.Errorf("only %d answers were checked, with %d ids", checked, len(ids))
	}
}

var isCode = regexp.MustCompile(`^([a-z_]+): `)

// step does one line of the walk.
func (w *world) step(line string) string {
	word, rest, _ := strings.Cut(line, " ")
	target, body, _ := strings.Cut(rest, " ")
	switch {
	case word == "CALL":
		page, args, _ := strings.Cut(body, " ")
		w.stage("tale", page, args)
		return ""
	case target == "/sessions":
		w.session("tale")
		return ""
	}
	return w.do(word+" "+target, body)
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// holdsAll says what of want is not in got. Lists have the same length.
func holdsAll(ids map[string]string, got, want any) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is no object", got)
		}
		for k, x := range want {
			if err := holdsAll(ids, object[k], x); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
		return nil
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("%v has another length", got)
		}
		for i, x := range want {
			if err := holdsAll(ids, list[i], x); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
		return nil
	case string:
		if idName.FindString(want) == want {
			if _, known := ids[want]; !known {
				ids[want], _ = got.(string)
			}
			want = ids[want]
		}
		if got != want {
			return fmt.Errorf("%v is not %s", got, want)
		}
		return nil
	}
	if got != want {
		return fmt.Errorf("%v is not %v", got, want)
	}
	return nil
}
