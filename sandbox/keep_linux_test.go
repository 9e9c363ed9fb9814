package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
)

// keeps is a keeper in memory, in whose way others write.
type keeps struct {
	coming Coming
	old    string // content that is kept
	takes  int
	made   *bool
	take   func(k *keeps) error // after what is there was kept, before it is replaced
	again  error                // of Instead
}

func (k *keeps) Begin(_ context.Context, c *Coming) (Keeping, error) {
	c.Temp = filepath.Join(filepath.Dir(c.Path), ".sandboxd-chosen")
	k.coming = *c
	return k, nil
}

func textOf(c Content) string {
	if c.File == nil {
		return "nothing"
	}
	b, err := io.ReadAll(io.NewSectionReader(c.File, 0, 1<<20))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (k *keeps) Take(_ context.Context, old, _ Content) error {
	k.takes++
	k.old = textOf(old)
	if k.take == nil {
		return nil
	}
	return k.take(k)
}

func (k *keeps) Instead(_ context.Context, old Content) error {
	if k.again == nil {
		k.old = textOf(old)
	}
	return k.again
}

func (k *keeps) Done(_ context.Context, changed bool) { k.made = &changed }

// workspaceBox is a box, and the workspace that it may write.
func workspaceBox(t *testing.T) (dir string, b Box) {
	t.Helper()
	dir = shortTemp(t)
	s := guard.Settings{AllowedWritePaths: []string{dir, "/tmp"}}
	return dir, newBox(t, newCage(t, Options{Roots: are(dir)}), ProfileStrict, s)
}

// What a file tool takes away is what is kept, whoever writes meanwhile.
func TestWhatIsTakenAwayIsKept(t *testing.T) {
	no := errors.New("no room")
	write := func(content string) func(*keeps) error {
		return func(k *keeps) error { return os.WriteFile(k.coming.Path, []byte(content), 0o644) }
	}
	for _, tt := range []struct {
		name      string
		before    string // "" is no file
		take      func(*keeps) error
		again     error
		old, left string // what is kept, and what lies there without the call's own content "new"
		fails     bool
	}{
		{name: "a file is replaced", before: "one", old: "one"},
		{name: "a file is new", old: "nothing"},
		{name: "nothing can be kept", before: "one", take: func(*keeps) error { return no }, old: "one", left: "one", fails: true},
		{name: "somebody writes into the file", before: "one", take: write("theirs"), old: "theirs"},
		{
			name: "somebody puts another file there", before: "one", old: "theirs",
			take: func(k *keeps) error {
				temp := k.coming.Path + ".x"
				return errors.Join(os.WriteFile(temp, []byte("theirs"), 0o644), os.Rename(temp, k.coming.Path))
			},
		},
		{
			name: "that cannot be kept", before: "one", take: write("theirs"), again: no, old: "one", left: "theirs",
			fails: true,
		},
		{
			name: "somebody makes the file", old: "theirs",
			take: func(k *keeps) error {
				if k.takes > 1 {
					return nil
				}
				return write("theirs")(k)
			},
		},
		{
			name: "somebody removes the file", before: "one", old: "nothing",
			take: func(k *keeps) error {
				if k.takes > 1 {
					return nil
				}
				return os.Remove(k.coming.Path)
			},
		},
		{
			name: "somebody puts a directory there", before: "one", old: "one", left: "a directory", fails: true,
			take: func(k *keeps) error {
				return errors.Join(os.Remove(k.coming.Path), os.Mkdir(k.coming.Path, 0o755))
			},
		},
		{
			name: "it changes all the time", before: "one", old: "nothing", left: "x", fails: true,
			take: func(k *keeps) error {
				if k.takes%2 == 1 {
					return os.Remove(k.coming.Path)
				}
				return write("x")(k)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, box := workspaceBox(t)
			path := filepath.Join(dir, "f")
			if tt.before != "" {
				if err := os.WriteFile(path, []byte(tt.before), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			k := &keeps{take: tt.take, again: tt.again}
			use := guard.PathUse{Raw: path, Path: path, Op: guard.Write}
			err := WriteFile(WithKeeper(t.Context(), k), box, use, []byte("new"), 0o644)
			if (err != nil) != tt.fails || k.made == nil || *k.made == tt.fails {
				t.Errorf("got %v, done %v", err, k.made)
			}
			if tt.fails && tt.name == "it changes all the time" && k.takes != 100 {
				t.Errorf("tried %d times", k.takes)
			}
			if k.old != tt.old {
				t.Errorf("kept is %q, want %q", k.old, tt.old)
			}
			left := "a directory"
			if info, err := os.Stat(path); err != nil || !info.IsDir() {
				b, _ := os.ReadFile(path)
				left = string(b)
			}
			if want := tt.left; tt.fails && left != want || !tt.fails && left != "new" {
				t.Errorf("there lies %q", left)
			}
			all, _ := os.ReadDir(dir)
			for _, e := range all {
				if strings.HasPrefix(e.Name(), ".sandboxd-") {
					t.Errorf("%s is left", e.Name())
				}
			}
		})
	}
}

// Removing keeps too, and directories are made and removed as files are.
func TestRemoveAndMakeDirAreKept(t *testing.T) {
	dir, box := workspaceBox(t)
	path := filepath.Join(dir, "a/b/f")
	use := guard.PathUse{Raw: path, Path: path, Op: guard.Write}
	k := &keeps{}
	ctx := WithKeeper(t.Context(), k)
	if err := WriteFile(ctx, box, use, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if len(k.coming.Dirs) != 2 || k.coming.Dirs[1] != dir+"/a/b" || filepath.Dir(k.coming.Temp) != dir+"/a/b" {
		t.Errorf("announced %+v", k.coming)
	}
	k.take = func(k *keeps) error { return os.WriteFile(path, []byte("theirs"), 0o644) }
	if err := Remove(ctx, box, use); err != nil || k.old != "theirs" {
		t.Errorf("remove: %v, kept %q", err, k.old)
	}
	k.take = nil
	if err := MakeDir(ctx, box, use, Attributes{Mode: 0o711}); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeDir|0o711 {
		t.Errorf("made %v, %v", info.Mode(), err)
	}
	if err := MakeDir(ctx, box, use, Attributes{}); err == nil || *k.made {
		t.Error("a directory was made over another")
	}
	if err := Remove(ctx, box, use); err != nil || !*k.made {
		t.Error(err)
	}
	up := guard.PathUse{Path: dir + "/a", Op: guard.Write}
	if err := Remove(ctx, box, up); err == nil || *k.made {
		t.Error("a directory with another in it was removed")
	}
	if all, _ := os.ReadDir(dir + "/a/b"); len(all) != 0 {
		t.Errorf("left: %v", all)
	}
}

// What lies in the private files of a session is not on the host at its path.
func TestPrivateFilesAreNotKept(t *testing.T) {
	_, box := workspaceBox(t)
	k := &keeps{}
	use := guard.PathUse{Raw: "/tmp/f", Path: "/tmp/f", Op: guard.Write}
	err := WriteFile(WithKeeper(t.Context(), k), box, use, []byte("x"), 0o644)
	if err != nil || k.takes != 0 || k.made == nil || *k.made {
		t.Errorf("%v: kept %d times", err, k.takes)
	}
}
