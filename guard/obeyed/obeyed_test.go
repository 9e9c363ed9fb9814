package obeyed

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/tests/golden"
)

// TestTheTablesHaveTheirForm: one fact a line, each once, nothing that a reader of the
// table would misunderstand.
func TestTheTablesHaveTheirForm(t *testing.T) {
	wheres := []Where{Enter, Open, Repo, Home, Tool, Run}
	seen := map[string]bool{}
	for _, n := range Names() {
		if seen[fold(n.Name)] {
			t.Errorf("%s is there twice", n.Name)
		}
		seen[fold(n.Name)] = true
		if !slices.Contains(wheres, n.Where) || n.Program == "" || n.Source == "" {
			t.Errorf("%+v", n)
		}
		dir, last := "", n.Name
		if i := strings.LastIndexByte(n.Name, '/'); i >= 0 {
			dir, last = n.Name[:i], n.Name[i+1:]
		}
		if strings.ContainsAny(n.Name, "?[\\ ") || strings.Contains(dir, "*") || strings.Count(last, "*") > 1 ||
			len(n.Name) < 3 || strings.HasPrefix(n.Name, "/") || strings.HasSuffix(n.Name, "/") {
			t.Errorf("%s: a name is segments, with at most one * in the last", n.Name)
		}
		for i := strings.IndexByte(n.Name, '/'); i > 0; {
			if seen[fold(n.Name[:i])] {
				t.Errorf("%s lies below another name", n.Name)
			}
			next := strings.IndexByte(n.Name[i+1:], '/')
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
	for _, r := range gitRows() {
		if !slices.Contains([]Kind{Free, Keep, Read, More}, r.kind) || r.what == "" {
			t.Errorf("%+v", r)
		}
	}
	for _, line := range strings.Split(namesText+gitText, "\n") {
		if regexp.MustCompile(`\s$|\t`).MatchString(line) {
			t.Errorf("%q has blanks at its end, or a tab", line)
		}
	}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct{ path, root, want string }{
		{"/ws/.envrc", "/ws", ".envrc"},
		{"/ws/a/b/.envrc", "/ws", ".envrc"},
		{"/ws/a/.ENVRC", "/ws", ".envrc"},
		{"/ws/a/.envrc.d", "/ws", ""},
		{"/ws/a/x.envrc", "/ws", ""},
		{"/ws/a/.vscode/tasks.json", "/ws", ".vscode"},
		{"/ws/a/.vscode", "/ws", ".vscode"},
		{"/ws/a/.vscode/deep/er/x", "/ws", ".vscode"},
		{"/ws/.config/mise/config.toml", "/ws", ".config/mise"},
		{"/ws/mise/config.toml", "/ws", "mise/config.toml"},
		{"/ws/other/config.toml", "/ws", ""},
		{"/ws/mise/x/config.toml", "/ws", ""},
		{"/ws/mise.local.toml", "/ws", "mise.*.toml"},
		{"/ws/mise.toml", "/ws", "mise.toml"},
		{"/ws/mise..toml", "/ws", "mise.*.toml"},
		{"/ws/premise.toml", "/ws", ""},
		{"/ws/x.code-workspace", "/ws", "*.code-workspace"},
		{"/ws/.clinerules/style.md", "/ws", ""},
		{"/ws/.clinerules/hooks/TaskStart", "/ws", ".clinerules/hooks"},
		{"/ws/CLAUDE.md", "/ws", ""},
		{"/ws/Makefile", "/ws", ""},

		// What lies above the root is not the call's doing.
		{"/home/u/.claude/worktrees/x/main.go", "/home/u/.claude/worktrees/x", ""},
		{"/home/u/.claude/worktrees/x/.claude/y", "/home/u/.claude/worktrees/x", ".claude"},
		{"/home/u/.claude/worktrees/x/main.go", "/home/u", ".claude"},
		{"/home/u/.claude/worktrees/x/main.go", "", ".claude"},
		{"/home/u/.claude/worktrees/x/main.go", "/", ".claude"},
		{"/home/u/.config/mise/config.toml", "/home/u/.config", ".config/mise"},
		{"/home/u/.config/direnv/direnvrc", "/home/u/.config/direnv", ""},
		{"/other/.envrc", "/ws", ""},
		{"/wsx/.envrc", "/ws", ""},
		{"/xy/.envrc", "/ws", ""},
		{"/ws", "/ws", ""},

		{"/ws/.git", "/ws", ".git"},
		{"/ws/.git/config", "/ws", ".git"},
		{"/ws/a/.git/hooks/pre-commit", "/ws", ".git"},
		{"/ws/a/.git/HEAD", "/ws", ""},
		{"/ws/a/.git/refs/heads/main", "/ws", ""},
		{"/ws/a/.git/rebase-merge/git-rebase-todo", "/ws", ".git"},
		{"/ws/a/.git/rebase-merge/msgnum", "/ws", ""},
		{"/ws/a/.git/info", "/ws", ".git"},
		{"/ws/a/.git/info/exclude", "/ws", ""},
		{"/ws/a/.git/info/other", "/ws", ".git"},
		{"/ws/a/.git/worktrees/w/HEAD", "/ws", ""},
		{"/ws/a/.git/worktrees/w/commondir", "/ws", ".git"},
		{"/ws/a/.git/worktrees/w", "/ws", ".git"},
		{"/ws/a/.git/modules/m/HEAD", "/ws", ".git"},
		{"/ws/a/.GIT/config", "/ws", ".git"},
		{"/ws/a.git/config", "/ws", ""},
	} {
		got := ""
		if n := Find(tt.path, tt.root); n != nil {
			got = n.Name
		}
		if got != tt.want {
			t.Errorf("Find(%q, %q): %q, want %q", tt.path, tt.root, got, tt.want)
		}
	}
}

// A name of two segments is none of a path that has one.
func TestAt(t *testing.T) {
	for path, want := range map[string]string{
		"/a/mise/config.toml": "mise/config.toml", "mise/config.toml": "mise/config.toml", "config.toml": "", "": "",
		"/config.toml": "", "/a/.vscode": ".vscode", "/a/.vscode/x": "", "/a/Makefile": "",
	} {
		got := ""
		if n := At(path); n != nil {
			got = n.Name
		}
		if got != want {
			t.Errorf("At(%q): %q, want %q", path, got, want)
		}
	}
}

func TestGit(t *testing.T) {
	for rel, want := range map[string]Kind{
		"config": Keep, "config.worktree": Keep, "hooks": Keep, "hooks/pre-commit": Keep, "hooks/sub/x": Keep,
		"commondir": Read, "objects": Free, "objects/info/alternates": Free, "refs": Free, "HEAD": Free,
		"HEAD.lock": Free, "config.lock": Free, "ORIG_HEAD": Free, "COMMIT_EDITMSG": Free, "packed-refs": Free,
		"index": Free, "index.lock": Free, "index.stash.12": Free, ".COMMIT_EDITMSG.swp": Free, "#x#": Free,
		"rebase-merge": Inside, "rebase-merge/git-rebase-todo": Read, "rebase-merge/done": Free,
		"rebase-merge/git-rebase-todo.backup": Free, "rebase-apply": Free, "sequencer": Inside, "sequencer/opts": Read,
		"sequencer/todo": Free, "info": Inside, "info/exclude": Free, "info/x": Unknown, "modules": More,
		"worktrees": More, "gk": Unknown, "gk/config": Unknown, "Config": Keep, "HOOKS": Keep, "": Unknown,
		"head.d": Unknown, "remotes": Unknown, "HEAD/x": Unknown, "info/exclude/x": Unknown,
	} {
		if got := Git(rel); got != want {
			t.Errorf("Git(%q): %s, want %s", rel, got, want)
		}
	}
}

func TestFindPattern(t *testing.T) {
	for pattern, want := range map[string]bool{
		"/ws/pkg/.env*": true, "/ws/*/.envrc": true, "/ws/.vs*/tasks.json": true, "/ws/.g*/config": true,
		"/ws/.[e]nvrc": true, "/ws/.*": true, "/ws/*": false, "/ws/*.go": false, "/ws/src/*.ts": false,
		"/ws/.gi?/hooks/x": true, "/ws/.gi[t]/config": true, "/ws/.gi?x": false,
		"/ws/.config/mi*/x": true, "/ws/mise.l*.toml": true, "/ws/mi*": true, "/ws/m*": false, "/ws/*/.envrc/x": true,
		"/ws/.config": false, "/ws/mise": false, "/ws/fo[": false, "/ws/.en[": true,
	} {
		if got := FindPattern(pattern, "/ws") != nil; got != want {
			t.Errorf("FindPattern(%q): %v, want %v", pattern, got, want)
		}
	}
	if FindPattern("/home/u/.config/mise/x", "/home/u/.config") == nil {
		t.Error("a name that begins above the root is not found")
	}
}

// TestPlants: what runs with the project is told and is nothing that the host obeys, and its names
// hide none that the host obeys.
func TestPlants(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"/ws/Makefile", "make"},
		{"/ws/a/makefile", "make"},
		{"/ws/rules.mk", "make"},
		{"/ws/tests/conftest.py", "pytest"},
		{"/ws/crates/x/build.rs", "cargo"},
		{"/ws/package.json", "npm, yarn, pnpm, bun"},
		{"/ws/.github/workflows/ci.yml", "GitHub Actions"},
		{"/ws/jest.config.mjs", "jest"},
		{"/ws/.npmrc", "npm, pnpm"},
		{"/ws/.ripgreprc", "ripgrep"},
		{"/ws/.envrc", "direnv"},
		{"/ws/Makefile/.envrc", "direnv"},
		{"/ws/.mvn/.vscode/tasks.json", "VS Code and its kin"},
		{"/ws/build/main.go", ""},
		{"/ws/src/main.go", ""},
		{"/other/Makefile", ""},
	} {
		got := ""
		if n := Plants(tt.path, "/ws"); n != nil {
			got = n.Program
		}
		if got != tt.want {
			t.Errorf("Plants(%q): %q, want %q", tt.path, got, tt.want)
		}
	}
	for _, n := range Names() {
		path := "/ws/" + strings.ReplaceAll(n.Name, "*", "x")
		if found := Find(path, "/ws"); n.Where == Run && found != nil {
			t.Errorf("%s counts as obeyed by the host (%s)", n.Name, found.Name)
		}
		if under := "/ws/" + strings.ReplaceAll(n.Name, "*", "x") + "/.envrc"; Find(under, "/ws") == nil {
			t.Errorf("%s is not found", under)
		}
	}
}

