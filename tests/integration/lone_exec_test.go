package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// lone is sandboxd exec, which needs no daemon: it makes a file that says that it ran.
func (d *running) lone(name string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "exec", "--", "touch", name)
	cmd.Dir, cmd.Env = d.ws, d.env
	return cmd
}

func (d *running) ran(name string) bool {
	_, err := os.Stat(filepath.Join(d.ws, name))
	return err == nil
}

// begins is how many commands the record says have begun.
func (d *running) begins() int {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.work, "state/audit.jsonl"))
	if err != nil {
		d.t.Fatal(err)
	}
	return bytes.Count(text, []byte(`"event":"begin"`)) + bytes.Count(text, []byte(`"event":"exec_begin"`))
}

// TestOldStoresOfLoneExecsGo: one that nobody used for undo.keepDays, and no other.
func TestOldStoresOfLoneExecsGo(t *testing.T) {
	d := newDaemon(t, "")
	d.stop(os.Interrupt)
	lock := func(store string, days int) string {
		path := filepath.Join(d.work, "state/exec", store, "lock")
		used := time.Now().AddDate(0, 0, -days)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600), os.Chtimes(path, used, used)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old, recent := lock("old", 365), lock("recent", 0)
	if out, err := d.lone("a").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Dir(old)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old store is there: %v", err)
	}
	if _, err := os.Stat(recent); err != nil {
		t.Error(err)
	}
}

// loneSays runs sandboxd in the workspace, and returns what it prints on both streams.
func (d *running) loneSays(words ...string) (string, error) {
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), words...)
	cmd.Dir, cmd.Env = d.ws, d.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (d *running) got(name string) string {
	b, err := os.ReadFile(filepath.Join(d.ws, name))
	if err != nil {
		return "nothing"
	}
	return string(b)
}

// What it changes is kept in a store of its own, which no program sees, and undone without a daemon.
func TestALoneExecIsUndone(t *testing.T) {
	d := newDaemon(t, "")
	d.stop(os.Interrupt)
	d.write("ws/f", "one")
	d.write("ws/change.sh", "echo two > f; echo x > new; ls "+d.work+"/state/exec/*; exit 3")
	report := filepath.Join(d.work, "report.json")
	out, err := d.loneSays("exec", "--report", report, "--", "sh", "change.sh")
	if err == nil || d.got("f") != "two\n" || strings.Contains(out, "objects") || strings.Contains(out, "warning") {
		t.Fatalf("%v: %s", err, out)
	}
	var r client.Result
	text, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || r.Undo == nil || !r.Undo.Kept || len(r.Changes) != 2 {
		t.Fatalf("%v: %+v, %+v", err, r.Undo, r.Changes)
	}
	for _, step := range []struct {
		words   string
		says    []string
		f, made string
	}{
		{"changes --exec", []string{r.CallID, "modify f"}, "two\n", "x\n"},
		{"diff --exec " + r.CallID, []string{"-one", "+two"}, "two\n", "x\n"},
		{"undo --exec", []string{"removed  new", "restored f"}, "one", "nothing"},
		{"history --exec f", []string{"Undo", "Exec"}, "one", "nothing"},
		{"undo --exec", []string{"no call of this session", "sandboxd changes --exec"}, "one", "nothing"},
		{"undo --exec " + r.CallID, []string{"undid"}, "one", "nothing"},
	} {
		out, _ := d.loneSays(strings.Fields(step.words)...)
		for _, want := range step.says {
			if !strings.Contains(out, want) && step.words != "undo --exec "+r.CallID {
				t.Errorf("%s: %s", step.words, out)
			}
		}
		if d.got("f") != step.f || d.got("new") != step.made {
			t.Errorf("%s: f is %q, new is %q", step.words, d.got("f"), d.got("new"))
		}
	}
	out, err = d.loneSays("undo", "purge", "--exec", "--session", "nosuch")
	if err != nil || out != "nothing is kept of session nosuch\n" {
		t.Errorf("purge of a session that is not there: %v: %s", err, out)
	}
	if out, err := d.loneSays("undo", "purge", "--exec"); err != nil || !strings.Contains(out, "removed 2 calls") {
		t.Errorf("purge: %v: %s", err, out)
	}
	d.verify()
}

// While one command runs in a workspace, of a second one there nothing is kept, and it says so.
func TestOfTwoLoneExecsOneIsKept(t *testing.T) {
	d := newDaemon(t, "")
	d.stop(os.Interrupt)
	first := exec.Command(filepath.Join(bin, "sandboxd"), "exec", "--", "sh", "-c", "touch began; cat")
	first.Dir, first.Env = d.ws, d.env
	in, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if !waitFor(func() bool { return d.ran("began") }) {
		t.Fatal("it does not begin")
	}
	out, err := d.loneSays("exec", "--", "touch", "second")
	if err != nil || !d.ran("second") || !strings.Contains(out, "another sandboxd exec runs in this workspace") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := d.loneSays("undo", "--exec"); err == nil || !strings.Contains(out, "wait until the command there has ended") {
		t.Errorf("an undo meanwhile: %v: %s", err, out)
	}
	in.Close()
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	if out, err := d.loneSays("undo", "--exec"); err != nil || d.ran("began") {
		t.Errorf("%v: %s", err, out)
	}
}

// What one that was killed had changed is found by the next, which can undo it.
func TestAKilledLoneExecIsUndone(t *testing.T) {
	d := newDaemon(t, "")
	d.stop(os.Interrupt)
	d.write("ws/f", "one")
	d.write("ws/change.sh", "echo two > f; touch began; sleep 100")
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "exec", "--", "sh", "change.sh")
	cmd.Dir, cmd.Env = d.ws, d.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !waitFor(func() bool { return d.ran("began") }) {
		t.Fatal("it does not begin")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if out, err := d.loneSays("undo", "--exec"); err != nil || d.got("f") != "one" || d.ran("began") {
		t.Errorf("%v: %s: %s", err, out, d.got("f"))
	}
}

