package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	for link, to := range map[string]string{ws + "/out": base + "/else", ws + "/soft": secret + "/key", ws + "/inside": ws + "/sub"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(ws+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	cage := newCage(t, Options{Private: []string{base + "/daemon"}, Roots: []string{base}})
	box := newBox(t, cage, "strict", Settings{
		AllowedReadPaths: []string{ws, base + "/daemon", "/proc", "/dev", "/sys"}, AllowedWritePaths: []string{ws, base + "/daemon", "/proc", "/dev"},
		DeniedPaths: []string{secret},
	})
	for _, tt := range []struct {
		name, path string
		op         Op
		ok         bool
	}{
		{"a file of the workspace", ws + "/file", Read, true},
		{"a directory of the workspace", ws + "/sub", Read, true},
		{"a denied file", secret + "/key", Read, false},
		{"a denied directory", secret, Read, false},
		{"outside the read list", base + "/else/file", Read, false},
		{"through a link out", ws + "/out/file", Read, false},
		{"through a link to a secret", ws + "/soft", Read, false},
		{"through a link that stays inside", ws + "/inside/x", Write, false},
		{"not cleaned", ws + "/sub/../file", Read, false},
		{"relative", "file", Read, false},
		{"with a NUL", ws + "/file\x00", Read, false},
		{"a fifo", ws + "/fifo", Read, false},
		{"over a fifo", ws + "/fifo", Write, false},
		{"over a link", ws + "/soft", Write, false},
		{"the daemon's files", base + "/daemon/state", Read, false},
		{"into the daemon's files", base + "/daemon/state", Write, false},
		{"a process", "/proc/1/environ", Read, false},
		{"this process", "/proc/self/environ", Read, false},
		{"this process's root", "/proc/self/root/etc/passwd", Read, false},
		{"a device", "/dev/zero", Read, false},
		{"a kernel setting", "/proc/sys/kernel/core_pattern", Write, false},
		{"a new file", ws + "/new", Write, true},
		{"a new file in new directories", ws + "/a/b/c/new", Write, true},
		{"a git hook", ws + "/.git/hooks/pre-commit", Write, false},
		{"git's configuration", ws + "/.git/config", Write, false},
		{"git's configuration of a repository below", ws + "/sub/.git/config", Write, false},
		{"another file of git", ws + "/.git/info/exclude", Write, true},
		{"a directory that is denied", secret + "/new", Write, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := box.Open(context.Background(), PathUse{Path: tt.path, Op: tt.op}, os.O_RDONLY)
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
	cage := newCage(t, Options{Roots: []string{base}})
	box := newBox(t, cage, "strict", Settings{AllowedWritePaths: []string{ws}, DeniedPaths: []string{ws + "/secret"}})
	if err := os.Rename(ws+"/pub", ws+"/old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("secret", ws+"/pub"); err != nil {
		t.Fatal(err)
	}
	for _, op := range []Op{Read, Write} {
		f, err := box.Open(context.Background(), PathUse{Path: ws + "/pub/f", Op: op}, os.O_RDONLY)
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
		box := newBox(t, cage, "strict", Settings{AllowedWritePaths: []string{ws, "/tmp"}})
		use := PathUse{Path: "/tmp/sandboxd-shared", Op: Write}
		if err := WriteFile(context.Background(), box, use, []byte("from a tool"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(use.Path); err == nil {
			t.Error("the file is in the host's /tmp")
		}
		if e, out := runIn(t, box, ws, "sh", "-c", "cat /tmp/sandboxd-shared; echo ' and a program' >> /tmp/sandboxd-shared"); e.Code != 0 || out != "from a tool" {
			t.Errorf("in the cage: exit %d, %q", e.Code, out)
		}
		use.Op = Read
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
	cage := newCage(t, Options{Roots: []string{base}})
	box := newBox(t, cage, "strict", Settings{AllowedWritePaths: []string{base}})
	put := func(name, text string, perm os.FileMode) error {
		return WriteFile(context.Background(), box, PathUse{Path: filepath.Join(base, name)}, []byte(text), perm)
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
		if err := WriteFile(ctx, box, PathUse{Path: base + "/new"}, []byte("five"), 0o600); !errors.Is(err, context.Canceled) {
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

func TestT42_ExitsAndLimits(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		cage := newCage(t, Options{})
		needCage(t, cage)
		ws := shortTemp(t)
		for _, tt := range []struct {
			name   string
			script string
			limits Limits
			want   Exit // Usage aside
		}{
			{"exit status", "exit 3", Limits{}, Exit{Code: 3}},
			{"signal", "kill -TERM $$", Limits{}, Exit{Code: 143, Signal: "SIGTERM"}},
			{"kill", "kill -KILL $$", Limits{}, Exit{Code: 137, Signal: "SIGKILL"}},
			{"abort", "kill -ABRT $$", Limits{}, Exit{Code: 134, Signal: "SIGABRT"}},
			{"wall clock", "sleep 60", Limits{WallSeconds: 1}, Exit{Code: 143, Signal: "SIGTERM", TimedOut: true}},
			{"wall clock against a program that ignores TERM", "trap '' TERM; sleep 60 & wait; sleep 60", Limits{WallSeconds: 1}, Exit{Code: 137, Signal: "SIGKILL", TimedOut: true}},
			{"a program that stops itself", "kill -STOP $$", Limits{WallSeconds: 1}, Exit{Code: 137, Signal: "SIGKILL", TimedOut: true}},
			{"output", "yes", Limits{OutputBytes: 5000}, Exit{Code: 137, Signal: "SIGKILL", Limit: "output"}},
			{"a slow reader", "head -c 900000 /dev/zero | tr '\\0' x", Limits{}, Exit{}},
			{"cpu", "while :; do :; done", Limits{CPUSeconds: 1}, Exit{Code: 152, Signal: "SIGXCPU", Limit: "cpu"}},
			{"file size", "exec head -c 100000 /dev/zero > big", Limits{FileSizeBytes: 5000}, Exit{Code: 153, Signal: "SIGXFSZ", Limit: "file_size"}},
			{"processes", "i=0; while [ $i -lt 2000 ]; do sleep 5 & i=$((i+1)); done", Limits{Processes: 320, WallSeconds: 10}, Exit{Code: 2}},
			{"fork bomb", "b() { b | b & b; }; b", Limits{Processes: 320, WallSeconds: 2}, Exit{Code: -1}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				box := newBox(t, cage, "strict", Settings{AllowedWritePaths: []string{ws}})
				var out bytes.Buffer
				start := time.Now()
				e := runSpec(t, box, Spec{Argv: []string{"sh", "-c", tt.script}, Dir: ws, Stdout: &out, Stderr: &out, Limits: tt.limits})
				if took := time.Since(start); took > 50*time.Second {
					t.Errorf("took %v", took)
				}
				if tt.want.Limit == "output" && out.Len() != int(tt.limits.OutputBytes) {
					t.Errorf("%d bytes of output, want %d", out.Len(), tt.limits.OutputBytes)
				}
				e.Usage = Usage{}
				if tt.want.Code >= 0 && (e.Code != tt.want.Code || e.Signal != tt.want.Signal || e.TimedOut != tt.want.TimedOut || e.Limit != tt.want.Limit) {
					t.Errorf("exit %+v, want %+v; output %.200q", e, tt.want, out.String())
				}
				if e, out := runIn(t, box, ws, "echo", "still here"); e.Code != 0 || out != "still here\n" {
					t.Errorf("the next call: %+v %q", e, out)
				}
			})
		}
	})
}

func TestStart_WhatCannotRun(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	if err := os.WriteFile(ws+"/plain", []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	box := newBox(t, cage, "strict", Settings{AllowedWritePaths: []string{ws}})
	for _, tt := range []struct {
		name string
		argv []string
		code int
	}{
		{"no such name", []string{"no-such-program"}, 127},
		{"no such path", []string{"/no/such/program"}, 127},
		{"an empty name", []string{""}, 127},
		{"not executable", []string{"./plain"}, 126},
		{"a directory", []string{"/usr"}, 126},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := box.Start(context.Background(), Spec{Argv: tt.argv, Dir: ws})
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Wait()
			var start *StartError
			if !errors.As(err, &start) || start.Code != tt.code || e.Code != tt.code {
				t.Errorf("exit %d, %v; want %d", e.Code, err, tt.code)
			}
		})
	}
	for _, s := range []Spec{
		{Dir: ws},
		{Argv: []string{"true"}, Dir: "relative"},
		{Argv: []string{"true\x00"}, Dir: ws},
	} {
		if _, err := box.Start(context.Background(), s); err == nil {
			t.Errorf("%+v started", s)
		}
	}
	p, err := box.Start(context.Background(), Spec{Argv: []string{"true"}, Dir: ws + "/missing"})
	if err == nil {
		if _, err = p.Wait(); err == nil || !strings.Contains(err.Error(), "chdir") {
			t.Errorf("a missing directory: %v", err)
		}
	}
}

func TestStart_CancelEndsTheTree(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	box := newBox(t, cage, "strict", Settings{AllowedWritePaths: []string{ws}})
	ctx, cancel := context.WithCancel(context.Background())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := box.Start(ctx, Spec{Argv: []string{"sh", "-c", "echo up; sleep 1000.5557; sleep 1000"}, Dir: ws, Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	e, err := p.Wait()
	if err != nil || e.Signal != "SIGKILL" {
		t.Errorf("exit %+v, %v", e, err)
	}
	if left := processesWith(t, "1000.5557"); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestX40_EnvironmentIsAnAllowList(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("CODEANY_API_KEY", "hunter2")
	t.Setenv("LC_TIME", "C")
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	box := newBox(t, cage, "strict", Settings{AllowedWritePaths: []string{ws}, Env: map[string]string{"GIVEN": "by the settings"}})
	var out bytes.Buffer
	e := runSpec(t, box, Spec{Argv: []string{"env"}, Dir: ws, Env: []string{"MORE=by the call"}, Stdout: &out})
	if e.Code != 0 || strings.Contains(out.String(), "hunter2") {
		t.Errorf("exit %d: %s", e.Code, out.String())
	}
	for _, want := range []string{"LC_TIME=C\n", "GIVEN=by the settings\n", "MORE=by the call\n", "GOCACHE=/run/go-build\n", "HOME="} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestX39_RequireRefuses(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	if _, err := cage.Box(context.Background(), "s", "strict", Settings{Require: []string{"userns", "netns", "landlock", "seccomp"}}); err != nil {
		t.Error(err)
	}
	var missing *MissingError
	if _, err := cage.Box(context.Background(), "s", "strict", Settings{Require: []string{"no-such-layer"}}); !errors.As(err, &missing) || missing.Layer != "no-such-layer" {
		t.Errorf("err = %v", err)
	}
	if _, err := cage.Box(context.Background(), "s", "none", Settings{}); err == nil {
		t.Error("an unknown profile was accepted")
	}
}

// TestLauncherKilledMidCall: the call ends with a clear error and the next works.
func TestLauncherKilledMidCall(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	box := newBox(t, cage, "strict", Settings{AllowedWritePaths: []string{ws}})
	p, err := box.Start(context.Background(), Spec{Argv: []string{"sleep", "1000.7731"}, Dir: ws})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.(*proc).launcher.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); !errors.Is(err, errLauncherGone) {
		t.Errorf("err = %v", err)
	}
	if left := processesWith(t, "1000.7731"); left != nil {
		t.Errorf("left: %v", left)
	}
	if e, out := runIn(t, box, ws, "echo", "again"); e.Code != 0 || out != "again\n" {
		t.Errorf("the next call: %+v %q", e, out)
	}
}
