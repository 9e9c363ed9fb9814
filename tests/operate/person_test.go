package operate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// manager starts the systemd of a user, as a login does, and returns how the user runs programs
// with it.
func (m *machine) manager(u user) func(argv ...string) *exec.Cmd {
	m.t.Helper()
	// Of a login, the directory and its name are made by programs that may not be installed here.
	for unit, text := range map[string]string{
		"user-runtime-dir@": "ExecStart=\nExecStart=install -d -m 0700 -o %i -g %i /run/user/%i\nExecStop=\n",
		"user@":             "PAMName=\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n",
	} {
		dir := "/run/systemd/system/" + unit + ".service.d"
		m.must(os.MkdirAll(dir, 0o755))
		m.must(os.WriteFile(filepath.Join(dir, "login.conf"), []byte("[Service]\n"+text), 0o644))
	}
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "start", "user@"+itoa(u.uid))
	return func(argv ...string) *exec.Cmd {
		cmd := u.command(argv...)
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR=/run/user/"+itoa(u.uid), "PATH="+u.home()+"/.local/bin:"+os.Getenv("PATH"))
		return cmd
	}
}

// underSystemdOfAPerson runs as a service of the systemd that [TestUnderSystemd] has started.
func underSystemdOfAPerson(t *testing.T) {
	m := &machine{t: t, dir: "/srv"}
	eve := m.addUser("eve")
	command := m.manager(eve)
	ws := filepath.Join(eve.home(), "repo")
	do := func(argv ...string) string {
		t.Helper()
		cmd := command(argv...)
		cmd.Dir = eve.home()
		if !absent(ws) {
			cmd.Dir = ws
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s%s", argv, err, out, m.run("journalctl", "--no-pager", "-n", "50"))
		}
		return string(out)
	}
	show := func(what string) string {
		return strings.TrimSpace(do("systemctl", "--user", "show", "--value", "--property", what, "sandboxd"))
	}
	calls := func(when string) {
		t.Helper()
		if out := do("sandboxd", "call", "Bash", `{"command": "id -un; touch made"}`); !strings.HasPrefix(out, "eve\n") {
			t.Errorf("%s, eve calls: %s", when, out)
		}
	}
	home := func() string {
		return m.run("find", eve.home(), "-printf", `%p %m\n`)
	}
	before := home()

	do("/srv/deploy/install", eve.home()+"/.local", programs)
	do("mkdir", ws)
	do("systemctl", "--user", "enable", "--now", "sandboxd")
	if out := do("sandboxd", "status"); !strings.Contains(out, "none is allowed") {
		t.Errorf("before anything is allowed: %s", out)
	}
	do("sandboxd", "allow")
	calls("after allow")
	if show("Type") != "notify" || show("ActiveState") != "active" || show("UnitFileState") != "enabled" {
		t.Errorf("the service is %s and %s, of type %s", show("ActiveState"), show("UnitFileState"), show("Type"))
	}
	status := do("sandboxd", "status")
	_, layers, _ := strings.Cut(status, "profile strict: ")
	layers, _, _ = strings.Cut(layers, "\n")
	for _, layer := range []string{"userns", "mountns", "pidns", "netns", "landlock", "seccomp"} {
		if !strings.Contains(layers, layer) {
			t.Errorf("the sandbox of the service lacks %s: %s", layer, status)
		}
	}

	pid := show("MainPID")
	do("systemctl", "--user", "reload", "sandboxd")
	calls("after a reload")
	if show("MainPID") != pid {
		t.Error("a reload was a restart")
	}
	do("systemctl", "--user", "kill", "--signal=KILL", "sandboxd")
	m.waitFor("another process", func() bool {
		now := show("MainPID")
		return now != pid && now != "0" && show("ActiveState") == "active"
	})
	calls("after it was killed") // the project is still allowed
	dropin := filepath.Join(eve.home(), ".config/systemd/user/sandboxd.service.d")
	do("mkdir", "-p", dropin)
	do("sh", "-c", `printf '[Service]\nWatchdogSec=5\n' >"$1"/soon.conf`, "sh", dropin)
	do("systemctl", "--user", "daemon-reload")
	do("systemctl", "--user", "restart", "sandboxd")
	pid = show("MainPID")
	do("systemctl", "--user", "kill", "--signal=STOP", "sandboxd")
	m.waitFor("another process after it hung", func() bool {
		now := show("MainPID")
		return now != pid && now != "0" && show("ActiveState") == "active"
	})
	calls("after it hung")
	do("rm", "-r", dropin)

	// A login of another day starts it by itself.
	m.run("systemctl", "restart", "user@"+itoa(eve.uid))
	m.waitFor("the service after a login", func() bool {
		return command("systemctl", "--user", "is-active", "--quiet", "sandboxd").Run() == nil
	})
	calls("after a login")

	// Setup finds what make install and allow have done, and does nothing; in another project it
	// allows that one, which undo takes back.
	if out := do("sandboxd", "setup", "--user", "--yes"); strings.Contains(out, "make ") {
		t.Errorf("setup: %s", out)
	}
	other := filepath.Join(eve.home(), "other")
	do("mkdir", other)
	if out := do("sandboxd", "setup", "--user", "--yes", "--workspace", other); !strings.Contains(out, "make  allowed   "+other) {
		t.Errorf("setup in another project: %s", out)
	}
	if out := do("sandboxd", "allow", "--list"); !strings.Contains(out, other) {
		t.Errorf("allowed are: %s", out)
	}
	do("sandboxd", "setup", "--user", "--undo", "--yes")
	if out := do("sandboxd", "allow", "--list"); strings.Contains(out, other) || !strings.Contains(out, ws) {
		t.Errorf("after undo, allowed are: %s", out)
	}

	do("systemctl", "--user", "disable", "--now", "sandboxd")
	if out, err := command("sandboxd", "status").CombinedOutput(); err == nil {
		t.Errorf("after it was stopped: %s", out)
	}
	do("/srv/deploy/install", "--remove", eve.home()+"/.local")
	do("rm", "-r", ws, other)
	m.run("rm", "-rf", eve.home()+"/.config/sandboxd", eve.home()+"/.local/state") // the key and the record
	m.run("find", eve.home()+"/.config", eve.home()+"/.local", "-depth", "-type", "d", "-empty", "-delete")
	if after := home(); after != before {
		t.Errorf("left is\n%s\nand before there was\n%s", after, before)
	}
	m.run("systemctl", "stop", "user@"+itoa(eve.uid))
}
