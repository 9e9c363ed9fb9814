package tools

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

func TestT47_WriteMakesAndReplaces(t *testing.T) {
	e := newEnv(t)
	got := e.ok(Write{}, m{"file_path": "new/deep/f.txt", "content": "a\nb"})
	if e.read("new/deep/f.txt") != "a\nb" || got != "created new/deep/f.txt: 2 lines, 3 bytes" {
		t.Errorf("got %q, file %q", got, e.read("new/deep/f.txt"))
	}
	if err := os.Chmod(e.dir+"/new/deep/f.txt", 0o755); err != nil {
		t.Fatal(err)
	}
	if got := e.ok(Write{}, m{"file_path": "new/deep/f.txt", "content": ""}); got != "replaced new/deep/f.txt: 0 lines, 0 bytes" {
		t.Errorf("got %q", got)
	}
	info, err := os.Stat(e.dir + "/new/deep/f.txt")
	if err != nil || info.Mode().Perm() != 0o755 || info.Size() != 0 {
		t.Errorf("got %v, %v, want an empty file with its old mode", info.Mode(), err)
	}
	left, err := os.ReadDir(e.dir + "/new/deep")
	if err != nil || len(left) != 1 {
		t.Errorf("got %v, %v, want only the file itself", left, err)
	}
}

func TestT47_WriteRefuses(t *testing.T) {
	e := newEnv(t)
	e.write("dir/f", "x")
	e.write("secret/f", "x")
	e.box.denied = []string{e.dir + "/secret"}
	e.fails(Write{}, m{"file_path": "dir", "content": "y"}, "not_a_file")
	e.fails(Write{}, m{"file_path": "dir/", "content": "y"}, "is_directory")
	e.fails(Write{}, m{"file_path": "secret/f", "content": "y"}, "path_denied")
	e.fails(Write{}, m{"file_path": "dir/f"}, "invalid_arguments")
	if e.read("secret/f") != "x" || e.read("dir/f") != "x" {
		t.Error("a refused write changed a file")
	}
}

func TestWriteAndEdit_SayThatTheFileChangedSinceItWasRead(t *testing.T) {
	e := newEnv(t)
	s := newSeen()
	e.write("f", "one\n")
	e.ok(Read{s}, m{"file_path": "f"})
	if got := e.ok(Edit{s}, m{"file_path": "f", "old_string": "one", "new_string": "two"}); strings.Contains(got, "changed since") {
		t.Errorf("got %q, nobody changed it", got)
	}
	e.write("f", "two and more\n")
	if got := e.ok(Edit{s}, m{"file_path": "f", "old_string": "two", "new_string": "three"}); !strings.Contains(got, "changed since") {
		t.Errorf("got %q, want the warning", got)
	}
	e.write("f", "two and much more\n")
	if got := e.ok(Write{s}, m{"file_path": "f", "content": "x"}); !strings.Contains(got, "changed since") {
		t.Errorf("got %q, want the warning", got)
	}
	e.write("g", "unread\n")
	if got := e.ok(Edit{s}, m{"file_path": "g", "old_string": "un", "new_string": ""}); strings.Contains(got, "changed since") {
		t.Errorf("got %q, want no warning for a file that was never read", got)
	}
}

func TestEdit_FileThatChangesDuringTheEditIsLeftAlone(t *testing.T) {
	e := newEnv(t)
	e.write("f", "one\n")
	opens := 0
	e.box.before = func(sandbox.PathUse) {
		if opens++; opens == 2 { // after the content was read
			e.write("f", "somebody else's\n")
		}
	}
	te := e.fails(Edit{}, m{"file_path": "f", "old_string": "one", "new_string": "two"}, "file_changed")
	if e.read("f") != "somebody else's\n" || te.Hint == "" {
		t.Errorf("got file %q, hint %q", e.read("f"), te.Hint)
	}
}

func TestRun_PathThatWasNotJudgedIsRefused(t *testing.T) {
	e := newEnv(t)
	e.write("f", "x")
	for _, tl := range []tool.Tool{Read{}, Write{}, Edit{}, Glob{}, Grep{}} {
		in := e.in(`{"file_path":"f","content":"y","old_string":"x","new_string":"y","pattern":"x"}`)
		in.Judged = []sandbox.PathUse{{Raw: "other", Path: e.dir + "/other", Op: sandbox.Read}}
		_, err := tl.Run(context.Background(), in, e.box)
		if te, ok := err.(*tool.Error); !ok || te.Code != "not_judged" {
			t.Errorf("%s: got %v, want not_judged", tl.Spec().Name, err)
		}
	}
	if e.read("f") != "x" {
		t.Error("the file was changed")
	}
}

// swapped replaces pub by a link to secret as soon as a call opens something.
func swapped(t *testing.T) *env {
	t.Helper()
	e := newEnv(t)
	e.write("pub/f", "public needle\n")
	e.write("secret/f", "hidden needle\n")
	e.box.before = func(u sandbox.PathUse) {
		if !sandbox.Within(u.Path, e.dir+"/pub") {
			return
		}
		e.box.before = nil
		if err := errors.Join(os.Rename(e.dir+"/pub", e.dir+"/old"), os.Symlink(e.dir+"/secret", e.dir+"/pub")); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func TestX19_LinkSwappedInDuringAnyFileToolLeadsNowhere(t *testing.T) {
	for _, tt := range []struct {
		tool tool.Tool
		args m
	}{
		{Read{}, m{"file_path": "pub/f"}},
		{Write{}, m{"file_path": "pub/f", "content": "x"}},
		{Edit{}, m{"file_path": "pub/f", "old_string": "needle", "new_string": "x"}},
		{NotebookEdit{}, m{"notebook_path": "pub/f.ipynb", "cell_id": "a", "new_source": "x"}},
		{Glob{}, m{"pattern": "*", "path": "pub"}},
		{Grep{}, m{"pattern": "needle", "path": "pub"}},
		{Glob{}, m{"pattern": "**"}},
		{Grep{}, m{"pattern": "hidden"}},
	} {
		e := swapped(t)
		e.box.denied = []string{e.dir + "/secret"}
		text, _, err := e.call(tt.tool, tt.args)
		if strings.Contains(text, "hidden") || strings.Contains(text, "pub/f") && tt.tool.Spec().Name != "Glob" {
			t.Errorf("%s %v: got %q, %v", tt.tool.Spec().Name, tt.args, text, err)
		}
		if e.read("secret/f") != "hidden needle\n" {
			t.Errorf("%s %v changed the file behind the link", tt.tool.Spec().Name, tt.args)
		}
	}
}

func TestTools_NoPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read and write everything")
	}
	e := newEnv(t)
	e.write("closed/f", "x")
	e.write("mute", "x")
	if err := errors.Join(os.Chmod(e.dir+"/mute", 0), os.Chmod(e.dir+"/closed", 0o500)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(e.dir+"/closed", 0o700) })
	e.fails(Read{}, m{"file_path": "mute"}, "permission_denied")
	e.fails(Write{}, m{"file_path": "closed/f", "content": "y"}, "permission_denied")
	e.fails(Write{}, m{"file_path": "closed/new", "content": "y"}, "permission_denied")
	if got := e.ok(Grep{}, m{"pattern": "x"}); got != "closed/f" {
		t.Errorf("got %q, want what can be read", got)
	}
}
