package integration

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
)

// The state directory becomes read-only while the daemon runs: for its uid by its mode, for root by
// a mount over it. Calls then run and are recorded, or do not run and say why; when it can be
// written again all of them run, and the record is whole.
func TestFault_AStateThatBecomesReadOnly(t *testing.T) {
	for _, uid := range []int{0, 64120} {
		t.Run(fmt.Sprint("uid ", uid), func(t *testing.T) {
			needs.Root(t, "to mount, and to start a daemon of another user")
			d := newDaemon(t, "approvals: {approver: false}\n")
			if uid != 0 {
				d.stop(os.Interrupt)
				d.becomeAnother(uid, "")
				d.start()
			}
			session := d.session()
			d.mustCall(session, "Bash", `{"command":"echo before"}`)
			writable := d.closeState(t, uid)
			for i := range 30 {
				name := fmt.Sprintf("ran%d.txt", i)
				r := d.call(session, "Write", fmt.Sprintf(`{"file_path":%q,"content":"x"}`, name))
				_, err := os.Stat(filepath.Join(d.ws, name))
				if ran := err == nil; ran && r.Status != client.StatusSuccess && code(r.Error) != "record_failed" {
					t.Errorf("call %d ran, and the answer is %s %s", i, r.Status, r.FinalText)
				} else if !ran && (r.Error == nil || r.Error.Msg == "") {
					t.Errorf("call %d did not run, and nothing says why: %+v", i, r)
				}
			}
			// Another session needs new private files.
			var s client.Session
			if err := d.agent.Do(t.Context(), "POST", "/sessions", map[string]any{}, &s); err == nil {
				r := d.call(s.ID, "Bash", `{"command":"echo x > other.txt"}`)
				_, err := os.Stat(filepath.Join(d.ws, "other.txt"))
				if ran := err == nil; ran != (r.Status == client.StatusSuccess) {
					t.Errorf("in a new session: ran %v, and the answer is %s %s", ran, r.Status, r.FinalText)
				}
			}
			writable()
			if !waitFor(func() bool {
				return d.call(session, "Bash", `{"command":"echo back"}`).Status == client.StatusSuccess
			}) {
				t.Errorf("the daemon does not come back:\n%s", d.log)
			}
			d.stop(os.Interrupt)
			d.verify()
		})
	}
}

// closeState makes the state directory read-only, until the function that it returns is called. What
// is open stays so; TestFault_NoSpaceForTheState has writes that fail.
func (d *running) closeState(t *testing.T, uid int) (writable func()) {
	t.Helper()
	state := filepath.Join(d.work, "state")
	if uid != 0 {
		without := func(bits os.FileMode) {
			err := filepath.WalkDir(state, func(path string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				mode := os.FileMode(0o600)
				if e.IsDir() {
					mode = 0o700
				}
				return os.Chmod(path, mode&^bits)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		without(0o200)
		return func() { without(0) }
	}
	err := unix.Mount(state, state, "", unix.MS_BIND, "")
	if err == nil {
		err = unix.Mount("", state, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		needs.Missing(t, "mount over a directory: %v", err)
	}
	done := false
	writable = func() {
		if !done {
			done = true
			if err := unix.Unmount(state, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(writable)
	return writable
}
