package limit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/identity"
)

// TestWhyThereAreNoGroupsOfVersion2: whoever runs a host reads what is missing. Plain files stand in for the kernel's.
func TestWhyThereAreNoGroupsOfVersion2(t *testing.T) {
	for _, tt := range []struct {
		name, group string
		mounted     bool
		files       map[string]string // of the group; "full" is a file that takes nothing
		want        string            // the error; "": none
		dir         string            // where the groups are made
	}{
		{"not mounted", "me", false, nil, "cgroup v2 is not mounted", ""},
		{
			"a controller is missing", "me", true,
			map[string]string{"cgroup.controllers": "cpu pids\n"},
			"the memory controller of cgroup v2 is not delegated to ROOT/me", "",
		},
		{
			"another controller is missing", "me", true,
			map[string]string{"cgroup.controllers": "cpu memory\n"},
			"the pids controller of cgroup v2 is not delegated to ROOT/me", "",
		},
		{
			"it may not be written", "me", true,
			map[string]string{"cgroup.controllers": "memory pids\n"},
			"cgroup ROOT/me may not be written", "",
		},
		{
			"delegated", "me", true,
			map[string]string{"cgroup.controllers": "memory pids\n", "cgroup.subtree_control": ""},
			"", "me",
		},
		{
			"the daemon has moved before", "me/sandboxd", true,
			map[string]string{"../cgroup.controllers": "memory pids\n", "../cgroup.subtree_control": ""},
			"", "me",
		},
		{
			"other processes are in it", "me", true, map[string]string{
				"cgroup.controllers": "memory pids\n", "cgroup.subtree_control": "full", "cgroup.procs": "1\nPID\n",
			}, "cgroup ROOT/me holds other processes too, so its controllers cannot be handed on", "",
		},
		{
			"the kernel does not hand them on", "me", true, map[string]string{
				"cgroup.controllers": "memory pids\n", "cgroup.subtree_control": "full", "cgroup.procs": "PID\n",
			}, "hand on the controllers of cgroup ROOT/me: write ROOT/me/cgroup.subtree_control: " +
				"no space left on device", "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, tt.group)
			err := os.MkdirAll(dir, 0o755)
			for name, text := range tt.files {
				if text == "full" {
					err = errors.Join(err, os.Symlink("/dev/full", filepath.Join(dir, name)))
					continue
				}
				text = strings.ReplaceAll(text, "PID", fmt.Sprint(os.Getpid()))
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
			mounts := ""
			if tt.mounted {
				mounts = "30 23 0:26 / " + root + " rw - cgroup2 cgroup2 rw\n"
			}
			g, err := groupsV2("0::/"+tt.group+"\n", mounts)
			if want := strings.ReplaceAll(tt.want, "ROOT", root); tt.want != "" {
				if err == nil || err.Error() != want {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			own := filepath.Join(root, tt.dir)
			if g.Version != "v2" || len(g.Dirs) != 1 || filepath.Dir(g.Dirs[0]) != own {
				t.Errorf("got %+v, want one below %s", g, own)
			}
			if text, err := os.ReadFile(own + "/cgroup.subtree_control"); string(text) != "+memory +pids" {
				t.Errorf("handed on are %q, %v", text, err)
			}
		})
	}
}

// TestAGroupThatCannotBeMade leaves nothing.
func TestAGroupThatCannotBeMade(t *testing.T) {
	one := t.TempDir()
	g := &Groups{Version: "v1", Dirs: []string{one, one + "/absent"}}
	files, err := g.Open("a")
	if err == nil || !strings.HasPrefix(err.Error(), "make the control group of a session: ") || files != nil {
		t.Errorf("got %v, %v", files, err)
	}
	if _, err := os.Stat(one + "/a"); err == nil {
		t.Error("the first group is left")
	}
}

// TestHeld: what enforces the number of processes depends on the host, and is said.
func TestHeld(t *testing.T) {
	want := "nothing" // root has no such limit
	if os.Geteuid() != 0 {
		want = "rlimit of the user"
	}
	if got := Held(false, nil)["processes"]; got != want {
		t.Errorf("without groups: %q, want %q", got, want)
	}
	held := Held(true, &Groups{Version: "v1"})
	if held["processes"] != "cgroup1" || held["memoryBytes"] != "cgroup1" {
		t.Errorf("with groups: %v", held)
	}
}

// TestWhatADiskLimitCounts: a call ends for its own bytes, and not for those that others wrote meanwhile.
func TestWhatADiskLimitCounts(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir+"/mine/new", 1<<20)
	mustWrite(t, dir+"/little/new", 1)
	for _, tt := range []struct {
		name, place string
		free        uint64
		ended       bool
	}{
		{"it wrote more", "mine", 1 << 20, true},
		{"others wrote", "little", 1 << 20, false},
		{"the disk is as full as before", "mine", 4 << 20, false},
	} {
		ended := false
		u := &DiskUse{
			Places: []string{filepath.Join(dir, tt.place)}, Since: time.Now().Add(-time.Hour), Limit: 1 << 16,
			Exceeded: func() { ended = true }, free: map[uint64]Space{7: {Free: 4 << 20}},
		}
		if u.check(map[uint64]Space{7: {Free: tt.free}}); ended != tt.ended {
			t.Errorf("%s: ended %v, want %v", tt.name, ended, tt.ended)
		}
	}
}

// TestASessionThatKeepsTooMuch: its calls end, and no others.
func TestASessionThatKeepsTooMuch(t *testing.T) {
	d := NewDisk(Reserve{Over: func(session string) bool { return session == "over" }})
	defer d.Close()
	ended := ""
	var all []*DiskUse
	for _, session := range []string{"over", "other"} {
		all = append(all, &DiskUse{Session: session, Exceeded: func() { ended += session }})
	}
	if d.guard(all); ended != "over" {
		t.Errorf("ended were the calls of %q, want over", ended)
	}
}

// TestHiddenFilesCountAsAll: a call cannot hide what it wrote by closing a directory.
func TestHiddenFilesCountAsAll(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir+"/closed/new", 1<<20)
	if err := errors.Join(os.Chmod(dir+"/closed", 0), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir+"/closed", 0o755) })
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	u := &DiskUse{Since: time.Now().Add(-time.Hour)}
	count := func() error {
		if n := u.changed(st.Dev, []string{dir}, 1<<30); n != 1<<30+1 {
			t.Errorf("counted are %d bytes, want more than enough", n)
		}
		return nil
	}
	as := identity.ID{UID: 4242, GID: 4242} // root reads everything
	if os.Geteuid() != 0 {
		_ = count()
	} else if err := as.Do(count); err != nil {
		t.Error(err)
	}
}
