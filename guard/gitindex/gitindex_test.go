package gitindex_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard/gitindex"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// git runs git in a directory, with nothing of the configuration of whoever runs the tests.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return gitReads(t, dir, "", args...)
}

// gitReads is git with a standard input.
func gitReads(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	needs.Program(t, "git")
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

// repository tracks files whose names try the format: many, and some that sort around a slash.
func repository(t testing.TB, format string) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "--object-format="+format)
	names := []string{"README.md", "src/a.go", "src/b/c.go", "src.go", "src-x/a", "src0", "ü/ä", "a b"}
	for i := range 300 {
		names = append(names, fmt.Sprintf("many/%d/%d.txt", i%7, i))
	}
	for _, n := range names {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, n)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, n), []byte(n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "add", ".")
	return dir
}

func read(t testing.TB, dir string) gitindex.Names {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := gitindex.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestGitSaysTheSame compares with git ls-files, for each form that git writes.
func TestGitSaysTheSame(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			t.Run(format+" "+version, func(t *testing.T) {
				dir := repository(t, format)
				git(t, dir, "update-index", "--index-version="+version)
				if version != "2" { // flags that only newer versions have
					if err := os.WriteFile(filepath.Join(dir, "later"), nil, 0o600); err != nil {
						t.Fatal(err)
					}
					git(t, dir, "add", "-N", "later")
				}
				want := strings.Split(strings.TrimRight(git(t, dir, "ls-files", "-z"), "\x00"), "\x00")
				if got := read(t, dir).List; !slices.Equal(got, want) {
					t.Errorf("%d entries, want %d", len(got), len(want))
				}
			})
		}
	}
}

// TestSumTellsWhatIsStaged: whoever finds the same sum writes an older index over this one.
func TestSumTellsWhatIsStaged(t *testing.T) {
	// In a split index src0 is replaced, and src.go deleted, already: one entry more of each kind must show too.
	conflict := func(t *testing.T, dir, ours string) {
		blob := func(text string) string {
			return strings.TrimSpace(gitReads(t, dir, text, "hash-object", "-w", "--stdin"))
		}
		gitReads(t, dir, fmt.Sprintf("100644 %s 1\tc\n100644 %s 2\tc\n100644 %s 3\tc\n",
			blob("base"), blob(ours), blob("theirs")), "update-index", "--index-info")
	}
	stage := func(t *testing.T, dir, name string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		git(t, dir, "add", name)
	}
	for _, tt := range []struct {
		name  string
		act   func(t *testing.T, dir string)
		equal bool
	}{
		{"times alone", func(t *testing.T, dir string) {
			if err := os.Chtimes(filepath.Join(dir, "src0"), time.Time{}, time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
			git(t, dir, "update-index", "-q", "--unmerged", "--refresh")
		}, true},
		{"content", func(t *testing.T, dir string) { stage(t, dir, "README.md") }, false},
		{"a new file", func(t *testing.T, dir string) { stage(t, dir, "z") }, false},
		{"a file that is tracked no more", func(t *testing.T, dir string) { git(t, dir, "rm", "-q", "--cached", "src/a.go") }, false},
		{"a mode", func(t *testing.T, dir string) { git(t, dir, "update-index", "--chmod=+x", "a b") }, false},
		{"assumed to be unchanged", func(t *testing.T, dir string) {
			git(t, dir, "update-index", "--assume-unchanged", "a b")
		}, false},
		{"not in the work tree", func(t *testing.T, dir string) { git(t, dir, "update-index", "--skip-worktree", "a b") }, false},
		{"one extended flag more", func(t *testing.T, dir string) { git(t, dir, "update-index", "--skip-worktree", "later") }, false},
		{"one side of a conflict", func(t *testing.T, dir string) { conflict(t, dir, "ours, again") }, false},
	} {
		for _, form := range []string{"--no-split-index", "--split-index"} {
			if tt.equal && form == "--split-index" {
				continue // git joins the halves here, and the sum may differ
			}
			t.Run(tt.name+" "+form, func(t *testing.T) {
				dir := t.TempDir()
				git(t, dir, "init", "-q")
				git(t, dir, "config", "splitIndex.maxPercentChange", "100") // git writes no new shared index
				if err := os.Mkdir(filepath.Join(dir, "src"), 0o700); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"README.md", "a b", "src.go", "src/a.go", "src0", "later"} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				git(t, dir, "add", "README.md", "a b", "src.go", "src", "src0")
				git(t, dir, "add", "-N", "later")
				conflict(t, dir, "ours")
				git(t, dir, "update-index", form)
				stage(t, dir, "src0")
				git(t, dir, "rm", "-q", "--cached", "src.go")
				before, wasShared := sumOf(t, dir)
				tt.act(t, dir)
				after, shared := sumOf(t, dir)
				if (before == after) != tt.equal {
					t.Errorf("equal is %v, want %v", before == after, tt.equal)
				}
				if shared != wasShared || (shared != "") != (form == "--split-index") {
					t.Errorf("the shared index was %q and is %q", wasShared, shared)
				}
			})
		}
	}
}

