package adapter

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tailscale/hujson"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/clients"
)

// Whatever is in a file: what install adds uninstall takes away, nothing of others is lost,
// and the file stays one that the agent can read.
func TestHookInstallLosesNothing(t *testing.T) {
	at := settingsFiles[clients.Gemini]
	ours := ourCommand(testExe, clients.Gemini)
	h := handler{Type: "command", Command: shellQuote(testExe) + " hook --agent gemini", Timeout: 1}
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.SampledFrom([]string{"", " ", "\n", "\n  ", "\n\t", " /* c */ ", " // c\n", "\n// c\n  "})
		value := rapid.SampledFrom([]string{"1", `"x"`, "[]", "{}", "[1, 2]", `{"a": {"b": null}}`})
		theirs := rapid.SampledFrom([]string{
			`{"matcher":"x","hooks":[{"type":"command","command":"mine"}]}`, `{"hooks":[]}`, `{}`, `3`,
		})
		list := func(label string, item *rapid.Generator[string]) string {
			var b strings.Builder
			for i := range rapid.IntRange(0, 3).Draw(t, label) {
				if i > 0 {
					b.WriteString(",")
				}
				b.WriteString(space.Draw(t, "before") + item.Draw(t, "item") + space.Draw(t, "after"))
			}
			return b.String() + space.Draw(t, "end")
		}
		members := 0
		member := rapid.Custom(func(t *rapid.T) string {
			members++
			return `"m` + strings.Repeat("x", members) + `":` + space.Draw(t, "colon") + value.Draw(t, "value")
		})
		text := space.Draw(t, "top") + "{" + list("members", member)
		if rapid.Bool().Draw(t, "hooks") {
			if strings.Contains(text, `"m`) {
				text += ","
			}
			text += space.Draw(t, "s") + `"hooks":{` + space.Draw(t, "s")
			if rapid.Bool().Draw(t, "event") {
				text += `"BeforeTool":[` + list("groups", theirs) + "]"
			}
			text += "}" + space.Draw(t, "s")
		}
		text += "}" + space.Draw(t, "bottom")
		s, err := readSettings([]byte(text), true)
		if err != nil {
			return // not a file that is changed
		}
		if err := s.put(at.events, at.matcher, h, ours); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		installed := string(s.text())
		again, err := readSettings([]byte(installed), true)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, installed, err)
		}
		if n, _ := again.has(at.events, ours); n != len(at.events) {
			t.Fatalf("%q became %q, with %d of ours", text, installed, n)
		}
		if got, want := strings.Count(installed, " c"), strings.Count(text, " c"); got != want {
			t.Fatalf("%q became %q: %d comments, want %d", text, installed, got, want)
		}
		again.take(ours)
		taken := string(again.text())
		if _, err := readSettings([]byte(taken), true); err != nil {
			t.Fatalf("%q became %q: %v", installed, taken, err)
		}
		if got, want := strings.Count(taken, " c"), strings.Count(text, " c"); got != want {
			t.Fatalf("%q became %q: %d comments, want %d", text, taken, got, want)
		}
		if diff := cmp.Diff(meaning(t, text), meaning(t, taken)); diff != "" {
			t.Fatalf("%q became %q, then %q: %s", text, installed, taken, diff)
		}
	})
}

// meaning is what the settings say, without containers of hooks that hold nothing.
func meaning(t *rapid.T, text string) any {
	plain, err := hujson.Standardize([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(plain, &m); err != nil {
		t.Fatal(err)
	}
	if hooks, ok := m["hooks"].(map[string]any); ok {
		if list, ok := hooks["BeforeTool"].([]any); ok && len(list) == 0 {
			delete(hooks, "BeforeTool")
		}
		if len(hooks) == 0 {
			delete(m, "hooks")
		}
	}
	return m
}

// FuzzSettings: a file that is taken can be changed and changed back, and stays one that is
// taken.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{mine, "", "{}", `{"hooks":{"BeforeTool":[{"hooks":[{"command":"x"}]}]}}`, "{ // c\n}"} {
		f.Add(text)
	}
	at := settingsFiles[clients.Gemini]
	ours := ourCommand(testExe, clients.Gemini)
	h := handler{Type: "command", Command: shellQuote(testExe) + " hook --agent gemini", Timeout: 1}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := readSettings([]byte(text), true)
		if err != nil || s.put(at.events, at.matcher, h, ours) != nil {
			return
		}
		s, err = readSettings(s.text(), true)
		if err != nil {
			t.Fatalf("%q with the hook: %v", text, err)
		}
		if n, _ := s.has(at.events, ours); n != len(at.events) {
			t.Fatalf("%q has %d of ours", s.text(), n)
		}
		s.take(ours)
		if s, err = readSettings(s.text(), true); err != nil {
			t.Fatalf("%q without the hook: %v", text, err)
		}
		if n, _ := s.has(at.events, ours); n != 0 {
			t.Fatalf("%q still has %d of ours", s.text(), n)
		}
	})
}
