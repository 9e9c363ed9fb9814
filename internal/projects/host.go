package projects

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sandboxd/sandboxd/guard"
)

// Host is what is on the machine that no project may be.
type Host struct {
	Homes []string           // of users: a project may lie in one, and hold none
	Own   []string           // files and directories of the daemon: a project holds none, and lies in none
	Owner func(uid int) bool // whose directories may be projects
}

// system are directories that hold what others need. A project may lie in some of them.
var system = []string{
	"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt", "/opt", "/proc",
	"/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin",
	"/usr/sbin", "/usr/share", "/var", "/var/lib", "/var/tmp",
}

// noProject are directories in which no project lies.
var noProject = []string{"/boot", "/dev", "/etc", "/proc", "/sys"}

// Check is why a physical directory cannot be a project of this host.
func (h Host) Check(dir string) error {
	const name = "allow the directory of the project itself"
	within := func(outer string) bool { return guard.Within(dir, outer) }
	if slices.Contains(system, dir) || slices.ContainsFunc(noProject, within) {
		return refused(fmt.Sprintf("%s belongs to the system", dir), name)
	}
	for _, home := range h.Homes {
		if dir == home {
			return refused(fmt.Sprintf("%s is a home, with keys, and files that a login runs", dir), name+" in it")
		}
		if guard.Within(home, dir) {
			return refused(fmt.Sprintf("%s holds the home %s", dir, home), name)
		}
	}
	for _, own := range h.Own {
		_, through := guard.Reach(own, []string{dir}) // on the way to it, links included
		if within(own) || through {
			return refused(fmt.Sprintf("agents could change what is sandboxd's own, %s", own), name)
		}
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil // it is gone, which whoever uses it is told
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !h.Owner(int(st.Uid)) {
		return refused(fmt.Sprintf("%s belongs to another user", dir),
			fmt.Sprintf("the daemon serves those of its own uid %d, and of uids that accounts names", os.Geteuid()))
	}
	return nil
}

// physical resolves the links of a directory that is to be allowed.
func physical(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", refused(fmt.Sprintf("%q is relative", dir), "write the absolute path")
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", refused(fmt.Sprintf("%s is not there", dir), "")
	}
	info, err := os.Stat(real)
	if err != nil || !info.IsDir() {
		return "", refused(fmt.Sprintf("%s is not a directory", dir), "")
	}
	return real, nil
}
