package operate

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The places of the recommended deployment.
const (
	agentSocket    = "/run/sandboxd/agent.sock"
	operatorSocket = "/run/sandboxd/operator.sock"
	stateDir       = "/var/lib/sandboxd"
	keyDir         = "/var/lib/sandboxd-key"
	configFile     = "/etc/sandboxd/config.yaml"
)

// daemon is the daemon as the unit starts it, without systemd.
func (m *machine) daemon() *exec.Cmd {
	m.t.Helper()
	d := m.login("sandboxd")
	m.must(os.MkdirAll("/run/sandboxd", 0o711))
	m.must(os.Chown("/run/sandboxd", int(d.uid), int(d.gid)))
	cmd := d.command(programs+"/sandboxd", "serve", "--config", configFile)
	cmd.Dir = "/"
	cmd.Env = append(cmd.Env, "SANDBOXD_RUNTIME_DIR=/run/sandboxd", "SANDBOXD_STATE_DIR="+stateDir, "SANDBOXD_KEY_DIR="+keyDir)
	cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID}
	return cmd
}

// start starts the daemon.
func (m *machine) start() *exec.Cmd {
	m.t.Helper()
	cmd := m.daemon()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = time.Minute // another process may hold the pipe
	m.must(cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	m.t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		<-ended
		if m.t.Failed() {
			m.t.Logf("the daemon said:\n%s", log.String())
		}
	})
	m.waitFor("an answer of the daemon", func() bool {
		select {
		case <-ended:
			m.t.Fatal("the daemon has ended")
		default:
		}
		return exec.Command("curl", "-sf", "--unix-socket", operatorSocket, "http://x/healthz").Run() == nil
	})
	return cmd
}

// installed is a machine with a running daemon for ann, whom olga watches.
func installed(t *testing.T) (m *machine, ws string, ann, olga, stranger user) {
	t.Helper()
	m = newMachine(t)
	ws = filepath.Join(m.dir, "project")
	for _, name := range []string{"ann", "olga", "stranger"} {
		m.addUser(name)
	}
	m.must(os.Mkdir(ws, 0o755))
	m.run("chown", "ann:ann", ws)
	m.run(programs+"/sandboxd", "setup", "--yes", "--account", "ann", "--operator", "olga", "--workspace", ws)
	m.start()
	return m, ws, m.login("ann"), m.login("olga"), m.login("stranger")
}

// reads reports whether a user can read a file.
func (u user) reads(path string) bool {
	_, ok := u.try("cat", path)
	return ok
}

