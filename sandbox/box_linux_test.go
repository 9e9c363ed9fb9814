package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/launch"
	"golang.org/x/sys/unix"
)

func TestX36_OpenObeysTheSettings(t *testing.T) {
	base := shortTemp(t)
	ws, secret := base+"/ws", base+"/ws/secret"
	for _, d := range []string{ws + "/sub/.git", secret, base + "/else", base + "/daemon"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{ws + "/file", secret + "/key", base + "/else/file", base + "/daemon/state"} {
		if err := os.WriteFile(f, []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		ws + "/out": base + "/else", ws + "/soft": secret + "/key",
		ws + "/inside": ws + "/sub",
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(ws+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	cage := newCage(t, Options{Private: []string{base + "/daemon"}, Runtime: base + "/run", Roots: are(base)})
	if err := os.WriteFile(base+"/run/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	box := newBox(t, cage, "strict", guard.Settings{
		AllowedReadPaths: []string{ws, base + "/daemon", base + "/run", "/proc", "/dev", "/sys"}, AllowedWritePaths: []string{
			ws,
			base + "/daemon", "/proc", "/dev",
		},
		DeniedPaths: []string{secret},
	})
	for _, tt := range []struct {
		name, path string
		op         guard.Op
		ok         bool
	}{
		{"a file of the workspace", ws + "/file", guard.Read, true},
		{"a directory of the workspace", ws + "/sub", guard.Read, true},
		{"a denied file", secret + "/key", guard.Read, false},
		{"a denied directory", secret, guard.Read, false},
		{"outside the read list", base + "/else/file", guard.Read, false},
		{"through a link out", ws + "/out/file", guard.Read, false},
		{"through a link to a secret", ws + "/soft", guard.Read, false},
		{"through a link that stays inside", ws + "/inside/x", guard.Write, false},
		{"not cleaned", ws + "/sub/../file", guard.Read, false},
		{"relative", "file", guard.Read, false},
		{"with a NUL", ws + "/file\x00", guard.Read, false},
		{"a fifo", ws + "/fifo", guard.Read, false},
		{"over a fifo", ws + "/fifo", guard.Write, false},
		{"over a link", ws + "/soft", guard.Write, false},
		{"the daemon's files", base + "/daemon/state", guard.Read, false},
		{"the files of sessions", base + "/run/file", guard.Read, false},
		{"into the daemon's files", base + "/daemon/state", guard.Write, false},
		{"a process", "/proc/1/environ", guard.Read, false},
		{"this process", "/proc/self/environ", guard.Read, false},
		{"this process's root", "/proc/self/root/etc/passwd", guard.Read, false},
		{"a device", "/dev/zero", guard.Read, false},
		{"a kernel setting", "/proc/sys/kernel/core_pattern", guard.Write, false},
		{"a new file", ws + "/new", guard.Write, true},
		{"a new file in new directories", ws + "/a/b/c/new", guard.Write, true},
		{"a git hook", ws + "/.git/hooks/pre-commit", guard.Write, false},
		{"git's configuration", ws + "/.git/config", guard.Write, false},
		{"git's configuration of a repository below", ws + "/sub/.git/config", guard.Write, false},
		{"another file of git", ws + "/.git/info/exclude", guard.Write, true},
		{"a directory that is denied", secret + "/new", guard.Write, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := box.Open(context.Background(), guard.PathUse{Path: tt.path, Op: tt.op}, os.O_RDONLY)
			if err == nil {
				f.Close()
			}
			if (err == nil) != tt.ok {
				t.Errorf("Open(%s) = %v, want ok %v", tt.path, err, tt.ok)
			}
		})
	}
}

// TestX19_OpenAfterASwap replaces a directory by a link between the judgement and
// the opening.
func TestX19_OpenAfterASwap(t *testing.T) {
	base := shortTemp(t)
	ws := base + "/ws"
	for _, d := range []string{ws + "/pub", ws + "/secret"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d+"/f", []byte(d), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cage := newCage(t, Options{Roots: are(base)})
	box := newBox(t, cage, "strict", guard.Settings{
		AllowedWritePaths: []string{ws},
		DeniedPaths:       []string{ws + "/secret"},
	})
	if err := os.Rename(ws+"/pub", ws+"/old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("secret", ws+"/pub"); err != nil {
		t.Fatal(err)
	}
	for _, op := range []guard.Op{guard.Read, guard.Write} {
		f, err := box.Open(context.Background(), guard.PathUse{Path: ws + "/pub/f", Op: op}, os.O_RDONLY)
		if !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s through the swapped directory: %v, want ELOOP or ENOTDIR", op, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

// TestOpenOfThePrivateTmp: a file tool and a program of the same session see the
// same /tmp, and it is not the host's.
func TestOpenOfThePrivateTmp(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		cage := newCage(t, Options{})
		needCage(t, cage)
		ws := shortTemp(t)
		box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws, "/tmp"}})
		use := guard.PathUse{Path: "/tmp/sandboxd-shared", Op: guard.Write}
		if err := WriteFile(context.Background(), box, use, []byte("from a tool"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(use.Path); err == nil {
			t.Error("the file is in the host's /tmp")
		}
		if e, out := runIn(t, box, ws, "sh", "-c", "cat /tmp/sandboxd-shared; echo ' and a program' >> /tmp/sandboxd-shared"); e.Code != 0 || out != "from a tool" {
			t.Errorf("in the cage: exit %d, %q", e.Code, out)
		}
		use.Op = guard.Read
		f, err := box.Open(context.Background(), use, os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var got bytes.Buffer
		if _, err := got.ReadFrom(f); err != nil || got.String() != "from a tool and a program\n" {
			t.Errorf("read back %q, %v", got.String(), err)
		}
	})
}

func TestWriteFile(t *testing.T) {
	base := shortTemp(t)
	cage := newCage(t, Options{Roots: are(base)})
	box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{base}})
	put := func(name, text string, perm os.FileMode) error {
		return WriteFile(context.Background(), box, guard.PathUse{Path: filepath.Join(base, name)}, []byte(text), perm)
	}
	check := func(name, text string, perm os.FileMode) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(base, name))
		info, serr := os.Stat(filepath.Join(base, name))
		if err != nil || serr != nil || string(b) != text || info.Mode() != perm {
			t.Errorf("%s: %q, mode %v, %v %v; want %q, %v", name, b, info.Mode(), err, serr, text, perm)
		}
	}
	if err := put("new", "one", 0o640); err != nil {
		t.Fatal(err)
	}
	check("new", "one", 0o640)
	if err := os.Chmod(base+"/new", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := put("new", "two", 0o600); err != nil {
		t.Fatal(err)
	}
	check("new", "two", 0o755)

	t.Run("set-user-id is not carried to new content", func(t *testing.T) {
		if err := os.Chmod(base+"/new", 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
		if err := put("new", "three", 0o600); err != nil {
			t.Fatal(err)
		}
		check("new", "three", 0o755)
	})
	t.Run("another name of the old file keeps the old content", func(t *testing.T) {
		if err := os.Link(base+"/new", base+"/other"); err != nil {
			t.Fatal(err)
		}
		if err := put("new", "four", 0o600); err != nil {
			t.Fatal(err)
		}
		check("other", "three", 0o755)
	})
	t.Run("a directory is not replaced", func(t *testing.T) {
		if err := os.Mkdir(base+"/dir", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := put("dir", "x", 0o600); err == nil {
			t.Error("no error")
		}
	})
	t.Run("a cancelled write leaves the old content", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := WriteFile(ctx, box, guard.PathUse{Path: base + "/new"}, []byte("five"), 0o600); !errors.Is(err,
			context.Canceled) {
			t.Errorf("err = %v", err)
		}
		check("new", "four", 0o755)
	})
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".sandboxd-") {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}

func TestX40_EnvironmentIsAnAllowList(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("CODEANY_API_KEY", "hunter2")
	t.Setenv("LC_TIME", "C")
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	box := newBox(t, cage, "strict", guard.Settings{
		AllowedWritePaths: []string{ws},
		Env:               map[string]string{"GIVEN": "by the settings"},
	})
	var out bytes.Buffer
	e := runSpec(t, box, Spec{Argv: []string{"env"}, Dir: ws, Env: []string{"MORE=by the call"}, Stdout: &out})
	if e.Code != 0 || strings.Contains(out.String(), "hunter2") {
		t.Errorf("exit %d: %s", e.Code, out.String())
	}
	for _, want := range []string{
		"LC_TIME=C\n", "GIVEN=by the settings\n", "MORE=by the call\n",
		"GOCACHE=/run/go-build\n", "CARGO_HOME=/run/cargo\n", "HOME=",
		"npm_config_cache=/run/cache/npm\n", "PIP_CACHE_DIR=/run/cache/pip\n", "XDG_CACHE_HOME=/run/cache/xdg\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestX39_RequireRefuses(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	if _, err := cage.Box(context.Background(), "s", "strict",
		guard.Settings{Require: []string{"userns", "netns", "landlock", "seccomp"}}); err != nil {
		t.Error(err)
	}
	var missing *MissingError
	if _, err := cage.Box(context.Background(), "s", "strict",
		guard.Settings{Require: []string{"no-such-layer"}}); !errors.As(err, &missing) ||
		missing.Layer != "no-such-layer" {
		t.Errorf("err = %v", err)
	}
	if _, err := cage.Box(context.Background(), "s", "none", guard.Settings{}); err == nil {
		t.Error("an unknown profile was accepted")
	}
}

// TestX36_NoDirectoryIsMadeOutside: a file tool makes the directories that its file lacks
// only where the settings let it write, as a program could.
func TestX36_NoDirectoryIsMadeOutside(t *testing.T) {
	base := shortTemp(t)
	ws, named := base+"/ws", base+"/absent/named"
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	box := newBox(t, newCage(t, Options{Roots: are(base)}), "strict",
		guard.Settings{AllowedWritePaths: []string{ws, named}})
	for path, ok := range map[string]bool{ws + "/a/b/file": true, named + "/a/file": false, named: false} {
		err := WriteFile(context.Background(), box, guard.PathUse{Path: path}, []byte("text"), 0o644)
		if (err == nil) != ok {
			t.Errorf("write %s: %v, want ok %v", path, err, ok)
		}
	}
	if exists(base + "/absent") {
		t.Error("a directory that the settings do not name was made")
	}
}

// TestLauncherIsReadByNobody: the init process of every call shares the launcher's memory,
// so no other process of the same user may look into it. Where there are namespaces, who
// made them may do so all the same; root may always.
func TestLauncherIsReadByNobody(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		if os.Getuid() == 0 {
			return
		}
		cage := newCage(t, Options{NoNamespaces: true})
		needNoNamespaces(t, cage)
		ws := shortTemp(t)
		box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		p, err := box.Start(context.Background(), Spec{Argv: []string{"sleep", "1000"}, Dir: ws})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Terminate(0)
		for _, name := range []string{"mem", "environ", "maps"} {
			at := fmt.Sprintf("/proc/%d/%s", p.(*proc).launcher.Process.Pid, name)
			if f, err := os.Open(at); !errors.Is(err, fs.ErrPermission) {
				f.Close()
				t.Errorf("open %s: %v, want that it is refused", at, err)
			}
		}
	})
}

