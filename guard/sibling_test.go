package guard_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/shellparse"
)

// beside is a workspace with a directory, a file, a link, a secret and a hidden directory beside it.
func beside(t *testing.T) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"ws/src", "there", "secret", ".config", "holds/secret"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": "there", "out": "/etc", "hide": "secret"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A call that writes beside its workspace asks, if all that it refuses is a directory which a sandbox can show, and
// which means the same to its programs. Anything else stays denied, and nobody is asked.
func TestSiblingsAsk(t *testing.T) {
	dir := beside(t)
	for _, tt := range []struct {
		name, line string
		want       guard.Verdict
		open       string // names, "+" before one that is missing
	}{
		{"a worktree", "git worktree add ../w", guard.Ask, "+w"},
		{"with a branch", "git worktree add -b topic ../w origin/main", guard.Ask, "+w"},
		{"from below", "git -C src worktree add ../../w", guard.Ask, "+w"},
		{"by its whole path", "git worktree add " + dir + "/w", guard.Ask, "+w"},
		{"a clone", "git clone . ../w", guard.Ask, "+w"},
		{"a new repository", "git init ../w", guard.Ask, "+w"},
		{"a build directory", "cmake -B ../build", guard.Ask, "+build"},
		{"a deeper one", "cmake -B ../build/debug -S .", guard.Ask, "+build"},
		{"mkdir -p", "mkdir -p ../w/a ../w/b", guard.Ask, "+w"},
		{"two", "mkdir -p ../a ../b", guard.Ask, "+a +b"},
		{"an environment", "python3 -m venv ../env", guard.Ask, "+env"},
		{"what the same line has made", "mkdir -p ../w && cp -r src ../w/", guard.Ask, "+w"},
		{"one that is there", "touch ../there/x", guard.Ask, "there"},
		{"into one that is there", "cp README.md ../there", guard.Ask, "there"},
		{"a pattern below one", "rm ../there/*.o", guard.Ask, "there"},
		{"a tree below one", "rm -r ../there/old", guard.Ask, "there"},
		{"by a link", "touch ../link/x", guard.Ask, "there"},
		{"beside a secret below", "touch ../holds/x", guard.Ask, "holds"},
		{"in the workspace", "git worktree add w", guard.Allow, ""},

		{"a copy means another place if it is there", "cp -r src ../w", guard.Deny, ""},
		{"mkdir fails if it is there", "mkdir ../w", guard.Deny, ""},
		{"a test sees whether it is there", "test -d ../w || git worktree add ../w", guard.Deny, ""},
		{"so does who wrote there before", "cp -r src ../w; mkdir -p ../w", guard.Deny, ""},
		{"a file", "echo x > ../new.txt", guard.Deny, ""},
		{"a file that is there", "echo x > ../file", guard.Deny, ""},
		{"the directory itself goes", "rm -rf ../there", guard.Deny, ""},
		{"or is renamed", "mv ../there ../w", guard.Deny, ""},
		{"many names", "touch ../*/x", guard.Deny, ""},
		{"the parent", "mkdir -p ..", guard.Deny, ""},
		{"a hidden one", "touch ../.config/x", guard.Deny, ""},
		{"a hidden one that is missing", "mkdir -p ../.ssh", guard.Deny, ""},
		{"a secret", "touch ../secret/x", guard.Deny, ""},
		{"a secret by a link", "touch ../hide/x", guard.Deny, ""},
		{"a secret below", "touch ../holds/secret/x", guard.Deny, "holds"},
		{"out by a link", "mkdir -p ../out/x", guard.Deny, ""},
		{"above the parent", "mkdir -p ../../w", guard.Deny, ""},
		{"a tree that is copied into one", "cp -r src ../there", guard.Deny, ""},
		{"an archive that is unpacked in one", "tar xf a.tar -C ../there", guard.Deny, ""},
		{"a tree that is kept the same", "rsync -a src/ ../there/", guard.Deny, ""},
		{"the modes of a tree", "chmod -R u+w ../there", guard.Deny, ""},
		{"one is not enough", "mkdir -p ../w /usr/w", guard.Deny, "+w"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, open := siblingsOf(t, dir, tt.line, nil)
			if got != tt.want || open != tt.open {
				t.Errorf("%s: %s, opens %q; want %s, %q", tt.line, got, open, tt.want, tt.open)
			}
		})
	}
}

