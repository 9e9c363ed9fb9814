package search

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/tests/needs"
)

type pathUse = guard.PathUse

func TestT47_GrepModes(t *testing.T) {
	e := toolstest.New(t)
	e.Write("a.go", "package a\nfunc A() {}\n// a\nfunc B() {}\n")
	e.Write("sub/b.py", "def a():\n  FUNC = 1\n")
	e.Write("c.txt", "nothing\r\nfunc C\r\n")
	e.Write(".hidden", "func\n")
	e.Write("bin", "func\x00\n")
	e.Write("node_modules/d.go", "func D() {}\n")
	e.Write("types/x.rs", "kind\n")
	e.Write("types/x.rs.txt", "kind\n")
	for _, tt := range []struct {
		name string
		args m
		want string
	}{
		{"files by default", m{"pattern": "func"}, "a.go\nc.txt"},
		{"count", m{"pattern": "func", "output_mode": "count"}, "a.go:2\nc.txt:1\n[3 matching lines in 2 files]"},
		{"content", m{"pattern": "func", "output_mode": "content"}, "a.go:2:func A() {}\na.go:4:func B() {}\nc.txt:2:func C"},
		{"without numbers", m{"pattern": "func B", "output_mode": "content", "-n": false}, "a.go:func B() {}"},
		{"ignoring case", m{"pattern": "func", "-i": true}, "a.go\nc.txt\nsub/b.py"},
		{"by glob", m{"pattern": "func", "glob": "*.txt"}, "c.txt"},
		{"by type", m{"pattern": "a", "type": "py"}, "sub/b.py"},
		{"by another type", m{"pattern": "kind", "type": "rust"}, "types/x.rs"},
		{"one file", m{"pattern": "func", "path": "a.go", "output_mode": "count"}, "a.go:2\n[2 matching lines in 1 files]"},
		{"one directory", m{"pattern": "a", "path": "sub"}, "sub/b.py"},
		{"node_modules when it is named", m{"pattern": "func", "path": "node_modules"}, "node_modules/d.go"},
		{"a hidden file when it is named", m{"pattern": "func", "path": ".hidden"}, ".hidden"},
		{"only the match", m{"pattern": "func [A-Z]", "output_mode": "content", "-o": true, "glob": "*.go"}, "a.go:2:func A\na.go:4:func B"},
		{"lines after", m{"pattern": "func A", "output_mode": "content", "-A": 1}, "a.go:2:func A() {}\na.go-3-// a"},
		{"lines before", m{"pattern": "func B", "output_mode": "content", "-B": 1}, "a.go-3-// a\na.go:4:func B() {}"},
		{"contexts that touch", m{"pattern": "func", "output_mode": "content", "-C": 1, "path": "a.go"}, "a.go-1-package a\na.go:2:func A() {}\na.go-3-// a\na.go:4:func B() {}"},
		{"contexts apart", m{"pattern": "package|func B", "output_mode": "content", "-A": 0, "path": "a.go"}, "a.go:1:package a\n--\na.go:4:func B() {}"},
		{"head_limit and offset", m{"pattern": "func", "output_mode": "content", "head_limit": 1, "offset": 1}, "a.go:4:func B() {}\n[note: lines 2 to 2 of 3; go on with offset 2 or narrow the search]"},
		{"no limit", m{"pattern": "func", "head_limit": 0}, "a.go\nc.txt"},
		{"anchors hold for lines", m{"pattern": "^func B", "output_mode": "content"}, "a.go:4:func B() {}"},
		{"a match does not cross lines", m{"pattern": `a\s+func`}, "no matches found in ."},
		{"unless it is asked for", m{"pattern": `package a\s+func A`, "multiline": true, "output_mode": "content"}, "a.go:1:package a\na.go:2:func A() {}"},
		{"nothing", m{"pattern": "zzz"}, "no matches found in ."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := e.OK(Grep{}, tt.args); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// Grep shows a byte that is not UTF-8 as U+FFFD, so a search for what it showed finds the line.
func TestGrep_FindsWhatItShowed(t *testing.T) {
	e := toolstest.New(t)
	e.Write("a", "caf\xe9 noir\n")
	for _, pattern := range []string{"caf.", "caf\uFFFD noir", "\uFFFD", "(caf\uFFFD)+ noir"} {
		got := e.OK(Grep{}, m{"pattern": pattern, "output_mode": "content"})
		if want := "a:1:caf\uFFFD noir"; got != want {
			t.Errorf("%q: got %q, want %q", pattern, got, want)
		}
	}
}

// TestT47_GrepShows250LinesUnlessToldOtherwise: and says that there are more.
func TestT47_GrepShows250LinesUnlessToldOtherwise(t *testing.T) {
	e := toolstest.New(t)
	e.Write("fits", strings.Repeat("x\n", 250))
	e.Write("long", strings.Repeat("y\n", 251))
	if got := toolstest.Lines(e.OK(Grep{}, m{"pattern": "x", "output_mode": "content"})); len(got) != 250 || got[249] != "fits:250:x" {
		t.Errorf("of 250 lines: %d, the last is %q", len(got), got[len(got)-1])
	}
	want := "[note: lines 1 to 250 of 251; go on with offset 250 or narrow the search]"
	if got := toolstest.Lines(e.OK(Grep{}, m{"pattern": "y", "output_mode": "content"})); len(got) != 251 || got[250] != want {
		t.Errorf("of 251 lines: %d, the last is %q", len(got), got[len(got)-1])
	}
	if got := toolstest.Lines(e.OK(Grep{}, m{"pattern": "y", "output_mode": "content", "head_limit": 0})); len(got) != 251 {
		t.Errorf("without a limit: %d lines of 251", len(got))
	}
}

func TestGrep_Refuses(t *testing.T) {
	e := toolstest.New(t)
	e.Write("f", "x")
	if err := unix.Mkfifo(e.Dir+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	e.Fails(Grep{}, m{"pattern": "("}, "invalid_pattern")
	e.Fails(Grep{}, m{"pattern": "(?=x)"}, "invalid_pattern")
	e.Fails(Grep{}, m{"pattern": "((((a{100}){100}){100}){100})"}, "invalid_pattern")
	e.Fails(Grep{}, m{"pattern": strings.Repeat("a", maxPattern*10+1)}, "invalid_pattern")
	e.Fails(Grep{}, m{"pattern": "x", "glob": "[a"}, "invalid_pattern")
	e.Fails(Grep{}, m{"pattern": "x", "type": "nope"}, "unknown_type")
	e.Fails(Grep{}, m{"pattern": "x", "path": "nope"}, "file_not_found")
	e.Fails(Grep{}, m{"pattern": "x", "path": "fifo"}, "not_a_file")
	e.Fails(Grep{}, m{"pattern": "x", "output_mode": "all"}, "invalid_arguments")
	if got := e.OK(Grep{}, m{"pattern": "x"}); got != "f" {
		t.Errorf("got %q: a fifo in the tree must be passed over", got)
	}
}

func TestGrep_PatternThatWouldBlowUpElsewhereIsLinear(t *testing.T) {
	e := toolstest.New(t)
	e.Write("f", strings.Repeat("a", 50_000)+"\n")
	e.OK(Grep{}, m{"pattern": "(a+)+$|(a*)*b"}) // elsewhere longer than the limit of any test
}

func TestGrep_ContextAcrossPiecesOfALargeFile(t *testing.T) {
	e := toolstest.New(t)
	var b strings.Builder
	var want []string
	n := 0
	for b.Len() < 3*searchChunk {
		n++
		fmt.Fprintf(&b, "line %d\n", n)
	}
	e.Write("f", b.String())
	// The lines around every edge of a piece are in one of these.
	for i := 100; i < n; i += 1000 {
		want = append(want, fmt.Sprintf("f-%d-line %d", i-1, i-1), fmt.Sprintf("f:%d:line %d", i, i),
			fmt.Sprintf("f-%d-line %d", i+1, i+1), fmt.Sprintf("f-%d-line %d", i+2, i+2), "--")
	}
	got := toolstest.Lines(e.OK(Grep{}, m{
		"pattern": "^line [0-9]*100$", "output_mode": "content", "-B": 1, "-A": 2, "head_limit": 0,
	}))
	if !slices.Equal(got, want[:len(want)-1]) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("line %d: got %q, want %q", i, got[i], want[i])
			}
		}
		t.Fatalf("got %d lines, want %d", len(got), len(want)-1)
	}
}

func TestGrep_LinesLongerThanAPiece(t *testing.T) {
	e := toolstest.New(t)
	e.Write("f", strings.Repeat("x", 3*searchChunk)+" needle "+strings.Repeat("y", 10)+"\nsecond needle\n")
	got := toolstest.Lines(e.OK(Grep{}, m{"pattern": "needle", "output_mode": "content"}))
	if len(got) != 2 || len(got[0]) > 600 || got[1] != "f:2:second needle" {
		t.Errorf("got %d lines, %.80q, %q", len(got), got[0], got[len(got)-1])
	}
	e.Write("f", "needle\n"+strings.Repeat("x", 2*maxMultiline)+" needle\n")
	text := e.OK(Grep{}, m{"pattern": "needle", "output_mode": "content"})
	if !strings.HasPrefix(text, "f:1:needle\n") || !strings.Contains(text, "1 files were not searched to their end") {
		t.Errorf("got %.100q, want what was found and a note", text)
	}
	if text := e.OK(Grep{}, m{"pattern": "a.needle", "multiline": true}); !strings.Contains(text,
		"not searched to their end") {
		t.Errorf("got %.100q, want a note", text)
	}
}

// TestGrep_AsRipgrep compares answers with rg on the source of this module.
func TestGrep_AsRipgrep(t *testing.T) {
	needs.Program(t, "rg")
	e := toolstest.New(t)
	if err := os.CopyFS(e.Dir, os.DirFS("../..")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		rg   []string
		args m
	}{
		{"files", []string{"-l", "func Test"}, m{"pattern": "func Test"}},
		{"content", []string{"-n", `return \w+, nil`}, m{"pattern": `return \w+, nil`, "output_mode": "content"}},
		{"count", []string{"-c", "err"}, m{"pattern": "err", "output_mode": "count"}},
		{"case", []string{"-n", "-i", "todo|fixme|sandbox"}, m{
			"pattern": "todo|fixme|sandbox", "output_mode": "content", "-i": true,
		}},
		{"context", []string{"-n", "-C", "2", "^type "}, m{"pattern": "^type ", "output_mode": "content", "-C": 2}},
		{"only", []string{"-n", "-o", `"[a-z_]+"`}, m{"pattern": `"[a-z_]+"`, "output_mode": "content", "-o": true}},
		{"type", []string{"-l", "-t", "go", "the"}, m{"pattern": "the", "type": "go"}},
		{"multiline", []string{"-n", "-U", "--multiline-dotall", `import \(.*?\)`}, m{
			"pattern": `import \(.*?\)`, "multiline": true, "output_mode": "content",
		}},
		{"nothing", []string{"-n", "zzzz" + "zzzz"}, m{"pattern": "zzzz" + "zzzz", "output_mode": "content"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command("rg",
				append([]string{"--no-config", "--sort", "path", "--no-heading", "--color", "never"}, tt.rg...)...)
			cmd.Dir = e.Dir
			out, err := cmd.Output()
			if ee, ok := err.(*exec.ExitError); err != nil && (!ok || ee.ExitCode() != 1) {
				t.Fatal(err)
			}
			want := toolstest.Lines(strings.TrimSuffix(string(out), "\n"))
			tt.args["head_limit"] = 0
			_, res, err := e.Call(Grep{}, tt.args)
			if err != nil {
				t.Fatal(err)
			}
			got := res.Data.(grepData).Lines
			slices.Sort(got) // rg orders by directory entries, not by whole paths
			slices.Sort(want)
			for i := range min(len(got), len(want)) {
				if w := []rune(want[i]); len(w) < maxHitLine && got[i] != want[i] {
					t.Fatalf("line %d: got %q, rg has %q", i, got[i], want[i])
				}
			}
			if len(got) != len(want) {
				t.Fatalf("got %d lines, rg has %d", len(got), len(want))
			}
		})
	}
}

func TestGlob_AsRipgrepFiles(t *testing.T) {
	needs.Program(t, "rg")
	e := toolstest.New(t)
	for _, f := range []string{
		"a.go", "d/b.go", "d/c.log", "d/.gitignore", "build/x", "ig/.ignore", "ig/k", "ig/z",
		".h/x", "nested/.git/HEAD", "nested/y.log",
	} {
		e.Write(f, "x\n")
	}
	e.Write("d/.gitignore", "*.log\n!keep.log\n")
	e.Write("d/keep.log", "")
	e.Write(".gitignore", "build/\n*.log\n")
	e.Write("ig/.ignore", "z\n!../d/c.log\n")
	for _, repo := range []bool{false, true} {
		if repo {
			e.Write(".git/HEAD", "ref: refs/heads/main\n")
			e.Write(".git/info/exclude", "a.go\n")
		}
		cmd := exec.Command("rg", "--no-config", "--files")
		cmd.Dir = e.Dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		want := toolstest.Lines(strings.TrimSpace(string(out)))
		got := toolstest.Lines(e.OK(Glob{}, m{"pattern": "**"}))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("repository %v: got %v, rg has %v", repo, got, want)
		}
	}
}