// TestX39_ProcIsReadOnlyWhereEverythingMayBeWritten: with the uid of the host's root a
// program owns /proc/sys, and where every path may be written Landlock does not hold it.
func TestX39_ProcIsReadOnlyWhereEverythingMayBeWritten(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		cage := newCage(t, Options{})
		needCage(t, cage)
		ws := shortTemp(t)
		for _, profile := range Profiles {
			box := newBox(t, cage, profile, guard.Settings{})
			// Opened to append and closed, which changes nothing where it is let through.
			_, out := runIn(t, box, ws, "bash", "-c", `: > made && echo writes
for f in /proc/self/comm /proc/self/oom_score_adj /proc/sys/kernel/core_pattern; do
	if (exec 3>> $f) 2> err; then echo "$f is open"; fi
done; rm made err`)
			if out != "writes\n" {
				t.Errorf("%s: %s", profile, out)
			}
		}
	})
}

// TestX36_ANamedPathThatAppearsIsShown: what the settings name and did not exist is seen by
// the first call after it does, not only by a new session.
func TestX36_ANamedPathThatAppearsIsShown(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	base := shortTemp(t)
	ws, later := base+"/ws", base+"/later"
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	box := newBox(t, cage, "strict", guard.Settings{
		AllowedReadPaths: []string{ws, later}, AllowedWritePaths: []string{ws},
	})
	if e, out := runIn(t, box, ws, "cat", later+"/file"); e.Code == 0 {
		t.Fatalf("read what is not there: %s", out)
	}
	writeTree(t, later+"/file")
	want, err := os.ReadFile(later + "/file")
	if err != nil {
		t.Fatal(err)
	}
	if e, out := runIn(t, box, ws, "cat", later+"/file"); e.Code != 0 || out != string(want) {
		t.Errorf("exit %d, %q, want %q", e.Code, out, want)
	}
}

// TestLauncherKilledMidCall: the call ends with a clear error and the next works.
func TestLauncherKilledMidCall(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	p, err := box.Start(context.Background(), Spec{Argv: []string{"sleep", "1000.7731"}, Dir: ws})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.(*proc).launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); !errors.Is(err, launch.ErrGone) {
		t.Errorf("err = %v", err)
	}
	if left := processesWith(t, "1000.7731"); left != nil {
		t.Errorf("left: %v", left)
	}
	if e, out := runIn(t, box, ws, "echo", "again"); e.Code != 0 || out != "again\n" {
		t.Errorf("the next call: %+v %q", e, out)
	}
}

// Even an empty file costs memory of the kernel, which no limit of bytes counts.
func TestTheNumberOfFilesInSharedMemoryIsBounded(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage, "userns")
	ws := shortTemp(t)
	for _, profile := range Profiles {
		box := newBox(t, cage, profile, guard.Settings{AllowedWritePaths: []string{ws}})
		if e, out := runIn(t, box, ws, "stat", "-f", "-c", "%c", "/dev/shm"); e.Code != 0 || out != "65536\n" {
			t.Errorf("%s: /dev/shm holds %q files, want 65536", profile, out)
		}
	}
}
