package guard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
)

// usesOf is what a line would touch in a directory that has src/a.go and README.md, and a link to
// src named out.
func usesOf(t *testing.T, line string) (dir string, u Uses) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"src/a.go", "README.md"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("src", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	s, err := shellparse.Parse(line, shellparse.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return dir, (*Rules)(nil).ScriptUses(s, dir)
}

// A branch and a file have the same form on the line: what is there says which it is.
func TestACheckoutOfAFileThrowsWorkAway(t *testing.T) {
	for line, want := range map[string]int{
		"git checkout README.md": 1, "git checkout src": 1, "git checkout main": 0, "git checkout gone.md": 0,
	} {
		if _, u := usesOf(t, line); len(u.Discards) != want {
			t.Errorf("%s: %v, want %d", line, u.Discards, want)
		}
	}
}

// What would lie beside the workspace is refused with a path that works.
func TestAPathBesideTheWorkspaceHasAnotherOneInIt(t *testing.T) {
	s := Settings{AllowedWritePaths: []string{"/home/dev/ws", "/tmp", "/dev/null"}}
	for line, want := range map[string]string{
		"git worktree add ../w topic": "/home/dev/ws/w",
		"cmake -S . -B ../build/x":    "/home/dev/ws/build",
		"touch /etc/x":                "",
		"touch /dev/sda":              "",
	} {
		j := JudgeCommand(line, "/home/dev/ws", "/home/dev", s)
		if j.Verdict != Deny {
			t.Errorf("%s: %v", line, j.Verdict)
			continue
		}
		if hint := j.Reasons[0].Hint; want == "" && strings.Contains(hint, "beside") || !strings.HasSuffix(hint, want) {
			t.Errorf("%s: %s", line, hint)
		}
	}
}

func TestADeletionIsOfThePhysicalPath(t *testing.T) {
	dir, u := usesOf(t, "rm -rf out/*")
	if len(u.Deletes) != 1 || u.Deletes[0].Path != filepath.Join(dir, "src", "*") {
		t.Errorf("%+v, want src/*", u.Deletes)
	}
}

// TestWhereACdLeads: one that may fail leaves the rest where it was, unless the shell ends then.
func TestWhereACdLeads(t *testing.T) {
	for line, mayStay := range map[string]bool{
		"cd sub; cat x": true, "set -e; cd sub; cat x": false, "set -o errexit; cd sub; cat x": false,
		"set -e; set +e; cd sub; cat x": true, "set -e; set +o errexit; cd sub; cat x": true,
		"set -e; cd sub || true; cat x": true, "set +e; set -e; cd sub; cat x": false,
	} {
		dir, u := usesOf(t, line)
		reads := func(path string) bool {
			return slices.ContainsFunc(u.Paths, func(p PathUse) bool { return p.Path == filepath.Join(dir, path) })
		}
		if !reads("sub/x") || reads("x") != mayStay {
			t.Errorf("%s: reads %+v, may stay %v", line, u.Paths, mayStay)
		}
	}
}

// TestFindWritesFiles: what it prints into a file replaces that.
func TestFindWritesFiles(t *testing.T) {
	for _, line := range []string{
		"find . -fprint w", "find . -fprint0 w", "find . -fls w", `find . -fprintf w '%p\n'`, "find . -name x -fls w -print",
	} {
		dir, u := usesOf(t, line)
		if !slices.ContainsFunc(u.Paths, func(p PathUse) bool { return p.Path == filepath.Join(dir, "w") && p.Op == Write }) {
			t.Errorf("%s: %+v, want a write of w", line, u.Paths)
		}
	}
}

// TestVariablesThatProgramsGet: they get these also where the line does not export them.
func TestVariablesThatProgramsGet(t *testing.T) {
	r := NewRules(Settings{DeniedCommands: []string{"rm"}})
	for line, want := range map[string]Verdict{
		"HOME=/x; git status": Deny, "SHELL=./x; git log": Deny, "PATH=/x; git log": Deny,
		"OTHER=/x; git status": Allow, "export HOME=/x; git status": Deny,
	} {
		if j := r.JudgeCommand(line, "/work", ""); j.Verdict != want {
			t.Errorf("%s: %s, want %s: %+v", line, j.Verdict, want, j.Reasons)
		}
	}
}

func TestARenamedTreeIsWhatItWas(t *testing.T) {
	dir, u := usesOf(t, "mv src build; mv build dist; rm -rf dist")
	if len(u.Deletes) != 3 || u.Deletes[2].Was != filepath.Join(dir, "src") {
		t.Errorf("%+v, want the last to have been src", u.Deletes)
	}
}

// A word of a program of which nothing is known is a denial that a cage which holds makes
// superfluous; a denied path stays denied.
func TestAWordOfAnUnknownProgramIsAGuess(t *testing.T) {
	r := NewRules(Settings{AllowedWritePaths: []string{"/work"}, DeniedPaths: []string{"/etc/shadow"}})
	for line, want := range map[string]bool{
		"mytool /api/v1/users": true, "touch /api/v1/users": false, "mytool /etc/shadow": false, "echo x > /api/x": false,
	} {
		j := r.JudgeCommand(line, "/work", "")
		all := len(j.Reasons) > 0
		for _, ref := range j.Reasons {
			all = all && ref.Guess && ref.Caged
		}
		if j.Verdict != Deny || all != want {
			t.Errorf("%s: %s, guessed %v, want a denial and %v: %+v", line, j.Verdict, all, want, j.Reasons)
		}
	}
}
