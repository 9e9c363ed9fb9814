package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/search"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
)

func TestT47_WriteMakesAndReplaces(t *testing.T) {
	e := toolstest.New(t)
	got := e.OK(Write{}, m{"file_path": "new/deep/f.txt", "content": "a\nb"})
	if e.Read("new/deep/f.txt") != "a\nb" || got != "created new/deep/f.txt: 2 lines, 3 bytes" {
		t.Errorf("got %q, file %q", got, e.Read("new/deep/f.txt"))
	}
	if err := os.Chmod(e.Dir+"/new/deep/f.txt", 0o755); err != nil {
		t.Fatal(err)
	}
	if got := e.OK(Write{},
		m{"file_path": "new/deep/f.txt", "content": ""}); got != "replaced new/deep/f.txt: 0 lines, 0 bytes" {
		t.Errorf("got %q", got)
	}
	info, err := os.Stat(e.Dir + "/new/deep/f.txt")
	if err != nil || info.Mode().Perm() != 0o755 || info.Size() != 0 {
		t.Errorf("got %v, %v, want an empty file with its old mode", info.Mode(), err)
	}
	left, err := os.ReadDir(e.Dir + "/new/deep")
	if err != nil || len(left) != 1 {
		t.Errorf("got %v, %v, want only the file itself", left, err)
	}
}

// TestWriteLosesTheOnlyCopy: what the file holds and git does not have is lost, as far as the tool knows.
func TestWriteLosesTheOnlyCopy(t *testing.T) {
	e := toolstest.New(t)
	e.Write("only", "a person's")
	e.Write("empty", "")
	for file, want := range map[string]int{"only": 1, "empty": 0, "new": 0} {
		uses, err := Write{}.Uses(t.Context(), e.In(m{"file_path": file, "content": "x"}))
		if err != nil || len(uses.Losses) != want || want == 1 && uses.Losses[0].Path != uses.Paths[0].Path {
			t.Errorf("%s: lost are %v (%v), want %d", file, uses.Losses, err, want)
		}
	}
}

func TestT47_WriteRefuses(t *testing.T) {
	e := toolstest.New(t)
	e.Write("dir/f", "x")
	e.Write("secret/f", "x")
	e.Box.Denied = []string{e.Dir + "/secret"}
	e.Fails(Write{}, m{"file_path": "dir", "content": "y"}, "not_a_file")
	e.Fails(Write{}, m{"file_path": "dir/", "content": "y"}, "is_directory")
	e.Fails(Write{}, m{"file_path": "secret/f", "content": "y"}, "path_denied")
	e.Fails(Write{}, m{"file_path": "dir/f"}, "invalid_arguments")
	if e.Read("secret/f") != "x" || e.Read("dir/f") != "x" {
		t.Error("a refused write changed a file")
	}
}

func TestWriteAndEdit_SayThatTheFileChangedSinceItWasRead(t *testing.T) {
	e := toolstest.New(t)
	s := newSeen()
	e.Write("f", "one\n")
	e.OK(Read{s}, m{"file_path": "f"})
	if got := e.OK(Edit{s}, m{"file_path": "f", "old_string": "one", "new_string": "two"}); strings.Contains(got, "changed since") {
		t.Errorf("got %q, nobody changed it", got)
	}
	e.Write("f", "two and more\n")
	if got := e.OK(Edit{s}, m{"file_path": "f", "old_string": "two", "new_string": "three"}); !strings.Contains(got, "changed since") {
		t.Errorf("got %q, want the warning", got)
	}
	e.Write("f", "two and much more\n")
	if got := e.OK(Write{s}, m{"file_path": "f", "content": "x"}); !strings.Contains(got, "changed since") {
		t.Errorf("got %q, want the warning", got)
	}
	e.Write("g", "unread\n")
	if got := e.OK(Edit{s}, m{"file_path": "g", "old_string": "un", "new_string": ""}); strings.Contains(got, "changed since") {
		t.Errorf("got %q, want no warning for a file that was never read", got)
	}
}

