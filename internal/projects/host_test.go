package projects

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

func TestWhatNoProjectMayBe(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(base, name) }
	for _, dir := range []string{"home/me/src/project", "home/you", "state/cage", "bin", "conf", "links"} {
		if err := os.MkdirAll(at(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../conf", at("links/conf")); err != nil {
		t.Fatal(err)
	}
	h := Host{
		Homes: []string{at("home/me"), at("home/you")},
		Own:   []string{at("state"), at("bin/sandboxd"), at("links/conf/sandboxd.yaml")},
		Owner: func(uid int) bool { return uid == os.Geteuid() },
	}
	for _, tt := range []struct{ name, dir, want string }{
		{"a project", at("home/me/src/project"), ""},
		{"a directory of projects", at("home/me/src"), ""},
		{"the system", "/", "belongs to the system"},
		{"a directory of the system", "/usr", "belongs to the system"},
		{"a place in /etc", "/etc/sandboxd/rules", "belongs to the system"},
		{"a place in /proc", "/proc/self/cwd", "belongs to the system"},
		{"temporary files of all", "/tmp", "belongs to the system"},
		{"a home", at("home/me"), "is a home"},
		{"the home of another user", at("home/you"), "is a home"},
		{"all homes", at("home"), "holds the home"},
		{"the state directory", at("state"), "sandboxd's own"},
		{"a place in it", at("state/cage"), "sandboxd's own"},
		{"the directory of the program", at("bin"), "sandboxd's own"},
		{"a directory that holds all of these", base, "holds the home"},
		{"where the configuration really is", at("conf"), "sandboxd's own"},
		{"where a link leads to it", at("links"), "sandboxd's own"},
	} {
		err := h.Check(tt.dir)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s: got %v, want %q", tt.name, tt.dir, err, tt.want)
		}
		if err != nil && hint(err) == "" {
			t.Errorf("%s: no hint", tt.name)
		}
	}
}

// What holds what others need is no project, and neither is anything in the places of the kernel and of settings.
func TestNoDirectoryOfTheSystemIsAProject(t *testing.T) {
	h := Host{Owner: func(int) bool { return true }}
	for _, dir := range []string{
		"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin",
		"/srv", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/sbin", "/usr/share", "/var",
		"/var/lib", "/var/tmp", "/boot/efi", "/dev/shm", "/sys/fs",
	} {
		if err := h.Check(dir); err == nil || !strings.Contains(err.Error(), dir+" belongs to the system") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestADirectoryOfAnotherUserIsNoProject(t *testing.T) {
	needs.Root(t, "to give a directory away")
	dir := t.TempDir()
	h := Host{Owner: func(uid int) bool { return uid == os.Geteuid() || uid == 64102 }}
	for uid, ok := range map[int]bool{0: true, 64101: false, 64102: true} {
		if err := os.Chown(dir, uid, -1); err != nil {
			t.Fatal(err)
		}
		if err := h.Check(dir); (err == nil) != ok {
			t.Errorf("of uid %d: got %v", uid, err)
		}
	}
}
