package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// letIn lets every uid use the program that runs agents.
func (d *running) letIn() {
	d.t.Helper()
	d.share()
	for path, mode := range map[string]os.FileMode{"spawn": 0o777, "spawn/spawner": 0o755, "spawn/do": 0o644} {
		if err := os.Chmod(filepath.Join(d.work, path), mode); err != nil {
			d.t.Fatal(err)
		}
	}
}

// TestN10_AProgramHasTheRightsOfItsCaller: under a daemon of root it runs as the uid whose agent called, without
// what root may do and without the groups of the daemon; and its requests are those of its own session alone.
func TestN10_AProgramHasTheRightsOfItsCaller(t *testing.T) {
	needs.Root(t, "to call as another user")
	d := newAgents(t, `
{
	echo uid $(id -u) $(id -g) $(id -G)
	echo caps $(grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u)
	echo home "${HOME-none}" "${USER-none}" "$TEST_KEY"
	cat "$here/closed" > /dev/null 2>&1 && echo reads what is for root || echo reads nothing of root
	echo parent $(ask "http://x/sessions/$(field parent_session_id)" | grep -o '"code":"[a-z_]*"' | head -1)
	echo child $(env -i /bin/bash -c "curl -s --unix-socket $socket http://x/sessions" | grep -o '"code":"[a-z_]*"')
	echo call $(call Bash '{"command":"id -u"}' | grep -o '"final_text":"[0-9]*')
} > "$here/seen-$(id -u)" 2>&1
echo '{"text":"done"}'
`, "")
	d.write("spawn/closed", "for root\n")
	d.letIn()
	for uid, own := range map[int]bool{alice: false, 0: true} {
		c := d.as(uid)
		r := c.call(c.session(""), "Agent", map[string]any{"prompt": "x", "description": "y", "name": fmt.Sprint("a", uid)})
		if r.Status != client.StatusSuccess {
			t.Fatalf("uid %d: %+v\n%s", uid, r, d.log)
		}
		want := `uid 64101 64101 64101
caps 0000000000000000
home / none given
reads nothing of root
parent "code":"not_its_session"
child "code":"not_its_session"
call "final_text":"64101
`
		got := d.read(fmt.Sprint("spawn/seen-", uid))
		if !own && got != want {
			t.Errorf("got\n%s\nwant\n%s\n%s", got, want, d.log)
		}
		if own && (!strings.HasPrefix(got, "uid 0 ") || !strings.Contains(got, "home "+d.home) ||
			!strings.Contains(got, "reads what is for root")) {
			t.Errorf("the daemon's own uid: %s", got)
		}
	}
}

// TestN01_AProgramOfAnotherUserEnds: with its session, also what it started and what left its process group.
func TestN01_AProgramOfAnotherUserEnds(t *testing.T) {
	needs.Root(t, "to call as another user")
	mark := newNap()
	d := newAgents(t, `trap '' TERM; setsid sleep `+mark+` & sleep `+mark+`; echo '{"text":"done"}'`, "")
	d.letIn()
	c := d.as(alice)
	root := c.session("")
	r := c.call(root, "Agent", map[string]any{"prompt": "x", "description": "y", "run_in_background": true})
	if r.Status != client.StatusSuccess || !waitFor(func() bool { return len(withWord(mark)) == 2 }) {
		t.Fatalf("%d run, %+v\n%s", len(withWord(mark)), r, d.log)
	}
	if a := c.ask(http.MethodDelete, "/sessions/"+root, ""); a.Status != http.StatusOK {
		t.Errorf("got %s", a.Raw)
	}
	if n := len(withWord(mark)); n != 0 {
		t.Errorf("the session was deleted, and %d programs run on", n)
	}
}

// TestT51_ARunHasTheRightsOfTheUserWhoMadeIt, under a daemon of root, also of one that was started after the job was made.
func TestT51_ARunHasTheRightsOfTheUserWhoMadeIt(t *testing.T) {
	d := newShared(t, cronConfig)
	d.write("ws/closed", "for root\n")
	c := d.as(alice)
	s := c.session("")
	r := c.call(s, "CronCreate", map[string]any{
		"name": "n", "schedule": "@yearly", "command": "id -u > out; id -G >> out; cat closed >> out 2> /dev/null || echo refused >> out",
	})
	if r.Status != client.StatusSuccess {
		t.Fatalf("got %+v", r)
	}
	d.isDue(os.Interrupt, 10*time.Second)
	d.share()
	c = d.as(alice)
	var jobs []cronJob
	if !waitFor(func() bool {
		jobs = nil
		err := json.Unmarshal(c.ask(http.MethodGet, "/sessions/"+s+"/cron", "").Data, &jobs)
		return err == nil && len(jobs) == 1 && jobs[0].Last != nil && jobs[0].Last.Status == "SUCCESS"
	}) {
		t.Fatalf("the job does not run: %+v\n%s", jobs, d.log)
	}
	if got := d.read("ws/out"); got != "64101\n64101\nrefused\n" {
		t.Errorf("the run wrote %q", got)
	}
}
