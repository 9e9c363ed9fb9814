package search

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/tests/needs"
)

func TestT47_GlobPatterns(t *testing.T) {
	e := toolstest.New(t)
	at := time.Now()
	for i, f := range []string{
		"a.go", "b.md", "src/c.go", "src/deep/d.go", "src/deep/e.ts", ".hidden/f.go", ".g.go",
		"node_modules/h.go",
	} {
		if err := os.Chtimes(e.Write(f, "x"), at, at.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		args m
		want []string
	}{
		{"a name at any depth, newest first", m{"pattern": "*.go"}, []string{"src/deep/d.go", "src/c.go", "a.go"}},
		{"at the top only", m{"pattern": "./*.go"}, []string{"a.go"}},
		{"across directories", m{"pattern": "**/*.go"}, []string{"src/deep/d.go", "src/c.go", "a.go"}},
		{"below a directory", m{"pattern": "src/**"}, []string{"src/deep/e.ts", "src/deep/d.go", "src/c.go"}},
		{"one level", m{"pattern": "src/*"}, []string{"src/c.go"}},
		{"alternatives", m{"pattern": "**/{d,e}.{go,ts}"}, []string{"src/deep/e.ts", "src/deep/d.go"}},
		{"classes", m{"pattern": "[a-b].*"}, []string{"b.md", "a.go"}},
		{"a dash in a class", m{"pattern": `[a\-z].go`}, []string{"a.go"}},
		{"negated classes", m{"pattern": "[!a].go"}, []string{"src/deep/d.go", "src/c.go"}},
		{"one character", m{"pattern": "?.md"}, []string{"b.md"}},
		{"another root", m{"pattern": "*.go", "path": "src/deep"}, []string{"src/deep/d.go"}},
		{"an absolute pattern", m{"pattern": e.Dir + "/src/*.go"}, []string{"src/c.go"}},
		{"hidden when it is named", m{"pattern": ".hidden/*"}, []string{".hidden/f.go"}},
		{"node_modules when it is named", m{"pattern": "node_modules/*"}, []string{"node_modules/h.go"}},
		{"nothing", m{"pattern": "*.zig"}, []string{"no files found in ."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := toolstest.Lines(e.OK(Glob{}, tt.args)); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestGlob_BadPatternsAndPlaces(t *testing.T) {
	e := toolstest.New(t)
	e.Write("f", "x")
	for _, p := range []string{"[a", "{a,b", "a\\", "[[:alpha]", "../x", "a/../../b", strings.Repeat("*a", 600)} {
		e.Fails(Glob{}, m{"pattern": p}, "invalid_pattern")
	}
	e.Fails(Glob{}, m{"pattern": ""}, "invalid_arguments")
	e.Fails(Glob{}, m{"pattern": "*", "path": "nope"}, "file_not_found")
	e.Fails(Glob{}, m{"pattern": "*", "path": "f"}, "not_a_directory")
}

func TestT47_GlobReturnsTheNewest500(t *testing.T) {
	e := toolstest.New(t)
	at := time.Now()
	for i := range 520 {
		if err := os.Chtimes(e.Write(fmt.Sprintf("d%d/f%d", i%7, i), ""), at,
			at.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	got := toolstest.Lines(e.OK(Glob{}, m{"pattern": "**"}))
	if len(got) != 501 || got[0] != "d1/f519" || got[499] != "d6/f20" || !strings.Contains(got[500], "500 of 520") {
		t.Errorf("got %d lines, first %q, last %q, %q", len(got), got[0], got[499], got[len(got)-1])
	}
}

func TestX37_GlobAndGrepLeaveOutWhatIsDenied(t *testing.T) {
	e := toolstest.New(t)
	e.Write("open/f", "needle\n")
	e.Write("secret/f", "needle\n")
	e.Write("open/key", "needle\n")
	e.Box.Denied = []string{e.Dir + "/secret", e.Dir + "/open/key"}
	if got := e.OK(Glob{}, m{"pattern": "**"}); got != "open/f" {
		t.Errorf("Glob shows %q", got)
	}
	if got := e.OK(Grep{}, m{"pattern": "needle"}); got != "open/f" {
		t.Errorf("Grep shows %q", got)
	}
	e.Fails(Grep{}, m{"pattern": "needle", "path": "open/key"}, "path_denied")
}

func TestGlobAndGrep_DoNotFollowLinks(t *testing.T) {
	e := toolstest.New(t)
	e.Write("real/f", "needle\n")
	for link, to := range map[string]string{"loop": ".", "real/up": "..", "dir": "real", "file": "real/f", "out": "/etc"} {
		if err := os.Symlink(to, e.Dir+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	// What is no file is not visited either, though it could be opened.
	if err := unix.Mkfifo(e.Dir+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(e.Dir+"/pipe", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if got := e.OK(Glob{}, m{"pattern": "**"}); got != "real/f" {
		t.Errorf("got %q, want the one file", got)
	}
	if got := e.OK(Grep{}, m{"pattern": "needle"}); got != "real/f" {
		t.Errorf("got %q, want the one file", got)
	}
}

func TestGlob_DirectoryThatVanishesIsPassedOver(t *testing.T) {
	e := toolstest.New(t)
	e.Write("a/f", "")
	e.Write("b/f", "")
	n := 0
	root := e.Dir
	e.Box.Before = func(u pathUse) {
		if u.Path != root && strings.HasPrefix(u.Path, root) && n == 0 {
			n++
			if err := os.RemoveAll(u.Path); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := e.OK(Glob{}, m{"pattern": "**"})
	if !strings.Contains(got, "/f") || !strings.Contains(got, "1 directories were not searched") {
		t.Errorf("got %q, want the rest and a note", got)
	}
}

// TestIgnore_AsGit compares with git itself on random trees.
func TestIgnore_AsGit(t *testing.T) {
	needs.Program(t, "git")
	names := []string{"a", "b", "ab", "a.log", "b.log", "x y", "foo", "build"}
	rules := []string{
		"a", "/a", "a/", "*.log", "!a.log", "**/foo", "foo/**", "a/**/b", "build/", "/build", "a/b", "!a/b", "[ab].log", "?", "*", "!*/",
		"# comment", "", "\\#x", "a*", "x\\ y", "!b", "b/*", "foo/", "**", "a/*", "[!a]", "**/a/b",
	}
	rapid.Check(t, func(rt *rapid.T) {
		e := toolstest.New(t)
		git := exec.Command("git", "init", "-q")
		git.Dir = e.Dir
		if out, err := git.CombinedOutput(); err != nil {
			rt.Fatalf("git init: %v %s", err, out)
		}
		for range rapid.IntRange(1, 12).Draw(rt, "files") {
			path := strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(rt, "path"), "/")
			full := e.Dir + "/" + path
			if os.MkdirAll(full[:strings.LastIndexByte(full, '/')], 0o755) == nil {
				_ = os.WriteFile(full, nil, 0o644) // a directory may be there already
			}
		}
		for _, dir := range []string{"", "a/", "foo/"} {
			list := rapid.SliceOfN(rapid.SampledFrom(rules), 0, 5).Draw(rt, "rules of "+dir)
			if info, err := os.Stat(e.Dir + "/" + dir); err == nil && info.IsDir() && len(list) > 0 {
				e.Write(dir+".gitignore", strings.Join(list, "\n")+"\n")
			}
		}
		git = exec.Command("git", "-c", "core.quotePath=false", "-c", "core.excludesFile=/dev/null", "ls-files",
			"--others", "--exclude-standard")
		git.Dir = e.Dir
		out, err := git.Output()
		if err != nil {
			rt.Fatal(err)
		}
		var want []string
		for _, f := range toolstest.Lines(strings.TrimSuffix(string(out), "\n")) {
			if !strings.HasPrefix(f[strings.LastIndexByte(f, '/')+1:], ".") {
				want = append(want, f)
			}
		}
		var got []string
		for _, f := range toolstest.Lines(e.OK(Glob{}, m{"pattern": "**"})) {
			if !strings.HasPrefix(f, "no files found") {
				got = append(got, f)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			find := exec.Command("sh", "-c", "find . -path ./.git -prune -o -print; find . -name .gitignore | while read f; do echo == $f; cat $f; done")
			find.Dir = e.Dir
			tree, _ := find.Output()
			rt.Fatalf("got %q, git says %q\n%s", got, want, tree)
		}
	})
}

// A space at the end of a line is no part of its rule, unless a backslash stands in front of it (gitignore(5)).
func TestIgnore_SpacesAtTheEnd(t *testing.T) {
	e := toolstest.New(t)
	e.Write(".git/HEAD", "ref: refs/heads/main\n")
	for _, name := range []string{".gitignore", "a", "a ", "b", "b "} {
		e.Write(name, "a  \nb\\ \n")
	}
	got := slices.Sorted(slices.Values(toolstest.Lines(e.OK(Glob{}, m{"pattern": "*"}))))
	if !slices.Equal(got, []string{"a ", "b"}) {
		t.Errorf("got %q", got)
	}
}

func FuzzGlob(f *testing.F) {
	for _, p := range []string{"*", "**/*.go", "{a,{b,c}}", "[!a-z]", "\\*", "a**b", "[[:alpha:]]", "[]a]", "./x", "[\\]]"} {
		f.Add(p, "a/b.go")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := newPathPattern(pattern)
		if err != nil {
			return
		}
		p.match(path)
		if m := ignoreMatcher(pattern); m != nil {
			m(path)
		}
	})
}

// TestSoManyDirectoriesBelowOneAreEntered: 20,000; the answer counts the rest.
func TestSoManyDirectoriesBelowOneAreEntered(t *testing.T) {
	t.Setenv("TMPDIR", "/dev/shm") // a disk can take a millisecond for each
	e := toolstest.New(t)
	for i := range 20_001 {
		if err := os.Mkdir(fmt.Sprintf("%s/%d", e.Dir, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const want = "no files found in .\n[note: 1 directories were not searched]"
	if got := e.OK(Glob{}, m{"pattern": "*.go"}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