// call runs a command through the daemon.
func (u user) call(ws, command string) (string, bool) {
	cmd := u.command("sandboxd", "call", "Bash", `{"command": "`+command+`"}`)
	cmd.Dir = ws
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// connects reports whether a user can connect to a socket.
func (u user) connects(socket string) bool {
	out, ok := u.try("curl", "-sS", "--unix-socket", socket, "http://x/healthz")
	if !ok && !strings.Contains(out, "Could not connect") && !strings.Contains(out, "Couldn't connect") &&
		!strings.Contains(out, "Failed to connect") {
		u.m.t.Fatalf("%s at %s: %s", u.name, socket, out)
	}
	return ok
}

// The daemon, an agent and a stranger are three users. What the agent's tools make belongs to the
// agent; neither the agent's programs nor the agent nor a stranger reads anything of the daemon;
// each socket lets in those that it is for.
func TestThreeUsers(t *testing.T) {
	if !inside(t) {
		return
	}
	m, ws, ann, olga, stranger := installed(t)

	if out, ok := ann.call(ws, "id -un && mkdir dir && echo x > dir/file && ls -d ~"); !ok ||
		!strings.Contains(out, "ann\n"+filepath.Join(m.dir, "home-ann")) {
		t.Errorf("a command of ann: %s", out)
	}
	write := ann.command("sandboxd", "call", "Write", `{"file_path": "`+ws+`/made/by-write", "content": "x"}`)
	write.Dir = ws
	if out, err := write.CombinedOutput(); err != nil {
		t.Errorf("a file tool of ann: %v %s", err, out)
	}
	for _, name := range []string{"dir", "dir/file", "made", "made/by-write"} {
		if uid := m.owner(filepath.Join(ws, name)); uid != ann.uid {
			t.Errorf("%s belongs to uid %d, want ann's %d", name, uid, ann.uid)
		}
	}
	// Another session, whose launcher starts after a thread of the daemon had other rights.
	if out, ok := ann.call(filepath.Join(ws, "made"), "id -un"); !ok || !strings.HasPrefix(out, "ann\n") {
		t.Errorf("another session of ann: %s", out)
	}

	// What the operator and the agent are told of the daemon does not come from their own defaults.
	if out, ok := olga.try("sandboxd", "doctor"); !ok || !strings.Contains(out, "the daemon has a uid of its own") ||
		!strings.Contains(out, "have the rights of the uid that calls") {
		t.Errorf("doctor of the operator: %s", out)
	}
	if out, ok := ann.try("sandboxd", "hook", "install", "gemini"); !ok || strings.Contains(out, "note:") {
		t.Errorf("the hook of ann: %s", out)
	}
	if out, ok := ann.try("sandboxd", "policy", "rules"); !ok || !strings.Contains(out, "this user may not read it") {
		t.Errorf("rules of the defaults: %s", out)
	}

	// Of the daemon nobody reads anything, inside or outside.
	var files []string
	for _, dir := range []string{"/etc/sandboxd", stateDir, keyDir} {
		m.must(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				files = append(files, path)
			}
			return err
		}))
	}
	if len(files) < 5 {
		t.Errorf("the daemon has only %v", files)
	}
	script := "for f in " + strings.Join(files, " ") + "; do\n  if test -r $f || cat $f; then echo READ $f; fi\ndone\nexit 0\n"
	m.must(os.WriteFile(filepath.Join(ws, "try.sh"), []byte(script), 0o755))
	if out, ok := ann.call(ws, "sh ./try.sh 2>&1"); !ok || strings.Contains(out, "READ ") {
		t.Errorf("ann's programs: %s", out)
	}
	for _, u := range []user{ann, olga, stranger} {
		if out, ok := u.try("sh", filepath.Join(ws, "try.sh")); !ok || strings.Contains(out, "READ ") {
			t.Errorf("%s: %s", u.name, out)
		}
	}

	for _, tt := range []struct {
		who             user
		agent, operator bool
	}{{ann, true, false}, {olga, false, true}, {stranger, false, false}} {
		if got := tt.who.connects(agentSocket); got != tt.agent {
			t.Errorf("%s reaches the agent socket: %v", tt.who.name, got)
		}
		if got := tt.who.connects(operatorSocket); got != tt.operator {
			t.Errorf("%s reaches the operator socket: %v", tt.who.name, got)
		}
	}
	if out, ok := olga.try("sandboxd", "approvals", "list"); !ok {
		t.Errorf("olga: %s", out)
	}
	if out, ok := stranger.try("sandboxd", "status"); ok || !strings.Contains(out, "this user may not connect") {
		t.Errorf("the stranger is told %s", out)
	}
	// Who reaches the socket, and is no account, is let in no further.
	m.run("usermod", "-a", "-G", "sandboxd-agents", "stranger")
	if out, ok := m.login("stranger").call(ws, "true"); ok || !strings.Contains(out, "has no account here") {
		t.Errorf("a stranger in the group: %s", out)
	}
	out, ok := olga.try("sandboxd", "status")
	if !ok || !strings.Contains(out, "tools have the rights of the user that calls") ||
		!strings.Contains(out, "agent and daemon are different users") {
		t.Errorf("status: %s", out)
	}
}

