package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What a command changes is kept by default. A file of the workspace gets no name outside of it, where
// nobody would see who writes it: events are of directories.
func TestWhatCommandsChangeIsKept(t *testing.T) {
	d := newDaemon(t, "policy: {profile: observe}\nsessions: {mode: bypassPermissions, maxMode: bypassPermissions}\n")
	s := d.session()
	if err := os.WriteFile(filepath.Join(d.ws, "f"), []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := d.call(s, "Bash", `{"command":"`+
		`for dir in /tmp /var/tmp /dev/shm /run $HOME $TMPDIR $XDG_CACHE_HOME; do ln f $dir/x 2>/dev/null && echo outside $dir; done; `+
		`mkdir d && ln f d/x && echo two > d/x && rm -r d"}`)
	if r.Status != "SUCCESS" || strings.Contains(r.FinalText, "outside") {
		t.Errorf("%s: %s", r.Status, r.FinalText)
	}
	if r.Undo == nil || !r.Undo.Kept || len(r.Changes) != 1 || r.Changes[0].Path != "f" {
		t.Fatalf("%+v, %+v", r.Undo, r.Changes)
	}
	var out any
	if err := d.agent.Do(t.Context(), "POST", "/calls/"+r.CallID+"/undo", map[string]any{}, &out); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(d.ws, "f")); err != nil || string(b) != "one" {
		t.Error(fmt.Sprint(err, string(b), out))
	}
}

// A session in a directory that was renamed has what was changed there, and a daemon that starts again knows it.
func TestUndoAfterTheWorkspaceWasRenamed(t *testing.T) {
	d := newDaemon(t, "policy: {profile: observe}\nsessions: {mode: bypassPermissions, maxMode: bypassPermissions}\n")
	shop, store := filepath.Join(d.ws, "shop"), filepath.Join(d.ws, "store")
	if err := os.MkdirAll(filepath.Join(shop, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shop, "src/a.go"), []byte("package a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	in := func(dir string) string {
		t.Helper()
		var s struct{ ID string }
		if err := d.agent.Do(t.Context(), "POST", "/sessions", map[string]any{"cwd": dir}, &s); err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	if r := d.call(in(shop), "Bash", `{"command":"rm -r src"}`); r.Undo == nil || !r.Undo.Kept {
		t.Fatalf("%s, %+v", r.FinalText, r.Undo)
	}
	if err := os.Rename(shop, store); err != nil {
		t.Fatal(err)
	}
	d.stop(syscall.SIGTERM)
	d.start()
	if r := d.call(in(store), "Undo", `{}`); r.Status != "SUCCESS" || !strings.Contains(r.FinalText, "restored src/a.go") {
		t.Errorf("%s: %s", r.Status, r.FinalText)
	}
	if b, err := os.ReadFile(filepath.Join(store, "src/a.go")); err != nil || string(b) != "package a\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestUndoOfTheWorkspaceItself: a command that changes the rights of the workspace, and shuts its owner out of it.
func TestUndoOfTheWorkspaceItself(t *testing.T) {
	d := newDaemon(t, "policy: {profile: observe}\nsessions: {mode: bypassPermissions, maxMode: bypassPermissions}\n")
	s := d.session()
	if err := os.Chmod(d.ws, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"711", "000"} {
		r := d.call(s, "Bash", `{"command":"echo one > f; chmod `+mode+` ."}`)
		if r.Status != "SUCCESS" || r.Undo == nil || !r.Undo.Kept || len(r.Changes) != 2 {
			t.Fatalf("%s: %s: %+v, %+v", mode, r.FinalText, r.Undo, r.Changes)
		}
		if r := d.call(s, "Undo", `{}`); r.Status != "SUCCESS" {
			t.Errorf("%s: %s: %s", mode, r.Status, r.FinalText)
		}
		info, err := os.Stat(d.ws)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(d.ws, "f")); info.Mode().Perm() != 0o750 || !os.IsNotExist(err) {
			t.Errorf("%s: the workspace is %v, f: %v", mode, info.Mode(), err)
		}
	}
}