func FuzzGrep(f *testing.F) {
	f.Add("a+b", "aab\nb\n", 1, false)
	f.Add("^$", "\n\nx", 0, false)
	f.Add("x*", "", 2, true)
	f.Add("(?s)a.b", "a\nb\n", 0, true)
	f.Add("[^x]", "\xff\n\x00", 0, false)
	f.Fuzz(func(t *testing.T, pattern, content string, around int, multiline bool) {
		around = max(0, min(around, 5))
		q, err := newQuery(grepArgs{Pattern: pattern, Mode: "content", Around: &around, Multiline: multiline})
		if err != nil || strings.ContainsAny(content, "\x00") {
			return
		}
		s := scan{q: q, line: 1}
		s.piece([]byte(content), true)
		all := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
		last := int64(0)
		for _, l := range s.hits.lines {
			if l.number <= last || l.number > int64(len(all)) {
				t.Fatalf("line %d after %d of %d", l.number, last, len(all))
			}
			last = l.number
			if want := showHit([]byte(all[l.number-1])); l.text != want {
				t.Fatalf("line %d is %q, want %q", l.number, l.text, want)
			}
		}
		if multiline || content == "" {
			return
		}
		matching := 0
		for _, l := range all {
			if q.re.MatchString(l) {
				matching++
			}
		}
		if s.hits.count != matching {
			t.Fatalf("%d lines match %q in %q, found %d", matching, pattern, content, s.hits.count)
		}
	})
}