// Whoever takes over the daemon has no id of root and none of a user that is no account.
func TestTheDaemonHasOnlyTheIDsOfItsAccounts(t *testing.T) {
	if !inside(t) {
		return
	}
	m, _, ann, _, _ := installed(t)
	d := m.login("sandboxd")
	maps, err := filepath.Glob("/proc/[0-9]*/uid_map")
	m.must(err)
	found := 0
	for _, path := range maps {
		text, err := os.ReadFile(path)
		if err != nil || m.owner(filepath.Dir(path)) != d.uid {
			continue
		}
		if uids := strings.Fields(string(text)); len(uids) == 6 {
			found++
			for _, uid := range []uint32{d.uid, ann.uid} {
				if n := strings.Count(strings.Join(uids, " "), itoa(uid)+" "+itoa(uid)+" 1"); n != 1 {
					t.Errorf("%s: %s", path, text)
				}
			}
			continue
		}
		// The outer one has the capabilities: nobody with its uid may read it or make it do things.
		if out, ok := d.try("cat", filepath.Join(filepath.Dir(path), "environ")); ok {
			t.Errorf("the outer process can be read: %s", out)
		}
	}
	if found == 0 {
		t.Error("no process of the daemon has a namespace with two ids")
	}
}

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// An account that is taken away has no more calls. One that runs ends as it would have, with the
// rights that it had.
func TestAnAccountThatIsRemovedWhileItsCallsRun(t *testing.T) {
	if !inside(t) {
		return
	}
	m, ws, ann, olga, _ := installed(t)
	var out string
	var ok bool
	var call sync.WaitGroup
	call.Go(func() {
		out, ok = ann.call(ws, "touch began; while ! test -e go; do sleep 0.05; done; touch ended; id -u")
	})
	m.waitFor("the call", func() bool { return !absent(filepath.Join(ws, "began")) })
	text, err := os.ReadFile(configFile)
	m.must(err)
	without := bytes.ReplaceAll(text, []byte("  "+itoa(ann.uid)+": ann\n"), nil)
	if bytes.Equal(text, without) {
		t.Fatalf("ann is not in %s", text)
	}
	m.must(os.WriteFile(configFile, without, 0o640))
	if out, ok := olga.try("sandboxd", "reload"); !ok {
		t.Fatalf("reload: %s", out)
	}
	if out, ok := ann.call(ws, "true"); ok || !strings.Contains(out, "has no account here") {
		t.Errorf("another call of ann: %s", out)
	}
	m.run("gpasswd", "--delete", "ann", "sandboxd-agents")
	m.must(os.WriteFile(filepath.Join(ws, "go"), nil, 0o644))
	call.Wait()
	if !ok || !strings.Contains(out, itoa(ann.uid)+"\n") {
		t.Errorf("the call that ran: %s", out)
	}
	if uid := m.owner(filepath.Join(ws, "ended")); uid != ann.uid {
		t.Errorf("what it made at its end belongs to uid %d", uid)
	}
}

// A question of an agent is answered by an operator, who is another user than both; what was
// approved runs with the agent's rights, with the content that was approved.
func TestAnOperatorAnswersForAnAgent(t *testing.T) {
	if !inside(t) {
		return
	}
	m, ws, ann, olga, _ := installed(t)
	text, err := os.ReadFile(configFile)
	m.must(err)
	m.must(os.WriteFile(configFile, append(text, "policy: {rules: {ask: [\"Bash(sh ./release.sh)\"]}}\n"...), 0o640))
	if out, ok := olga.try("sandboxd", "reload"); !ok {
		t.Fatalf("reload: %s", out)
	}
	script := filepath.Join(ws, "release.sh")
	m.must(os.WriteFile(script, []byte("echo approved by $(id -un)\ntouch released\n"), 0o644))
	var out string
	var ok bool
	var call sync.WaitGroup
	call.Go(func() { out, ok = ann.call(ws, "sh ./release.sh") })
	var id string
	m.waitFor("the question", func() bool {
		list, _ := olga.try("sandboxd", "approvals", "list")
		_, rest, found := strings.Cut(list, "apr_")
		id, _, _ = strings.Cut("apr_"+rest, " ")
		return found
	})
	if said, ok := ann.try("sandboxd", "approvals", "approve", id); ok {
		t.Errorf("the agent answers its own question: %s", said)
	}
	if said, ok := olga.try("sandboxd", "approvals", "approve", id); !ok {
		t.Errorf("the operator answers: %s", said)
	}
	call.Wait()
	if !ok || !strings.Contains(out, "approved by ann") || m.owner(filepath.Join(ws, "released")) != ann.uid {
		t.Errorf("the call: %s", out)
	}
	if said, ok := olga.try("sandboxd", "log"); !ok || !strings.Contains(said, "release.sh") {
		t.Errorf("the log: %s", said)
	}
}

