package operate

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// systemdEnv is "1" where systemd is to be started, and "inside" below it.
const systemdEnv = "OPERATE_SYSTEMD"

// The units are valid for the systemd of this machine.
func TestUnitsAreValid(t *testing.T) {
	if !inside(t) {
		return
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		needs.Elsewhere(t, "no systemd-analyze on this host; make test-operate installs it")
	}
	m := newMachine(t)
	m.addUser("ann")
	if out, ok := m.setup("--yes", "--account", "ann", "--workspace", m.dir); !ok {
		t.Fatalf("setup: %s", out)
	}
	units, err := filepath.Glob("/etc/systemd/system/sandboxd*")
	m.must(err)
	units = append(units, "/etc/systemd/user/sandboxd.service")
	m.must(os.MkdirAll("/etc/systemd/user", 0o755))
	user, err := os.ReadFile("../../deploy/user/sandboxd.service")
	m.must(err)
	user = bytes.ReplaceAll(user, []byte("/usr/bin/"), []byte(programs+"/"))
	m.must(os.WriteFile("/etc/systemd/user/sandboxd.service", user, 0o644))
	for _, unit := range units {
		if out := m.run("systemd-analyze", "--man=no", "verify", unit); out != "" {
			t.Errorf("%s: %s", unit, out)
		}
	}
}

// The units do under a real systemd what they say: ready when it answers, reload, a new start after
// a failure, sockets that outlive failed starts, the watchdog; setup starts them and undo stops
// them. The unit of a person does the same under a systemd of that person.
func TestUnderSystemd(t *testing.T) {
	switch os.Getenv(systemdEnv) {
	case "inside":
		t.Run("of the system", underSystemd)
		t.Run("of a person", underSystemdOfAPerson)
		return
	case "1":
	default:
		needs.Elsewhere(t, "make test-operate starts systemd")
	}
	needs.Root(t, "to start systemd")
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		needs.Missing(t, "systemd is not installed: %v", err)
	}
	needs.Program(t, "unshare")
	work := build(t)
	self, err := os.Executable()
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(work, "out"), 0o755), exec.Command("cp", self, work+"/operate.test").Run())
	}
	if err != nil {
		t.Fatal(err)
	}
	group := newGroup(t)
	script, err := filepath.Abs("testdata/boot.sh")
	deploy, wrong := filepath.Abs("../../deploy")
	if err := errors.Join(err, wrong); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `
new="unshare --mount --pid --uts --ipc --cgroup --net --fork --kill-child"
$new true || exit 77
echo $$ >"$1/cgroup.procs" && exec $new sh "$2" "$3" "$4"`, "sh", group, script, work, deploy)
	console, err := cmd.CombinedOutput() // a machine that is switched off ends by a signal
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == notAllowed {
		needs.Missing(t, "systemd cannot be process 1 of a namespace: %s", console)
	}
	log, err := os.ReadFile(filepath.Join(work, "out/log"))
	if err != nil {
		t.Fatalf("systemd has started nothing: %v\n%s", err, console)
	}
	if !bytes.Contains(log, []byte("\n--- PASS: TestUnderSystemd")) {
		t.Errorf("under systemd:\n%s\nits console:\n%s", log, console)
	}
}

// notAllowed is the exit status where the kernel does not allow what it takes, as boot.sh says.
const notAllowed = 77

// newGroup makes a control group of version 2, the root of what systemd sees.
func newGroup(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if absent(filepath.Join(root, "cgroup.controllers")) {
			continue
		}
		dir := filepath.Join(root, "sandboxd-operate-"+strconv.Itoa(os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			needs.Missing(t, "make a control group: %v", err)
		}
		t.Cleanup(func() {
			var all []string
			_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.IsDir() {
					all = append(all, path)
				}
				return nil
			})
			for i := len(all) - 1; i >= 0; i-- {
				_ = unix.Rmdir(all[i]) // processes may still be ending; an empty group harms nobody
			}
		})
		return dir
	}
	needs.Missing(t, "control groups of version 2 are not mounted")
	return ""
}