// A run is found where the regular expression finds one, and nowhere else.
func TestGrep_RunsAreThoseOfTheExpression(t *testing.T) {
	for _, pattern := range []string{`[A-Z]{4}`, `x?[0-9a-f]{6}z*`, `(\d{5})+`, `\w{8,12}`, `[^a]{4}`, `(?i)[k-l]{4}`, `[\n0-9]{4}`} {
		re := regexp.MustCompile(pattern)
		find := hint(pattern)
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringMatching(`[A-Ca-f0-3 \nK-M]{0,60}`).Draw(t, "text")
			if find == nil {
				return
			}
			if m := re.FindStringIndex(text); m != nil && find([]byte(text)) > m[1] || m != nil &&
				find([]byte(text)) < 0 {
				t.Fatalf("%s in %q: the expression is at %v, the hint at %d", pattern, text, m, find([]byte(text)))
			}
		})
	}
	for pattern, want := range map[string]bool{
		`[A-Z]{4}`: true, `[^a]{4}`: false, `[A-Z]{3}`: false,
		`(?i)[k-l]{4}`: false, `[\n0-9]{4}`: false, `[A-Z]{4}|x`: false,
	} {
		if got := hint(pattern) != nil; got != want {
			t.Errorf("%s: a hint is %v, want %v", pattern, got, want)
		}
	}
}

