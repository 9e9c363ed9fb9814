package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// repository makes one of the workspace with a commit, and hooks that leave a file when they run.
func (d *running) repository() (git func(args ...string) string) {
	git = func(args ...string) string {
		d.t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = d.ws, append(os.Environ(), "HOME="+d.home)
		out, err := cmd.CombinedOutput()
		if err != nil {
			d.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	d.write("ws/sub/a", "a\n")
	git("init", "-q")
	git("add", "sub")
	git("commit", "-qm", "one")
	for _, hook := range []string{"post-checkout", "pre-commit", "reference-transaction", "post-index-change"} {
		d.write("ws/.git/hooks/"+hook, "#!/bin/sh\necho "+hook+" >> "+d.ws+"/hooked\n")
		if err := os.Chmod(filepath.Join(d.ws, ".git/hooks", hook), 0o700); err != nil {
			d.t.Fatal(err)
		}
	}
	return git
}

// cwd is the directory of a session.
func (d *running) cwd(session string) string {
	return strings.Trim(d.get(d.agent, "/sessions/"+session, "cwd"), `"`)
}

// TestT53_WorktreeTools: a session enters worktrees and leaves them, also after a restart; what was changed is
// not lost unless the call says so, and hooks of the repository do not run.
func TestT53_WorktreeTools(t *testing.T) {
	d := newPlaces(t, "")
	d.write("config.yaml", fmt.Sprintf(`hooks:
  worktreeCreate: [{command: 'grep -q /bad && { echo no bad ones >&2; exit 2; }; exit 0'}]
  worktreeRemove: [{command: 'cat >> %s/removed'}]
`, d.work))
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.start()
	git := d.repository()
	s := d.session()
	at := func(want string) {
		t.Helper()
		if got := d.cwd(s); got != want {
			t.Errorf("the session is in %s, want %s", got, want)
		}
	}
	exit := func(args string) client.Result { t.Helper(); return d.asked(t, s, "ExitWorktree", args, yes) }

	trees := d.ws + "/.worktrees/"
	d.answers(s, "EnterWorktree", `{"name":"x"}`, "Worktree created: worktree_1 at "+trees+"x (branch: worktree-x)")
	at(trees + "x")
	if r := d.call(s, "Bash", `{"command":"pwd; cat sub/a; git branch --show-current"}`); r.FinalText == "" ||
		!strings.HasPrefix(r.FinalText, trees+"x\na\nworktree-x\n") {
		t.Errorf("got %s %q", r.Status, r.FinalText)
	}
	d.refuses(s, "EnterWorktree", `{"name":"x"}`, "worktree_exists", "already exists")
	for _, name := range []string{"", "../x", "a/b", "-x", "a b", "a..b", strings.Repeat("a", 65)} {
		args, _ := json.Marshal(map[string]string{"name": name})
		d.refuses(s, "EnterWorktree", string(args), "invalid_arguments", "name")
	}
	d.refuses(s, "EnterWorktree", `{"name":"bad"}`, "hook_blocked", "no bad ones")
	d.refuses(s, "ExitWorktree", `{"id":"worktree_9"}`, "worktree_not_found", "Worktree not found: worktree_9")
	d.refuses(d.session(), "ExitWorktree", `{"id":"worktree_1"}`, "worktree_not_found", "worktree_1")

	// A worktree that was entered in a worktree goes back to what is still there.
	d.answers(s, "EnterWorktree", `{"name":"y"}`, "Worktree created: worktree_2 at "+trees+"y (branch: worktree-y)")
	if r := exit(`{"id":"worktree_1"}`); r.FinalText != "Worktree removed: worktree_1" {
		t.Errorf("got %+v", r)
	}
	if said := d.read("removed"); !strings.Contains(said, `"worktreePath":"`+trees+`x"`) ||
		!strings.Contains(said, `"sessionId":"`+s+`"`) {
		t.Errorf("worktreeRemove heard %s", said)
	}
	at(trees + "y")
	if r := exit(`{"id":"worktree_2","action":"remove","discard_changes":false}`); r.FinalText != "Worktree removed: worktree_2" {
		t.Errorf("got %+v", r)
	}
	at(d.ws)
	if list := git("worktree", "list"); strings.Count(list, "\n") != 1 || strings.Contains(git("branch"), "worktree") {
		t.Errorf("something is left: %s%s", list, git("branch"))
	}

	// What was changed is named and not lost: a file, a commit.
	d.answers(s, "EnterWorktree", `{"name":"z"}`, "Worktree created: worktree_3 at "+trees+"z (branch: worktree-z)")
	d.call(s, "Write", `{"file_path":"new","content":"work"}`)
	for _, change := range []string{"files not committed: 1", "commits of its own"} {
		r := exit(`{"id":"worktree_3"}`)
		if r.Status != client.StatusError || r.Error.Code != "worktree_changed" ||
			!strings.Contains(r.FinalText, change) || !strings.Contains(r.FinalText, trees+"z (branch: worktree-z)") {
			t.Errorf("got %s %q, want %q", r.Status, r.FinalText, change)
		}
		if ran, err := os.ReadFile(filepath.Join(d.ws, "hooked")); err == nil && change == "files not committed: 1" {
			t.Errorf("hooks of the repository ran: %s", ran)
		}
		if r := d.call(s, "Bash", `{"command":"git add -A && git commit -qm two"}`); r.Status != client.StatusSuccess {
			t.Errorf("got %+v", r)
		}
	}
	if err := os.Remove(filepath.Join(d.ws, "hooked")); err != nil {
		t.Errorf("the hooks of this test do not run with git itself: %v", err)
	}
	at(trees + "z")
	if text := d.read("ws/.worktrees/z/new"); text != "work" {
		t.Errorf("got %q", text)
	}
	if r := exit(`{"id":"worktree_3","discard_changes":true}`); r.FinalText != "Worktree removed: worktree_3" {
		t.Errorf("got %+v", r)
	}
	at(d.ws)
	// A daemon that is started again knows them.
	d.answers(s, "EnterWorktree", `{"name":"kept"}`, "Worktree created: worktree_4 at "+trees+"kept (branch: worktree-kept)")
	d.stop(os.Interrupt)
	d.start()
	if text := d.read("ws/.worktrees/kept/sub/a"); text != "a\n" {
		t.Errorf("got %q", text)
	}
	if r := exit(`{"id":"worktree_4","action":"keep"}`); r.FinalText != "Worktree kept: worktree_4" {
		t.Errorf("got %+v", r)
	}
	at(d.ws)
	if branches := git("branch"); !strings.Contains(branches, "worktree-kept") || strings.Contains(branches, "worktree-z") {
		t.Errorf("the branches are %s", branches)
	}
	if ran, err := os.ReadFile(filepath.Join(d.ws, "hooked")); err == nil {
		t.Errorf("hooks of the repository ran: %s", ran)
	}
	if status := git("status", "--porcelain"); status != "" {
		t.Errorf("the repository has %q", status)
	}
}

// TestT53_WorktreesAreJudged: as the commands of git that they are, and by the lists of paths.
func TestT53_WorktreesAreJudged(t *testing.T) {
	for _, x := range []struct{ name, config, code string }{
		{"git may not be run", "sandbox: {deniedCommands: [git]}\n", "command_denied"},
		{"nothing is written there", "sandbox: {deniedPaths: [WS/.worktrees]}\n", "path_denied"},
		{"plan asks", "sessions: {mode: plan}\n", ""},
		{"a rule", "policy: {rules: {deny: [EnterWorktree]}}\n", "any"},
	} {
		t.Run(x.name, func(t *testing.T) {
			d := newPlaces(t, x.config)
			d.write("config.yaml", strings.ReplaceAll(x.config, "WS", d.ws))
			d.start()
			d.repository()
			s := d.session()
			if x.code == "any" {
				if r := d.call(s, "EnterWorktree", `{"name":"x"}`); r.Status != client.StatusError {
					t.Errorf("got %+v", r)
				}
			} else if x.code != "" {
				d.refuses(s, "EnterWorktree", `{"name":"x"}`, x.code, "")
			} else if r := d.asked(t, s, "EnterWorktree", `{"name":"x"}`, no); r.Status != client.StatusExecutionRejected {
				t.Errorf("got %+v", r)
			}
			if _, err := os.Lstat(d.ws + "/.worktrees/x"); err == nil || d.cwd(s) != d.ws {
				t.Errorf("it was made; the session is in %s", d.cwd(s))
			}
		})
	}
	// In mode auto a person is asked before one is removed.
	d := newDaemon(t, "")
	d.repository()
	s := d.session()
	d.call(s, "EnterWorktree", `{"name":"x"}`)
	if r := d.asked(t, s, "ExitWorktree", `{"id":"worktree_1"}`, no); r.Status != client.StatusExecutionRejected {
		t.Errorf("got %+v", r)
	}
}

// TestT53_WhatARepositoryPutsInTheWay: links where worktrees lie lead nowhere, and overwrite nothing.
func TestT53_WhatARepositoryPutsInTheWay(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	d.refuses(s, "EnterWorktree", `{"name":"x"}`, "no_repository", "no git repository")
	git := d.repository()
	trees := filepath.Join(d.ws, ".worktrees")
	link := func(to, at string) {
		t.Helper()
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	link("sub", trees)
	if r := d.call(s, "EnterWorktree", `{"name":"x"}`); r.Status != client.StatusError {
		t.Errorf("got %+v", r)
	}
	if err := os.Remove(trees); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(trees, 0o755); err != nil {
		t.Fatal(err)
	}
	link("../planted", trees+"/.gitignore")
	d.call(s, "EnterWorktree", `{"name":"x"}`)
	for _, name := range []string{"sub/.gitignore", "sub/x", "planted"} {
		if _, err := os.Lstat(filepath.Join(d.ws, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	if err := os.Remove(trees + "/.gitignore"); err != nil {
		t.Fatal(err)
	}
	// A working tree that the configuration of the repository names is not gone to.
	git("config", "core.worktree", d.home)
	if r := d.call(s, "EnterWorktree", `{"name":"w"}`); r.Status == client.StatusSuccess && d.cwd(s) != trees+"/w" {
		t.Errorf("got %+v in %s", r, d.cwd(s))
	}
}

// TestT53_WhatWasPutInThePlaceOfAWorktreeStays: a link, one on the way, and another directory, each with a .git
// that names the worktree.
func TestT53_WhatWasPutInThePlaceOfAWorktreeStays(t *testing.T) {
	d := newDaemon(t, "")
	d.repository()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	trees := filepath.Join(d.ws, ".worktrees")
	for _, kind := range []string{"directory", "link", "above"} {
		s := d.session()
		if r := d.call(s, "EnterWorktree", `{"name":"`+kind+`"}`); r.Status != client.StatusSuccess {
			t.Fatalf("got %+v", r)
		}
		at := filepath.Join(trees, kind)
		text, err := os.ReadFile(at + "/.git")
		must(err)
		must(os.Rename(at, filepath.Join(d.ws, "away-"+kind)))
		other := filepath.Join("other-"+kind, kind)
		d.write("ws/"+other+"/precious", "work")
		d.write("ws/"+other+"/.git", string(text))
		other = filepath.Join(d.ws, other)
		switch kind {
		case "directory":
			must(os.Rename(other, at))
			other = at
		case "link":
			must(os.Symlink(other, at))
		case "above":
			must(os.Rename(trees, trees+"-away"))
			must(os.Symlink(filepath.Dir(other), trees))
		}
		r := d.asked(t, s, "ExitWorktree", `{"id":"worktree_1","discard_changes":true}`, yes)
		if r.Error == nil || r.Error.Code != "worktree_replaced" {
			t.Errorf("%s: got %+v", kind, r)
		}
		if text, err := os.ReadFile(other + "/precious"); err != nil || string(text) != "work" {
			t.Errorf("%s: what lay there: %q, %v", kind, text, err)
		}
	}
}

// TestT53_ASessionComesBackToADirectoryAlone: not to a link to a place outside, nor to what is gone.
func TestT53_ASessionComesBackToADirectoryAlone(t *testing.T) {
	d := newDaemon(t, "")
	d.repository()
	for n, swap := range []func(at string) error{
		os.RemoveAll,
		func(at string) error { return errors.Join(os.RemoveAll(at), os.Symlink(d.home, at)) },
		func(at string) error { return errors.Join(os.RemoveAll(at), os.WriteFile(at, nil, 0o600)) },
	} {
		s := d.session()
		back := filepath.Join(d.ws, fmt.Sprint("back", n))
		if r := d.call(s, "Bash", `{"command":"mkdir `+back+` && cd `+back+`"}`); d.cwd(s) != back {
			t.Fatalf("the session is in %s: %+v", d.cwd(s), r)
		}
		if r := d.call(s, "EnterWorktree", fmt.Sprintf(`{"name":"x%d"}`, n)); r.Status != client.StatusSuccess {
			t.Fatalf("got %+v", r)
		}
		if err := swap(back); err != nil {
			t.Fatal(err)
		}
		r := d.asked(t, s, "ExitWorktree", `{"id":"worktree_1","action":"keep"}`, yes)
		if !strings.Contains(r.FinalText, "The session goes on in "+d.ws+": "+back) || d.cwd(s) != d.ws {
			t.Errorf("%d: in %s: %+v", n, d.cwd(s), r)
		}
	}
}

// TestT53_RemoteTrigger: each action says that there is nothing behind it, and none pretends.
func TestT53_RemoteTrigger(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	for _, action := range []string{"list", "get", "create", "update", "run"} {
		d.refuses(s, "RemoteTrigger", `{"action":"`+action+`","id":"a"}`, "no_remote_backend", "RemoteTrigger "+action+": no remote backend")
	}
	d.refuses(s, "RemoteTrigger", `{"action":"delete"}`, "invalid_arguments", "action")
}

// TestN25_TeamDeleteIsAsked: a team is disbanded when a person agrees, also in mode auto, and once.
func TestN25_TeamDeleteIsAsked(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	d.answers(s, "TeamCreate", `{"name":"crew","members":["anna"]}`, `Team created: team_1 "crew" with 1 members`)
	if r := d.asked(t, s, "TeamDelete", `{"id":"team_1"}`, no); r.Status != client.StatusExecutionRejected {
		t.Errorf("got %+v", r)
	}
	d.answers(s, "SendMessage", `{"to":"anna","message":"still here"}`, "Message sent to anna")
	if r := d.asked(t, s, "TeamDelete", `{"id":"team_1"}`, yes); r.FinalText != "Team disbanded: team_1" {
		t.Errorf("got %+v", r)
	}
	d.refuses(s, "SendMessage", `{"to":"anna","message":"gone"}`, "not_in_team", "")
	if r := d.asked(t, s, "TeamDelete", `{"id":"team_1"}`, yes); r.Error == nil || r.Error.Code != "team_disbanded" ||
		!strings.Contains(r.FinalText, "Team already disbanded: team_1") {
		t.Errorf("got %+v", r)
	}
}
