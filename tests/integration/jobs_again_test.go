package integration

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestAJobIsCountedOnce: when it is judged again, a rule that counts neither counts it once more
// nor ends it for the calls that came after it.
func TestAJobIsCountedOnce(t *testing.T) {
	d := newPlaces(t, "")
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.write("config.yaml", "policy: {dirs: ["+filepath.Join(d.work, "policies")+"]}\n")
	d.write("policies/a.rego", `package sandboxd.policies.acme.sleeps

# METADATA
# title: Sleeps among many calls
findings contains {"id": "acme.quota", "effect": "deny", "message": "three calls in an hour"} if {
	"sleep" in input.starts
	input.recent.account.hour.calls >= 3
}
`)
	d.start()
	s := d.session()
	id := d.begin(s, `{"command":"sleep 100000","run_in_background":true}`)
	for range 3 {
		if err := d.operator.Do(t.Context(), "POST", "/reload", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if r := d.call(s, "Bash", `{"command":"sleep 0"}`); r.Status != client.StatusSuccess {
			t.Errorf("the job counts more than once: %+v", r)
		}
	}
	for range 2 {
		d.call(s, "Bash", `{"command":"true"}`)
	}
	if r := d.call(s, "Bash", `{"command":"sleep 0"}`); r.Error == nil || r.Error.Code == "" {
		t.Errorf("the sixth call: %+v", r)
	}
	if err := d.operator.Do(t.Context(), "POST", "/reload", nil, nil); err != nil {
		t.Fatal(err)
	}
	if j, err := d.agent.StopJob(t.Context(), id); err != nil || j.By != "the agent" || j.Forbidden != "" {
		t.Errorf("the job: %+v, %v", j, err)
	}
}

// TestAJobOfAnOlderSandboxIsOutOfReach: who cannot reach its port is told so, and why; with the
// settings as they were it is reached again.
func TestAJobOfAnOlderSandboxIsOutOfReach(t *testing.T) {
	needs.Program(t, "python3")
	d := newPlaces(t, "")
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.write("config.yaml", "jobs: {forbidden: mark}\n")
	d.write("ws/page", "good morning\n")
	d.start()
	s := d.session()
	id := d.begin(s, `{"command":"python3 -m http.server 8318 --bind 127.0.0.1","run_in_background":true}`)
	ask := func() client.Result {
		return d.call(s, "Bash", `{"command":"python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8318/page\").read().decode())'"}`)
	}
	reload := func(config string) {
		t.Helper()
		d.write("config.yaml", "jobs: {forbidden: mark}\n"+config)
		if err := d.operator.Do(t.Context(), "POST", "/reload", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	check := func(apart bool) {
		t.Helper()
		r := ask()
		for deadline := time.Now().Add(time.Minute); !apart && !strings.HasPrefix(r.FinalText, "good morning"); r = ask() {
			if time.Now().After(deadline) { // the server begins
				t.Fatalf("the server said %+v", r)
			}
		}
		if strings.HasPrefix(r.FinalText, "good morning") == apart || strings.Contains(r.FinalText, "the ports of "+id) != apart {
			t.Errorf("out of reach %v: the call says %q", apart, r.FinalText)
		}
		j, err := d.agent.Job(t.Context(), id)
		if err != nil || j.State != "running" || (j.OutOfReach != "") != apart {
			t.Errorf("out of reach %v: %+v, %v", apart, j, err)
		}
		if out, err := d.exec("sandboxd", "jobs"); err != nil || strings.Contains(out, "out of reach") != apart {
			t.Errorf("out of reach %v: %s, %v", apart, out, err)
		}
		list := d.call(s, "TaskList", `{}`).FinalText
		if strings.Contains(list, "out of reach") != apart {
			t.Errorf("out of reach %v: %s", apart, list)
		}
	}
	check(false)
	d.write("more/file", "")
	wider := "sandbox: {allowedWritePaths: [" + d.ws + ", /tmp, /dev/null, " + filepath.Join(d.work, "more") + "]}\n"
	reload(wider)
	check(true)
	if r := d.call(s, "Bash", `{"command":"true"}`); strings.Contains(r.FinalText, id) {
		t.Errorf("a command that does not fail says %q", r.FinalText)
	}
	reload("")
	check(false)
	reload(wider)
	check(true)
	if j, err := d.agent.StopJob(t.Context(), id); err != nil || j.OutOfReach != "" {
		t.Errorf("when it has ended: %+v, %v", j, err)
	}
	if r := ask(); strings.Contains(r.FinalText, id) {
		t.Errorf("after its end: %q", r.FinalText)
	}
}

// TestExecCommandCutsItsAnswer: max_output_tokens of Codex is about four characters each.
func TestExecCommandCutsItsAnswer(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	whole := d.call(s, "exec_command", `{"cmd":"seq 1000"}`).FinalText
	cut := d.call(s, "exec_command", `{"cmd":"seq 1000","max_output_tokens":50}`).FinalText
	if !strings.Contains(whole, "\n500\n") || !strings.Contains(cut, "\n30\n") || strings.Contains(cut, "\n60\n") ||
		len(cut) > 400 {
		t.Errorf("cut to %d of %d bytes: %.500q", len(cut), len(whole), cut)
	}
}