// TestAFileHasAtMost50000Matches in memory; how many there are is still counted.
func TestAFileHasAtMost50000Matches(t *testing.T) {
	e := toolstest.New(t)
	path := e.Write("many", strings.Repeat("a\n", maxHits+1000))
	q, err := newQuery(grepArgs{Pattern: "a", Mode: "content"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := q.file(t.Context(), f, newBuffer())
	if err != nil || len(h.lines) != maxHits+1 || h.count != maxHits+1000 {
		t.Errorf("%d lines are kept of %d, %v", len(h.lines), h.count, err)
	}
}

func TestWhatASearchGivesToTheModelIsBounded(t *testing.T) {
	for _, tl := range []tool.Tool{Grep{}, Glob{}} {
		if s := tl.Spec(); s.OutputLimit != 50_000 {
			t.Errorf("%s: %d characters", s.Name, s.OutputLimit)
		}
	}
}

// Clients of MCP ask nobody about a tool that only reads.
func TestASearchOnlyReads(t *testing.T) {
	for _, tl := range []tool.Tool{Grep{}, Glob{}} {
		s := tl.Spec()
		a := s.Annotations
		if a == nil || !a.ReadOnly || !a.Idempotent || a.Destructive || !s.ReadOnly || s.Class != tool.ClassRead ||
			s.Origin != tool.OriginRepository {
			t.Errorf("%s: got %+v, %+v", s.Name, s, a)
		}
	}
}

// The bound of a line is one of characters, not of bytes.
func TestALineOfManyBytesIsWhole(t *testing.T) {
	whole := strings.Repeat("é", maxHitLine)
	for text, want := range map[string]string{whole: whole, whole + "é": whole + "… [line cut]"} {
		if got := showHit([]byte(text)); got != want {
			t.Errorf("of %d bytes are %d left, want %d", len(text), len(got), len(want))
		}
	}
}
