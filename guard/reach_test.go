package guard

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPathsThatNameNothing: each has an error of its own, with a hint.
func TestPathsThatNameNothing(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("/"+strings.Repeat("x", 250), 12)
	if err := os.Symlink(long, dir+"/long"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                              "path_empty",
		"x":                             "path_no_directory",
		"/a\xff":                        "path_invalid_utf8",
		"/" + strings.Repeat("x", 4096): "path_too_long",
		dir + "/long":                   "",
		dir + "/long" + long[:1200]:     "path_too_long",
		"~":                             "path_no_directory",
		"~ann/x":                        "path_tilde_user",
	} {
		_, err := Resolve(path, "relative", "")
		got := ""
		if e, ok := errors.AsType[*PathError](err); ok {
			got = e.Code
			if e.Hint == "" {
				t.Errorf("%.80q: no hint in %+v", path, e)
			}
		}
		if got != want {
			t.Errorf("%.80q: got %q, %v; want %q", path, got, err, want)
		}
	}
}

// TestReachFindsWhoDecidesWhatAPathNames: each name on the way counts, not only
// the last.
func TestReachFindsWhoDecidesWhatAPathNames(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(base, "work")
	for _, dir := range []string{"work/sub", "etc/real", "workshop"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"etc/into":     work + "/file",
		"etc/relative": "../work/file",
		"etc/dir":      work + "/sub",
		"etc/through":  work + "/out",
		"work/out":     base + "/etc/real",
		"etc/apart":    "real",
		"etc/circle":   "circle",
		"etc/shop":     base + "/workshop",
	} {
		if err := os.Symlink(target, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, path string
		want       bool
	}{
		{"a file elsewhere", "/etc/real/f", false},
		{"a file in it", "/work/f", true},
		{"the directory itself", "/work", true},
		{"by dots", "/etc/../work/f", true},
		{"a directory of a longer name", "/workshop/f", false},
		{"a link into it", "/etc/into", true},
		{"a relative link into it", "/etc/relative", true},
		{"a directory that is a link into it", "/etc/dir/f", true},
		{"a link in it that leads out", "/work/out", true},
		{"below a link in it that leads out", "/work/out/f", true},
		{"a link to a link in it that leads out", "/etc/through/f", true},
		{"a link that stays away", "/etc/apart/f", false},
		{"a link to a directory of a longer name", "/etc/shop/f", false},
		{"links in a circle", "/etc/circle", false},
		{"what is not there", "/etc/none/f", false},
	} {
		dir, got := Reach(base+tt.path, []string{"/nowhere", work})
		if got != tt.want || got && dir != work {
			t.Errorf("%s: got %q, %v, want %v", tt.name, dir, got, tt.want)
		}
	}
	if _, got := Reach("/etc/passwd", []string{"/"}); !got {
		t.Error("who can write everything does not decide")
	}
}
