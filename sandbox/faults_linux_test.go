package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/launch"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestFaults: whatever a program does, its call ends with a status that says what
// happened, nothing of it is left, and the next call works. As root and as another
// uid, with control groups and without.
func TestFaults(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		for _, groups := range []bool{true, false} {
			name := "control groups as the host gives them"
			if !groups {
				name = "no control groups"
			}
			t.Run(name, func(t *testing.T) { faults(t, newCage(t, Options{NoCgroups: !groups}).(*cage)) })
		}
		t.Run("no namespaces", func(t *testing.T) {
			c := newCage(t, Options{NoNamespaces: true, NoCgroups: true})
			needNoNamespaces(t, c)
			faults(t, c.(*cage))
		})
	})
}

func faults(t *testing.T, c *cage) {
	needCage(t, c)
	memory := Exit{Code: -1, Limit: "memory"}
	if c.groups == nil {
		memory.Limit = "" // an allocation fails, and what then is the program's
	}
	ws := shortTemp(t)
	box := newBox(t, c, "strict", guard.Settings{AllowedWritePaths: []string{ws, "/tmp"}})
	for _, tt := range []struct {
		name, script string
		limits       guard.Limits
		want         Exit // Code -1: any but 0
	}{
		{"fork bomb", "b() { b | b & b; }; b", guard.Limits{Processes: 320, WallSeconds: 1}, Exit{Code: -1}},
		{
			"memory bomb", "head -c 2000000000 /dev/zero | tail -c 2000000000 | wc -c | grep 2000000000",
			guard.Limits{MemoryBytes: 48 << 20, WallSeconds: 240},
			memory,
		},
		{
			"one file fills the disk", "exec head -c 1000000000 /dev/zero > big",
			guard.Limits{FileSizeBytes: 1 << 20},
			Exit{Code: 153, Signal: "SIGXFSZ", Limit: "file_size"},
		},
		{
			"a gigabyte of output", "head -c 1000000000 /dev/zero; sleep 1000",
			guard.Limits{OutputBytes: 1 << 20, OutputAction: guard.OutputKill},
			Exit{Code: 137, Signal: "SIGKILL", Limit: "output"},
		},
		{
			"busy for ever", "while :; do :; done",
			guard.Limits{CPUSeconds: 1},
			Exit{Code: 152, Signal: "SIGXCPU", Limit: "cpu"},
		},
		{
			"ignores TERM", "trap '' TERM INT HUP; while :; do sleep 1000; done",
			guard.Limits{WallSeconds: 5},
			Exit{Code: 137, Signal: "SIGKILL", TimedOut: true},
		},
		{
			"stops itself", "kill -STOP $$",
			guard.Limits{WallSeconds: 1},
			Exit{Code: 137, Signal: "SIGKILL", TimedOut: true},
		},
		{"stops what it started, and goes", "sleep 1000 & kill -STOP $!; exit 5", guard.Limits{}, Exit{Code: 5}},
		{"daemons", "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP; setsid sleep 1000 & sleep 1000' &); done; exit 6", guard.Limits{}, Exit{Code: 6}},
		{
			"a daemon with the output in its hands", "setsid sleep 1000 & echo started; exit 7",
			guard.Limits{},
			Exit{Code: 7},
		},
		{"too many open files", "ulimit -n; i=3; while [ $i -lt 5000 ]; do eval \"exec $i</dev/null\" || exit 9; i=$((i+1)); done", guard.Limits{OpenFiles: 64}, Exit{Code: -1}},
		{"closes its streams", "exec <&- >&- 2>&-; exit 8", guard.Limits{}, Exit{Code: 8}},
		{
			"closes its streams and stays", "exec <&- >&- 2>&-; sleep 1000",
			guard.Limits{WallSeconds: 1},
			Exit{Code: 143, Signal: "SIGTERM", TimedOut: true},
		},
		{"kills everything it can see", "sleep 1000 & kill -KILL -1; exit 3", guard.Limits{}, Exit{Code: 3}},
	} {
		if c.groups == nil && tt.limits.WallSeconds == 1 && tt.limits.Processes == 0 {
			continue // has nothing to do with them, and takes its second
		}
		t.Run(tt.name, func(t *testing.T) {
			mark := "FAULT_MARK=" + filepath.Base(ws) + strings.ReplaceAll(tt.name, " ", "-")
			before := mountTable(t)
			var out bytes.Buffer
			e := runToEnd(t, box, Spec{
				Argv: []string{"sh", "-c", tt.script}, Dir: ws, Env: []string{mark}, Stdout: &out,
				Stderr: &out, Limits: tt.limits,
			})
			if e.Usage.Wall <= 0 || e.Usage.MaxRSSBytes <= 0 {
				t.Errorf("usage %+v", e.Usage)
			}
			if e.Limit != tt.want.Limit || e.TimedOut != tt.want.TimedOut && tt.want.Code >= 0 || tt.want.Code >= 0 &&
				(e.Code != tt.want.Code || e.Signal != tt.want.Signal) || tt.want.Code < 0 && e.Code == 0 {
				t.Errorf("exit %+v, want %+v; output %.200q", e, tt.want, out.String())
			}
			if left := processesOf(t, mark); left != nil {
				t.Errorf("processes left: %v", left)
			}
			if changed := mountsChanged(before, mountTable(t)); changed != nil {
				t.Errorf("mounts changed:\n%s", strings.Join(changed, ""))
			}
			nothingInGroups(t, c)
			if files, _ := os.ReadDir(ws); len(files) > 0 {
				if files[0].Name() != "big" || len(files) > 1 {
					t.Errorf("files left in the workspace: %v", files)
				}
				os.Remove(filepath.Join(ws, "big"))
			}
			if e, out := runIn(t, box, ws, "echo", "still here"); e.Code != 0 || out != "still here\n" {
				t.Errorf("the next call: %+v %q", e, out)
			}
		})
	}
}

