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
