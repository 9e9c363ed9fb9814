package projects

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// place is a list in a directory with some places beside it.
type place struct {
	t    *testing.T
	dir  string
	list *List
	said []string // what was recorded
}

func newPlace(t *testing.T, r Rules) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, dir: dir}
	for _, name := range []string{"a", "a/sub", "b", "root"} {
		p.mkdir(name)
	}
	p.open(r)
	return p
}

func (p *place) mkdir(name string) {
	p.t.Helper()
	if err := os.MkdirAll(p.at(name), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) at(name string) string { return filepath.Join(p.dir, name) }

// open reads the list as the next daemon does.
func (p *place) open(r Rules) {
	p.t.Helper()
	var err error
	if p.list, err = Open(p.at("projects.json")); err != nil {
		p.t.Fatal(err)
	}
	p.list.Use(r)
}

func (p *place) record(what string) error {
	p.said = append(p.said, what)
	return nil
}

func (p *place) allow(name string) Answer {
	p.t.Helper()
	a, err := p.list.Allow(p.at(name), "uid:7", p.record)
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

func (p *place) dirs() []string {
	var dirs []string
	for _, s := range p.list.All() {
		dirs = append(dirs, s.Dir)
	}
	return dirs
}

// each gives every project settings that name it.
func each() Rules {
	return Rules{Project: func(dir string) (guard.Settings, error) {
		return guard.Settings{AllowedWritePaths: []string{dir}}, nil
	}}
}

func code(err error) string {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func hint(err error) string {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Hint
	}
	return ""
}

func TestAProjectIsAWorkspaceOfItsOwn(t *testing.T) {
	p := newPlace(t, each())
	p.allow("a")
	p.allow("b")
	for _, name := range []string{"a", "a/sub"} {
		w, err := p.list.Of(p.at(name))
		if err != nil || !slices.Equal(w.Roots, []string{p.at("a")}) ||
			!slices.Equal(w.Settings.AllowedWritePaths, []string{p.at("a")}) {
			t.Errorf("%s: got %+v, %v, want a alone", name, w, err)
		}
		if got := p.list.Root(p.at(name)); got != p.at("a") {
			t.Errorf("%s: root %s", name, got)
		}
	}
	for _, name := range []string{"", "root", "ab", "b/../root"} {
		dir := filepath.Clean(p.at(name))
		_, err := p.list.Of(dir)
		if code(err) != "cwd_outside_workspace" || hint(err) != "a person allows it with: sandboxd allow "+dir {
			t.Errorf("%s: got %v, hint %q", name, err, hint(err))
		}
	}
	want := []string{"uid:7 allowed " + p.at("a"), "uid:7 allowed " + p.at("b")}
	if !slices.Equal(p.said, want) {
		t.Errorf("recorded %q, want %q", p.said, want)
	}
	p.open(each())
	if got := p.dirs(); !slices.Equal(got, []string{p.at("a"), p.at("b")}) {
		t.Errorf("the next daemon has %q", got)
	}
}

func TestTheRootsOfAConfigurationAreOneWorkspace(t *testing.T) {
	r := each()
	p := newPlace(t, r)
	r.Base = tool.Workspace{
		Roots: []string{p.at("root"), p.at("b")}, Settings: guard.Settings{DeniedCommands: []string{"x"}},
	}
	p.list.Use(r)
	p.allow("a")
	w, err := p.list.Of(p.at("root"))
	if err != nil || len(w.Roots) != 2 || len(w.Settings.DeniedCommands) != 1 {
		t.Errorf("got %+v, %v", w, err)
	}
	p.mkdir("b/sub")
	if a, want := p.allow("b/sub"), (Answer{Dir: p.at("b/sub"), In: p.at("b")}); a != want {
		t.Errorf("a place of a root was allowed again: %+v, want %+v", a, want)
	}
	for _, roots := range [][]string{{p.at("b"), p.at("b/sub")}, {p.at("b/sub"), p.at("b")}} {
		p.list.Use(Rules{Base: tool.Workspace{Roots: roots}})
		if got := p.list.Root(p.at("b/sub/x")); got != p.at("b/sub") {
			t.Errorf("of %q the innermost is %q", roots, got)
		}
	}
	p.list.Use(r)
	if _, err := p.list.Remove(p.at("b"), "me", p.record); code(err) != "project_not_found" ||
		!strings.Contains(hint(err), "workspace.roots") {
		t.Errorf("got %v, hint %q", err, hint(err))
	}
	if got := p.list.Dirs(); !slices.Equal(got, []string{p.at("root"), p.at("b"), p.at("a")}) {
		t.Errorf("all directories are %q", got)
	}
}

func TestWhereASessionStartsThatNamesNothing(t *testing.T) {
	p := newPlace(t, each())
	if _, err := p.list.Default(); code(err) != "cwd_outside_workspace" {
		t.Errorf("with nothing allowed: %v", err)
	}
	p.allow("a")
	if dir, err := p.list.Default(); err != nil || dir != p.at("a") {
		t.Errorf("with one project: %q, %v", dir, err)
	}
	p.allow("b")
	if _, err := p.list.Default(); code(err) != "validation_error" {
		t.Errorf("with two projects: %v", err)
	}
	p.list.Use(Rules{Base: tool.Workspace{Roots: []string{p.at("root")}}})
	if dir, err := p.list.Default(); err != nil || dir != p.at("root") {
		t.Errorf("with a root: %q, %v", dir, err)
	}
}

func TestProjectsInProjects(t *testing.T) {
	p := newPlace(t, each())
	p.allow("a/sub")
	p.allow("a")
	if w, _ := p.list.Of(p.at("a/sub")); !slices.Equal(w.Roots, []string{p.at("a/sub")}) {
		t.Errorf("the inner one is %q", w.Roots)
	}
	p.mkdir("a/other")
	if a := p.allow("a/other"); a.Change || a.In != p.at("a") {
		t.Errorf("got %+v, want it to be a part of a", a)
	}
	if _, err := p.list.Remove(p.at("a/other"), "me", p.record); code(err) != "project_not_found" ||
		!strings.HasSuffix(hint(err), "sandboxd allow --remove "+p.at("a")) {
		t.Errorf("got %v, hint %q", err, hint(err))
	}
	if _, err := p.list.Remove(p.at("a"), "me", p.record); err != nil {
		t.Fatal(err)
	}
	if _, err := p.list.Of(p.at("a/other")); err == nil {
		t.Error("a is taken back and allowed")
	}
	if _, err := p.list.Of(p.at("a/sub")); err != nil {
		t.Errorf("a/sub was allowed by itself: %v", err)
	}
}

// A path is resolved when it is allowed; what it is called later does not matter.
// A relative path is another place for each process, so it is no name of a directory, wherever the daemon works.
func TestAProjectHasAnAbsolutePath(t *testing.T) {
	p := newPlace(t, each())
	t.Chdir(p.dir)
	for _, dir := range []string{"a", "./a", "."} {
		_, err := p.list.Allow(dir, "me", p.record)
		if code(err) != "project_refused" || !strings.Contains(err.Error(), "is relative") || len(p.dirs()) != 0 {
			t.Errorf("%s: %v, projects are %q", dir, err, p.dirs())
		}
	}
}

func TestLinksAreResolved(t *testing.T) {
	p := newPlace(t, each())
	if err := os.Symlink("a", p.at("link")); err != nil {
		t.Fatal(err)
	}
	if a := p.allow("link"); a.Dir != p.at("a") || !a.Change {
		t.Errorf("got %+v", a)
	}
	if _, err := p.list.Of(p.at("link")); err == nil {
		t.Error("the link itself is a project")
	}
	if a, err := p.list.Remove(p.at("link"), "me", p.record); err != nil || a.Dir != p.at("a") {
		t.Errorf("removed %+v, %v", a, err)
	}
	for name, path := range map[string]string{"no": p.at("none"), "file": p.at("projects.json"), "relative": "a"} {
		if _, err := p.list.Allow(path, "me", p.record); code(err) != "project_refused" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAProjectThatIsGoneDenies(t *testing.T) {
	for _, tt := range []struct {
		name string
		harm func(p *place) error
		want string
	}{
		{"removed", func(p *place) error { return os.RemoveAll(p.at("a")) }, "is not there any more"},
		{"moved", func(p *place) error { return os.Rename(p.at("a"), p.at("moved")) }, "is not there any more"},
		{"a link in its place", func(p *place) error {
			return errors.Join(os.Rename(p.at("a"), p.at("moved")), os.Symlink("moved", p.at("a")))
		}, "is a link now"},
		{"a file in its place", func(p *place) error {
			return errors.Join(os.RemoveAll(p.at("a")), os.WriteFile(p.at("a"), nil, 0o600))
		}, "is no directory any more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, each())
			p.allow("a")
			if err := tt.harm(p); err != nil {
				t.Fatal(err)
			}
			check := func(when string) {
				t.Helper()
				_, err := p.list.Of(p.at("a/sub"))
				if code(err) != "project_gone" || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: got %v", when, err)
				}
				if s := p.list.All(); len(s) != 1 || !strings.Contains(s[0].Problem, tt.want) {
					t.Errorf("%s: status %+v", when, s)
				}
			}
			check("while it runs")
			p.open(each())
			check("after a restart")
			if dirs := p.list.Dirs(); len(dirs) != 0 {
				t.Errorf("shown to calls: %q", dirs)
			}
			if _, err := p.list.Remove(p.at("a"), "me", p.record); err != nil {
				t.Error(err)
			}
		})
	}
}

// What was gone when the daemon started has no settings, so it stays out when it comes
// back, until somebody allows it again, or the configuration is read again.
func TestAProjectThatComesBackHasSettings(t *testing.T) {
	p := newPlace(t, each())
	p.allow("a")
	if err := os.Rename(p.at("a"), p.at("away")); err != nil {
		t.Fatal(err)
	}
	p.open(each())
	if err := os.Rename(p.at("away"), p.at("a")); err != nil {
		t.Fatal(err)
	}
	if w, err := p.list.Of(p.at("a")); err == nil {
		t.Fatalf("got %+v: settings that allow everything", w)
	}
	p.list.Use(each())
	if w, err := p.list.Of(p.at("a")); err != nil || len(w.Settings.AllowedWritePaths) != 1 {
		t.Errorf("after a reload: %+v, %v", w, err)
	}
	if err := os.Rename(p.at("a"), p.at("away")); err != nil {
		t.Fatal(err)
	}
	p.open(each())
	if err := os.Rename(p.at("away"), p.at("a")); err != nil {
		t.Fatal(err)
	}
	p.allow("a")
	if w, err := p.list.Of(p.at("a")); err != nil || len(w.Settings.AllowedWritePaths) != 1 {
		t.Errorf("got %+v, %v", w, err)
	}
	if got := p.dirs(); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func TestWhatTheConfigurationRulesOut(t *testing.T) {
	p := newPlace(t, each())
	p.allow("a")
	none := Rules{Project: func(dir string) (guard.Settings, error) {
		return guard.Settings{}, errors.New("the policies lie there")
	}}
	p.list.Use(none)
	_, err := p.list.Of(p.at("a"))
	if code(err) != "project_refused" || !strings.Contains(err.Error(), "the policies lie there") {
		t.Errorf("got %v", err)
	}
	if _, err := p.list.Allow(p.at("b"), "me", p.record); err == nil || len(p.said) != 1 {
		t.Errorf("got %v, recorded %q", err, p.said)
	}
	p.list.Use(each())
	if _, err := p.list.Of(p.at("a")); err != nil {
		t.Errorf("it may be used again: %v", err)
	}
}

// No record, no change; and a list that cannot be written stays as it was.
func TestAChangeThatFailsChangesNothing(t *testing.T) {
	p := newPlace(t, each())
	p.allow("a")
	broken := func(string) error { return errors.New("no record") }
	if _, err := p.list.Allow(p.at("b"), "me", broken); err == nil {
		t.Error("b is allowed without a record")
	}
	if _, err := p.list.Remove(p.at("a"), "me", broken); err == nil {
		t.Error("a is taken back without a record")
	}
	if err := os.Mkdir(p.at("nowhere"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.list.file = p.at("nowhere/gone/projects.json")
	if _, err := p.list.Allow(p.at("b"), "me", p.record); err == nil {
		t.Error("b is allowed and not written")
	}
	if got := p.dirs(); !slices.Equal(got, []string{p.at("a")}) {
		t.Errorf("got %q", got)
	}
	if _, err := p.list.Of(p.at("b")); err == nil {
		t.Error("b can be used")
	}
}

func TestAListThatCannotBeReadIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": "{", "another field": `{"projects":[],"more":1}`, "a relative path": `{"projects":[{"dir":"a"}]}`,
		"the system": `{"projects":[{"dir":"/"}]}`, "dots": `{"projects":[{"dir":"/a/../b"}]}`,
		"a field twice": `{"projects":[],"projects":[]}`, "in two cases": `{"projects":[],"Projects":[]}`, "too large": strings.Repeat(" ", maxFile) + "{}",
	} {
		file := filepath.Join(t.TempDir(), "projects.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file); code(err) != "projects_damaged" || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	link := filepath.Join(t.TempDir(), "projects.json")
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link); err == nil {
		t.Error("a link is read")
	}
}

func TestTheListIsForItsOwnerAlone(t *testing.T) {
	p := newPlace(t, each())
	p.allow("a")
	info, err := os.Stat(p.at("projects.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	left, err := filepath.Glob(p.at(".projects-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

func TestChangesAtOnce(t *testing.T) {
	p := newPlace(t, each())
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range 20 {
		name := fmt.Sprintf("p%02d", i)
		p.mkdir(name)
		all.Go(func() {
			_, err := p.list.Allow(p.at(name), "me", func(string) error { return nil })
			_, of := p.list.Of(p.at(name))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || of != nil {
				t.Errorf("%s: %v, %v", name, err, of)
			}
		})
		all.Go(func() { p.list.Use(each()) })
	}
	all.Wait()
	p.open(each())
	if got := p.dirs(); len(got) != 20 {
		t.Errorf("%d are kept, want 20: %q", len(got), got)
	}
}

func TestFixedIsOneWorkspace(t *testing.T) {
	l := Fixed(tool.Workspace{Roots: []string{"/src"}})
	if _, err := l.Of("/src/x"); err != nil {
		t.Error(err)
	}
	if _, err := l.Of("/other"); err == nil {
		t.Error("/other is in it")
	}
	if _, err := l.Allow(t.TempDir(), "me", func(string) error { return nil }); err == nil {
		t.Error("a directory was allowed")
	}
}

// FuzzRead: whatever the file holds, what is read from it is a list of places.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"projects":[{"dir":"/a","allowed_at":"2026-11-22T00:00:00Z","by":"uid:1"}]}`, "", "{}", "null", "[]",
		`{"projects":null}`, `{"projects":[{"dir":"/a/.."}]}`, `{"projects":[{"dir":""}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "projects.json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := Open(file)
		if err != nil {
			return
		}
		for _, s := range list.All() {
			if !filepath.IsAbs(s.Dir) || filepath.Clean(s.Dir) != s.Dir || s.Dir == "/" {
				t.Errorf("%q is a project", s.Dir)
			}
			if w, err := list.Of(s.Dir); err == nil {
				t.Errorf("%q can be used before there are rules: %+v", s.Dir, w)
			}
		}
	})
}