// Programs that the daemon starts for its operator have no capability, and not the rights of any
// account.
func TestHooksInheritNoCapability(t *testing.T) {
	if !inside(t) {
		return
	}
	m, ws, ann, olga, _ := installed(t)
	hook := filepath.Join(programs, "hook")
	m.must(os.WriteFile(hook, []byte("#!/bin/sh\ngrep -E '^(Uid|Cap(Prm|Eff|Amb))' /proc/self/status >"+stateDir+"/hook\necho '{}'\n"), 0o755))
	text, err := os.ReadFile(configFile)
	m.must(err)
	m.must(os.WriteFile(configFile, append(text, "hooks: {preToolUse: [{name: caps, command: "+hook+"}]}\n"...), 0o640))
	if out, ok := olga.try("sandboxd", "reload"); !ok {
		t.Fatalf("reload: %s", out)
	}
	if out, ok := ann.call(ws, "true"); !ok {
		t.Fatalf("a call with a hook: %s", out)
	}
	said, err := os.ReadFile(filepath.Join(stateDir, "hook"))
	m.must(err)
	uid := itoa(m.login("sandboxd").uid)
	if !bytes.HasPrefix(said, []byte("Uid:\t"+uid+"\t"+uid+"\t"+uid)) || bytes.Count(said, []byte("0000000000000000\n")) != 3 {
		t.Errorf("the hook has %s", said)
	}
}

// A daemon that cannot start says once why, and its exit status says so too; one that is killed
// leaves no process behind.
func TestBothProcessesOfADaemonEndTogether(t *testing.T) {
	if !inside(t) {
		return
	}
	m, ws, ann, _, _ := installed(t)
	out, err := m.daemon().CombinedOutput() // beside the one that runs
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 ||
		bytes.Count(out, []byte("sandboxd: error:")) != 1 || !bytes.Contains(out, []byte("is in use by process")) {
		t.Errorf("a second daemon: %v\n%s", err, out)
	}
	text, err := os.ReadFile(configFile)
	m.must(err)
	m.must(os.WriteFile(configFile, bytes.ReplaceAll(text, []byte("  others:"), []byte("  0: root-agent\n  others:")), 0o640))
	if out, err := m.daemon().CombinedOutput(); err == nil || !bytes.Contains(out, []byte("accounts names root")) {
		t.Errorf("a daemon for root: %v\n%s", err, out)
	}
	m.must(os.WriteFile(configFile, text, 0o640))

	of := func() []string { // nobody here waits for orphans, which are zombies then
		return strings.Fields(m.run("sh", "-c", "ps -u sandboxd -o stat=,pid= | sed -n '/^Z/d; s/.* //p'"))
	}
	if n := len(of()); n < 2 {
		t.Fatalf("%d processes of the daemon run", n)
	}
	if out, ok := ann.call(ws, "true"); !ok {
		t.Errorf("a call: %s", out)
	}
	m.run("kill", "-KILL", of()[0]) // the outer one is the older
	m.waitFor("the end of the other one", func() bool { return len(of()) == 0 })
	m.start()
	if out, ok := ann.call(ws, "id -un"); !ok || !strings.HasPrefix(out, "ann\n") {
		t.Errorf("a call of the next daemon: %s", out)
	}
}

// A group that an account got since the daemon started closes files to it, as it does without the
// daemon: its calls are refused until a restart.
func TestAGroupThatTheDaemonDoesNotHave(t *testing.T) {
	if !inside(t) {
		return
	}
	m, ws, ann, _, _ := installed(t)
	file := filepath.Join(ws, "closed")
	m.run("groupadd", "late")
	m.must(os.WriteFile(file, []byte("secret"), 0o600))
	m.run("chgrp", "late", file)
	m.must(os.Chmod(file, 0o604))
	if out, ok := ann.call(ws, "cat closed"); !ok || !strings.Contains(out, "secret") {
		t.Errorf("without the group: %s", out)
	}
	m.run("usermod", "-a", "-G", "late", "ann")
	ann = m.login("ann")
	root := ann
	root.groups = append(slices.Clone(root.groups[:len(root.groups)-1]), 0)
	for name, u := range map[string]user{"reload the daemon": ann, "only a daemon that is root": root} {
		read := u.command("sandboxd", "call", "Read", `{"file_path": "`+file+`"}`)
		read.Dir = ws
		text, err := read.CombinedOutput()
		said, ok := u.call(ws, "cat closed")
		for _, out := range []string{string(text), said} {
			if err == nil || ok || strings.Contains(out, "secret") || !strings.Contains(out, name) {
				t.Errorf("groups %v: %s", u.groups, out)
			}
		}
	}
}

