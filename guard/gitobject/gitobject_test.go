package gitobject_test

import (
	"bytes"
	"compress/zlib"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard/gitobject"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// git runs git in a directory, with nothing of the configuration of whoever runs the tests.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	args = append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)
	cmd := exec.Command(needs.Program(t, "git"), args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

// memory has files by path.
type memory map[string][]byte

type file struct{ *bytes.Reader }

func (file) Close() error { return nil }

func (m memory) Open(path string) (gitobject.File, error) {
	data, ok := m[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return file{bytes.NewReader(data)}, nil
}

func (m memory) List(dir string) ([]string, error) {
	var names []string
	for path := range m {
		if filepath.Dir(path) == dir {
			names = append(names, filepath.Base(path))
		}
	}
	return names, nil
}

// load reads all files below a directory.
func load(t testing.TB, dir string) memory {
	t.Helper()
	m := memory{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			m[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// commits makes a repository with a large directory that changed several times, so that in a pack its tree is a delta.
func commits(t testing.TB, dir string, init ...string) {
	t.Helper()
	write(t, dir+"/a/b/c", "deep")
	git(t, dir, append([]string{"init", "-q", "-b", "main"}, init...)...)
	for i := range 300 {
		write(t, fmt.Sprintf("%s/many/files/of-%03d", dir, i), fmt.Sprint("first ", i))
	}
	write(t, dir+"/ä b\xff", "not UTF-8")
	if err := os.Symlink("a", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		write(t, fmt.Sprintf("%s/many/files/of-%03d", dir, 50*round), fmt.Sprint("round ", round))
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-qm", "x")
	}
	git(t, dir, "reset", "-q", "--soft", "HEAD~2") // the newest tree is never a delta
}

// wide makes the index of the only pack anew, as of a pack of more than 2 GB.
func wide(t *testing.T, dir string) {
	t.Helper()
	packs, err := filepath.Glob(dir + "/.git/objects/pack/*.pack")
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	index := strings.TrimSuffix(packs[0], "pack") + "idx"
	before, err := os.ReadFile(index)
	if err == nil {
		err = os.Remove(index)
	}
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "index-pack", "--index-version=2,100", "-o", index, packs[0])
	if after, err := os.ReadFile(index); err != nil || len(after) <= len(before) {
		t.Fatalf("%v: %d bytes, before %d", err, len(after), len(before))
	}
}

// delta fails unless a tree that is read is a delta.
func delta(t testing.TB, dir string) {
	t.Helper()
	cmd := exec.Command(needs.Program(t, "git"), "-C", dir, "cat-file", "--batch-check=%(deltabase)")
	cmd.Stdin = strings.NewReader("HEAD:many/files\n")
	if out, err := cmd.Output(); err != nil || strings.Trim(string(out), "0\n") == "" {
		t.Fatalf("no delta: %v: %s", err, out)
	}
}

// tree is what git says that HEAD has.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(git(t, dir, "ls-tree", "-rz", "HEAD"), "\x00"), "\x00") {
		facts, name, _ := strings.Cut(line, "\t")
		all[name] = strings.Fields(facts)[2]
	}
	return all
}

// same compares what is read with what git says.
func same(t *testing.T, files gitobject.Files, dir string, want map[string]string) {
	t.Helper()
	if len(want) < 303 {
		t.Fatalf("git knows %d files", len(want))
	}
	r := gitobject.Open(files, dir)
	defer r.Close()
	for name, hash := range want {
		if got, err := r.Blob(name); err != nil || hex.EncodeToString(got) != hash {
			t.Fatalf("%q: %x, %v; want %s", name, got, err, hash)
		}
	}
	for _, none := range []string{"none", "a", "a/b", "a/b/c/d", "many/files/of-300", "", "/", "a//b/c", "../a"} {
		if got, err := r.Blob(none); got != nil || err != nil {
			t.Errorf("%q: %x, %v", none, got, err)
		}
	}
}

// What HEAD has is what git says, however the repository keeps it.
func TestHeadIsWhatGitSays(t *testing.T) {
	made := t.TempDir()
	commits(t, made)
	for _, tt := range []struct {
		name  string
		init  []string
		then  [][]string
		check string // a path that there is then: the repository is of the kind that is meant
	}{
		{"loose objects", nil, nil, "refs/heads/main"},
		{"packs", nil, [][]string{{"gc", "-q"}}, "packed-refs"},
		{
			"deltas that name their base", nil,
			[][]string{{"-c", "repack.useDeltaBaseOffset=false", "gc", "-q"}},
			"packed-refs",
		},
		{
			"two packs", nil,
			[][]string{{"gc", "-q"}, {"commit", "-q", "--allow-empty", "-m", "x"}, {"repack", "-q"}},
			"HEAD",
		},
		{"places of 64 bits", nil, [][]string{{"gc", "-q"}}, "packed-refs"},
		{"SHA-256, packs", []string{"--object-format=sha256"}, [][]string{{"gc", "-q"}}, "packed-refs"},
		{"no branch", nil, [][]string{{"checkout", "-q", "--detach"}}, "HEAD"},
		{"a ref of a ref", nil, [][]string{
			{"symbolic-ref", "refs/heads/other", "refs/heads/main"}, {"symbolic-ref", "HEAD", "refs/heads/other"},
		}, "refs/heads/other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.init != nil {
				commits(t, dir, tt.init...)
			} else if err := os.CopyFS(dir+"/.git", os.DirFS(made+"/.git")); err != nil {
				t.Fatal(err)
			}
			for _, words := range tt.then {
				git(t, dir, words...)
			}
			if strings.Contains(tt.name, "64 bits") {
				wide(t, dir)
			}
			m := load(t, dir+"/.git")
			if m[dir+"/.git/"+tt.check] == nil {
				t.Fatalf("not made: %v", slices.Sorted(maps.Keys(m)))
			}
			if tt.then != nil && strings.Contains(tt.check, "packed-refs") {
				delta(t, dir)
			}
			same(t, m, dir+"/.git", tree(t, dir))
		})
	}
}

// Objects may lie in another repository.
func TestObjectsElsewhere(t *testing.T) {
	dir := t.TempDir()
	commits(t, dir+"/one")
	git(t, dir, "clone", "-q", "--shared", dir+"/one", dir+"/two")
	git(t, dir+"/one", "worktree", "add", "-q", "-b", "other", dir+"/three")
	for _, at := range []string{"two", "three"} {
		write(t, dir+"/"+at+"/new", "new in "+at)
		git(t, dir+"/"+at, "add", "-A")
		git(t, dir+"/"+at, "commit", "-qm", "x")
	}
	m := load(t, dir)
	same(t, m, dir+"/two/.git", tree(t, dir+"/two"))
	same(t, m, dir+"/one/.git/worktrees/three", tree(t, dir+"/three"))
	git(t, dir+"/three", "symbolic-ref", "HEAD", "refs/worktree/own")
	git(t, dir+"/three", "commit", "-qm", "without parents") // the work tree has no ref of this name yet
	m = load(t, dir)
	same(t, m, dir+"/one/.git/worktrees/three", tree(t, dir+"/three"))
	m[dir+"/two/.git/objects/info/alternates"] = []byte("# from here\n\n../../../one/.git/objects\n")
	same(t, m, dir+"/two/.git", tree(t, dir+"/two"))
	m[dir+"/one/.git/objects/info/alternates"] = []byte(dir + "/two/.git/objects\n../objects\n") // a circle
	same(t, m, dir+"/two/.git", tree(t, dir+"/two"))
}

// Before the first commit HEAD has nothing.
func TestNothingCommitted(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	write(t, dir+"/f", "x")
	git(t, dir, "add", "f")
	if got, err := gitobject.Open(load(t, dir+"/.git"), dir+"/.git").Blob("f"); got != nil || err != nil {
		t.Errorf("%x, %v", got, err)
	}
}

// What is not well formed is an error, and never a hash.
func TestHeadThatIsNotRead(t *testing.T) {
	dir := t.TempDir()
	commits(t, dir)
	whole := load(t, dir+"/.git")
	for name, files := range map[string]map[string]string{
		"no HEAD":              {"HEAD": "-"},
		"an empty HEAD":        {"HEAD": ""},
		"a HEAD that leads up": {"HEAD": "ref: ../../etc/passwd\n"},
		"reftable":             {"HEAD": "ref: refs/heads/.invalid\n"},
		"a circle":             {"HEAD": "ref: refs/heads/main\n", "refs/heads/main": "ref: refs/heads/main\n"},
		"a long HEAD":          {"HEAD": strings.Repeat("a", 10<<10)},
		"no such commit":       {"HEAD": strings.Repeat("ab", 20) + "\n"},
		"a tree for a commit":  {"HEAD": git(t, dir, "rev-parse", "HEAD^{tree}")},
		"quoted alternate":     {"objects/info/alternates": "\"/a\"\n"},
		"an index of a pack":   {"objects/pack/x.idx": "of version 1, or of nothing"},
	} {
		m := maps.Clone(whole)
		for path, text := range files {
			if m[dir+"/.git/"+path] = []byte(text); text == "-" {
				delete(m, dir+"/.git/"+path)
			}
		}
		if got, err := gitobject.Open(m, dir+"/.git").Blob("a/b/c"); err == nil || got != nil {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
}

// An index of another version has other things in the same places.
func TestAnIndexOfAnotherVersionIsNotRead(t *testing.T) {
	dir := t.TempDir()
	commits(t, dir)
	git(t, dir, "gc", "-q")
	m := load(t, dir+"/.git")
	for path, data := range m {
		if filepath.Ext(path) == ".idx" {
			data[7] = 3
		}
	}
	if got, err := gitobject.Open(m, dir+"/.git").Blob("a/b/c"); err == nil || got != nil {
		t.Errorf("%x, %v", got, err)
	}
}

// A delta of itself ends, and nothing is read that says that it is larger than all that may be read.
func TestHostileObjects(t *testing.T) {
	id := bytes.Repeat([]byte{0xab}, 20)
	head := []byte(hex.EncodeToString(id) + "\n")
	index := append([]byte("\xfftOc\x00\x00\x00\x02"), make([]byte, 4*0xab)...)
	index = append(index, bytes.Repeat([]byte{0, 0, 0, 1}, 256-0xab)...)
	index = append(append(index, id...), 0, 0, 0, 0, 0, 0, 0, 12)
	of := append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x70"), id...)
	var large bytes.Buffer
	z := zlib.NewWriter(&large)
	fmt.Fprintf(z, "commit %d\x00tree", 1<<40)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]memory{
		"a delta of itself": {"/r/HEAD": head, "/r/objects/pack/x.idx": index, "/r/objects/pack/x.pack": of},
		"a large object":    {"/r/HEAD": head, "/r/objects/ab/" + strings.Repeat("ab", 19): large.Bytes()},
	} {
		if got, err := gitobject.Open(m, "/r").Blob("f"); err == nil || got != nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
}

// loose returns a repository with a commit of a tree, each as it is written here.
func loose(t *testing.T, commit, tree string) memory {
	t.Helper()
	pack := func(text string) []byte {
		var b bytes.Buffer
		z := zlib.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	return memory{
		"/r/HEAD": []byte(strings.Repeat("aa", 20) + "\n"),
		"/r/objects/aa/" + strings.Repeat("aa", 19): pack(commit),
		"/r/objects/bb/" + strings.Repeat("bb", 19): pack(tree),
	}
}

// object is the text of an object with the length that it has.
func object(kind, text string) string { return fmt.Sprintf("%s %d\x00%s", kind, len(text), text) }

// What is not well formed is an error, also if what is asked for stands before it.
func TestAnObjectThatIsNotWellFormedIsAnError(t *testing.T) {
	blob := strings.Repeat("\xcc", 20)
	entry := "100644 f\x00" + blob
	commit := object("commit", "tree "+strings.Repeat("bb", 20)+"\nauthor a <a> 0 +0000\n\nm\n")
	got, err := gitobject.Open(loose(t, commit, object("tree", entry)), "/r").Blob("f")
	if err != nil || string(got) != blob {
		t.Fatalf("a tree that is well formed: %x, %v", got, err)
	}
	for name, m := range map[string]memory{
		"an entry that is cut":        loose(t, commit, object("tree", entry+"100644 g\x00\xcc\xcc")),
		"an entry without its hash":   loose(t, commit, object("tree", entry+"100644 g")),
		"an entry without a mode":     loose(t, commit, object("tree", entry+"g\x00"+blob)),
		"a tree that is a blob":       loose(t, commit, object("blob", entry)),
		"a tree that is longer":       loose(t, commit, "tree 5\x00"+entry),
		"a tree that is shorter":      loose(t, commit, fmt.Sprintf("tree %d\x00%s", len(entry)+5, entry)),
		"a tree without its length":   loose(t, commit, "tree"),
		"a kind that git has not":     loose(t, commit, object("leaf", entry)),
		"a commit without a tree":     loose(t, object("commit", "author a <a> 0 +0000\n\nm\n"), object("tree", entry)),
		"a commit with half its tree": loose(t, object("commit", "tree bbbb\n"), object("tree", entry)),
		"a commit that is a blob":     loose(t, object("blob", "tree "+strings.Repeat("bb", 20)+"\n"), object("tree", entry)),
	} {
		got, err := gitobject.Open(m, "/r").Blob("f")
		if err == nil || got != nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
}

// Old programs wrote the mode of a directory with a zero in front, and git reads it.
func TestTheOldModeOfADirectory(t *testing.T) {
	sub, blob := strings.Repeat("\xdd", 20), strings.Repeat("\xcc", 20)
	commit := object("commit", "tree "+strings.Repeat("bb", 20)+"\nauthor a <a> 0 +0000\n\nm\n")
	m := loose(t, commit, object("tree", "040000 d\x00"+sub))
	m["/r/objects/dd/"+strings.Repeat("dd", 19)] = loose(t, "", object("tree", "100644 f\x00"+blob))["/r/objects/bb/"+strings.Repeat("bb", 19)]
	r := gitobject.Open(m, "/r")
	if got, err := r.Blob("d/f"); err != nil || string(got) != blob {
		t.Errorf("a file in it: %x, %v", got, err)
	}
	if got, err := r.Blob("d"); err != nil || got != nil {
		t.Errorf("the directory: %x, %v", got, err)
	}
}

// Bytes that somebody changed give an error or a hash, and end.
func FuzzRepository(f *testing.F) {
	dir := f.TempDir()
	commits(f, dir)
	git(f, dir, "gc", "-q")
	delta(f, dir)
	whole := load(f, dir+"/.git")
	var parts []string
	for path := range whole {
		if ext := filepath.Ext(path); ext == ".pack" || ext == ".idx" {
			parts = append(parts, path)
		}
	}
	if slices.Sort(parts); len(parts) != 2 {
		f.Fatal(parts)
	}
	for i := range 400 {
		f.Add(i%2 == 0, uint32(i*37), byte(1<<(i%8)), i%5 == 0)
	}
	f.Fuzz(func(_ *testing.T, first bool, at uint32, flip byte, cut bool) {
		path := parts[1]
		if first {
			path = parts[0]
		}
		m := maps.Clone(whole)
		data := bytes.Clone(m[path])
		if i := int(at % uint32(len(data))); cut {
			data = data[:i]
		} else {
			data[i] ^= flip
		}
		m[path] = data
		r := gitobject.Open(m, dir+"/.git")
		defer r.Close()
		for _, name := range []string{"a/b/c", "many/files/of-150"} {
			_, _ = r.Blob(name)
		}
	})
}
