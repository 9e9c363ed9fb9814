package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

func TestOutsideToolsCountAsDestructive(t *testing.T) {
	for name, want := range map[string]tool.Spec{
		"WebFetch":       {Class: tool.ClassNet, Origin: tool.OriginWeb},
		"WebSearch":      {Class: tool.ClassNet, Origin: tool.OriginWeb},
		"mcp__db__query": {Origin: tool.OriginMCP},
		"Skill":          {},
		"Read":           {}, // not ours: of another agent that has one of this name
	} {
		o, err := outsideTool(name)
		if err != nil {
			t.Fatal(err)
		}
		s := o.Spec()
		if s.Name != name || s.Class != want.Class || s.Origin != want.Origin || s.ReadOnly || !s.Destructive() {
			t.Errorf("%s: got %+v", name, s)
		}
		if _, err := o.Run(t.Context(), tool.In{}, sandbox.Box(nil)); err == nil {
			t.Errorf("%s ran", name)
		}
	}
	for _, name := range []string{"", "a b", "Bash(ls)", "mcp__x__é", "1", "a\nb", strings.Repeat("é", 90)} {
		if _, err := outsideTool(name); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// A session that has not some tool may not have another agent's of that name either, nor one that a client brings.
func TestASessionHasNoMoreToolsOfOthers(t *testing.T) {
	up := tool.Session{ID: "up", Without: []string{"Echo"}}
	for _, tt := range []struct {
		name    string
		session tool.Session
		code    string
	}{
		{"all", tool.Session{}, ""},
		{"it was started without it", tool.Session{Parent: "up", Only: []string{"Read"}}, "tool_disabled"},
		{"the one above has not", tool.Session{Parent: "up", Above: []tool.Session{up}}, "tool_disabled"},
		{"its skill lists others", tool.Session{Skills: []tool.Skill{{Tools: []string{"Read"}}}}, "skill_restricted"},
		{"its skill lists it", tool.Session{Skills: []tool.Skill{{Tools: []string{"Echo"}}}}, ""},
	} {
		w := newWorld(tool.Spec{})
		tt.session.ID, tt.session.Account, tt.session.Dir = "s", "a", "/w"
		w.session = tt.session
		for _, own := range []bool{false, true} {
			r := w.request(`{"text":"x"}`)
			if r.Outside = !own; own {
				r.Own = w.echo
			}
			got, code := w.pipeline().Decide(t.Context(), r), ""
			if e := got.Result.Error; e != nil {
				code = e.Code
			}
			if code != tt.code {
				t.Errorf("%s, own %v: got %q, want %q", tt.name, own, code, tt.code)
			}
		}
	}
}

func TestOutsideWebFetchHasHosts(t *testing.T) {
	fetch, err := outsideTool("WebFetch")
	if err != nil {
		t.Fatal(err)
	}
	uses := func(args map[string]any) ([]string, error) {
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		u, err := fetch.Uses(t.Context(), tool.In{Args: raw})
		return u.Hosts, err
	}
	for _, tt := range []struct {
		args map[string]any
		want []string
	}{
		{map[string]any{"url": "https://go.dev/doc?x=1", "prompt": "see http://other.example"}, []string{"go.dev"}},
		{map[string]any{"url": "http://[::1]:8080/"}, []string{"::1"}},
		{map[string]any{"url": "https://de.wikipedia.org/wiki/Köln"}, []string{"de.wikipedia.org"}},
		{
			map[string]any{"prompt": "compare https://a.example/x\twith\nhttp://b.example:80"},
			[]string{"a.example", "b.example"},
		},
	} {
		if got, err := uses(tt.args); err != nil || !cmp.Equal(got, tt.want) {
			t.Errorf("%v: got %v, %v, want %v", tt.args, got, err, tt.want)
		}
	}
	for _, args := range []map[string]any{
		{},
		{"url": ""},
		{"prompt": "no address"},
		{"url": "file:///etc/passwd"},
		{"url": "ftp://x.example/"},
		{"url": "https://user@x.example/"},
		{"url": `https://x.example\@y.example/`},
		{"url": "https://x.example/\ny"},
		{"url": "https:x.example"},
		{"url": "https:///x.example"},
		{"url": "https://ｘ.example/"},
		{"url": "https://%79.example/"},
		{"url": 3},
		{"url": []string{"https://x.example"}},
		{"prompt": "good https://x.example and bad javascript://y.example"},
	} {
		if got, err := uses(args); err == nil {
			t.Errorf("%v: got %v, want an error", args, got)
		}
	}
}
