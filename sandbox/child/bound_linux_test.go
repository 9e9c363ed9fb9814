package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// A running program has the content of a bound one only if every byte is the same.
func TestSameContentOfARunningProgram(t *testing.T) {
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	want, err := unix.MemfdCreate("bound", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(want)
	if _, err := unix.Write(want, append(sleep, "same"...)); err != nil {
		t.Fatal(err)
	}
	for tail, same := range map[string]bool{"same": true, "sama": false, "sam": false, "same\n": false} {
		path := filepath.Join(t.TempDir(), "sleep")
		if err := os.WriteFile(path, append(sleep, tail...), 0o755); err != nil {
			t.Fatal(err)
		}
		program := exec.Command(path, "600")
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		if got := sameContent(fmt.Sprintf("/proc/%d/exe", program.Process.Pid), want); got != same {
			t.Errorf("a program that ends with %q: %v, want %v", tail, got, same)
		}
		_ = program.Process.Kill()
		_ = program.Wait()
		if sameContent(path, want) {
			t.Error("a file that can be written to counts as the same")
		}
	}
}

// TestNamesOfABoundFile: every path that may lead to the place of a bound file is found, and
// paths of other files are not.
func TestNamesOfABoundFile(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a/b", "other"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a/b", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	x := newIndex([][]string{{root + "/a/b/run", root + "/link/run"}, {root + "/Makefile"}}, nil)
	before := openDir(t, root+"/a/b") // where processes are before the directories are renamed
	above := openDir(t, root+"/a")
	find := func(p, dir string) int {
		i, ok := x.find(p, dir)
		if !ok {
			return -1
		}
		return i
	}
	type row struct {
		path, dir string // below root if it is no link in /proc
		want      int
	}
	check := func(when string, rows []row) {
		t.Helper()
		for _, r := range rows {
			dir := r.dir
			if filepath.IsLocal(dir) {
				dir = openDir(t, filepath.Join(root, dir))
			}
			if got := find(r.path, dir); got != r.want {
				t.Errorf("%s, %s from %s: got %d, want %d", when, r.path, r.dir, got, r.want)
			}
		}
	}
	check("at first", []row{
		{root + "/a/b/run", ".", 0},
		{root + "//a/./b/../b/run", "other", 0},
		{root + "/link/run", "other", 0},
		{"run", "a/b", 0},
		{"./run", "link", 0},
		{"b/run", "a", 0},
		{"../b/run", "a/b", 0},
		{"../link/run", "other", 0},
		{"../Makefile", "a", 1},
		{"Makefile", ".", 1},
		{"run", ".", -1},
		{"Makefile", "a", -1},
		{"run", "other", -1},
		{"running", "a/b", -1},
		{"", "a/b", -1},
		{"/", ".", -1},
	})
	// Others rename the directories above, and put new ones in their place.
	for _, rename := range [][2]string{{"a/b", "a/c"}, {"a", "z"}} {
		if err := os.Rename(filepath.Join(root, rename[0]), filepath.Join(root, rename[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	check("in renamed directories", []row{
		{"run", before, 0},
		{"./run", before, 0},
		{"b/run", above, 0},
		{"../b/run", before, 0},
		{"../../a/b/run", before, 0},
		{"run", above, -1},
		{"../c/run", above, -1},
	})
	check("in the new ones", []row{
		{"run", "a/b", 0}, {"b/run", "a", 0}, {root + "/link/run", ".", 0}, {root + "/z/c/run", ".", 0},
	})
}

// TestABoundCallMustHaveItsListener: without one, or with one that signals can interrupt,
// the call does not run.
func TestABoundCallMustHaveItsListener(t *testing.T) {
	a, err := newArena(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	defer a.free()
	plain, listen := wire.Program{{Code: 6}}, wire.Program{{Code: 6, K: 1}}
	for _, b := range []*boundFiles{nil, {listen: listen}} {
		var ops script.List
		a.filterOps(&ops, wire.Template{Filter: plain, Listen: listen}, b, 1, 9)
		mayFail := 0
		for _, o := range ops {
			if o.Ignore != 0 {
				mayFail++
			}
		}
		killable := ops[0].Arg[1]&unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV != 0
		if bound := b != nil; killable != bound || (mayFail == 0) != bound || (len(ops) == 2) != bound {
			t.Errorf("bound %v: %v, flags %#x, %d may fail", bound, ops, ops[0].Arg[1], mayFail)
		}
	}
}

// openDir is the link in /proc to a directory that stays open.
func openDir(t *testing.T, dir string) string {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return fmt.Sprintf("/proc/self/fd/%d", f.Fd())
}

// TestDirectoriesAreLearned: a directory that took the place of one above a name, and was
// moved away with a process in it.
func TestDirectoriesAreLearned(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x := newIndex([][]string{{root + "/a/b/run"}, {root + "/a/Makefile"}}, []string{root + "/a/b/GNUmakefile"})
	if err := os.MkdirAll(root+"/other/b", 0o755); err != nil {
		t.Fatal(err)
	}
	in := openDir(t, root+"/other")
	for p, want := range map[string]int{root + "/a": 3, "a/.": 3, "a/b/": 2, "./other/../a/b": 2, "other": 0, root: 3} {
		if got := x.ways(p, openDir(t, root)); len(got) < want || want == 0 && len(got) > 0 {
			t.Errorf("%s: got %v, want %d", p, got, want)
		}
	}
	if _, ok := x.find("b/run", in); ok {
		t.Error("it is known before")
	}
	x.learn(in, x.ways("a", openDir(t, root)))
	if below := x.ways("b", in); len(below) != 2 {
		t.Errorf("from there below: %v", below)
	}
	for p, want := range map[string]int{"b/run": 0, "./Makefile": 1, "b/../b/GNUmakefile": absent} {
		if got, ok := x.find(p, in); !ok || got != want {
			t.Errorf("%s: got %d, %v", p, got, ok)
		}
	}
	x.learn(openDir(t, root+"/other/b"), x.ways("b", in))
	if got, ok := x.find("run", openDir(t, root+"/other/b")); !ok || got != 0 {
		t.Errorf("two directories below: got %d, %v", got, ok)
	}
	if err := os.Mkdir(root+"/a", 0o755); err != nil {
		t.Fatal(err)
	}
	if below := x.ways("b", openDir(t, root+"/a")); len(below) != 2 {
		t.Errorf("from a new directory with its name: %v", below)
	}
	if !x.learn(root+"/gone", nil) || x.learn(in+"/b/../../\x00", nil) {
		t.Error("a process that is gone is told from a directory that cannot be seen")
	}
	for i := range uint64(maxPlaces) {
		x.below[place{i, 0, "run"}] = 0
	}
	if x.learn(in, x.ways("a", openDir(t, root))) {
		t.Error("it learns without end")
	}
}

// TestFilesAboveAreFound: what lies below a directory that is moved.
func TestFilesAboveAreFound(t *testing.T) {
	x := newIndex([][]string{{"/w/a/run"}}, nil)
	for p, want := range map[string]bool{"/w": true, "/w/a": true, "/": true, "/w/a/run": false, "/w/b": false, "/w/a/": true} {
		if _, got := x.above(p, ""); got != want {
			t.Errorf("above %s: %v", p, got)
		}
	}
	if _, got := x.above("a", "/proc/self/cwd"); got {
		t.Error("another directory of that name")
	}
}

// TestAbsentNamesAreFound: they are told from files, also in a directory of a file.
func TestAbsentNamesAreFound(t *testing.T) {
	dir := t.TempDir()
	x := newIndex([][]string{{dir + "/Makefile"}}, []string{dir + "/GNUmakefile"})
	for p, want := range map[string]int{dir + "/GNUmakefile": absent, dir + "/./GNUmakefile": absent, dir + "/Makefile": 0} {
		if got, ok := x.find(p, ""); !ok || got != want {
			t.Errorf("%s: got %d, %v", p, got, ok)
		}
	}
	if _, ok := x.find(dir+"/sub/GNUmakefile", ""); ok {
		t.Error("a file of that name in another directory is found")
	}
}

// TestWordsOfAProcess: the list of words ends with NULL, wherever it lies.
func TestWordsOfAProcess(t *testing.T) {
	pid := uint32(os.Getpid())
	for n := range 200 {
		words := make([]uintptr, n+1)
		for i := range n {
			words[i] = 1
		}
		if got := wordsOf(pid, uint64(uintptr(unsafe.Pointer(&words[0])))); got != max(n, 1) {
			t.Errorf("%d words are %d", n, got)
		}
	}
	if got := wordsOf(pid, 0); got != 1 {
		t.Errorf("no list has %d words", got)
	}
	page, err := unix.Mmap(-1, 0, 2*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	for i := range page {
		page[i] = 1
	}
	if err := unix.Mprotect(page[os.Getpagesize():], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if got := wordsOf(pid, uint64(uintptr(unsafe.Pointer(&page[0])))); got != -1 {
		t.Errorf("a list without an end has %d words", got)
	}
}
