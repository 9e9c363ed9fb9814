package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
)

// newSmall starts a daemon with two accounts whose state is on a file system of so many MiB.
func newSmall(t *testing.T, mib int, config string) *running {
	t.Helper()
	needs.Root(t, "to mount, and to call as other users")
	d := newPlaces(t, fmt.Sprintf("accounts: {%d: alice, %d: bob}\n", alice, bob)+config)
	state := filepath.Join(d.work, "state")
	if err := unix.Mount("tmpfs", state, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", mib)); err != nil {
		needs.Missing(t, "mount a file system of its own: %v", err)
	}
	t.Cleanup(func() {
		d.stop(os.Kill)
		if err := unix.Unmount(state, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d.start()
	d.share()
	return d
}

// served reports what keeps bob from working: calls, new sessions and variables of an account
// that keeps next to nothing.
func (d *running) served(c *caller, session string) string {
	if got := c.ask("POST", "/sessions/"+session+"/calls",
		`{"tool":"Bash","args":{"command":"echo x > /tmp/f && cat /tmp/f && echo served"}}`); !strings.Contains(got.Raw, `"SUCCESS"`) {
		return fmt.Sprintf("a call: %d %s", got.Status, got.Raw)
	}
	if got := c.ask("PUT", "/sessions/"+session+"/vars/x", `{"value":"y"}`); got.Status >= http.StatusMultipleChoices {
		return fmt.Sprintf("a variable: %d %s", got.Status, got.Raw)
	}
	got := c.ask("POST", "/sessions", "{}")
	if got.Status >= http.StatusMultipleChoices {
		return fmt.Sprintf("a session: %d %s", got.Status, got.Raw)
	}
	var s client.Session
	if err := json.Unmarshal(got.Data, &s); err != nil {
		return err.Error()
	}
	if got := c.ask("DELETE", "/sessions/"+s.ID, ""); got.Status >= http.StatusMultipleChoices {
		return fmt.Sprintf("a deletion: %d %s", got.Status, got.Raw)
	}
	return ""
}

// wholeRecord stops the daemon, and checks that each call that began has ended in the record.
func (d *running) wholeRecord() {
	d.t.Helper()
	d.stop(os.Interrupt)
	d.verify()
	text, err := os.ReadFile(filepath.Join(d.work, "state/audit.jsonl"))
	if err != nil {
		d.t.Fatal(err)
	}
	open := map[string]bool{}
	for l := range strings.Lines(string(text)) {
		var e struct {
			Event string
			Call  string `json:"call_id"`
		}
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			d.t.Fatal(err)
		}
		switch e.Event {
		case "begin":
			open[e.Call] = true
		case "end":
			delete(open, e.Call)
		}
	}
	if len(open) > 0 {
		d.t.Errorf("%d calls began and have no end in the record", len(open))
	}
}

// TestDisk_AFullDiskLosesNothing: something that no limit of agents reaches fills the disk of the
// record to its last byte. Calls that run end with limit_disk and are recorded, new ones are
// refused, and operators get through.
func TestDisk_AFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	d := newSmall(t, 48, "")
	a := d.as(alice)
	mine := a.session("")
	var g sync.WaitGroup
	const calls = 8
	for i := range calls {
		g.Go(func() {
			got := a.ask("POST", "/sessions/"+mine+"/calls",
				fmt.Sprintf(`{"tool":"Bash","args":{"command":"touch began%d; sleep 600","timeout":600000}}`, i))
			if got.Status != http.StatusOK || !strings.Contains(got.Raw, "limit_disk") {
				t.Errorf("a call that ran: %d %s", got.Status, got.Raw)
			}
		})
	}
	if !waitFor(func() bool {
		began, err := filepath.Glob(filepath.Join(d.ws, "began*"))
		return err == nil && len(began) == calls
	}) {
		t.Fatal("not all calls run")
	}
	fill := filepath.Join(d.work, "state/fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, zeros(64<<20)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v, want no space", err)
	}
	f.Close()
	g.Wait()
	got := a.ask("POST", "/sessions/"+mine+"/calls", `{"tool":"Bash","args":{"command":"true"}}`)
	if got.Status != http.StatusServiceUnavailable || got.Error.Code != "disk_reserve" || got.Error.Hint == "" {
		t.Errorf("a new call of an agent: %d %s", got.Status, got.Raw)
	}
	for i := range 50 {
		args := map[string]any{"tool": "Write", "args": map[string]any{"file_path": fmt.Sprintf("by%d.txt", i), "content": "operator"}}
		var r client.Result
		if err := d.operator.Do(t.Context(), "POST", "/sessions/"+mine+"/calls", args, &r); err != nil || r.Status != client.StatusSuccess {
			t.Fatalf("call %d of the operator: %v %+v", i, err, r)
		}
	}
	// It runs for many looks at the disk.
	r, err := d.operator.Call(t.Context(), mine, "Bash", json.RawMessage(`{"command":"sleep 1; echo stayed"}`))
	if err != nil || r.Status != client.StatusSuccess || !strings.Contains(r.FinalText, "stayed") {
		t.Errorf("a program of the operator: %v %+v", err, r)
	}
	if err := d.operator.Do(t.Context(), "DELETE", "/sessions/"+mine, nil, nil); err != nil {
		t.Errorf("the operator deletes a session: %v", err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if why := d.served(a, a.session("")); why != "" {
		t.Error("with room again: ", why)
	}
	d.wholeRecord()
}
