package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUndoEndsWithItsOwnDirectory: the directory of the manifest is removed after the manifest, if setup
// made it. Where it holds files of others, it stays, and that is said.
func TestUndoEndsWithItsOwnDirectory(t *testing.T) {
	for name, tt := range map[string]struct {
		other string // a file beside the manifest
		made  []made
		left  bool
		says  string
	}{
		"made and empty":     {made: []made{{Kind: Dir, Name: "/etc/own"}}},
		"made, with a file":  {other: "mine", made: []made{{Kind: Dir, Name: "/etc/own"}}, left: true, says: "left   directory /etc/own: it holds files"},
		"there before setup": {made: []made{{Kind: Dir, Name: "/etc/else"}}, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "etc/own")
			m := manifest{path: filepath.Join(dir, "setup.json"), Made: tt.made}
			if err := errors.Join(os.MkdirAll(dir, 0o755), m.write()); err != nil {
				t.Fatal(err)
			}
			if tt.other != "" {
				if err := os.WriteFile(filepath.Join(dir, tt.other), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			p := &Plan{host: Host{Root: root}, manifest: "/etc/own/setup.json"}
			if err := p.Undo(t.Context(), Show{Out: &out}); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(m.path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the manifest: %v", err)
			}
			if _, err := os.Lstat(dir); (err == nil) != tt.left {
				t.Errorf("the directory: %v\n%s", err, &out)
			}
			if !strings.Contains(out.String(), tt.says) || strings.Contains(out.String(), "left") != (tt.says != "") {
				t.Errorf("it says %s", &out)
			}
		})
	}
}

// TestUndoLeavesTheFilesOfOthers: also where setup was about to make a file and somebody else did.
func TestUndoLeavesTheFilesOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		done bool
		left bool
	}{
		"made":                          {"ours", true, false},
		"made and changed":              {"ours and theirs", true, true},
		"made, and then interrupted":    {"ours", false, false},
		"begun, and made by a stranger": {"theirs", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			file := filepath.Join(root, "etc/file")
			m := manifest{path: filepath.Join(root, "etc/setup.json"), Made: []made{
				{Kind: File, Name: "/etc/file", Sum: sumOf([]byte("ours")), Done: tt.done},
			}}
			if err := errors.Join(m.write(), os.WriteFile(file, []byte(tt.text), 0o600)); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			p := &Plan{host: Host{Root: root}, manifest: "/etc/setup.json"}
			if err := p.Undo(t.Context(), Show{Out: &out}); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(file); (err == nil) != tt.left {
				t.Errorf("the file: %v\n%s", err, &out)
			}
			if strings.Contains(out.String(), "it was changed since") != tt.left {
				t.Errorf("it says %s", &out)
			}
		})
	}
}

// What is kept is shown with what differs from what setup would make.
func TestWhatIsKeptIsShownWithWhatDiffers(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"etc/passwd": fmt.Sprintf("me:x:%d:%d::/:/bin/sh\nother:x:%d:1::/:/bin/sh\n", os.Getuid(), os.Getgid(), os.Getuid()+1),
		"etc/group":  fmt.Sprintf("mine:x:%d:\nothers:x:%d:\n", os.Getgid(), os.Getgid()+1),
		"etc/file":   "text",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Lstat(filepath.Join(root, "etc/file"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{host: Host{Root: root}}
	for _, tt := range []struct {
		mode fs.FileMode
		o    owner
		want string
	}{
		{0o640, owner{user: "me", group: "mine"}, "kept"},
		{0o600, owner{user: "me", group: "mine"}, "kept, with mode 0640 and not 0600"},
		{0o640, owner{user: "other", group: "mine"}, fmt.Sprintf("kept, of uid %d and not of other", os.Getuid())},
		{0o640, owner{user: "me", group: "others"}, fmt.Sprintf("kept, of gid %d and not of others", os.Getgid())},
	} {
		if got := p.differs(info, tt.mode, tt.o); got != tt.want {
			t.Errorf("%v %+v: %q, want %q", tt.mode, tt.o, got, tt.want)
		}
	}
}
