package guard

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// tracking is a repository that tracks build/x.sh, lib.min.js and src/a.go, and has files in dist and
// build/out that it does not track.
func tracking(t *testing.T) string {
	t.Helper()
	needs.Program(t, "git")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"build/x.sh", "build/out/a.bin", "dist/a.js", "lib.min.js", "src/a.go", "src/b.pyc"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runGit(t, dir, "init", "-q")
	runGit(t, dir, "add", "build/x.sh", "lib.min.js", "src/a.go")
	return dir
}

func runGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@x"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// trackedIn reports whether each deletion of a line is of what git tracks.
func trackedIn(t *testing.T, r *Rules, line, dir string) string {
	t.Helper()
	s, err := shellparse.Parse(line, shellparse.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range r.ScriptUses(s, dir).Deletes {
		word := "no"
		if d.Tracked {
			word = "yes"
		}
		got = append(got, word)
	}
	return strings.Join(got, " ")
}

// TestWhereTheIndexOfARepositoryIs: a submodule and a linked work tree name their directory in a file, which may be
// relative to it; an index may share most of its entries with another file.
func TestWhereTheIndexOfARepositoryIs(t *testing.T) {
	for name, change := range map[string]func(dir string){
		"in .git": func(string) {},
		"beside it, by a relative path": func(dir string) {
			runGit(t, dir, "init", "-q", "--separate-git-dir", dir+"/sub.git")
			if err := os.WriteFile(dir+"/.git", []byte("gitdir: sub.git\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"split": func(dir string) { runGit(t, dir, "update-index", "--split-index") },
		"split, and changed since": func(dir string) {
			runGit(t, dir, "update-index", "--split-index")
			runGit(t, dir, "add", "src/b.pyc")
		},
	} {
		dir := tracking(t)
		change(dir)
		r := NewRules(Settings{AllowedWritePaths: []string{dir}})
		if got := trackedIn(t, r, "rm -rf build dist", dir); got != "yes no" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestADeletionKnowsWhatGitTracks(t *testing.T) {
	dir := tracking(t)
	for line, want := range map[string]string{
		"rm -rf build":                  "yes",
		"rm -rf build/*":                "yes",
		"rm -rf b*":                     "yes",
		"rm -rf build/out":              "no",
		"rm -rf build/out/*":            "no",
		"rm -rf dist":                   "no",
		"rm -rf dist build":             "no yes",
		"cd build && rm -rf ../dist":    "no",
		"cd src; rm -rf build":          "no", // the cd does not fail
		"cd gone; rm -rf build":         "no yes",
		"rm -f *.js":                    "yes",
		"rm -f *.map":                   "no",
		"rm -f build/*.sh":              "yes",
		"rm -f */*.sh":                  "yes",
		"rm -f */*.js":                  "no",
		"find . -name '*.pyc' -delete":  "no",
		"find . -name '*.go' -delete":   "yes",
		"find src -name '*.sh' -delete": "no",
		"rm -rf .":                      "yes",
		"rm -rf $x":                     "no", // what is meant is not known, which is another question
		"rm src/a.go":                   "no", // one file
	} {
		if got := trackedIn(t, nil, line, dir); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestWhatIsTrackedInOtherPlaces(t *testing.T) {
	dir := tracking(t)
	plain, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := trackedIn(t, nil, "rm -rf build", plain); got != "no" {
		t.Errorf("without a repository: %s", got)
	}
	if got := trackedIn(t, nil, "rm -rf "+dir, plain); got != "yes" {
		t.Errorf("a repository itself: %s", got)
	}
	runGit(t, dir, "commit", "-qm", "x")
	tree := filepath.Join(plain, "tree")
	runGit(t, dir, "worktree", "add", "-q", tree)
	for line, want := range map[string]string{"rm -rf build": "yes", "rm -rf dist": "no"} {
		if got := trackedIn(t, nil, line, tree); got != want {
			t.Errorf("in another worktree, %s: %s, want %s", line, got, want)
		}
	}
	runGit(t, plain, "init", "-q", "new")
	if got := trackedIn(t, nil, "rm -rf build", filepath.Join(plain, "new")); got != "no" {
		t.Errorf("in a repository that tracks nothing yet: %s", got)
	}
}

// What cannot be read, or must not be looked at, counts as tracked.
func TestAnIndexThatCannotBeReadTracksEverything(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, index string){
		"no index of git": func(t *testing.T, index string) { write(t, index, "x") },
		"cut off": func(t *testing.T, index string) {
			if err := os.Truncate(index, 100); err != nil {
				t.Fatal(err)
			}
		},
		"a directory": func(t *testing.T, index string) {
			if err := os.Remove(index); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(index, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"too large": func(t *testing.T, index string) {
			if err := os.Truncate(index, maxIndex+1); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tracking(t)
			damage(t, filepath.Join(dir, ".git", "index"))
			if got := trackedIn(t, nil, "rm -rf dist", dir); got != "yes" {
				t.Error(got)
			}
		})
	}
	t.Run("a pointer to nothing that is one", func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, ".git"), "x")
		if got := trackedIn(t, nil, "rm -rf dist", dir); got != "yes" {
			t.Error(got)
		}
	})
	t.Run("denied", func(t *testing.T) {
		dir := tracking(t)
		r := NewRules(Settings{DeniedPaths: []string{filepath.Join(dir, ".git")}})
		if got := trackedIn(t, r, "rm -rf dist", dir); got != "yes" {
			t.Error(got)
		}
	})
}

// Nobody learns by a deletion whether a denied place is a repository.
func TestADeniedPlaceIsNoRepository(t *testing.T) {
	dir := tracking(t)
	plain := filepath.Dir(dir)
	r := NewRules(Settings{DeniedPaths: []string{dir}})
	if got := trackedIn(t, r, "rm -rf "+dir, plain); got != "no" {
		t.Error(got)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
