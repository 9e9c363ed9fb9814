package tools

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/tests/needs"
)

func TestT47_EditIsExact(t *testing.T) {
	for _, tt := range []struct {
		name, before string
		args         m
		after        string
		diff         string // in the answer
	}{
		{"one place", "a\nb\nc\n", m{"old_string": "b", "new_string": "B"}, "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		{"several lines", "a\nb\nc\n", m{"old_string": "a\nb\n", "new_string": ""}, "c\n", "-a\n-b\n c\n"},
		{"all places", "x x\nx\n", m{"old_string": "x", "new_string": "yy", "replace_all": true}, "yy yy\nyy\n", "-x x\n-x\n+yy yy\n+yy\n"},
		{"replace_all with one place", "x\n", m{"old_string": "x", "new_string": "y", "replace_all": true}, "y\n", "-x\n+y\n"},
		{"no newline at the end", "a", m{"old_string": "a", "new_string": "b"}, "b", "No newline"},
		{"dollars and backslashes are text", "a", m{"old_string": "a", "new_string": `$1 \1 &`}, `$1 \1 &`, "+$1"},
		{"patterns are text", "a.c abc\n", m{"old_string": "a.c", "new_string": "x"}, "x abc\n", "+x abc"},
		{"bytes that are not UTF-8 stay", "caf\xe9\nx\n", m{"old_string": "x", "new_string": "y"}, "caf\xe9\ny\n", "+y"},
		{"a byte order mark stays", "\xef\xbb\xbfx\n", m{"old_string": "x", "new_string": "y"}, "\xef\xbb\xbfy\n", "y"},
		{"CRLF is found by plain newlines and kept", "a\r\nb\r\nc\r\n", m{"old_string": "a\nb", "new_string": "x\ny\nz"}, "x\r\ny\r\nz\r\nc\r\n", "+x"},
		{"CRLF given as it is", "a\r\nb\r\n", m{"old_string": "a\r\n", "new_string": "x\n"}, "x\nb\r\n", "+x"},
		{"overlapping places, replaced apart", "aaaa", m{"old_string": "aa", "new_string": "b", "replace_all": true}, "bb", "+bb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := toolstest.New(t)
			e.Write("f", tt.before)
			tt.args["file_path"] = "f"
			got := e.OK(Edit{}, tt.args)
			if e.Read("f") != tt.after {
				t.Errorf("got file %q, want %q", e.Read("f"), tt.after)
			}
			if !strings.Contains(got, tt.diff) {
				t.Errorf("got %q, want %q in it", got, tt.diff)
			}
		})
	}
}

func TestT47_EditRefusesAndHelps(t *testing.T) {
	long := "func a() {\n\treturn 1\n}\n\nfunc b() {\n\treturn 2\n}\n"
	for _, tt := range []struct{ name, before, old, code, msg, hint string }{
		{"twice", "x\ny\nx\n", "x", "old_string_not_unique", "2 times, beginning in lines 1, 3", "replace_all"},
		{"overlapping with itself", "aaa", "aa", "old_string_not_unique", "2 times", "replace_all"},
		{"not there", "a\n", "zzz", "old_string_not_found", "not in the file", "Grep"},
		{
			"spaces for a tab", long, "    return 2", "old_string_not_found",
			"lines 6 to 6 differ from it only in white space", `\treturn 2`,
		},
		{
			"line numbers left in", long, "5\tfunc b() {\n6\t\treturn 2", "old_string_not_found", "not in the file",
			"leave out the line numbers",
		},
		{
			"an apostrophe and a space that does not break", "don't stop\n", "don’t\u00a0Stop", "old_string_not_found",
			"quotes or dashes", `don't stop`,
		},
		{"typographic quotes", "say \"hi\" - now\n", "say “hi” – now", "old_string_not_found", "quotes or dashes", `say "hi" - now`},
		{
			"one line of several differs", long, "func b() {\n\treturn 3\n}", "old_string_not_found",
			"there from line 5 on", "return 2",
		},
		{"a letter differs", long, "func c() {", "old_string_not_found", "from line 1 on is most like it", "func a() {"},
		{
			"a letter differs in several lines", long, "func {\n\tretorn 2", "old_string_not_found",
			"from line 5 on is most like it", "return 2",
		},
		{"empty", "a", "", "old_string_empty", "empty", "Write"},
		{"nothing to change", "a", "NEW", "no_change", "the same", "nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := toolstest.New(t)
			e.Write("f", tt.before)
			te := e.Fails(Edit{}, m{"file_path": "f", "old_string": tt.old, "new_string": "NEW"}, tt.code)
			if !strings.Contains(te.Msg, tt.msg) || !strings.Contains(te.Hint, tt.hint) {
				t.Errorf("got %q, hint %q; want %q, %q", te.Msg, te.Hint, tt.msg, tt.hint)
			}
			if e.Read("f") != tt.before {
				t.Errorf("a refused edit changed the file to %q", e.Read("f"))
			}
		})
	}
	e := toolstest.New(t)
	e.Write("dir/secret", "x")
	e.Box.Denied = []string{e.Dir + "/dir/secret"}
	e.Fails(Edit{}, m{"file_path": "dir", "old_string": "a", "new_string": "b"}, "is_directory")
	e.Fails(Edit{}, m{"file_path": "nope", "old_string": "a", "new_string": "b"}, "file_not_found")
	e.Fails(Edit{}, m{"file_path": "dir/secret", "old_string": "x", "new_string": "b"}, "path_denied")
}

