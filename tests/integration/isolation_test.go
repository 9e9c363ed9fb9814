package integration

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// A daemon of another uid than root, and a host without namespaces: the same goals are out of reach
// of a program that nothing but the cage holds.
func TestTheCageHoldsForEveryDaemon(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		uid   int
		lacks string
	}{
		{"this user, namespaces", 0, ""},
		{"this user, Landlock alone", 0, "namespaces"},
		{"another user, namespaces", 64110, ""},
		{"another user, Landlock alone", 64110, "namespaces"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.uid != 0 {
				needs.Root(t, "to start a daemon of another user")
			}
			d := newDaemon(t, "approvals: {approver: false}\npolicy: {profile: observe, rules: {allow: [Bash]}}\n")
			d.stop(os.Interrupt)
			d.becomeAnother(tt.uid, tt.lacks)
			d.start()
			d.isolated(t, tt.lacks)
			rights := map[bool]string{true: "caller", false: "daemon"}[tt.uid == 0 && os.Geteuid() == 0]
			if got := d.toolRights(t); got != rights {
				t.Errorf("tools have the rights of the %s, want %s", got, rights)
			}
			d.outOfReach(t)
			d.stop(os.Interrupt)
			d.verify()
		})
	}
}

// isolated ends the test if the daemon has not the isolation level that a host which lacks this
// should have.
func (d *running) isolated(t *testing.T, lacks string) {
	t.Helper()
	var status struct {
		Sandbox struct {
			Isolation string   `json:"rung"`
			Missing   []string `json:"missing"`
		} `json:"sandbox"`
	}
	if err := d.agent.Do(t.Context(), "GET", "/status", nil, &status); err != nil {
		t.Fatal(err)
	}
	want := "namespaces"
	if lacks == "namespaces" {
		want = "landlock"
	}
	if status.Sandbox.Isolation != want {
		needs.Missing(t, "isolation level %q, want %q: %v", status.Sandbox.Isolation, want, status.Sandbox.Missing)
	}
}

// toolRights is whose rights the daemon says that tools have.
func (d *running) toolRights(t *testing.T) string {
	t.Helper()
	var status struct {
		Rights string `json:"tool_rights"`
	}
	if err := d.agent.Do(t.Context(), "GET", "/status", nil, &status); err != nil {
		t.Fatal(err)
	}
	return status.Rights
}

