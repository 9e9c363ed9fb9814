package pipeline

import (
	"errors"
	"reflect"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// places are workspaces by their directories.
type places map[string]guard.Settings

func (p places) Of(dir string) (tool.Workspace, error) {
	s, ok := p[dir]
	if !ok {
		return tool.Workspace{}, errors.New("no workspace " + dir)
	}
	return tool.Workspace{Settings: s}, nil
}

func (places) Dirs() []string { return nil }

// TestN10_NoSettingsBeyondThoseAbove: a session has its own or those of its workspace, and never more than any above
// it has in its own place. If one of those is not known, it has none.
func TestN10_NoSettingsBeyondThoseAbove(t *testing.T) {
	denies := func(paths ...string) guard.Settings { return guard.Settings{DeniedPaths: paths} }
	own := func(paths ...string) *guard.Settings { s := denies(paths...); return &s }
	at := func(dir string) tool.Session { return tool.Session{Dir: dir} }
	for _, tt := range []struct {
		name    string
		session tool.Session
		want    []string // nil: an error
	}{
		{"of its workspace", tool.Session{}, []string{"/w"}},
		{"its own", tool.Session{Sandbox: own("/own")}, []string{"/own"}},
		{"one above with its own", tool.Session{Above: []tool.Session{{Sandbox: own("/up")}}}, []string{"/up", "/w"}},
		{"one above in a workspace", tool.Session{Above: []tool.Session{at("/x")}}, []string{"/w", "/x"}},
		{
			"its own, and two above",
			tool.Session{
				Sandbox: own("/own"), Above: []tool.Session{at("/x"), {Sandbox: own("/up")}},
			},
			[]string{"/own", "/up", "/x"},
		},
		{"one above in no workspace", tool.Session{Above: []tool.Session{at("/gone")}}, nil},
	} {
		o := Options{Workspaces: places{"/x": denies("/x")}}
		got, err := o.settings(&tool.Call{Target: tool.Target{
			Session: tt.session, Workspace: tool.Workspace{Settings: denies("/w")},
		}})
		has := map[string]bool{}
		for _, path := range got.DeniedPaths {
			has[path] = true
		}
		want := map[string]bool{}
		for _, path := range tt.want {
			want[path] = true
		}
		if (err != nil) != (tt.want == nil) || !reflect.DeepEqual(has, want) {
			t.Errorf("%s: denied are %q, %v, want %q", tt.name, got.DeniedPaths, err, tt.want)
		}
	}
}
