package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// TestT53_AWorktreeOfAnEarlierDaemonIsRemoved: the sandbox keeps the .git of a worktree that it finds, and the
// tool removes it all the same, with its branch and what the repository knows of it. What was changed in one is
// lost only if the call says so, and other worktrees stay.
func TestT53_AWorktreeOfAnEarlierDaemonIsRemoved(t *testing.T) {
	d := newDaemon(t, "")
	git := d.repository()
	s := d.session()
	for _, name := range []string{"clean", "changed", "emptied", "other"} {
		if r := d.call(s, "EnterWorktree", `{"name":"`+name+`"}`); r.Status != client.StatusSuccess {
			t.Fatalf("got %+v", r)
		}
	}
	trees := filepath.Join(d.ws, ".worktrees")
	d.stop(syscall.SIGKILL)
	d.write("ws/.worktrees/changed/new", "work")
	if err := os.RemoveAll(trees + "/emptied/sub"); err != nil {
		t.Fatal(err)
	}
	d.start()
	if r := d.call(s, "Bash", `{"command":"[ -w `+trees+`/clean/.git ] || echo kept"}`); !strings.HasPrefix(r.FinalText, "kept\n") {
		t.Errorf("the sandbox does not keep what this test is about: %+v", r)
	}
	exit := func(args string) client.Result { t.Helper(); return d.asked(t, s, "ExitWorktree", args, yes) }
	there := func(name string, want bool) {
		t.Helper()
		_, err := os.Lstat(filepath.Join(trees, name))
		if (err == nil) != want || strings.Contains(git("branch"), "worktree-"+name+"\n") != want ||
			strings.Contains(git("worktree", "list"), trees+"/"+name+" ") != want {
			t.Errorf("%s: %v\n%s%s", name, err, git("branch"), git("worktree", "list"))
		}
	}
	if r := exit(`{"id":"worktree_1"}`); r.FinalText != "Worktree removed: worktree_1" {
		t.Errorf("got %+v\n%s", r, d.log)
	}
	there("clean", false)
	for id, name := range map[string]string{"worktree_2": "changed", "worktree_3": "emptied"} {
		if r := exit(`{"id":"` + id + `"}`); r.Error == nil || r.Error.Code != "worktree_changed" {
			t.Errorf("got %+v", r)
		}
		there(name, true)
		if r := exit(`{"id":"` + id + `","discard_changes":true}`); r.FinalText != "Worktree removed: "+id {
			t.Errorf("got %+v\n%s", r, d.log)
		}
		there(name, false)
	}
	there("other", true)
	if ran, err := os.ReadFile(filepath.Join(d.ws, "hooked")); err == nil {
		t.Errorf("hooks of the repository ran: %s", ran)
	}
	if status := git("status", "--porcelain"); status != "" {
		t.Errorf("the repository has %q", status)
	}
}
