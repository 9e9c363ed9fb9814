package integration

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// newPerson is a daemon that serves nothing yet, and directories of its person.
func newPerson(t *testing.T, config string, dirs ...string) *running {
	t.Helper()
	d := newPlaces(t, config)
	d.unserved()
	for _, dir := range dirs {
		if err := os.MkdirAll(d.at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.start()
	return d
}

func (d *running) at(name string) string { return filepath.Join(d.work, name) }

// project sends a change as an operator.
func (d *running) project(route, name string) (ended int, err error) {
	var a struct{ Ended int }
	err = d.operator.Do(d.t.Context(), "POST", route, map[string]string{"dir": d.at(name)}, &a)
	return a.Ended, err
}

func (d *running) allow(name string) {
	d.t.Helper()
	if _, err := d.project("/projects", name); err != nil {
		d.t.Fatal(err)
	}
}

// sessionIn makes a session in a directory.
func (d *running) sessionIn(name string) (string, error) {
	var s client.Session
	err := d.agent.Do(d.t.Context(), "POST", "/sessions", map[string]any{"cwd": d.at(name)}, &s)
	return s.ID, err
}

// TestAProjectIsAllowedWhileTheDaemonRuns, is used at once, and is taken back: then new
// sessions, sessions that exist, calls that run and calls that wait all end.
func TestAProjectIsAllowedWhileTheDaemonRuns(t *testing.T) {
	d := newPerson(t, "policy: {rules: {ask: ['Bash(make *)']}}\n", "a", "b")
	for _, dir := range []string{"a", "a/sub", "b"} {
		_, err := d.sessionIn(dir)
		if code := codeOf(err); code != "cwd_outside_workspace" {
			t.Errorf("a session in %s: got %v", dir, err)
		}
	}
	if _, err := d.sessionIn("a"); !strings.HasSuffix(hintOf(err), "sandboxd allow "+d.at("a")) {
		t.Errorf("the hint is %q", hintOf(err))
	}
	d.allow("a")
	d.allow("b")
	inA, err := d.sessionIn("a")
	if err != nil {
		t.Fatal(err)
	}
	inB, err := d.sessionIn("b")
	if err != nil {
		t.Fatal(err)
	}
	for session, dir := range map[string]string{inA: "a", inB: "b"} {
		if r := d.call(session, "Bash", `{"command":"echo x > mine && cat mine"}`); r.Status != "SUCCESS" {
			t.Errorf("in %s: %+v", dir, r.Error)
		}
	}

	// One call runs, and one waits for a person.
	var calls sync.WaitGroup
	results := make([]client.Result, 2)
	for i, command := range []string{"echo > started; sleep 100", "make x"} {
		calls.Go(func() {
			r, err := d.agent.Call(context.Background(), inA, "Bash", json.RawMessage(`{"command":"`+command+`"}`))
			if err != nil {
				t.Error(err)
			}
			results[i] = r
		})
	}
	started := func() bool {
		_, err := os.Stat(d.at("a/started"))
		var waiting []struct{}
		asked := d.operator.Do(t.Context(), "GET", "/approvals", nil, &waiting)
		return err == nil && asked == nil && len(waiting) == 1
	}
	if !waitFor(started) {
		t.Fatal("the calls did not begin")
	}
	ended, err := d.project("/projects/remove", "a")
	if err != nil || ended != 2 {
		t.Errorf("ended %d calls, %v, want 2", ended, err)
	}
	calls.Wait()
	for i, r := range results {
		if r.Error == nil || !strings.Contains(r.Error.Msg, "took the project back") {
			t.Errorf("call %d: %s, %+v", i, r.Status, r.Error)
		}
	}
	if r := results[0]; r.Error == nil || r.Error.Code != "cancelled" {
		t.Errorf("the call that ran: %+v", r.Error)
	}
	if r := d.call(inA, "Read", `{"file_path":"mine"}`); r.Error == nil || r.Error.Code != "cwd_outside_workspace" {
		t.Errorf("a session that was there: %s, %+v", r.Status, r.Error)
	}
	if _, err := d.sessionIn("a"); codeOf(err) != "cwd_outside_workspace" {
		t.Errorf("a new session: %v", err)
	}
	if r := d.call(inB, "Read", `{"file_path":"mine"}`); r.Status != "SUCCESS" {
		t.Errorf("the other project: %+v", r.Error)
	}
	d.allow("a")
	if r := d.call(inA, "Read", `{"file_path":"mine"}`); r.Status != "SUCCESS" {
		t.Errorf("allowed again: %+v", r.Error)
	}
}

// TestProjectsAreApartForPrograms: the guard does not see what a program writes; the cage
// does. A project below /tmp is shown at its own path.
func TestProjectsAreApartForPrograms(t *testing.T) {
	d := newPerson(t, "", "a", "b")
	below, err := os.MkdirTemp("/tmp", "project-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(below) })
	d.write("writes.py", `import sys
for path in sys.argv[1:]:
    try:
        open(path, "w").write("x")
        print(path, "written")
    except OSError as e:
        print(path, "refused")
`)
	text, err := os.ReadFile(d.at("writes.py"))
	if err != nil {
		t.Fatal(err)
	}
	roots := []string{d.at("a"), d.at("b"), below}
	for _, root := range roots {
		if err := os.WriteFile(filepath.Join(root, "writes.py"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		var answer struct{ Dir string }
		if err := d.operator.Do(t.Context(), "POST", "/projects", map[string]string{"dir": root}, &answer); err != nil {
			t.Fatal(err)
		}
	}
	for _, own := range roots {
		var s client.Session
		if err := d.agent.Do(t.Context(), "POST", "/sessions", map[string]any{"cwd": own}, &s); err != nil {
			t.Fatal(err)
		}
		r := d.call(s.ID, "Bash", `{"command":"python3 writes.py `+
			strings.Join(roots, "/out ")+`/out"}`)
		for _, root := range roots {
			want := root + "/out refused"
			if root == own {
				want = root + "/out written"
			}
			if !strings.Contains(r.FinalText, want) {
				t.Errorf("in %s: want %q in\n%s", own, want, r.FinalText)
			}
			_, err := os.Stat(filepath.Join(root, "out"))
			if (err == nil) != (root == own) {
				t.Errorf("a session in %s and %s/out: %v", own, root, err)
			}
		}
		os.Remove(filepath.Join(own, "out"))
	}
}

// TestTheRulesOfAProjectHoldFromItsFirstCall: it may bring rules that only tighten.
func TestTheRulesOfAProjectHoldFromItsFirstCall(t *testing.T) {
	d := newPerson(t, "policy: {workspace: true}\n", "a/.sandboxd")
	d.write("a/.sandboxd/policy.json", `{"deny": ["Bash(make *)"]}`)
	d.allow("a")
	s, err := d.sessionIn("a")
	if err != nil {
		t.Fatal(err)
	}
	if r := d.call(s, "Bash", `{"command":"make x"}`); r.Error == nil || r.Error.Code != "policy_deny" {
		t.Errorf("got %s, %+v", r.Status, r.Error)
	}
	if r := d.call(s, "Bash", `{"command":"echo x"}`); r.Status != "SUCCESS" {
		t.Errorf("got %+v", r.Error)
	}
}

// TestAReloadJudgesProjectsAnew: what a changed configuration rules out denies, and comes
// back with the next one.
func TestAReloadJudgesProjectsAnew(t *testing.T) {
	d := newPerson(t, "log: {level: info}\n", "a/rules")
	d.write("a/rules/mine.rego", "package sandboxd.policies.acme.mine\n\nfindings contains f if {\n"+
		"\tinput.tool.name == \"Nothing\"\n\tf := {\"id\": \"x\", \"effect\": \"ask\", \"message\": \"x\"}\n}\n")
	d.allow("a")
	s, err := d.sessionIn("a")
	if err != nil {
		t.Fatal(err)
	}
	reload := func(config string) {
		t.Helper()
		d.write("config.yaml", config)
		if err := d.operator.Do(t.Context(), "POST", "/reload", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	reload("policy: {dirs: [" + d.at("a/rules") + "]}\n")
	if r := d.call(s, "Bash", `{"command":"echo x"}`); r.Error == nil || r.Error.Code != "project_refused" ||
		!strings.Contains(r.Error.Msg, "which agents can write") {
		t.Errorf("with policies that agents can write: %s, %+v", r.Status, r.Error)
	}
	out, err := d.exec("sandboxd", "status")
	if err != nil || !strings.Contains(out, "! the project "+d.at("a")+" cannot be used") {
		t.Errorf("status: %v\n%s", err, out)
	}
	reload("sandbox: {limits: {wallSeconds: 5}}\n")
	if r := d.call(s, "Bash", `{"command":"echo x"}`); r.Status != "SUCCESS" {
		t.Errorf("with another configuration: %+v", r.Error)
	}
}

// TestTwoDaemonsOfOnePersonHaveProjectsOfTheirOwn; a second one on the same state says what
// to do instead, and one on the same sockets too.
func TestTwoDaemonsOfOnePersonHaveProjectsOfTheirOwn(t *testing.T) {
	d := newPerson(t, "", "a")
	d.allow("a")
	serve := func(env ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "sandboxd"), "serve")
		cmd.Dir, cmd.Env = d.at("a"), append(slices.Clone(d.env), env...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("it ran: %s", out)
		}
		return string(out)
	}
	if out := serve(); !strings.Contains(out, "a daemon runs already") ||
		!strings.Contains(out, "sandboxd allow "+d.at("a")) || !strings.Contains(out, "SANDBOXD_STATE_DIR") {
		t.Errorf("on the same state: %s", out)
	}
	if out := serve("SANDBOXD_STATE_DIR=" + d.at("state2")); !strings.Contains(out, "another daemon answers on") {
		t.Errorf("on the same sockets: %s", out)
	}

	other := *d
	other.cmd, other.log = nil, &lockedBuffer{}
	other.env = append(slices.Clone(d.env), "SANDBOXD_STATE_DIR="+d.at("state3"),
		"SANDBOXD_SOCKET="+d.at("run/a2.sock"), "SANDBOXD_OPERATOR_SOCKET="+d.at("run/o2.sock"))
	other.agent, other.operator = client.New(d.at("run/a2.sock")), client.New(d.at("run/o2.sock"))
	other.start()
	t.Cleanup(func() { other.stop(os.Interrupt) })
	if _, err := other.sessionIn("a"); codeOf(err) != "cwd_outside_workspace" {
		t.Errorf("the second daemon has the projects of the first: %v", err)
	}
	if _, err := d.sessionIn("a"); err != nil {
		t.Error(err)
	}
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Code
	}
	return ""
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Hint
	}
	return ""
}
