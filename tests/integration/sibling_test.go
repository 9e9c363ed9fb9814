package integration

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// A call that writes beside its workspace asks. A yes opens exactly that directory, for that call, and nothing else
// answers for a person.
func TestADirectoryBesideTheWorkspaceIsAskedAbout(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	s := d.session()
	if out, err := d.exec("sh", "-c", "git init -q && echo one > a.txt && git add a.txt && git commit -qm one"); err != nil {
		t.Fatal(err, out)
	}
	there := func(name string) bool {
		_, err := os.Lstat(filepath.Join(d.work, name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	succeeds := func(r client.Result, what string) {
		t.Helper()
		if r.Status != "SUCCESS" {
			t.Errorf("%s: %s %s", what, r.Status, r.FinalText)
		}
	}
	bash := func(command string, answers ...func(question) (any, error)) client.Result {
		t.Helper()
		b, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		return d.asked(t, s, "Bash", string(b), answers...)
	}
	asked := 0
	allow := func(q question) (any, error) { asked++; return yes(q) }

	succeeds(bash("git worktree add -q ../w && cat ../w/a.txt", allow), "a worktree")
	if !there("w/a.txt") || !there("ws/.git/worktrees/w") || there("other") || asked != 1 {
		t.Errorf("the worktree is not as git makes it, or something else is there; asked %d times", asked)
	}
	wrote := bash("echo two > ../w/b.txt; echo two >> ../w/a.txt", allow)
	succeeds(wrote, "writing in it")
	if asked != 2 || !there("w/b.txt") {
		t.Errorf("asked %d times, want 2: a yes is for one call", asked)
	}
	out, err := d.exec("sandboxd", "undo", wrote.CallID)
	if text, _ := os.ReadFile(filepath.Join(d.work, "w/a.txt")); err != nil || string(text) != "one\n" || there("w/b.txt") {
		t.Errorf("an undo leaves %q: %v %s", text, err, out)
	}
	edit := func(question) (any, error) {
		return map[string]any{"approved": true, "args": map[string]string{"command": "touch ../w/edited"}}, nil
	}
	if r := bash("touch ../w/shown", edit); r.Status != "SUCCESS" || !there("w/edited") || there("w/shown") {
		t.Errorf("an edit: %s %s", r.Status, r.FinalText)
	}
	// Another directory lies there by now, and the one that was opened has moved.
	if err := os.Rename(filepath.Join(d.work, "w"), filepath.Join(d.work, "moved")); err != nil {
		t.Fatal(err)
	}
	again := bash("mkdir -p ../w && touch ../w/again; python3 -c 'open(\"../moved/again\", \"w\")'", allow)
	if !there("w/again") || there("moved/again") {
		t.Errorf("after the directory was replaced: %s %s", again.Status, again.FinalText)
	}
	if r := d.asked(t, s, "Write", `{"file_path": "../w/c.txt", "content": "three"}`, allow); !there("w/c.txt") {
		t.Errorf("a file tool: %s %s", r.Status, r.FinalText)
	}
	if r := bash("touch ../w/d.txt", no); r.Status != "EXECUTION_REJECTED" || there("w/d.txt") {
		t.Errorf("after a no: %s %s", r.Status, r.FinalText)
	}
	for _, command := range []string{"touch ~/x", "mkdir ../n", "cp -r . ../n", "mkdir -p ../.hidden", "rm -rf ../w", "mkdir -p ../../n"} {
		r := bash(command, func(question) (any, error) { return nil, errors.New(command + " was asked about") })
		if r.Status != "ERROR" || r.Error.Code != "path_outside_write_scope" {
			t.Errorf("%s: %s %s", command, r.Status, r.FinalText)
		}
	}

	// What was asked about is another place by the time of the answer.
	if err := os.Mkdir(filepath.Join(d.work, "away"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := bash("mkdir -p ../late/x", func(q question) (any, error) {
		if err := os.Symlink("away", filepath.Join(d.work, "late")); err != nil {
			return nil, err
		}
		return yes(q)
	}, no)
	if there("away/x") {
		t.Errorf("a yes for one path opened another: %s %s", r.Status, r.FinalText)
	}

	for mode, want := range map[string]client.Status{"dontAsk": "ERROR", "bypassPermissions": "EXECUTION_REJECTED"} {
		if err := d.operator.Do(t.Context(), "PATCH", "/sessions/"+s, map[string]any{"mode": mode}, nil); err != nil {
			t.Fatal(err)
		}
		if r := bash("mkdir -p ../"+mode, no); r.Status != want || there(mode) {
			t.Errorf("mode %s: %s %s, want %s", mode, r.Status, r.FinalText, want)
		}
	}
}

// A call that a client runs opens the same.
func TestASiblingIsOpenedWhereAClientRunsTheCall(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	s := d.session()
	var held struct {
		CallID string `json:"call_id"`
	}
	done := make(chan error, 1)
	go func() {
		in := map[string]any{
			"session_id": s, "tool": "Bash", "wait": true, "hold": true,
			"args": map[string]any{"command": "mkdir -p ../made && touch ../made/x"},
		}
		done <- d.agent.Do(t.Context(), "POST", "/decide", in, &held)
	}()
	q := d.waiting(1)[0]
	if err := d.operator.Do(t.Context(), "POST", "/approvals/"+q.ID, map[string]any{"approved": true}, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "exec", "--call", held.CallID)
	cmd.Dir, cmd.Env = d.ws, d.env
	out, err := cmd.CombinedOutput()
	if _, missing := os.Lstat(filepath.Join(d.work, "made/x")); err != nil || missing != nil {
		t.Errorf("%v %v: %s", err, missing, strings.TrimSpace(string(out)))
	}
}
