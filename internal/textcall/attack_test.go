package textcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestATemplateIsBounded: thousands of marks that name one long argument neither fill the memory nor
// read it again for each mark.
func TestATemplateIsBounded(t *testing.T) {
	long := encode(map[string]string{"a": strings.Repeat("x", 1<<20), "b": "b"})
	_, err := render(strings.Repeat("{{a}}", maxSpec/5), long, asIs)
	if e, is := errors.AsType[*tool.Error](err); !is || e.Code != "callable_too_large" {
		t.Errorf("got %v", err)
	}
	for name, template := range map[string]string{ // each would take minutes if every mark read the argument
		"one key":    strings.Repeat("{{b}}", maxSpec/5),
		"a path":     strings.Repeat("{{b.c}}", maxSpec/7),
		"a deep one": "{{" + strings.Repeat("a.", maxPath) + "a}}",
	} {
		if text, err := render(template, long, asIs); err != nil || len(text) > maxSpec {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
	values := reader{}
	values.at(long, "b.c")
	values.at(long, "a")
	if len(values) != 2 { // the arguments, and b
		t.Errorf("%d values were read", len(values))
	}
	for path, want := range map[string]string{"a.b": "1", "a..b": "2", "ab": "3", "a.l.1": "5", "a.l.x": "", "a.b.c": "", "n.x": ""} {
		if got := string((reader{}).at(json.RawMessage(`{"a":{"b":1,"":{"b":2},"l":[4,5]},"ab":3,"n":null}`), path)); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// TestC36_AnArgumentStaysItsPartOfTheURL: it begins no parameter, path, host or direction.
func TestC36_AnArgumentStaysItsPartOfTheURL(t *testing.T) {
	for _, tt := range []struct{ template, value, want string }{
		{"http://api.example/v1/{{v}}", "a/b", "http://api.example/v1/a%2Fb"},
		{"http://api.example/v1?q={{v}}&n=1", "x&admin=1", "http://api.example/v1?q=x%26admin%3D1&n=1"},
		{"http://api.example/v1?q={{json v}}", "x&admin=1", "http://api.example/v1?q=%22x%26admin%3D1%22"},
		{"http://api.example/v1?q={{v}}", "a b+c#d", "http://api.example/v1?q=a%20b%2Bc%23d"},
		{"http://api.example/{{v}}/x", "..", ""},
		{"http://api.example/{{v}}{{v}}/x", ".", ""},
		{"http://api.example/a/../{{v}}", "x", "http://api.example/a/../x"},
		{"http://{{v}}/", "api.example@evil.example", ""},
		{"http://{{v}}/", "evil.example/x?", ""},
	} {
		_, u, err := read(tool.In{Args: encode(given{URL: tt.template, Args: encode(map[string]string{"v": tt.value})})})
		got := ""
		if err == nil {
			got = u.String()
		}
		if got != tt.want {
			t.Errorf("%s with %q: got %q, %v", tt.template, tt.value, got, err)
		}
	}
	if u, err := url.Parse("http://x/?" + "q=" + component("a=b&c d")); err != nil || u.Query().Get("q") != "a=b&c d" {
		t.Errorf("got %v, %v", u, err)
	}
}

// TestC02_NamesAreDistinctAtOnce for registrations that come together.
func TestC02_NamesAreDistinctAtOnce(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { routetest.Call(t, w.f.routes(), tool.RoleAgent, "POST /sessions/s/callables", `{}`) })
	}
	wg.Wait()
	if have, err := w.f.callables(t.Context(), "s"); err != nil || len(have) != 20 {
		t.Errorf("%d of 20 are kept, %v", len(have), err)
	}
}

// TestOfASessionThatIsNotThereNothingIsKept, however many are asked for.
func TestOfASessionThatIsNotThereNothingIsKept(t *testing.T) {
	w := newWorld(t)
	w.none = true
	for i := range 3 {
		w.want(routetest.Call(t, w.f.routes(), tool.RoleAgent, fmt.Sprintf("GET /sessions/n%d/text/stats", i), ""), "session_not_found: none")
	}
	if n := len(w.f.lines); n != 0 {
		t.Errorf("%d are kept", n)
	}
}

// TestTheLogKeepsNoRepliesOfAModel: names are as long as a model makes them.
func TestTheLogKeepsNoRepliesOfAModel(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		w.reply("[CALL: " + strings.Repeat("a", 1<<20) + "({})]")
	}
	log := w.f.stats("s", 0).Log
	if len(log) != 10 {
		t.Fatalf("%d calls are logged", len(log))
	}
	for _, l := range log {
		if len(l.Name) > 4*maxLogged {
			t.Errorf("a name of %d bytes is kept (%s)", len(l.Name), l.Status)
		}
	}
}
