package limit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// TestShareProcessors shows what the kernel is told in both versions, and that a host without the controller lacks
// only that.
func TestShareProcessors(t *testing.T) {
	root := t.TempDir()
	v1 := "31 23 0:27 / " + root + "/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
	for _, dir := range []string{"own/calls", "cpu/box"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, table string
		g           Groups
		dir         string
		files       map[string]string
	}{
		{
			"v2", "", Groups{Version: "v2", Dirs: []string{root + "/own/calls"}}, "/own/calls", map[string]string{
				"own/cgroup.subtree_control": "+cpu", "own/calls/cgroup.subtree_control": "+cpu", "own/calls/cpu.weight": "12",
			},
		},
		{"v2 without the controller", "", Groups{Version: "v2", Dirs: []string{root + "/absent/calls"}}, "", nil},
		{
			"v1", "1:cpu,cpuacct:/box\n",
			Groups{Version: "v1", Dirs: []string{"/memory/calls", "/pids/calls"}},
			"/cpu/box/calls",
			map[string]string{"cpu/box/calls/cpu.shares": "128"},
		},
		{"v1 without the controller", "1:memory:/box\n", Groups{Version: "v1", Dirs: []string{"/memory/calls"}}, "", nil},
	} {
		tt.g.shareProcessors(tt.table, v1)
		want := tt.dir
		if want != "" {
			want = root + want
		}
		if tt.g.CPU != want || strings.HasSuffix(tt.g.Layer(), ",cpu") != (want != "") {
			t.Errorf("%s: in %q, layer %s, want %q", tt.name, tt.g.CPU, tt.g.Layer(), want)
		}
		for file, want := range tt.files {
			if got, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(got) != want {
				t.Errorf("%s: %s is %q, %v, want %q", tt.name, file, got, err, want)
			}
		}
	}
}
