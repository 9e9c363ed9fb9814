package view

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
)

func TestFIFOsOfWhatIsShown(t *testing.T) {
	dir := physicalTemp(t)
	for _, d := range []string{"a/b", "denied", "ws"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(filepath.Join(dir, d, "fifo"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if !BelowTmp(dir) {
		needs.Missing(t, "temporary files of this host are not below %v", tmp)
	}
	got, err := fifos([]string{"/usr", dir, dir + "/a"}, []string{"/tmp", dir + "/ws"}, []string{dir + "/denied"}, 100)
	if want := []string{dir + "/a/b/fifo"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("found %v, %v, want %v", got, err, want)
	}
	_, err = fifos([]string{dir}, nil, nil, 3)
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "allowedReadPaths") {
		t.Errorf("too many files: %v", err)
	}
}

// The home is shown by itself only where no list says what may be read.
func TestTheHomeIsShownWithoutAListOfPaths(t *testing.T) {
	for _, tt := range []struct {
		read   []string
		shown  []string // of what lies in /home
		hidden string   // the directory that hides a file of the home
	}{
		{nil, []string{"/home/dev"}, ""},
		{[]string{"/srv"}, nil, "/home"},
		{[]string{"/srv", "/home/dev/app"}, []string{"/home/dev/app"}, "/home"},
		{[]string{"/home/dev"}, []string{"/home/dev"}, ""},
	} {
		v := New(Options{Home: "/home/dev"}, guard.Settings{AllowedReadPaths: tt.read}, nil, "/none", nil)
		shown := slices.DeleteFunc(v.describe("").Show, func(p string) bool { return !guard.Within(p, "/home") })
		if hidden := v.Hidden("/home/dev/notes"); !slices.Equal(shown, tt.shown) || hidden != tt.hidden {
			t.Errorf("readable %q: of /home it shows %q, and %q hides the file, want %q and %q", tt.read, shown, hidden,
				tt.shown, tt.hidden)
		}
	}
}

// TestGrants: what is given is never more than the settings say.
func TestGrants(t *testing.T) {
	base := physicalTemp(t)
	for _, f := range []string{
		"ws/a/b/secret", "ws/a/b/other", "ws/a/c/file", "ws/d/file", "ws/.git/hooks/x",
		"ws/.git/objects/y", "read/x",
	} {
		p := filepath.Join(base, f)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a/b/secret", filepath.Join(base, "ws/link")); err != nil {
		t.Fatal(err)
	}
	under := func(names ...string) []string {
		for i, n := range names {
			names[i] = filepath.Join(base, n)
		}
		return names
	}
	given, narrowed := grants(wire.Template{
		Read: under("read"), Write: append(under("ws"), "/tmp", "/dev/null"), Scratch: base + "/scratch",
		Denied: under("ws/a/b/secret", "ws/absent", "read/absent"),
	}, under("ws/.git/hooks", "ws/.envrc"))
	got := map[string]bool{}
	for _, g := range given {
		if rel, ok := strings.CutPrefix(g.Path, base+"/"); ok {
			got[fmt.Sprint(rel, " ", g.Write)] = true
		} else if guard.Within(g.Path, "/tmp") || g.Write {
			t.Errorf("%+v is given", g)
		}
	}
	for _, want := range []string{
		"read false", "ws/a/b/other false", "ws/a/c false", "ws/d false", "ws/.git false",
		"ws/a/b/other true", "ws/a/c true", "ws/d true", "ws/.git/objects true", "scratch/tmp true",
		"scratch/vartmp true", "scratch/cache true",
	} {
		if !got[want] {
			t.Errorf("not given: %s", want)
		}
		delete(got, want)
	}
	for g := range got {
		t.Errorf("given besides: %s", g)
	}
	if want := under("ws", "ws/.git", "ws/a", "ws/a/b"); !slices.Equal(narrowed, want) {
		t.Errorf("narrowed %q, want %q", narrowed, want)
	}
}

func physicalTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