// TestDepthDoesNotMatter: a name is found below any directory, and Last never rules out
// what At finds.
func TestDepthDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom(Names()).Draw(t, "name")
		name := strings.ReplaceAll(n.Name, "*", rapid.StringMatching(`[a-z.-]{0,8}`).Draw(t, "star"))
		dirs := rapid.SliceOfN(rapid.StringMatching(`[A-Za-z0-9_-]{1,8}`), 0, 12).Draw(t, "dirs")
		below := rapid.SliceOfN(rapid.StringMatching(`[A-Za-z0-9_-]{1,8}`), 0, 3).Draw(t, "below")
		path := "/" + strings.Join(slices.Concat([]string{"ws"}, dirs, []string{name}), "/")
		deep := strings.Join(append([]string{path}, below...), "/")
		if Plants(deep, "/ws") == nil {
			t.Fatalf("%s is not told", deep)
		}
		if n.Where == Run {
			return
		}
		if At(path) == nil || !Last(path[strings.LastIndexByte(path, '/')+1:]) {
			t.Fatalf("%s is not found", path)
		}
		if Find(deep, "/ws") == nil || FindPattern(deep, "/ws") == nil {
			t.Fatalf("%s is not found", deep)
		}
	})
}

// TestDocs_TheTableIsGenerated keeps the tables of docs/later.md equal to the files.
func TestDocs_TheTableIsGenerated(t *testing.T) {
	var b strings.Builder
	b.WriteString("| name | where | obeyed by | source |\n| --- | --- | --- | --- |\n")
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	for _, n := range Names() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", cell(n.Name), n.Where, cell(n.Program), cell(n.Source))
	}
	golden.Section(t, "../../docs/later.md", "names", b.String())
	b.Reset()
	b.WriteString("| in a git directory | | what it is |\n| --- | --- | --- |\n")
	for _, r := range gitRows() {
		name := strings.Join(r.segments, "/")
		if r.tree {
			name += "/"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", cell(name), r.kind, cell(r.what))
	}
	golden.Section(t, "../../docs/later.md", "git", b.String())
}
