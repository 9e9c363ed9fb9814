package operate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// setup runs sandboxd setup as root.
func (m *machine) setup(args ...string) (out string, ok bool) {
	cmd := exec.Command(programs+"/sandboxd", append([]string{"setup"}, args...)...)
	cmd.Dir = "/"
	text, err := cmd.CombinedOutput()
	return string(text), err == nil
}

// state is what setup could change of the machine: users, groups and files.
func (m *machine) state() string {
	m.t.Helper()
	var all []string
	for _, file := range []string{"/etc/passwd", "/etc/group", "/etc/gshadow", "/etc/shadow"} {
		text, err := os.ReadFile(file)
		if !errors.Is(err, os.ErrNotExist) {
			m.must(err)
		}
		lines := strings.Split(string(text), "\n")
		slices.Sort(lines)
		all = append(all, lines...)
	}
	for _, dir := range []string{"/etc/sandboxd", "/etc/systemd/system", "/var/lib"} {
		if !absent(dir) {
			all = append(all, m.run("find", dir, "-printf", `%p %m %u %g %s\n`))
		}
	}
	return strings.Join(all, "\n")
}

// Setup shows what it will do, does it once, and undoes it.
func TestSetupAndItsUndo(t *testing.T) {
	if !inside(t) {
		return
	}
	m := newMachine(t)
	m.addUser("ann")
	m.addUser("olga")
	ws := filepath.Join(m.dir, "project")
	m.must(os.Mkdir(ws, 0o755))
	args := []string{"--account", "ann", "--operator", "olga", "--workspace", ws}
	before := m.state()

	if out, ok := m.setup(append(args, "--dry-run")...); !ok || !strings.Contains(out, "make  user      sandboxd") {
		t.Errorf("a dry run: %s", out)
	}
	if out, ok := m.setup(args...); ok || !strings.Contains(out, "--yes does them") {
		t.Errorf("nobody confirms: %s", out)
	}
	if after := m.state(); after != before {
		t.Errorf("something was done before anybody agreed:\n%s", after)
	}
	out, ok := m.setup(append(args, "--yes")...)
	if !ok || !strings.Contains(out, "systemd does not run here") || !strings.Contains(out, "setpriv --reuid sandboxd") {
		t.Fatalf("setup: %s", out)
	}
	for path, want := range map[string]string{
		"/etc/sandboxd": "750 root sandboxd", configFile: "640 root sandboxd", stateDir: "700 sandboxd sandboxd",
		keyDir: "700 sandboxd sandboxd", "/etc/systemd/system/sandboxd.service": "644 root root",
		"/etc/sandboxd/setup.json": "600 root root",
	} {
		if got := strings.TrimSpace(m.run("stat", "-c", "%a %U %G", path)); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if out := m.run(programs+"/sandboxd", "config", "check", configFile); !strings.Contains(out, "ok") {
		t.Errorf("the configuration: %s", out)
	}
	once := m.state()
	if out, ok := m.setup(append(args, "--yes")...); !ok || strings.Contains(out, "make ") {
		t.Errorf("once more: %s", out)
	}
	if m.state() != once {
		t.Error("once more, and something else is there")
	}
	m.start()
	if out, ok := m.login("ann").call(ws, "true"); !ok {
		t.Errorf("ann calls: %s", out)
	}
}

// What setup has made goes with --undo, and nothing else.
func TestUndoRemovesOnlyWhatSetupMade(t *testing.T) {
	if !inside(t) {
		return
	}
	m := newMachine(t)
	m.addUser("ann")
	args := []string{"--yes", "--account", "ann", "--workspace", m.dir}
	m.run("groupadd", "--system", "sandboxd-agents") // which somebody made before
	before := m.state()
	if out, ok := m.setup(args...); !ok || !strings.Contains(out, "have  group     sandboxd-agents") {
		t.Fatalf("setup: %s", out)
	}
	if out, ok := m.setup("--undo", "--dry-run"); !ok || !strings.Contains(out, "remove user      sandboxd") {
		t.Errorf("a dry run of undo: %s", out)
	}
	if out, ok := m.setup("--undo", "--yes"); !ok {
		t.Errorf("undo: %s", out)
	}
	if after := m.state(); after != before {
		t.Errorf("after undo there is\n%s\nand before there was\n%s", after, before)
	}
	if out, ok := m.setup("--undo", "--yes"); !ok || !strings.Contains(out, "nothing to undo") {
		t.Errorf("undo once more: %s", out)
	}

	// What was changed or used since is left, and named.
	if out, ok := m.setup(args...); !ok {
		t.Fatalf("setup again: %s", out)
	}
	record := filepath.Join(stateDir, "audit.jsonl")
	m.must(errors.Join(os.WriteFile(configFile, []byte("# mine\n"), 0o640), os.WriteFile(record, []byte("{}\n"), 0o600)))
	out, ok := m.setup("--undo", "--yes")
	if !ok || !strings.Contains(out, configFile+": it was changed since") || !strings.Contains(out, stateDir+": it holds files") ||
		!strings.Contains(out, "sandboxd: its files are left") {
		t.Errorf("undo with files of others: %s", out)
	}
	if absent(record) || absent(configFile) {
		t.Error("a file of somebody else was removed")
	}
	m.must(errors.Join(os.Remove(record), os.Remove(configFile)))
	if out, ok := m.setup("--undo", "--yes"); !ok || !strings.HasSuffix(out, "undone\n") {
		t.Errorf("undo when they are gone: %s", out)
	}
	if after := m.state(); after != before {
		t.Errorf("at the end there is\n%s\nand before there was\n%s", after, before)
	}
}

// Setup goes on where it was interrupted, and what it began is undone.
func TestAHalfDoneSetup(t *testing.T) {
	if !inside(t) {
		return
	}
	m := newMachine(t)
	m.addUser("ann")
	before := m.state()
	args := []string{"--yes", "--account", "ann", "--workspace", m.dir}
	m.must(os.WriteFile(programs+"/usermod", []byte("#!/bin/sh\necho no room >&2\nexit 1\n"), 0o755))
	for _, undo := range []bool{true, false} {
		out, ok := m.setup(args...)
		if ok || !strings.Contains(out, "no room") || !strings.Contains(out, "setup goes on from here") {
			t.Fatalf("setup where no user can be made a member: %s", out)
		}
		if undo {
			if out, ok := m.setup("--undo", "--yes"); !ok {
				t.Fatalf("undo of a half: %s", out)
			}
			if after := m.state(); after != before {
				t.Errorf("after undo there is\n%s\nand before there was\n%s", after, before)
			}
		}
	}
	m.must(os.Remove(programs + "/usermod"))
	out, ok := m.setup(args...)
	if !ok || !strings.Contains(out, "have  user      sandboxd") || !strings.Contains(out, "make  file      "+configFile) {
		t.Errorf("setup goes on: %s", out)
	}
	if out, ok := m.setup("--undo", "--yes"); !ok || m.state() != before {
		t.Errorf("undo: %s\n%s\nwant\n%s", out, m.state(), before)
	}
}

// A setup that ended between making a directory and giving it away makes it whole.
func TestADirectoryThatWasBegun(t *testing.T) {
	if !inside(t) {
		return
	}
	m := newMachine(t)
	m.addUser("ann")
	before := m.state()
	manifest := `{"made": [{"kind": "directory", "name": "/etc/sandboxd"}, {"kind": "directory", "name": "` + stateDir + `"}]}`
	m.must(errors.Join(os.Mkdir(stateDir, 0o755), os.Mkdir("/etc/sandboxd", 0o755),
		os.WriteFile("/etc/sandboxd/setup.json", []byte(manifest), 0o600)))
	if out, ok := m.setup("--yes", "--account", "ann", "--workspace", m.dir); !ok {
		t.Fatalf("setup: %s", out)
	}
	for path, want := range map[string]string{"/etc/sandboxd": "750 root sandboxd", stateDir: "700 sandboxd sandboxd"} {
		if got := strings.TrimSpace(m.run("stat", "-c", "%a %U %G", path)); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if out, ok := m.setup("--undo", "--yes"); !ok || m.state() != before {
		t.Errorf("undo: %s\n%s\nwant\n%s", out, m.state(), before)
	}
	// A manifest that others could have written is not believed.
	m.must(errors.Join(os.Mkdir("/etc/sandboxd", 0o755), os.WriteFile("/etc/sandboxd/setup.json", []byte(manifest), 0o600),
		os.Chmod("/etc/sandboxd/setup.json", 0o666)))
	if out, ok := m.setup("--undo", "--yes"); ok || !strings.Contains(out, "others could have written it") {
		t.Errorf("undo by a manifest of others: %s", out)
	}
}

// What is there and cannot be used is told before anything is done; the rest is kept as it is.
func TestSetupWhereThereIsSomething(t *testing.T) {
	if !inside(t) {
		return
	}
	m := newMachine(t)
	m.addUser("ann")
	args := []string{"--yes", "--account", "ann", "--workspace", m.dir}
	for _, tt := range []struct {
		name, make, away, want string
		args                   []string
	}{
		{"a directory of root alone", "mkdir -m 700 /etc/sandboxd", "rmdir /etc/sandboxd", "chmod 711 /etc/sandboxd", args},
		{"the state of a daemon of root", "mkdir " + stateDir, "rmdir " + stateDir, "another daemon has used it", args},
		{"a file in place of a directory", "touch " + keyDir, "rm " + keyDir, "is no directory", args},
		{"a user that is root", "sed -i '$ a sandboxd:x:0:0::/:/bin/sh' /etc/passwd", "sed -i '$ d' /etc/passwd", "root by another name", args},
		{"a group and no user", "groupadd sandboxd", "groupdel sandboxd", "a group of that name", args},
		{"no such user", "true", "true", `no user "nobody-here"`, []string{"--yes", "--account", "nobody-here", "--workspace", m.dir}},
		{"root as an account", "true", "true", "root cannot be an account", []string{"--yes", "--account", "root", "--workspace", m.dir}},
		{
			"an agent that answers its own questions", "true", "true", "cannot be an agent and an operator",
			append([]string{"--operator", "ann"}, args...),
		},
		{"no workspace", "true", "true", "--workspace", []string{"--yes", "--account", "ann"}},
		{"a workspace that holds the configuration", "true", "true", "holds /etc/sandboxd", []string{"--yes", "--workspace", "/etc"}},
		{"a relative workspace", "true", "true", "write the absolute path", []string{"--yes", "--workspace", "here"}},
		{"a program that others can change", "chmod 777 " + programs, "chmod 755 " + programs, "can be changed by others", args},
	} {
		m.run("sh", "-c", tt.make)
		before := m.state()
		if out, ok := m.setup(tt.args...); ok || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %s", tt.name, out)
		}
		if m.state() != before {
			t.Errorf("%s: something was done all the same", tt.name)
		}
		m.run("sh", "-c", tt.away)
	}
	// Units, users and a configuration of somebody else are kept.
	m.run("useradd", "--system", "--user-group", "sandboxd")
	m.must(os.MkdirAll("/etc/systemd/system", 0o755))
	m.must(os.Mkdir("/etc/sandboxd", 0o755))
	kept := map[string]string{"/etc/systemd/system/sandboxd.service": "[Unit]\n", configFile: "# mine\n"}
	for path, text := range kept {
		m.must(os.WriteFile(path, []byte(text), 0o644))
	}
	out, ok := m.setup(args...)
	if !ok || !strings.Contains(out, "have  user      sandboxd") || strings.Count(out, "kept, and it differs") != 2 {
		t.Errorf("setup: %s", out)
	}
	if out, ok := m.setup("--undo", "--yes"); !ok {
		t.Errorf("undo: %s", out)
	}
	for path, text := range kept {
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if out := m.run("id", "sandboxd"); !strings.Contains(out, "sandboxd") {
		t.Errorf("the user is gone: %s", out)
	}
}

// A person has a service of their own, and needs no right of root for it: a unit where none is
// installed, and a project that is allowed, with or without a daemon that runs.
func TestSetupForAPerson(t *testing.T) {
	if !inside(t) {
		return
	}
	m := newMachine(t)
	ann := m.addUser("ann")
	home := filepath.Join(m.dir, "home-ann")
	ws := filepath.Join(home, "project")
	m.run("install", "-d", "-o", "ann", ws)
	list := func() string { return m.run("find", home, "-printf", `%p %m %u\n`) }
	before := list()
	if out, ok := ann.try("sandboxd", "setup", "--yes", "--workspace", ws); ok || !strings.Contains(out, "sandboxd setup --user") {
		t.Errorf("for the system: %s", out)
	}
	// What cannot be a project is told before anything is done.
	for dir, want := range map[string]string{home: "is a home", "/etc": "belongs to the system", ws + "/none": "is not there"} {
		if out, ok := ann.try("sandboxd", "setup", "--user", "--yes", "--workspace", dir); ok || !strings.Contains(out, want) {
			t.Errorf("with %s: %s", dir, out)
		}
	}
	if after := list(); after != before {
		t.Errorf("refused, and there is\n%s\nand before there was\n%s", after, before)
	}
	undo := func() {
		t.Helper()
		if out, ok := ann.try("sandboxd", "setup", "--user", "--undo", "--yes"); !ok || !strings.HasSuffix(out, "undone\n") {
			t.Errorf("undo: %s", out)
		}
		if out, ok := ann.try("sandboxd", "allow", "--list"); !ok || strings.Contains(out, ws) {
			t.Errorf("after undo these are allowed: %s", out)
		}
		m.run("rm", "-rf", filepath.Join(home, ".local"), filepath.Join(home, ".config/sandboxd")) // the record and its key stay
		m.run("find", filepath.Join(home, ".config"), "-depth", "-type", "d", "-empty", "-delete")
		if after := list(); after != before {
			t.Errorf("left is\n%s\nand before there was\n%s", after, before)
		}
	}

	there := ann.command("sandboxd", "setup", "--user", "--yes") // the current directory
	there.Dir = ws
	out, err := there.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "systemd does not run for this user") {
		t.Fatalf("setup: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "sandboxd setup --user --undo removes it") {
		t.Errorf("how it is undone: %s", out)
	}
	unit, err := os.ReadFile(filepath.Join(home, ".config/systemd/user/sandboxd.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart="+programs+"/sandboxd serve\n") {
		t.Errorf("the unit: %s, %v", unit, err)
	}
	if out, ok := ann.try("sandboxd", "allow", "--list"); !ok || !strings.Contains(out, ws) {
		t.Errorf("these are allowed: %s", out)
	}
	if out, ok := ann.try("sandboxd", "setup", "--user", "--yes", "--workspace", ws); !ok || strings.Contains(out, "make ") {
		t.Errorf("once more: %s", out)
	}
	undo()

	// A unit that make install has made is used, and stays.
	installed := filepath.Join(home, ".local/share/systemd/user/sandboxd.service")
	m.run("install", "-D", "../../deploy/user/sandboxd.service", installed)
	m.run("chown", "-R", "ann", filepath.Join(home, ".local"))
	out2, ok := ann.try("sandboxd", "setup", "--user", "--yes", "--workspace", ws)
	if !ok || !strings.Contains(out2, "have  file      "+installed) || !strings.Contains(out2, "make  allowed   "+ws) {
		t.Errorf("with an installed unit: %s", out2)
	}
	// Taken back by hand: undo has nothing to take back.
	if out, ok := ann.try("sandboxd", "allow", "--remove", ws); !ok {
		t.Errorf("taken back: %s", out)
	}
	if out, ok := ann.try("sandboxd", "setup", "--user", "--undo", "--yes"); !ok || absent(installed) {
		t.Errorf("undo, with a unit of make install: %s", out)
	}
	m.run("rm", "-rf", filepath.Join(home, ".local"), filepath.Join(home, ".config/sandboxd"))

	// With a daemon that runs, it is the daemon that allows.
	daemon := ann.command("sandboxd", "serve")
	m.must(daemon.Start())
	t.Cleanup(func() { _ = errors.Join(daemon.Process.Kill(), daemon.Wait()) })
	m.waitFor("the daemon of ann", func() bool { _, ok := ann.try("sandboxd", "status"); return ok })
	if out, ok := ann.try("sandboxd", "setup", "--user", "--yes", "--workspace", ws); !ok {
		t.Errorf("beside a daemon: %s", out)
	}
	if out, ok := ann.call(ws, "echo works"); !ok || !strings.Contains(out, "works") {
		t.Errorf("a call: %s", out)
	}
	undo()
}
