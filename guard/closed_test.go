package guard

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fillClosed puts something into a denied directory, by what is drawn.
func fillClosed(rt *rapid.T, dir, label string) {
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		rt.Fatal(err)
	}
	for _, name := range []string{"a", "b", "deep/a", "deep/b"} {
		path := filepath.Join(dir, name)
		_ = os.MkdirAll(filepath.Dir(path), 0o755) // what is there already is as good
		var err error
		switch rapid.SampledFrom([]string{"nothing", "file", "directory", "link"}).Draw(rt, label+" "+name) {
		case "file":
			err = os.WriteFile(path, nil, 0o644)
		case "directory":
			err = os.MkdirAll(path, 0o755)
		case "link":
			err = os.Symlink(rapid.SampledFrom([]string{"../open", "..", "../open/file", "a", "/etc", "deep"}).
				Draw(rt, label+" link "+name), path)
		}
		if err != nil && !errors.Is(err, os.ErrExist) {
			rt.Fatal(err)
		}
	}
}

// What is said of a path, a command or settings does not depend on what lies in a denied
// place: nobody can learn it by asking.
func TestNobodyLearnsWhatIsDenied(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(base, "closed")
	for _, dir := range []string{"open/dir", "home"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"open/in": "../closed", "open/deeper": closed + "/deep", "open/back": ".."} {
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	segment := rapid.SampledFrom([]string{
		"closed", "open", "in", "deeper", "back", "a", "b", "deep", "dir", "..", ".", "file", "x",
	})
	rapid.Check(t, func(rt *rapid.T) {
		path := func(label string) string {
			short := rapid.SampledFrom([]string{"a", "b", "deep/a", ""}).Draw(rt, label+" short")
			if short == "" {
				short = strings.Join(rapid.SliceOfN(segment, 1, 6).Draw(rt, label), "/")
			}
			return closed + "/" + short
		}
		one, two := path("path"), path("other")
		command := rapid.SampledFrom([]string{
			"cat %1", "cat %1/*", "cd %1 && cat a", "cd %1 || cat %2", "cp %1 %2", "rm -r %1", "echo x > %1",
			"test -d %1 && cat %2", ". %1", "%1/a b", "cd %1; cat a", "cd %1; cat ../b > c",
		}).Draw(rt, "command")
		command = strings.NewReplacer("%1", one, "%2", two).Replace(command)
		own := Settings{DeniedPaths: []string{closed}, AllowedWritePaths: []string{base + "/open"}}
		brought := Settings{
			AllowedReadPaths:  []string{path("allowed"), base + "/open/back"},
			AllowedWritePaths: []string{rapid.SampledFrom([]string{closed, path("write")}).Draw(rt, "tree"), base + "/open"},
			DeniedPaths:       rapid.SliceOfN(rapid.Just(path("denied")), 0, 1).Draw(rt, "has denied"),
		}
		ask := func() string {
			var all []any
			for _, s := range []Settings{own, brought, {}} {
				all = append(all, JudgeCommand(command, base+"/open", base+"/home", s, closed).CommandAnswer(),
					JudgeCommand("cat a ../b", one, base+"/home", s, closed).CommandAnswer())
				for _, op := range []Op{Read, Write} {
					all = append(all, JudgePath(one, op, two, base+"/home", s, closed).PathAnswer(),
						JudgePath("~/a", op, two, one, s, closed).PathAnswer())
				}
			}
			r := NewRules(own)
			resolved, err := r.Resolve(one, two, base+"/home")
			text, err2 := json.Marshal(append(all, resolved, err))
			if err2 != nil {
				rt.Fatal(err2)
			}
			return string(text)
		}
		fillClosed(rt, closed, "first")
		first := ask()
		fillClosed(rt, closed, "second")
		if second := ask(); first != second {
			rt.Errorf("%s and %s tell what is in %s:\n%s\n%s", one, command, closed, first, second)
		}
	})
}

// What leads into a denied place is denied, wherever a link in it would lead.
func TestADeniedPlaceIsNotLookedAt(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"secret/dir", "open"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"secret/out", "secret/dir/out"} {
		if err := os.Symlink(base+"/open", filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	own := Settings{DeniedPaths: []string{base + "/secret"}}
	brought := Settings{AllowedReadPaths: []string{base + "/open"}}
	for _, tt := range []struct {
		name, path string
		s          Settings
		verdict    Verdict
		code       string
		resolved   string
	}{
		{"a link out of it", "/secret/out", own, Deny, "path_denied", "/secret/out"},
		{"through a link out of it", "/secret/out/file", own, Deny, "path_denied", "/secret/out/file"},
		{"no way back from below", "/secret/out/../../open/file", own, Deny, "path_denied", "/secret/open/file"},
		{"a way back from the place itself", "/secret/../open/file", own, Allow, "", "/open/file"},
		{"beside it", "/open/file", own, Allow, "", "/open/file"},
		{"under settings that allow where it leads", "/secret/out/file", brought, Deny, "path_closed", ""},
		{"under no settings at all", "/secret/dir", Settings{}, Deny, "path_closed", ""},
		{"beside it, under settings of the caller", "/open/file", brought, Allow, "", "/open/file"},
	} {
		j := JudgePath(base+tt.path, Read, base, "/home/x", tt.s, base+"/secret")
		resolved := strings.TrimPrefix(j.Resolved, base)
		if j.Verdict != tt.verdict || resolved != tt.resolved || tt.code != "" && j.Reasons[0].Code != tt.code {
			t.Errorf("%s: got %v %q %+v", tt.name, j.Verdict, resolved, j.Reasons)
		}
	}
}