func TestEdit_FileThatChangesDuringTheEditIsLeftAlone(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	put := func(name, text string) error { return os.WriteFile(name, []byte(text), 0o644) }
	for _, tt := range []struct {
		name  string
		act   func(file string) error
		after string
	}{
		{"text of another length", func(f string) error { return put(f, "somebody else's\n") }, "somebody else's\n"},
		{"text of the same length", func(f string) error { return put(f, "six\n") }, "six\n"},
		{"another file of the same length and time", func(f string) error {
			return errors.Join(put(f+"2", "six\n"), os.Chtimes(f+"2", old, old), os.Rename(f+"2", f))
		}, "six\n"},
		{"a link to another file", func(f string) error {
			return errors.Join(put(f+"2", "six\n"), os.Remove(f), os.Symlink(f+"2", f))
		}, "six\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := toolstest.New(t)
			file := e.Write("f", "one\n")
			if err := os.Chtimes(file, old, old); err != nil {
				t.Fatal(err)
			}
			opens := 0
			e.Box.Before = func(guard.PathUse) {
				if opens++; opens == 2 { // after the content was read
					if err := tt.act(file); err != nil {
						t.Fatal(err)
					}
				}
			}
			te := e.Fails(Edit{}, m{"file_path": "f", "old_string": "one", "new_string": "two"}, "file_changed")
			if e.Read("f") != tt.after || te.Hint == "" {
				t.Errorf("got file %q, hint %q", e.Read("f"), te.Hint)
			}
		})
	}
}

func TestRun_PathThatWasNotJudgedIsRefused(t *testing.T) {
	e := toolstest.New(t)
	e.Write("f", "x")
	for _, tl := range []tool.Tool{Read{}, Write{}, Edit{}, search.Glob{}, search.Grep{}} {
		in := e.In(`{"file_path":"f","content":"y","old_string":"x","new_string":"y","pattern":"x"}`)
		in.Judged = guard.Uses{Paths: []guard.PathUse{{Raw: "other", Path: e.Dir + "/other", Op: guard.Read}}}
		_, err := tl.Run(context.Background(), in, e.Box)
		if te, ok := err.(*tool.Error); !ok || te.Code != "not_judged" {
			t.Errorf("%s: got %v, want not_judged", tl.Spec().Name, err)
		}
	}
	for _, tl := range []tool.Tool{Write{}, Edit{}} { // for reading alone
		in := e.In(`{"file_path":"f","content":"y","old_string":"x","new_string":"y"}`)
		in.Judged = guard.Uses{Paths: []guard.PathUse{{Raw: "f", Path: e.Dir + "/f", Op: guard.Read}}}
		_, err := tl.Run(context.Background(), in, e.Box)
		if te, ok := err.(*tool.Error); !ok || te.Code != "not_judged" {
			t.Errorf("%s, judged as a read: got %v, want not_judged", tl.Spec().Name, err)
		}
	}
	if e.Read("f") != "x" {
		t.Error("the file was changed")
	}
}

