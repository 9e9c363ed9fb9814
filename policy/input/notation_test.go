package input_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
)

// TestTheNotationsOfAPath: ./x of an allow is below the directory in which the session began; rules that tighten
// count from where the session is as well, from each directory up to the root of the workspace, and from those
// of the sessions above.
func TestTheNotationsOfAPath(t *testing.T) {
	const home = "/home/u"
	up := func(dir, tree string) []tool.Session { return []tool.Session{{Begun: dir, Tree: tree}} }
	for _, tt := range []struct {
		name    string
		session tool.Session
		path    string
		tree    bool
		forms   string
		spelled string
	}{
		{"where it began", tool.Session{Begun: "/ws", Dir: "/ws"}, "/ws/a", false, "/ws/a ./a", ""},
		{"an old one", tool.Session{Dir: "/ws"}, "/ws/a", false, "/ws/a ./a", ""},
		{"moved down", tool.Session{Begun: "/ws", Dir: "/ws/s"}, "/ws/a", false, "/ws/a ./a", ""},
		{"below where it moved", tool.Session{Begun: "/ws", Dir: "/ws/s"}, "/ws/s/a", false, "/ws/s/a ./s/a", "./a"},
		{"moved up", tool.Session{Begun: "/ws/s", Dir: "/ws"}, "/ws/a", false, "/ws/a", "./a"},
		{"beside", tool.Session{Begun: "/ws/s", Dir: "/ws/s"}, "/ws/t/a", false, "/ws/t/a", "./t/a"},
		{"another root", tool.Session{Begun: "/ws", Dir: "/more/x"}, "/more/a", false, "/more/a", "./a"},
		{"above the root", tool.Session{Begun: "/ws", Dir: "/ws"}, "/a", false, "/a", ""},
		{
			"of the one above it",
			tool.Session{Begun: "/ws/s", Dir: "/ws/s", Above: up("/ws/t/u", "/out")},
			"/ws/t/a", false,
			"/ws/t/a", "./t/a ./a",
		},
		{
			"of its worktree",
			tool.Session{Begun: "/ws", Dir: "/ws", Above: up("/ws", "/out/t")},
			"/out/t/a", false,
			"/out/t/a", "./a",
		},
		{
			"a worktree",
			tool.Session{Begun: "/ws", Dir: "/ws/.w/t/s", Tree: "/ws/.w/t"},
			"/ws/.w/t/s/a", false,
			"/ws/.w/t/s/a ./.w/t/s/a ./s/a", "./t/s/a ./a",
		},
		{"a tree with the session", tool.Session{Begun: "/ws/s", Dir: "/ws/s"}, "/", true, "/", ". ~"},
		{"not without what is in it", tool.Session{Begun: "/ws/s", Dir: "/ws/s"}, "/", false, "/", ""},
		{"a tree with the home", tool.Session{Begun: "/ws", Dir: "/ws"}, "/home", true, "/home", "~"},
		{"a tree with neither", tool.Session{Begun: "/ws", Dir: "/ws"}, "/w", true, "/w", ""},
		{"a root is no base", tool.Session{Begun: "/", Dir: "/"}, "/a", false, "/a", ""},
	} {
		c := &tool.Call{Target: tool.Target{Session: tt.session}}
		c.Session.Home = home
		c.Workspace.Roots = []string{"/ws", "/more/"}
		c.Facts.Uses.Paths = []guard.PathUse{{Raw: tt.path, Path: tt.path, Op: guard.Read, Recursive: tt.tree}}
		in, err := input.New(c)
		if err != nil {
			t.Fatal(err)
		}
		p := in.Paths[0]
		if got := strings.Join(p.Forms, " "); got != tt.forms {
			t.Errorf("%s: forms %s, want %s", tt.name, got, tt.forms)
		}
		if got := strings.Join(p.Spelled, " "); got != tt.spelled {
			t.Errorf("%s: spelled %s, want %s", tt.name, got, tt.spelled)
		}
		for _, form := range p.Spelled {
			if !slices.Contains(p.SpelledIn, form) {
				t.Errorf("%s: %s is not in %q", tt.name, form, p.SpelledIn)
			}
		}
	}
}

// TestADeepDirectoryCostsNoMoreThanItsPath: the model can go as deep as a path may be.
func TestADeepDirectoryCostsNoMoreThanItsPath(t *testing.T) {
	deep := "/ws" + strings.Repeat("/a", 2000)
	c := &tool.Call{Target: tool.Target{Session: tool.Session{Begun: "/ws/b", Dir: deep}}}
	c.Workspace.Roots = []string{"/ws"}
	c.Facts.Uses.Paths = []guard.PathUse{{Raw: "x", Path: deep + "/x", Op: guard.Read}}
	in, err := input.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p := in.Paths[0]
	if len(p.Spelled) > 20 || len(p.SpelledIn) > 2000 {
		t.Errorf("%d forms, %d directories", len(p.Spelled), len(p.SpelledIn))
	}
	for _, want := range []string{"./x", "." + deep[len("/ws"):] + "/x"} {
		if !slices.Contains(p.Spelled, want) {
			t.Errorf("%.20s… is missing", want)
		}
	}
}
