package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestH01_CwdChangedIsFiredForACallThatMoves: once, with the directory in which the session is then. A call that stays, or
// that fails, fires nothing.
func TestH01_CwdChangedIsFiredForACallThatMoves(t *testing.T) {
	t.Parallel()
	d := newPlaces(t, "")
	heard := filepath.Join(d.work, "heard")
	d.write("config.yaml", "hooks:\n  cwdChanged: [{command: 'cat >> "+heard+"'}]\n")
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.write("ws/sub/file", "")
	d.start()
	s := d.session()
	for _, command := range []string{"echo stays", "cd sub && false", "cd sub", "cd ."} {
		if r := d.call(s, "Bash", `{"command":"`+command+`"}`); r.Status != client.StatusSuccess {
			t.Fatalf("%s: %s %s", command, r.Status, r.FinalText)
		}
	}
	text, err := os.ReadFile(heard)
	if err != nil {
		t.Fatal(err)
	}
	var input struct {
		Event string `json:"hook_event_name"`
		Cwd   string `json:"cwd"`
	}
	err = json.Unmarshal(text, &input)
	if want := filepath.Join(d.ws, "sub"); err != nil || !strings.EqualFold(input.Event, "cwdChanged") || input.Cwd != want {
		t.Errorf("%v, the hook heard %s; want one event, with %s", err, text, want)
	}
}

// TestTheDaemonHasTwiceAsManyThreadsAsProcessors, unless GOMAXPROCS says how many.
func TestTheDaemonHasTwiceAsManyThreadsAsProcessors(t *testing.T) {
	t.Parallel()
	if os.Getenv("GOMAXPROCS") != "" {
		needs.Elsewhere(t, "GOMAXPROCS hides how many processors there are")
	}
	for env, want := range map[string]int{"": 2 * runtime.GOMAXPROCS(0), "GOMAXPROCS=3": 3} {
		d := newPlaces(t, "")
		if env != "" {
			d.env = append(d.env, env)
		}
		d.start()
		status, text := scoped{d: d, socket: "o.sock"}.send("GET", "/metrics", "")
		if line := "\ngo_sched_gomaxprocs_threads " + strconv.Itoa(want) + "\n"; status != 200 || !strings.Contains(text, line) {
			t.Errorf("%q: status %d, want the line %q", env, status, line)
		}
	}
}
