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