// becomeAnother makes the next start one of another user, or one on a host that lacks something.
func (d *running) becomeAnother(uid int, lacks string) {
	d.t.Helper()
	if lacks != "" {
		self, err := os.Executable()
		if err != nil {
			d.t.Fatal(err)
		}
		program := filepath.Join(d.work, "lacks") // the directory of the test is closed to others
		text, err := os.ReadFile(self)
		if err == nil {
			err = os.WriteFile(program, text, 0o755)
		}
		if err != nil {
			d.t.Fatal(err)
		}
		d.command = []string{program, filepath.Join(bin, "sandboxd"), "serve"}
		d.env = append(d.env, lackEnv+"="+lacks)
	}
	if d.uid = uid; uid == 0 {
		return
	}
	for _, dir := range []string{"state", "state-key"} { // they are root's
		if err := os.RemoveAll(filepath.Join(d.work, dir)); err != nil {
			d.t.Fatal(err)
		}
	}
	err := filepath.WalkDir(d.work, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, uid)
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// outOfReach tries the goals of an attacker from a script, which the guard does not read.
func (d *running) outOfReach(t *testing.T) {
	t.Helper()
	needs.Program(t, "python3")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	reached := make(chan struct{}, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Close()
			reached <- struct{}{}
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	session := d.session()
	r := d.call(session, "Bash", `{"command":"echo ok > made.txt && cat made.txt"}`)
	if r.Status != client.StatusSuccess || !strings.Contains(r.FinalText, "ok") {
		t.Errorf("what is allowed: %s", r.FinalText)
	}
	mark := fmt.Sprint("ISOLATED", d.cmd.Process.Pid)
	goals := map[string]string{
		"a secret of the home":      "cat $HOME_/.ssh/id_rsa && echo GOT",
		"the record":                "cat $WORK/state/audit.jsonl && echo GOT",
		"the database":              "cat $WORK/state/state.db && echo GOT",
		"the key":                   "cat $WORK/state-key/audit.key && echo GOT",
		"the head beside the key":   "cat $WORK/state-key/audit.head && echo GOT",
		"to write that head":        "echo GOT > $WORK/state-key/audit.head",
		"to write the record":       "echo GOT >> $WORK/state/audit.jsonl",
		"to write the home":         "echo GOT > $HOME_/written",
		"to write beside the roots": "echo GOT > $WORK/written",
		"to write the programs":     "echo GOT > $BIN/written; echo GOT > $BIN/sandboxd",
		"the configuration":         "echo GOT >> $WORK/config.yaml",
		"to answer as an operator":  connects("$WORK/run/o.sock"),
		"to call as an agent":       connects("$WORK/run/a.sock"),
		"the network":               "(exec 3<>/dev/tcp/127.0.0.1/$PORT) && echo GOT",
		"to kill the daemon":        "kill -9 $DAEMON && echo GOT",
		"to stop the daemon":        "kill -STOP $DAEMON && echo GOT",
		"the daemon's environment":  "cat /proc/$DAEMON/environ && echo GOT",
		"the daemon's memory":       "head -c 1 /proc/$DAEMON/mem && echo GOT",
		"the daemon's files":        "ls /proc/$DAEMON/fd/ && echo GOT",
		"to mount":                  "mount -t tmpfs x /mnt && echo GOT",
		"to be another user":        "python3 -c 'import os; os.setuid(0 if os.getuid() else 1)' && echo GOT",
		"to stay after the call":    "(setsid sh -c 'exec -a $MARK sleep 1000' > /dev/null 2>&1 &) ; echo left",
		"git to run something later": `python3 -c 'import os; os.makedirs(".git/hooks"); ` +
			`os.write(os.open(".git/hooks/pre-commit", os.O_CREAT | os.O_WRONLY, 0o755), b"#!/bin/sh\n")'`,
	}
	at := strings.NewReplacer("$HOME_", d.home, "$WORK", d.work, "$BIN", bin, "$PORT", port, "$MARK", mark,
		"$DAEMON", fmt.Sprint(d.cmd.Process.Pid))
	for name, script := range goals {
		d.write("ws/try.sh", at.Replace(script)+"\n")
		if d.uid != 0 {
			if err := os.Chown(filepath.Join(d.ws, "try.sh"), d.uid, d.uid); err != nil {
				t.Fatal(err)
			}
		}
		r := d.call(session, "Bash", `{"command":"echo began; bash ./try.sh","timeout":20000}`)
		quarantined := r.Error != nil && r.Error.Code == "denied_path_created"
		if !strings.Contains(r.FinalText, "began") && !quarantined || strings.Contains(r.FinalText, "GOT") {
			t.Errorf("%s: %s", name, r.FinalText)
		}
	}
	for _, path := range []string{
		d.home + "/written", d.work + "/written", bin + "/written", d.ws + "/.git/hooks/pre-commit",
	} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was written, and is there", path)
		}
	}
	for _, path := range []string{
		bin + "/sandboxd", d.work + "/config.yaml", d.work + "/state/audit.jsonl", d.work + "/state-key/audit.head",
	} {
		if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "GOT\n") {
			t.Errorf("%s was changed: %v", path, err)
		}
	}
	select {
	case <-reached:
		t.Error("the network was reached")
	default:
	}
	if left := withWord(mark); left != nil {
		t.Errorf("left after the calls: %v", left)
	}
}

// connects is a script that connects to a socket.
func connects(socket string) string {
	return `python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("` + socket + `")' && echo GOT`
}