// underSystemd runs as a service of the systemd that [TestUnderSystemd] has started.
func underSystemd(t *testing.T) {
	m := &machine{t: t, dir: "/srv"}
	const ws = "/srv/project"
	m.addUser("ann")
	m.addUser("olga")
	m.run("chown", "ann", ws)
	show := func(what string) string {
		return strings.TrimSpace(m.run("systemctl", "show", "--value", "--property", what, "sandboxd.service"))
	}
	active := func(unit string) bool { return exec.Command("systemctl", "is-active", "--quiet", unit).Run() == nil }
	out, ok := m.setup("--yes", "--account", "ann", "--operator", "olga", "--workspace", ws)
	if !ok || strings.Contains(out, "systemd does not run") {
		t.Fatalf("setup: %s", out)
	}
	ann, olga := m.login("ann"), m.login("olga")
	calls := func(when string) {
		t.Helper()
		if out, ok := ann.call(ws, "id -un; touch made"); !ok || !strings.HasPrefix(out, "ann\n") {
			t.Fatalf("%s, ann calls: %s\n%s", when, out, m.run("journalctl", "--no-pager", "-u", "sandboxd"))
		}
	}
	calls("after setup")
	if uid := m.owner(ws + "/made"); uid != ann.uid {
		t.Errorf("what ann's program made belongs to uid %d", uid)
	}
	if show("Type") != "notify" || show("ActiveState") != "active" {
		t.Errorf("the service is %s, of type %s", show("ActiveState"), show("Type"))
	}
	if out, ok := m.setup("--yes", "--account", "ann", "--operator", "olga", "--workspace", ws); !ok || strings.Contains(out, "make ") {
		t.Errorf("setup once more: %s", out)
	}
	out, _ = olga.try("sandboxd", "status")
	_, layers, _ := strings.Cut(out, "profile strict: ")
	layers, _, _ = strings.Cut(layers, "\n")
	for _, layer := range []string{"userns", "mountns", "pidns", "netns", "landlock", "seccomp"} {
		if !strings.Contains(layers, layer) {
			t.Errorf("the sandbox of the service lacks %s: %s", layer, out)
		}
	}

	// Reload: a good file is taken, a bad one changes nothing, and the service stays.
	pid := show("MainPID")
	text, err := os.ReadFile(configFile)
	m.must(err)
	m.must(os.WriteFile(configFile, append(text, "policy: {rules: {deny: [\"Bash(hostname)\"]}}\n"...), 0o640))
	m.run("systemctl", "reload", "sandboxd")
	m.waitFor("the new rule", func() bool {
		out, ok := ann.call(ws, "hostname")
		return !ok && strings.Contains(out, "Bash(hostname)")
	})
	m.must(os.WriteFile(configFile, []byte("nonsense: 1\n"), 0o640))
	m.run("systemctl", "reload", "sandboxd")
	m.waitFor("the refusal of a bad file", func() bool {
		out, _ := olga.try("sandboxd", "status")
		return strings.Contains(out, "was refused")
	})
	calls("with a bad file")
	if show("MainPID") != pid {
		t.Error("a reload was a restart")
	}

	// A reload for a new account starts the daemon again below the same main process.
	m.addUser("bob")
	m.run("usermod", "-a", "-G", "sandboxd-agents", "bob")
	bob := m.login("bob")
	with := bytes.ReplaceAll(text, []byte("  others:"), []byte("  "+itoa(bob.uid)+": bob\n  others:"))
	m.must(os.WriteFile(configFile, with, 0o640))
	m.run("systemctl", "reload", "sandboxd")
	m.waitFor("a call of bob", func() bool {
		out, ok := bob.call(ws, "id -un")
		return ok && strings.HasPrefix(out, "bob\n")
	})
	calls("beside bob")
	m.waitFor("the service to be active", func() bool { return show("ActiveState") == "active" })
	if show("MainPID") != pid || show("NRestarts") != "0" {
		t.Errorf("a reload for an account was a restart: %s instead of %s, %s restarts", show("MainPID"), pid, show("NRestarts"))
	}
	m.must(os.WriteFile(configFile, []byte("nonsense: 1\n"), 0o640))

	// With a file that cannot be used no start succeeds, and the sockets wait all the same.
	_ = exec.Command("systemctl", "restart", "sandboxd").Run()
	failures := func() int {
		n, err := strconv.Atoi(show("NRestarts"))
		m.must(err)
		return n
	}
	before := failures()
	m.waitFor("more failed starts than systemd allows by itself", func() bool { return failures() > before+6 })
	for _, unit := range []string{"sandboxd.socket", "sandboxd-operator.socket"} {
		if !active(unit) {
			t.Errorf("%s has failed with the service", unit)
		}
	}
	m.must(os.WriteFile(configFile, text, 0o640))
	calls("after the file was mended") // which waits at the socket

	// Killed, the service comes back; so does one that hangs.
	m.waitFor("the service", func() bool { return show("ActiveState") == "active" })
	for what, signal := range map[string]string{"killed": "KILL", "stopped by somebody": "STOP"} {
		pid = show("MainPID")
		if signal == "STOP" {
			m.must(os.MkdirAll("/run/systemd/system/sandboxd.service.d", 0o755))
			m.must(os.WriteFile("/run/systemd/system/sandboxd.service.d/soon.conf", []byte("[Service]\nWatchdogSec=5\n"), 0o644))
			m.run("systemctl", "daemon-reload")
			m.run("systemctl", "restart", "sandboxd")
			pid = show("MainPID")
		}
		m.run("systemctl", "kill", "--signal="+signal, "sandboxd")
		m.waitFor("another process after it was "+what, func() bool {
			now := show("MainPID")
			return now != pid && now != "0" && show("ActiveState") == "active"
		})
		calls("after it was " + what)
	}

	m.run("systemctl", "stop", "sandboxd.socket", "sandboxd-operator.socket", "sandboxd.service")
	if out, ok := ann.call(ws, "true"); ok {
		t.Errorf("ann calls what was stopped: %s", out)
	}
	m.run("systemctl", "start", "sandboxd.socket", "sandboxd-operator.socket")
	calls("when only the sockets were started")
	m.run("rm", "-rf", "/run/systemd/system/sandboxd.service.d")
	out, ok = m.setup("--undo", "--yes")
	if !ok || active("sandboxd.service") || active("sandboxd.socket") {
		t.Errorf("undo: %s", out)
	}
	left, err := filepath.Glob("/etc/systemd/system/*/sandboxd*")
	if more, _ := filepath.Glob("/etc/systemd/system/sandboxd*"); err != nil || len(left)+len(more) > 0 {
		t.Errorf("units are left: %v %v", left, more)
	}
}