// What it changed is judged as in a daemon; without a person it is undone.
func TestTheChangesOfALoneExecAreJudged(t *testing.T) {
	git := needs.Program(t, "git")
	d := newDaemon(t, "")
	d.stop(os.Interrupt)
	if out, err := exec.Command(git, "-C", d.ws, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.write("ws/notes.md", "mine")
	d.write("ws/clean.sh", "rm notes.md")
	out, err := d.loneSays("exec", "--", "sh", "clean.sh")
	if err == nil || d.got("notes.md") != "mine" || !strings.Contains(out, "sandboxd undo --exec call_") {
		t.Errorf("%v: %s: %s", err, out, d.got("notes.md"))
	}
}

// Many at once, without a daemon: each takes its turn in the record.
func TestLoneExecsTakeTurns(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.stop(os.Interrupt)
	const n = 16
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if out, err := d.lone(fmt.Sprint("ran", i)).CombinedOutput(); err != nil {
				t.Errorf("exec %d: %v: %s", i, err, out)
			}
		})
	}
	all.Wait()
	for i := range n {
		if !d.ran(fmt.Sprint("ran", i)) {
			t.Errorf("exec %d did nothing", i)
		}
	}
	if got := d.begins(); got != n {
		t.Errorf("%d have begun by the record, want %d", got, n)
	}
	d.verify()
}

// Killed at any moment, it leaves a record that is whole, and nothing that ran without a begin.
func TestALoneExecIsKilled(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.stop(os.Interrupt)
	ran, rnd := 0, tier.Rand(t)
	for i := range tier.Rounds(t, 10, 200) {
		name := fmt.Sprint("ran", i)
		cmd := d.lone(name)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rnd.IntN(120)) * time.Millisecond) // which moment does not matter, so long as they differ
		_ = cmd.Process.Kill()                                      // it may have ended
		_ = cmd.Wait()
		if d.ran(name) {
			ran++
		}
		if got := d.begins(); ran > got {
			t.Fatalf("%d ran, and %d have begun by the record", ran, got)
		}
		d.verify()
	}
	if out, err := d.lone("last").CombinedOutput(); err != nil || !d.ran("last") {
		t.Errorf("the next one: %v: %s", err, out)
	}
}

// Where the record cannot be written nothing runs: somebody stopped holds its turn, or the state
// directory is another user's.
func TestALoneExecWithoutARecordRunsNothing(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.stop(os.Interrupt)
	turn, err := os.OpenFile(filepath.Join(d.work, "state/turn"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Close()
	if err := syscall.Flock(int(turn.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if out, err := d.lone("held").CombinedOutput(); err == nil || d.ran("held") || len(out) == 0 {
		t.Errorf("while another has the turn: %v: %s", err, out)
	}
	if err := syscall.Flock(int(turn.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if out, err := d.lone("free").CombinedOutput(); err != nil || !d.ran("free") {
		t.Errorf("afterwards: %v: %s", err, out)
	}
	needs.Root(t, "to be another user")
	for _, dir := range []string{d.work, d.ws} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cmd := d.lone("other")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64130, Gid: 64130}}
	if out, err := cmd.CombinedOutput(); err == nil || d.ran("other") || !bytes.Contains(out, []byte("state")) {
		t.Errorf("as another user: %v: %s", err, out)
	}
	d.verify()
}

// A daemon comes and goes meanwhile: what ran has begun in the record, whoever wrote it.
func TestLoneExecsWhileADaemonComesAndGoes(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	stop := make(chan struct{})
	var mu sync.Mutex
	started := 0 // guarded by mu
	var all sync.WaitGroup
	for w := range 3 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("ran%d_%d", w, i)
				out, err := d.lone(name).CombinedOutput()
				mu.Lock()
				if d.ran(name) {
					started++
				} else if err == nil || len(out) == 0 {
					t.Errorf("%s did not run, and nothing says why: %v: %s", name, err, out)
				}
				mu.Unlock()
			}
		})
	}
	rnd := tier.Rand(t)
	for round := range tier.Rounds(t, 3, 50) {
		d.stop([]os.Signal{os.Interrupt, os.Kill}[round%2])
		time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond) // so that some write by themselves
		d.startPatiently()
	}
	close(stop)
	all.Wait()
	d.stop(os.Interrupt)
	if got := d.begins(); started == 0 || started > got {
		t.Errorf("%d ran, and %d have begun by the record", started, got)
	}
	d.verify()
}

// startPatiently starts the daemon as soon as nobody else writes a line.
func (d *running) startPatiently() {
	d.t.Helper()
	for range 100 {
		cmd := exec.Command(filepath.Join(bin, "sandboxd"), "serve")
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = d.ws, d.env, d.log, d.log
		if err := cmd.Start(); err != nil {
			d.t.Fatal(err)
		}
		ended := func() bool { return strings.Contains("ZX", stateOf(cmd.Process.Pid)) }
		up := waitFor(func() bool {
			return ended() || d.agent.Do(d.t.Context(), "GET", "/status", nil, nil) == nil
		})
		if ended() {
			_ = cmd.Wait() // the next one may have its turn
			continue
		}
		if !up {
			d.t.Fatalf("the daemon does not answer:\n%s", d.log)
		}
		d.cmd = cmd
		return
	}
	d.t.Fatalf("the daemon never gets its turn:\n%s", d.log)
}