func sumOf(t *testing.T, dir string) (sum, shared string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	if sum, err = gitindex.Sum(data); err != nil {
		t.Fatal(err)
	}
	return sum, read(t, dir).Shared
}

func TestASplitIndexNamesItsOtherHalf(t *testing.T) {
	dir := repository(t, "sha1")
	git(t, dir, "update-index", "--split-index")
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", "README.md") // an entry of the shared half is replaced, and has no name then
	n := read(t, dir)
	data, err := os.ReadFile(filepath.Join(dir, ".git", "sharedindex."+n.Shared))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := gitindex.Read(data)
	if err != nil || !shared.Has("src/a.go") {
		t.Errorf("%v, %v", err, shared.List)
	}
}

func TestASparseIndexHoldsDirectories(t *testing.T) {
	dir := repository(t, "sha1")
	git(t, dir, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x")
	git(t, dir, "sparse-checkout", "set", "--cone", "--sparse-index", "src")
	n := read(t, dir)
	if !slices.Contains(n.List, "many/") {
		needs.Missing(t, "this git writes no sparse index: %v", n.List)
	}
	for path, want := range map[string]bool{"many": true, "many/3": true, "many/3/x": true, "man": false, "src/b": true} {
		if n.Has(path) != want {
			t.Errorf("Has(%q) is %v", path, !want)
		}
	}
}

// TestNamesOutOfOrderAreRefused: a name that is searched for by halves would not be found.
func TestNamesOutOfOrderAreRefused(t *testing.T) {
	dir := repository(t, "sha1")
	git(t, dir, "update-index", "--index-version=2")
	data, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	moved := bytes.Replace(data, []byte("src0\x00"), []byte("a/c0\x00"), 1)
	if n, err := gitindex.Read(moved); bytes.Equal(moved, data) || err == nil {
		t.Errorf("%d names were read", len(n.List))
	}
}

// TestAnIndexThatIsCutOffIsRefused: an agent can write one, and its end may lie anywhere.
func TestAnIndexThatIsCutOffIsRefused(t *testing.T) {
	whole := append([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"), make([]byte, 60)...)
	whole = append(whole, "\x00\x08src/a.go\x00\x00"...)
	whole = append(whole, make([]byte, 20)...)
	if n, err := gitindex.Read(whole); err != nil || !n.Has("src/a.go") {
		t.Fatalf("%v, %v", n.List, err)
	}
	for length := range whole {
		if n, err := gitindex.Read(whole[:length]); err == nil {
			t.Errorf("%d bytes of it are %v", length, n.List)
		}
	}
}

// TestADamagedIndexIsRefused: what is read of a part of it would call a tracked file untracked.
func TestADamagedIndexIsRefused(t *testing.T) {
	const head = "DIRC\x00\x00\x00\x02\x00\x00\x00\x00"
	sum := strings.Repeat("\x00", 20)
	for name, data := range map[string]string{
		"a version that is not known":     strings.Replace(head, "\x02", "\x05", 1) + sum,
		"a file of another kind":          strings.Replace(head, "DIRC", "DIRX", 1) + sum,
		"half an extension":               head + "TREE" + sum,
		"an extension that is cut off":    head + "TREE\x00\x00\x00\x09x" + sum,
		"a shared index without its hash": head + "link\x00\x00\x00\x03abc" + sum,
	} {
		if n, err := gitindex.Read([]byte(data)); err == nil {
			t.Errorf("%s: it has %q and %q", name, n.List, n.Shared)
		}
	}
	if _, err := gitindex.Read([]byte(head + "TREE\x00\x00\x00\x01x" + sum)); err != nil {
		t.Errorf("one without files: %v", err)
	}
}

func TestHas(t *testing.T) {
	n := gitindex.Names{List: []string{"a b", "src-x/a", "src.go", "src/a.go", "src/b/c.go", "src0"}}
	for path, want := range map[string]bool{
		"": true, "src": true, "src/b": true, "src/a.go": true, "src/a": false, "sr": false, "src-x": true, "build": false,
		"src0": true, "a": false,
	} {
		if n.Has(path) != want {
			t.Errorf("Has(%q) is %v", path, !want)
		}
	}
	if got := n.Below("src"); !slices.Equal(got, []string{"src/a.go", "src/b/c.go"}) {
		t.Error(got)
	}
	var none gitindex.Names
	if none.Has("") || none.Has("x") {
		t.Error("an index without entries has some")
	}
}

// FuzzRead: any bytes are read without a panic, and what is read is sorted.
func FuzzRead(f *testing.F) {
	dir := repository(f, "sha1")
	for _, version := range []string{"2", "4"} {
		git(f, dir, "update-index", "--index-version="+version)
		data, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte("DIRC\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := gitindex.Read(data)
		if err == nil && !slices.IsSorted(n.List) {
			t.Error(n.List)
		}
		n.Has("src/a.go")
		if _, bad := gitindex.Sum(data); (err == nil) != (bad == nil) {
			t.Errorf("Read says %v, Sum %v", err, bad)
		}
		for _, name := range n.List {
			if _, ok := n.Entry(name); !ok && err == nil {
				t.Errorf("%q has no entry", name)
			}
		}
	})
}