func TestEdit_DiffApplies(t *testing.T) {
	needs.Program(t, "patch")
	e := toolstest.New(t)
	before := strings.Repeat("line\n", 5000) + "here\n" + strings.Repeat("line\n", 5000)
	e.Write("f", before)
	got := e.OK(Edit{}, m{"file_path": "f", "old_string": "here", "new_string": "there\nand more"})
	after := e.Read("f")
	e.Write("f", before)
	cmd := exec.Command("patch", "-p1", "-s")
	cmd.Dir, cmd.Stdin = e.Dir, strings.NewReader(got[strings.Index(got, "---"):])
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("patch: %v\n%s\n%s", err, out, got)
	}
	if e.Read("f") != after {
		t.Error("the diff does not lead to the file that Edit wrote")
	}
}

func FuzzEdit(f *testing.F) {
	f.Add("a\nb\n", "b", "c", false)
	f.Add("aaa", "aa", "", true)
	f.Add("a\r\nb\r\n", "a\nb", "x\n", false)
	f.Add("x \xff y", " ", "\n", true)
	f.Fuzz(func(t *testing.T, content, old, text string, all bool) {
		args := editArgs{OldString: old, NewString: text, ReplaceAll: all}
		places, found, put, err := findPlaces([]byte(content), args)
		if err != nil {
			return
		}
		diffAt("f", []byte(content), places, len(found), put)
		next := replaceAt([]byte(content), places, len(found), put)
		if !bytes.Contains([]byte(content), found) {
			t.Fatalf("replaced %q, which is not there", found)
		}
		if string(found) == old { // the plain case is what the standard library does
			want := strings.Replace(content, old, text, 1)
			if all {
				want = strings.ReplaceAll(content, old, text)
			}
			if string(next) != want {
				t.Fatalf("got %q, want %q", next, want)
			}
		}
	})
}

func TestEdit_IndexIsThatOfTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.StringMatching(`[ab\n]{0,200}`).Draw(t, "content")
		content = strings.Repeat(content, rapid.IntRange(1, 40).Draw(t, "times"))
		old := rapid.StringMatching(`[abc\n]{1,6}`).Draw(t, "old")
		if got, want := index([]byte(content), []byte(old),
			rarest([]byte(content), []byte(old))), strings.Index(content, old); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

func TestEdit_HelpIsBoundedInHostileFiles(t *testing.T) {
	e := toolstest.New(t)
	e.Write("f", strings.Repeat("a\n", 500_000))
	start := processorTime(t)
	e.Fails(Edit{}, m{"file_path": "f", "old_string": strings.Repeat("a\n", 100_000) + "b", "new_string": "x"},
		"old_string_not_found")
	e.Fails(Edit{}, m{"file_path": "f", "old_string": strings.Repeat("aaaa\n", 1000), "new_string": "x"},
		"old_string_not_found")
	e.Write("short", strings.Repeat("a line of text\n", 60_000))
	e.Fails(Edit{}, m{"file_path": "short", "old_string": "another lone in thext", "new_string": "x"},
		"old_string_not_found")
	e.Write("many", strings.Repeat("a", 6_000_000))
	e.Fails(Edit{}, m{"file_path": "many", "old_string": "a", "new_string": "b"}, "old_string_not_unique")
	e.Fails(Edit{}, m{"file_path": "many", "old_string": "a", "new_string": "b", "replace_all": true}, "change_too_large")
	e.Fails(Edit{}, m{"file_path": "many", "old_string": "aaa", "new_string": strings.Repeat("b", 100_000), "replace_all": true}, "change_too_large")
	if took := processorTime(t) - start; took > time.Minute {
		t.Errorf("took %v", took)
	}
}

// processorTime is what this process has used: other work on the machine does not lengthen it.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
