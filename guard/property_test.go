package guard

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAddingADenialNeverAllowsMore adds rules to the settings of corpus lines.
func TestAddingADenialNeverAllowsMore(t *testing.T) {
	lines := readCorpus(t, "guard.jsonl")
	profiles := readProfiles(t)
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(lines).Draw(t, "line")
		s, err := ParseSettings(profiles[l.Profile])
		if err != nil {
			t.Fatal(err)
		}
		before := JudgeCommand(l.Command, "/home/dev/app", "/home/dev", s).Verdict
		if s.AllowedCommands == nil {
			s.DeniedCommands = append(s.DeniedCommands,
				rapid.SampledFrom([]string{"git", "ls", "cat", "x"}).Draw(t, "command"))
		}
		s.DeniedPaths = append(s.DeniedPaths,
			rapid.SampledFrom([]string{"/home/dev/app/src", "/usr", "/nowhere"}).Draw(t, "path"))
		after := JudgeCommand(l.Command, "/home/dev/app", "/home/dev", s).Verdict
		if before != Allow && after == Allow {
			t.Fatalf("%q was %s and is allowed with more denials", l.Command, before)
		}
	})
}

func TestNormaliseTwiceIsOnce(t *testing.T) {
	path := rapid.StringMatching(`(/(a|b|\.\.|\.|etc|tmp|proc|x y|é)){1,6}/?`)
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{
			DeniedPaths:      rapid.SliceOf(path).Draw(t, "denied"),
			AllowedReadPaths: rapid.SliceOf(path).Draw(t, "read"),
		}
		once, w1, err := s.Normalise()
		if err != nil {
			return
		}
		twice, w2, err := once.Normalise()
		if err != nil || !reflect.DeepEqual(once, twice) || !reflect.DeepEqual(w1, w2) {
			t.Fatalf("%+v, then %+v, %v", once, twice, err)
		}
	})
}

// FuzzResolve: what comes out is clean, and resolving it again changes nothing.
func FuzzResolve(f *testing.F) {
	for _, s := range []string{
		"a", "../x", "/etc/../x", "~", "~/x", "//a//b/", "/proc/self/root", "a/./b/..",
		"/dev/stdin",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := Resolve(path, "/usr", "/home/x")
		if err != nil {
			return
		}
		if !filepath.IsAbs(got) || filepath.Clean(got) != got {
			t.Fatalf("Resolve(%q) = %q", path, got)
		}
		if again, err := Resolve(got, "/", ""); err != nil || again != got {
			t.Fatalf("Resolve(%q) = %q, then %q, %v", path, got, again, err)
		}
	})
}

// TestResolveAgreesWithTheKernel opens what was resolved and compares it with
// what the path itself opens.
func TestResolveAgreesWithTheKernel(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a/b/c", "d"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"l": "a/b", "a/up": "..", "a/b/d": "../../d", "abs": root + "/d"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	segment := rapid.SampledFrom([]string{"a", "b", "c", "d", "l", "up", "abs", "..", ".", ""})
	rapid.Check(t, func(t *rapid.T) {
		rel := strings.Join(rapid.SliceOfN(segment, 1, 6).Draw(t, "path"), "/")
		path := root + "/" + rel
		want, err := os.Stat(path)
		if err != nil {
			return // the kernel finds nothing there
		}
		got, err := Resolve(path, "/", "")
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		info, err := os.Lstat(got)
		if err != nil || !os.SameFile(info, want) || info.Mode()&os.ModeSymlink != 0 {
			t.Fatalf("%s resolved to %s, which is another file: %v", path, got, err)
		}
	})
}
