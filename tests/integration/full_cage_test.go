package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
)

// ownCage puts a small file system of its own under the private files of a daemon that does not
// run.
func (d *running) ownCage() {
	d.t.Helper()
	cage := filepath.Join(d.work, "state/cage")
	if err := os.MkdirAll(cage, 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", cage, "tmpfs", 0, "size=16m,mode=0700"); err != nil {
		needs.Root(d.t, "to mount")
		needs.Missing(d.t, "mount a file system of its own: %v", err)
	}
	d.t.Cleanup(func() {
		d.stop(os.Kill)
		if err := unix.Unmount(cage, unix.MNT_DETACH); err != nil {
			d.t.Error(err)
		}
	})
}

// The documents promise this where one account could fill the disk of the record: with private
// files on a file system of their own, a full one stops neither the record nor the others, and
// room is there again when the session is deleted.
func TestAccounts_OneFillsThePrivateFilesOfAll(t *testing.T) {
	t.Parallel()
	d := newShared(t, fmt.Sprintf("accounts: {%d: alice, %d: bob}\n", alice, bob))
	d.stop(os.Interrupt)
	d.ownCage()
	d.start()
	d.share()
	a, b := d.as(alice), d.as(bob)
	mine, bobs := a.session(""), b.session("")
	fill := map[string]any{"command": "dd if=/dev/zero of=/tmp/x bs=1M count=100"}
	if r := a.call(mine, "Bash", fill); code(r.Error) != "limit_disk" {
		t.Fatalf("the call of alice that filled it: %s %s", r.Status, r.FinalText)
	}
	if r := b.call(bobs, "Bash", map[string]any{"command": "echo served"}); r.Status != "SUCCESS" ||
		!strings.Contains(r.FinalText, "served") {
		t.Errorf("bob: %s %s", r.Status, r.FinalText)
	}
	if got := b.ask("PUT", "/sessions/"+bobs+"/vars/x", `{"value":"y"}`); got.Status >= http.StatusMultipleChoices {
		t.Errorf("a variable of bob: %s", got.Raw)
	}
	b.session("")
	if err := d.operator.Do(t.Context(), "DELETE", "/sessions/"+mine, nil, nil); err != nil {
		t.Fatal(err)
	}
	if !waitFor(func() bool { return a.ask("POST", "/sessions", "{}").Status == http.StatusCreated }) {
		t.Error("alice is refused for ever")
	}
	for _, c := range []*caller{a, b} {
		r := c.call(c.session(""), "Bash", map[string]any{"command": "echo again > /tmp/f && cat /tmp/f"})
		if r.Status != "SUCCESS" || !strings.Contains(r.FinalText, "again") {
			t.Errorf("uid %d has no room after the deletion: %s %s", c.uid, r.Status, r.FinalText)
		}
	}
}