// TestFault_LauncherKilled: with SIGKILL, in the middle of several calls. Not even
// its control groups are left.
func TestFault_LauncherKilled(t *testing.T) {
	bothUsers(t, func(t *testing.T) { bothLevels(t, launcherKilled) })
}

func launcherKilled(t *testing.T, backend Backend) {
	ws := shortTemp(t)
	box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	mark := "FAULT_MARK=" + filepath.Base(ws)
	var procs []*proc
	for range 3 {
		p, err := box.Start(context.Background(), Spec{
			Argv: []string{"sh", "-c", "setsid sleep 1000 & sleep 1000"},
			Dir:  ws, Env: []string{mark},
		})
		if err != nil {
			t.Fatal(err)
		}
		procs = append(procs, p.(*proc))
	}
	l := procs[0].launcher
	if err := l.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if e, err := p.Wait(); !errors.Is(err, launch.ErrGone) || e.Code != 137 {
			t.Errorf("exit %+v, %v", e, err)
		}
	}
	if left := processesOf(t, mark); left != nil {
		t.Errorf("processes left: %v", left)
	}
	<-l.Ended
	if l.Groups != nil {
		for _, parent := range l.Groups.Dirs {
			if _, err := os.Stat(filepath.Join(parent, l.GroupName)); err == nil {
				t.Errorf("the control group %s is left", l.GroupName)
			}
		}
	}
	if e, out := runIn(t, box, ws, "echo", "again"); e.Code != 0 || out != "again\n" {
		t.Errorf("the next call: %+v %q", e, out)
	}
}

// TestFault_NoRoomLeft: the file system of the private directories is full.
func TestFault_NoRoomLeft(t *testing.T) {
	if os.Getuid() != 0 {
		needs.Elsewhere(t, "needs root to make a small file system")
	}
	base := shortTemp(t)
	if err := unix.Mount("small", base, "tmpfs", 0, "size=256k"); err != nil {
		needs.Missing(t, "mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(base, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	backend := newCage(t, Options{Runtime: filepath.Join(base, "run")})
	needCage(t, backend)
	ws := shortTemp(t)
	box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws, "/tmp"}})
	if e, out := runIn(t, box, ws, "sh", "-c", "head -c 10000000 /dev/zero > /tmp/fill"); e.Code == 0 ||
		!strings.Contains(out, "No space") {
		t.Errorf("exit %+v: %s", e, out)
	}
	for range 2 {
		if e, out := runIn(t, box, ws, "echo", "still here"); e.Code != 0 || out != "still here\n" {
			t.Errorf("the next call: %+v %q", e, out)
		}
	}
}

func mountTable(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// mountsChanged returns the mounts that are in one table alone. One whose directory is gone does not count: the
// kernel takes it from every namespace when somebody removes the directory, as other tests do with theirs.
func mountsChanged(before, after string) (changed []string) {
	for line := range strings.Lines(before) {
		if fields := strings.Fields(line); !strings.Contains("\n"+after, "\n"+line) && (len(fields) < 5 || exists(fields[4])) {
			changed = append(changed, "- "+line)
		}
	}
	for line := range strings.Lines(after) {
		if !strings.Contains("\n"+before, "\n"+line) {
			changed = append(changed, "+ "+line)
		}
	}
	return changed
}

func TestMountsThatChanged(t *testing.T) {
	const root = "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
	const there = "24 22 0:21 / /proc rw - proc proc rw\n"
	const gone = "42 22 0:39 / /nowhere/at/all rw - tmpfs tmpfs rw\n"
	for _, tt := range []struct {
		name, before, after string
		want                []string
	}{
		{"nothing", root + there, root + there, nil},
		{"a new one", root, root + there, []string{"+ " + there}},
		{"a new one whose directory is gone", root, root + gone, []string{"+ " + gone}},
		{"one that was unmounted", root + there, root, []string{"- " + there}},
		{"one that another mounted anew", root + there, root + "9" + there, []string{"- " + there, "+ 9" + there}},
		{"one whose directory was removed", root + gone, root, nil},
	} {
		if got := mountsChanged(tt.before, tt.after); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// processesOf are those that have this in their environment.
func processesOf(t *testing.T, mark string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(append(b, 0), []byte(mark+"\x00")) {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			out = append(out, filepath.Dir(f)+" "+string(cmdline))
		}
	}
	return out
}

// nothingInGroups: only what waits for the next call is in a control group, and
// that is the launcher itself by another name.
func nothingInGroups(t *testing.T, c *cage) {
	t.Helper()
	if c.groups == nil {
		return
	}
	child, err := os.Stat(c.opts.Child)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range c.groups.Dirs {
		lists, _ := filepath.Glob(filepath.Join(dir, "*", "*", "cgroup.procs"))
		for _, list := range lists {
			b, _ := os.ReadFile(list)
			for _, pid := range strings.Fields(string(b)) {
				// By identity: the path is of another namespace, where the temporary directory is a mount.
				if exe, err := os.Stat("/proc/" + pid + "/exe"); err == nil && !os.SameFile(exe, child) {
					name, _ := os.Readlink("/proc/" + pid + "/exe")
					t.Errorf("%s is in %s", name, list)
				}
			}
		}
	}
}
