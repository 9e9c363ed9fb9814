package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestX39_NothingGetsOut tries every attempt, in both profiles, as root and as
// another uid.
func TestX39_NothingGetsOut(t *testing.T) {
	t.Setenv("CAGE_TEST_SECRET", "hunter2")
	bothUsers(t, func(t *testing.T) {
		w, cage, settings := newWorld(t, Options{})
		needCage(t, cage, "userns", "netns", "landlock", "seccomp")
		nothingGetsOut(t, w, cage, settings)
	})
}

// TestX39_RootWithoutUserNamespaces is the isolation level of a root whose host has none:
// the capabilities are real, and dropping them is all the more needed.
func TestX39_RootWithoutUserNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		needs.Elsewhere(t, "needs root: another uid is refused, which TestX39_NoNamespacesIsRefused shows")
	}
	t.Setenv("CAGE_TEST_SECRET", "hunter2")
	w, cage, settings := newWorld(t, Options{NoUserns: true})
	needCage(t, cage, "netns", "landlock", "seccomp")
	nothingGetsOut(t, w, cage, settings)
}

func nothingGetsOut(t *testing.T, w world, cage Backend, settings guard.Settings) {
	t.Helper()
	body, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(w.HostTmp)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	keepDevices(t)
	all := allAttempts()
	if len(all) < 120 {
		t.Fatalf("only %d attempts", len(all))
	}
	for _, profile := range Profiles {
		t.Run(string(profile), func(t *testing.T) {
			box := newBox(t, cage, profile, settings)
			if profile == "strict" && !w.NoNamespaces {
				if e, out := runIn(t, box, w.Workspace, "sh", "-c",
					"echo x > /dev/shm/of-the-call-before"); e.Code != 0 {
					t.Fatalf("exit %d: %s", e.Code, out)
				}
			}
			var out bytes.Buffer
			e := runSpec(t, box, Spec{
				Argv: []string{filepath.Join(w.Workspace, "attempt"), "-attempts"},
				Dir:  w.Workspace, Env: []string{"ATTEMPT_WORLD=" + string(body)},
				Stdin: stdin, Stdout: &out, Stderr: &out,
			})
			if e.Code != 0 {
				t.Fatalf("exit %d %s: %s", e.Code, e.Signal, out.String())
			}
			outcome := map[string]string{}
			for line := range strings.Lines(out.String()) {
				name, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
				outcome[name] = what
			}
			for _, a := range all {
				if why := openWithoutNamespaces[a.name]; w.NoNamespaces && why != "" {
					continue
				}
				if outcome[a.name] != "stopped" {
					t.Errorf("%s: %q", a.name, outcome[a.name])
				}
			}
		})
	}
	for _, f := range []string{"file"} {
		if b, err := os.ReadFile(filepath.Join(w.Outside, f)); err != nil || string(b) != "outside" {
			t.Errorf("%s changed: %q, %v", f, b, err)
		}
	}
	ours, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // which w.Pid began with
	if err != nil {
		t.Fatal(err)
	}
	if nice, err := unix.Getpriority(unix.PRIO_PROCESS, w.Pid); err != nil || nice != ours {
		t.Errorf("a process of the host has another priority: %d, %v", nice, err)
	}
	if b, err := os.ReadFile(w.Secret); err != nil || string(b) != "secret" {
		t.Errorf("the secret changed: %q, %v", b, err)
	}
}