// swapped replaces pub by a link to secret as soon as a call opens something.
func swapped(t *testing.T) *toolstest.Env {
	t.Helper()
	e := toolstest.New(t)
	e.Write("pub/f", "public needle\n")
	e.Write("secret/f", "hidden needle\n")
	e.Box.Before = func(u guard.PathUse) {
		if !guard.Within(u.Path, e.Dir+"/pub") {
			return
		}
		e.Box.Before = nil
		if err := errors.Join(os.Rename(e.Dir+"/pub", e.Dir+"/old"),
			os.Symlink(e.Dir+"/secret", e.Dir+"/pub")); err != nil {
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
		{NotebookEdit{}, m{"notebook_path": "pub/f", "cell_id": "a", "new_source": "x"}},
		{search.Glob{}, m{"pattern": "*", "path": "pub"}},
		{search.Grep{}, m{"pattern": "needle", "path": "pub"}},
		{search.Glob{}, m{"pattern": "**"}},
		{search.Grep{}, m{"pattern": "hidden"}},
	} {
		e := swapped(t)
		e.Box.Denied = []string{e.Dir + "/secret"}
		text, _, err := e.Call(tt.tool, tt.args)
		if strings.Contains(text, "hidden") || strings.Contains(text, "pub/f") && tt.tool.Spec().Name != "Glob" {
			t.Errorf("%s %v: got %q, %v", tt.tool.Spec().Name, tt.args, text, err)
		}
		if e.Read("secret/f") != "hidden needle\n" {
			t.Errorf("%s %v changed the file behind the link", tt.tool.Spec().Name, tt.args)
		}
	}
}

func TestTools_NoPermission(t *testing.T) {
	if os.Getuid() == 0 { // who may read and write everything
		asNobody(t)
		return
	}
	e := toolstest.New(t)
	e.Write("closed/f", "x")
	e.Write("mute", "x")
	if err := errors.Join(os.Chmod(e.Dir+"/mute", 0), os.Chmod(e.Dir+"/closed", 0o500)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(e.Dir+"/closed", 0o700) })
	e.Fails(Read{}, m{"file_path": "mute"}, "permission_denied")
	e.Fails(Write{}, m{"file_path": "closed/f", "content": "y"}, "permission_denied")
	e.Fails(Write{}, m{"file_path": "closed/new", "content": "y"}, "permission_denied")
	if got := e.OK(search.Grep{}, m{"pattern": "x"}); got != "closed/f" {
		t.Errorf("got %q, want what can be read", got)
	}
}

// asNobody runs the calling test once more, as a user without rights.
func asNobody(t *testing.T) {
	t.Helper()
	const uid = 65534
	dir, err := os.MkdirTemp("/tmp", "tools-uid-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "tools.test")
	if err := errors.Join(os.WriteFile(program, binary, 0o755), os.Chmod(program, 0o755),
		os.Chown(dir, uid, uid)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "GOCOVERDIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("as uid %d: %v\n%s", uid, err, out)
	}
}

// TestWhatAPersonSawIsWhatIsChanged: a call that a person approved for a state of the file
// writes nothing when the file is in another one.
func TestWhatAPersonSawIsWhatIsChanged(t *testing.T) {
	sumOf := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	cell := `{"cells":[{"cell_type":"markdown","id":"a","metadata":{},"source":["x"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`
	edits := []struct {
		t    tool.Tool
		text string
		args map[string]any
	}{
		{Edit{}, "old\n", map[string]any{"file_path": "f.ipynb", "old_string": "old", "new_string": "new"}},
		{Write{}, "old\n", map[string]any{"file_path": "f.ipynb", "content": "new\n"}},
		{NotebookEdit{}, cell, map[string]any{"notebook_path": "f.ipynb", "cell_id": "a", "new_source": "y"}},
	}
	for _, edit := range edits {
		for _, tt := range []struct {
			name, sum string
			ok        bool
		}{
			{"as it was", sumOf(edit.text), true},
			{"another state", sumOf("other"), false},
			{"it was not there", tool.Absent, false},
			{"it was too large to be shown", "inode 7, 99999999 bytes", true},
		} {
			t.Run(edit.t.Spec().Name+", "+tt.name, func(t *testing.T) {
				e := toolstest.New(t)
				path := e.Write("f.ipynb", edit.text)
				e.Approved = map[string]string{path: tt.sum}
				if tt.ok {
					e.OK(edit.t, edit.args)
					return
				}
				e.Fails(edit.t, edit.args, "approval_stale")
				if got := e.Read("f.ipynb"); got != edit.text {
					t.Errorf("it wrote %q", got)
				}
			})
		}
	}
	e := toolstest.New(t)
	e.Approved = map[string]string{e.Dir + "/f.ipynb": sumOf("gone")}
	e.Fails(Write{}, edits[1].args, "approval_stale")
	e.Approved = map[string]string{e.Dir + "/f.ipynb": tool.Absent}
	e.OK(Write{}, edits[1].args)
}
