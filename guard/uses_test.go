package guard

import (
	"os"
	"path/filepath"
	"testing"
)

// TestADirectoryWhoseNameIsAPattern: the characters of a directory stand for themselves, only those of
// the word are a pattern.
func TestADirectoryWhoseNameIsAPattern(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"[a]", "a", "b*", "b?", "c"} {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s := Settings{DeniedPaths: []string{dir + "/secret"}}
		for line, want := range map[string]Verdict{
			"cat secre*": Deny, "cat ./s?cret": Deny, "cat other*": Allow,
		} {
			if j := JudgeCommand(line, dir, "/home/x", s); j.Verdict != want {
				t.Errorf("%s in %s: %s, want %s; %+v", line, name, j.Verdict, want, j.Reasons)
			}
		}
	}
	s := Settings{DeniedPaths: []string{base + "/a/secret", base + "/c/secret"}}
	if j := JudgeCommand("cat secre*", base+"/[a]", "/home/x", s); j.Verdict != Allow {
		t.Errorf("[a] is taken for a: %+v", j.Reasons)
	}
}

// TestALinkInADirectoryWhoseNameIsAPattern: links are followed below [id] as anywhere, and to it.
func TestALinkInADirectoryWhoseNameIsAPattern(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"[id]", "i", "a*b", "sec"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"[id]/x": "../sec", "a*b/x": "../sec", "link": "[id]"} {
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		line, dir, denied string
		want              Verdict
	}{
		{"cat x/secre*", "[id]", "sec/secret", Deny},
		{"cat x/secre*", "a*b", "sec/secret", Deny},
		{"cat '[id]'/x/secre*", "", "sec/secret", Deny},
		{`cat \[id\]/x/secre*`, "", "sec/secret", Deny},
		{"cat link/secre*", "", "[id]/secret", Deny},
		{"cat link/secre*", "", "i/secret", Allow},
		{"cat '[id]'/secre*", "", "i/secret", Allow},
		{"cat [id]/secre*", "", "i/secret", Deny},
	} {
		s := Settings{DeniedPaths: []string{filepath.Join(base, tt.denied)}}
		j := JudgeCommand(tt.line, filepath.Join(base, tt.dir), "/home/x", s)
		if j.Verdict != tt.want {
			t.Errorf("%s in %q, %s is denied: %s, want %s", tt.line, tt.dir, tt.denied, j.Verdict, tt.want)
		}
	}
}

// TestACdThatMayFailIsReadBothWays: the file counts in both directories, unless the one is there.
func TestACdThatMayFailIsReadBothWays(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(base, "there"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"there", "new"} {
		s := Settings{AllowedReadPaths: []string{filepath.Join(base, dir)}}
		for line, want := range map[string]Verdict{
			"cd " + dir + " && cat y": Allow,
			"cd " + dir + "; cat y":   map[string]Verdict{"there": Allow, "new": Deny}[dir],
		} {
			if j := JudgeCommand(line, base, "/home/x", s); j.Verdict != want {
				t.Errorf("%s: %s, want %s: %+v", line, j.Verdict, want, j.Reasons)
			}
		}
	}
}

// TestAWorkspaceWhoseNameIsAPattern: what may be written there may be written by a pattern.
func TestAWorkspaceWhoseNameIsAPattern(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Verdict{"[id]": Allow, "i": Deny} {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s := Settings{AllowedWritePaths: []string{filepath.Join(base, "[id]")}}
		if j := JudgeCommand("touch x*", dir, "/home/x", s); j.Verdict != want {
			t.Errorf("in %s: %s, want %s: %+v", name, j.Verdict, want, j.Reasons)
		}
	}
}