// newWorld makes the things that attempts are made on.
func newWorld(t *testing.T, o Options) (world, Backend, guard.Settings) {
	t.Helper()
	base := shortTemp(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := world{
		Workspace: base + "/ws", Outside: base + "/out", SecretDir: base + "/keys", Daemon: base + "/daemon",
		Secret: base + "/ws/deep/er/secret", Abstract: fmt.Sprintf("@sandboxd-test-%d", os.Getpid()),
		ShmKey: 0x5a17d + os.Getpid(),
	}
	w.Socket, w.Private = w.Workspace+"/host.sock", w.Daemon+"/agent.sock"
	for _, d := range []string{
		filepath.Dir(w.Secret), w.Outside, w.SecretDir, w.Daemon, w.Workspace + "/.git/hooks", w.Workspace +
			"/socks", w.Workspace + "/free",
		w.Workspace + "/.git/modules/sub/hooks", w.Workspace + "/nested/.git", w.Workspace + "/tree",
		w.Workspace + "/main.git/hooks", w.Workspace + "/main.git/worktrees/tree",
		w.Workspace + "/.git/modules/libs/deep/hooks", w.Workspace + "/far/down/below/.git/hooks", w.Workspace +
			"/.githooks", w.Workspace + "/conf",
	} {
		must(os.MkdirAll(d, 0o755))
	}
	for f, text := range map[string]string{
		w.Secret: "secret", w.SecretDir + "/key": "key", w.Outside + "/file": "outside", w.Daemon +
			"/state.db": "state",
		w.Workspace + "/.git/config": "[core]\n\thooksPath = .githooks\n[include]\n\tpath = ../team.gitconfig\n",
		w.Workspace + "/.git/HEAD":   "ref: refs/heads/main\n", w.Workspace + "/.git/hooks/sample": "#!/bin/sh\n",
		w.Workspace + "/.git/modules/sub/config": "[core]\n", w.Workspace +
			"/nested/.git/config": "[core]\n", w.Workspace + "/nested/.git/HEAD": "ref: refs/heads/main\n",
		w.Workspace + "/main.git/config": "[core]\n", w.Workspace + "/main.git/HEAD": "ref: refs/heads/main\n",
		w.Workspace + "/.git/modules/libs/deep/HEAD": "ref: refs/heads/main\n", w.Workspace +
			"/far/down/below/.git/config": "[core]\n",
		w.Workspace + "/team.gitconfig": "[core]\n", w.Workspace + "/conf/envrc": "export X=1\n",
		w.Workspace + "/tree/.git": "gitdir: " + w.Workspace + "/main.git/worktrees/tree\n", w.Workspace +
			"/main.git/worktrees/tree/commondir": "../..\n",
	} {
		must(os.WriteFile(f, []byte(text), 0o644))
	}
	must(os.Symlink("conf/envrc", w.Workspace+"/.envrc"))
	copyFile(t, "/proc/self/exe", w.Workspace+"/attempt", 0o755)

	tmp := shortTemp(t)
	w.HostTmp = tmp + "/file"
	must(os.WriteFile(w.HostTmp, []byte("host"), 0o666))
	w.Shm = fmt.Sprintf("/dev/shm/sandboxd-test-%d", os.Getpid())
	must(os.WriteFile(w.Shm, []byte("host"), 0o666))
	t.Cleanup(func() { os.Remove(w.Shm) })

	for _, addr := range []string{w.Socket, w.Private, w.Abstract} {
		l, err := net.Listen("unix", addr)
		must(err)
		t.Cleanup(func() { l.Close() })
	}
	misnamedSockets(t, w)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	t.Cleanup(func() { l.Close() })
	w.Port = l.Addr().(*net.TCPAddr).Port

	id, err := unix.SysvShmGet(w.ShmKey, 4096, unix.IPC_CREAT|0o666)
	must(err)
	t.Cleanup(func() { unix.SysvShmCtl(id, unix.IPC_RMID, nil) })

	sleeper := exec.Command("sleep", "1000")
	must(sleeper.Start())
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	w.Pid = sleeper.Process.Pid

	w.NoNamespaces = o.NoNamespaces
	o.Private, o.Roots = []string{w.Daemon}, are(base)
	cage := newCage(t, o)
	return w, cage, guard.Settings{
		AllowedWritePaths: []string{w.Workspace, "/tmp"},
		DeniedPaths:       []string{w.Secret, w.SecretDir, "/etc/shadow"},
		Limits:            guard.Limits{WallSeconds: 60, MemoryBytes: 512 << 20},
	}
}

// misnamedSockets listen in the workspace, each under another name than the kernel
// has of it.
func misnamedSockets(t *testing.T, w world) {
	t.Helper()
	listen := func(name string) {
		t.Helper()
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		t.Cleanup(func() { l.Close() })
	}
	t.Chdir(w.Workspace)
	listen("relative.sock")
	listen(w.Workspace + "/before.sock")
	listen(w.Workspace + "/socks/s")
	link := filepath.Join(shortTemp(t), "l")
	if err := errors.Join(os.Rename(w.Workspace+"/before.sock", w.Workspace+"/renamed.sock"),
		os.Symlink(w.Workspace, link)); err != nil {
		t.Fatal(err)
	}
	listen(link + "/linked.sock")
}

// TestX39_LeftoverDaemonIsGone starts a process that leaves its session, group
// and parent behind; it does not outlive the call, nor does the call wait for it.
func TestX39_LeftoverDaemonIsGone(t *testing.T) {
	bothUsers(t, func(t *testing.T) { bothLevels(t, leftoverDaemonIsGone) })
}

func leftoverDaemonIsGone(t *testing.T, cage Backend) {
	ws := shortTemp(t)
	for _, profile := range Profiles {
		box := newBox(t, cage, profile, guard.Settings{AllowedWritePaths: []string{ws}})
		mark := fmt.Sprintf("1000.%d", time.Now().UnixNano())
		var out bytes.Buffer
		e := runToEnd(t, box, Spec{
			Argv: []string{"sh", "-c", "(setsid sh -c '(sleep " + mark + " &) ; sleep " + mark + "' &) ; echo done"},
			Dir:  ws, Stdout: &out, Stderr: &out,
		})
		if e.Code != 0 || out.String() != "done\n" {
			t.Errorf("%s: exit %+v, output %q", profile, e, out.String())
		}
		if pids := processesWith(t, mark); pids != nil {
			t.Errorf("%s: processes outlived their call: %v", profile, pids)
		}
	}
}

// processesWith are the processes of the host that have mark in their words.
func processesWith(t *testing.T, mark string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(mark)) &&
			!bytes.Contains(b, []byte("sandbox.test")) {
			pids = append(pids, f)
		}
	}
	return pids
}
