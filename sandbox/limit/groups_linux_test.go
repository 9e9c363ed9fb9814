package limit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestGroupDir reads the tables of hosts of all kinds.
func TestGroupDir(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"v2/user.slice/me", "memory/box", "v2/inner"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	v2 := "30 23 0:26 / " + root + "/v2 rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, tt := range []struct{ name, table, mounts, controller, want string }{
		{"pure v2", "0::/user.slice/me\n", v2, "", "/v2/user.slice/me"},
		{
			"a namespace whose mount starts at the group", "0::/docker/abc/inner\n",
			strings.Replace(v2, " / ", " /docker/abc ", 1), "", "/v2/inner",
		},
		{
			"v1 memory", "4:memory:/box\n0::/\n", "31 23 0:27 / " + root + "/memory rw - cgroup cgroup rw,memory\n",
			"memory", "/memory/box",
		},
		{"two controllers in one hierarchy", "4:cpu,memory:/box\n", "31 23 0:27 / " + root +
			"/memory rw - cgroup cgroup rw,cpu,memory\n", "memory", "/memory/box"},
		{"not mounted", "0::/user.slice/me\n", "", "", ""},
		{"a group that the mount does not show", "0::/elsewhere\n", v2, "", ""},
		{"only v1", "4:memory:/box\n", v2, "", ""},
	} {
		got, ok := groupDir(tt.table, tt.mounts, tt.controller)
		want := tt.want
		if want != "" {
			want = root + want
		}
		if got != want || ok != (want != "") {
			t.Errorf("%s: got %q %v, want %q", tt.name, got, ok, want)
		}
	}
}

// TestProgramsOfALauncherYield: what a launcher starts is in its group, which weighs little beside the daemon.
func TestProgramsOfALauncherYield(t *testing.T) {
	groups, err := NewGroups()
	if err != nil {
		needs.Missing(t, "no control groups: %v", err)
	}
	defer groups.Remove()
	if groups.Version != "v1" || !groups.cpu {
		needs.Elsewhere(t, "the cpu controller is not in version 1: %s", groups.Layer())
	}
	if want := "cgroup1:memory,pids,cpu"; groups.Layer() != want {
		t.Errorf("the layer is %q, want %q", groups.Layer(), want)
	}
	if got, err := os.ReadFile(filepath.Join(groups.Dirs[cpuDir], "cpu.shares")); err != nil || string(got) != "110\n" {
		t.Errorf("all programs have the weight %q, want 110 of 1024; %v", got, err)
	}
	files, err := groups.Open("one")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 {
		t.Errorf("a launcher gets %d groups to make others in, want 2", len(files))
	}
	for _, f := range files {
		f.Close()
	}
	var theirs, before, after []byte
	cmd := exec.Command("setsid", "sh", "-c", "exec sleep 1000")
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		before, _ = os.ReadFile("/proc/thread-self/cgroup")
		err := groups.Start("one", cmd.Start)
		after, _ = os.ReadFile("/proc/thread-self/cgroup")
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	theirs, err = os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
	if err := errors.Join(err, cmd.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if want := "/" + filepath.Base(groups.Dirs[cpuDir]) + "/one\n"; strings.Count(string(theirs), want) != 1 {
		t.Errorf("%s is not one of the groups of the program: %s", strings.TrimSpace(want), theirs)
	}
	if len(before) == 0 || string(after) != string(before) {
		t.Errorf("the thread of the daemon is in %s afterwards, was in %s", after, before)
	}
	groups.Close("one")
	if _, err := os.Stat(filepath.Join(groups.Dirs[cpuDir], "one")); err == nil {
		t.Error("the group of the launcher is left")
	}
}

// TestWeightOfVersion2 looks at what is written: the controllers of this host may be in version 1.
func TestWeightOfVersion2(t *testing.T) {
	own := t.TempDir()
	dir := filepath.Join(own, "daemon")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	g := &Groups{Version: "v2", Dirs: []string{dir}}
	if g.yield(); g.Layer() != "cgroup2:memory,pids,cpu" {
		t.Errorf("the layer is %q", g.Layer())
	}
	for file, want := range map[string]string{
		filepath.Join(own, "cgroup.subtree_control"): "+cpu", filepath.Join(dir, "cgroup.subtree_control"): "+cpu",
		filepath.Join(dir, "cpu.weight"): "11",
	} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", file, got, err, want)
		}
	}
	g = &Groups{Version: "v2", Dirs: []string{filepath.Join(own, "missing", "daemon")}}
	if g.yield(); g.Layer() != "cgroup2:memory,pids" {
		t.Errorf("without the controller the layer is %q", g.Layer())
	}
	g = &Groups{Version: "v1", Dirs: []string{dir, dir}}
	if g.yield(); g.Layer() != "cgroup1:memory,pids" {
		t.Errorf("without the controller the layer is %q", g.Layer())
	}
}