// A reload takes a new account, and a new group of one: the daemon starts again for the ids, under
// the same process and without ending any call.
func TestAReloadTakesNewAccounts(t *testing.T) {
	if !inside(t) {
		return
	}
	m, ws, ann, olga, _ := installed(t)
	m.addUser("bob")
	m.run("usermod", "-a", "-G", "sandboxd-agents", "bob")
	bob := m.login("bob")
	outer := strings.Fields(m.run("ps", "-u", "sandboxd", "-o", "pid="))[0]
	before, err := os.ReadFile(configFile)
	m.must(err)
	account := func(line string) {
		t.Helper()
		text := bytes.ReplaceAll(before, []byte("  others:"), []byte("  "+line+"\n  others:"))
		m.must(os.WriteFile(configFile, text, 0o640))
	}

	account("0: root-agent")
	if out, ok := olga.try("sandboxd", "reload"); ok || !strings.Contains(out, "accounts names root") {
		t.Errorf("root as an account: %s", out)
	}
	account(itoa(bob.uid) + ": bob")
	var said string
	var ok bool
	var call sync.WaitGroup
	call.Go(func() { said, ok = ann.call(ws, "touch began; while ! test -e go; do sleep 0.05; done; id -un") })
	m.waitFor("a call of ann", func() bool { return !absent(filepath.Join(ws, "began")) })
	if out, ok := olga.try("sandboxd", "reload"); !ok || !strings.Contains(out, "uid "+itoa(bob.uid)) ||
		!strings.Contains(out, "calls run") {
		t.Errorf("a reload while a call runs: %s", out)
	}
	if out, _ := olga.try("sandboxd", "status"); !strings.Contains(out, "uid "+itoa(bob.uid)) {
		t.Errorf("the status: %s", out)
	}
	if out, ok := bob.call(ws, "true"); ok || !strings.Contains(out, "reload the daemon when no call runs") {
		t.Errorf("a call of bob, whose rights nobody can take: %s", out)
	}
	m.must(os.WriteFile(filepath.Join(ws, "go"), nil, 0o644))
	if call.Wait(); !ok || !strings.HasPrefix(said, "ann\n") {
		t.Errorf("the call that ran: %s", said)
	}

	if out, ok := olga.try("sandboxd", "reload"); !ok || !strings.Contains(out, "starts again for") {
		t.Errorf("a reload when none runs: %s", out)
	}
	for _, u := range []user{bob, ann} {
		if out, ok := u.call(ws, "id -un"); !ok || !strings.HasPrefix(out, u.name+"\n") {
			t.Errorf("a call of %s: %s", u.name, out)
		}
	}
	if now := strings.Fields(m.run("ps", "-u", "sandboxd", "-o", "pid="))[0]; now != outer {
		t.Errorf("process %s is in the place of %s", now, outer)
	}
	if d := m.login("sandboxd"); d.reads("/proc/" + outer + "/environ") {
		t.Error("the outer process can be read")
	}
	if out, ok := olga.try("sandboxd", "reload"); !ok || strings.Contains(out, "again") {
		t.Errorf("a reload for nothing new: %s", out)
	}

	m.run("groupadd", "late")
	m.run("usermod", "-a", "-G", "late", "ann")
	ann = m.login("ann")
	if out, ok := ann.call(ws, "true"); ok || !strings.Contains(out, "reload the daemon when no call runs") {
		t.Errorf("a call with a group that the daemon has not: %s", out)
	}
	if out, ok := olga.try("sandboxd", "reload"); !ok || !strings.Contains(out, "starts again for gid") {
		t.Errorf("a reload for a group: %s", out)
	}
	if out, ok := ann.call(ws, "id -Gn"); !ok || !strings.Contains(out, "late") {
		t.Errorf("a call with the new group: %s", out)
	}
}