// siblingsOf judges a line in dir/ws as the request path does.
func siblingsOf(t *testing.T, dir, line string, change func(*guard.Settings)) (v guard.Verdict, open string) {
	t.Helper()
	ws := filepath.Join(dir, "ws")
	s := guard.Settings{
		AllowedWritePaths: []string{ws},
		DeniedPaths:       []string{filepath.Join(dir, "secret"), filepath.Join(dir, "holds/secret")},
	}
	if change != nil {
		change(&s)
	}
	script, err := shellparse.Parse(line, shellparse.Options{Dir: ws, Home: "/home/dev"})
	if err != nil {
		t.Fatal(err)
	}
	r := guard.NewRules(s)
	uses := r.ScriptUses(script, ws)
	uses.Siblings = r.Siblings(uses, []string{ws})
	var names []string
	for _, s := range uses.Siblings {
		name := strings.TrimPrefix(s.Path, dir+"/")
		if s.Missing {
			name = "+" + name
		}
		names = append(names, name)
	}
	v = guard.Allow
	refs := guard.NewRules(s.WithSiblings(uses.Siblings)).Check(uses)
	for _, ref := range refs {
		if ref.Guess && ref.Caged {
			continue
		}
		if !ref.Ask {
			v = guard.Deny
		} else if v == guard.Allow {
			v = guard.Ask
		}
	}
	for _, ref := range refs {
		if ref.Code == "sibling_asked" && !slices.ContainsFunc(uses.Siblings, func(s guard.Sibling) bool {
			return strings.Contains(ref.Message, " the directory "+s.Path+",")
		}) {
			t.Errorf("%s: the question names no directory: %s", line, ref.Message)
		}
	}
	asked := slices.ContainsFunc(refs, func(r guard.Refusal) bool { return r.Code == "sibling_asked" })
	if v == guard.Ask != asked && v != guard.Deny {
		t.Errorf("%s: %s, asked: %v", line, v, asked)
	}
	return v, strings.Join(names, " ")
}

// What the settings do not let write at all, what belongs to somebody else and what a policy tightens has no siblings.
func TestNoSiblings(t *testing.T) {
	dir := beside(t)
	const line = "git worktree add ../w"
	nothing := func(s *guard.Settings) { s.AllowedWritePaths = []string{guard.NoPath} }
	if v, open := siblingsOf(t, dir, line, nothing); v != guard.Deny || open != "" {
		t.Errorf("a workspace that cannot be written: %s, %q", v, open)
	}
	if v, _ := siblingsOf(t, dir, line, func(s *guard.Settings) { s.AllowedWritePaths = nil }); v != guard.Allow {
		t.Errorf("everything may be written: %s", v)
	}
	uses := guard.Uses{Paths: []guard.PathUse{{Path: "/w", Op: guard.Write, Makes: true}}}
	r := guard.NewRules(guard.Settings{AllowedWritePaths: []string{"/src"}})
	if got := r.Siblings(uses, []string{"/src"}); got != nil {
		t.Errorf("beside a workspace at the root: %v", got)
	}
	tight := guard.Settings{AllowedWritePaths: []string{dir + "/ws"}}.WithSiblings([]guard.Sibling{{Path: dir + "/w"}}).
		Tighten(guard.Obligations{ReadOnly: true})
	u := guard.Uses{
		Paths:    []guard.PathUse{{Path: dir + "/w", Op: guard.Write, Makes: true}},
		Siblings: []guard.Sibling{{Path: dir + "/w"}},
	}
	refs := guard.NewRules(tight).Check(u)
	if len(refs) != 1 || refs[0].Ask {
		t.Errorf("under read_only: %+v, want one denial and no question", refs)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir+"/there", 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if v, open := siblingsOf(t, dir, "touch ../there/x", nil); v != guard.Deny || open != "" {
			t.Errorf("the directory belongs to somebody else: %s, %q", v, open)
		}
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if v, open := siblingsOf(t, dir, line, nil); v != guard.Deny || open != "" {
			t.Errorf("the parent belongs to somebody else: %s, %q", v, open)
		}
	}
}
