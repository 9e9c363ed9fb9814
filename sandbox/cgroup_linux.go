package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groupTree is the part of the host's control groups that this backend made, below
// the group that it runs in itself. Nothing else is ever written to.
type groupTree struct {
	version string   // "v2" or "v1"
	dirs    []string // v2: one; v1: in the hierarchies of memory and of pids
}

// layer is its name in a report.
func (g *groupTree) layer() string {
	if g.version == "v2" {
		return "cgroup2:memory,pids"
	}
	return "cgroup1:memory,pids"
}

// newGroupTree makes a group for the calls of this backend, or says why it cannot.
func newGroupTree() (*groupTree, error) {
	table, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	g, err := groupsV2(string(table), string(mounts))
	if err != nil {
		var old error
		if g, old = groupsV1(string(table), string(mounts)); old != nil {
			return nil, fmt.Errorf("%w; %w", err, old)
		}
	}
	for _, dir := range g.dirs {
		removeDead(filepath.Dir(dir))
		if err := os.Mkdir(dir, 0o755); err != nil {
			g.remove()
			return nil, fmt.Errorf("make a control group: %w", err)
		}
	}
	if g.version == "v2" {
		if err := enable(g.dirs[0]); err != nil {
			g.remove()
			return nil, err
		}
	}
	return g, nil
}

// leafName is the group that the daemon moves into.
const leafName = "sandboxd"

// groupName holds the pid, so that what a killed daemon left can be told from what
// a living one uses.
func groupName() string {
	return fmt.Sprintf("sandboxd-%d-%d", os.Getpid(), time.Now().UnixNano())
}

// groupsV2 wants memory and pids delegated to the group that this process is in.
func groupsV2(table, mounts string) (*groupTree, error) {
	own, ok := groupDir(table, mounts, "")
	if !ok {
		return nil, errors.New("cgroup v2 is not mounted")
	}
	if up := filepath.Dir(own); filepath.Base(own) == leafName && enable(up) == nil {
		own = up // this process has moved before
	}
	have, err := os.ReadFile(filepath.Join(own, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	for _, c := range []string{"memory", "pids"} {
		if !slices.Contains(strings.Fields(string(have)), c) {
			return nil, fmt.Errorf("the %s controller of cgroup v2 is not delegated to %s", c, own)
		}
	}
	if unix.Access(filepath.Join(own, "cgroup.subtree_control"), unix.W_OK) != nil {
		return nil, fmt.Errorf("cgroup %s may not be written", own)
	}
	if enable(own) == nil {
		return &groupTree{"v2", []string{filepath.Join(own, groupName())}}, nil
	}
	// A group with processes in it cannot hand controllers on. If they are all
	// ours, that is, this one, it moves into a group of its own.
	procs, err := os.ReadFile(filepath.Join(own, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	if pids := strings.Fields(string(procs)); len(pids) != 1 || pids[0] != strconv.Itoa(os.Getpid()) {
		return nil, fmt.Errorf("cgroup %s holds other processes too, so its controllers cannot be handed on", own)
	}
	leaf := filepath.Join(own, leafName)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte("0"), 0o644); err != nil {
		return nil, fmt.Errorf("move into a cgroup of its own: %w", err)
	}
	if err := enable(own); err != nil {
		return nil, err
	}
	return &groupTree{"v2", []string{filepath.Join(own, groupName())}}, nil
}

func enable(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory +pids"), 0o644); err != nil {
		return fmt.Errorf("hand on the controllers of cgroup %s: %w", dir, err)
	}
	return nil
}

// groupsV1 is for hosts that still have the controllers in hierarchies of their
// own. Only root may use those.
func groupsV1(table, mounts string) (*groupTree, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("cgroup v1 needs root")
	}
	g := &groupTree{version: "v1"}
	for _, c := range []string{"memory", "pids"} {
		own, ok := groupDir(table, mounts, c)
		if !ok {
			return nil, fmt.Errorf("the %s controller is not mounted as cgroup v1 either", c)
		}
		g.dirs = append(g.dirs, filepath.Join(own, groupName()))
	}
	return g, nil
}

// groupDir is the directory of the group that this process is in: of a controller,
// or of version 2.
func groupDir(table, mounts, controller string) (string, bool) {
	path, found := "", false
	for line := range strings.Lines(table) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && (controller == "" && f[0] == "0" && f[1] == "" || controller != "" && slices.Contains(strings.Split(f[1], ","), controller)) {
			path, found = f[2], true
		}
	}
	if !found {
		return "", false
	}
	for line := range strings.Lines(mounts) {
		// id parent dev root at options … - kind source super
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		if controller == "" && r[0] != "cgroup2" || controller != "" && (r[0] != "cgroup" || !slices.Contains(strings.Split(r[2], ","), controller)) {
			continue
		}
		rel, ok := strings.CutPrefix(path, strings.TrimSuffix(l[3], "/"))
		if !ok {
			continue // the mount shows another part of the tree
		}
		if dir := filepath.Join(l[4], rel); unix.Access(dir, unix.F_OK) == nil {
			return dir, true
		}
	}
	return "", false
}

// open makes the groups of one launcher and opens them for it. The names say of
// which, for close.
func (g *groupTree) open(name string) ([]*os.File, error) {
	var files []*os.File
	for _, parent := range g.dirs {
		dir := filepath.Join(parent, name)
		err := os.Mkdir(dir, 0o755)
		if err == nil && g.version == "v2" {
			err = enable(dir)
		}
		var f *os.File
		if err == nil {
			f, err = os.Open(dir)
		}
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			g.close(name)
			return nil, fmt.Errorf("make the control group of a session: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// close removes the groups of a launcher that has ended.
func (g *groupTree) close(name string) {
	for _, parent := range g.dirs {
		removeGroup(filepath.Join(parent, name))
	}
}

func (g *groupTree) remove() {
	for _, dir := range g.dirs {
		removeGroup(dir)
	}
}

// removeGroup removes a group with what is below it. The kernel counts a process
// as there a little longer than it can be seen.
func removeGroup(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeGroup(filepath.Join(dir, e.Name()))
		}
	}
	for wait := time.Millisecond; wait < 500*time.Millisecond; wait *= 2 {
		if err := unix.Rmdir(dir); !errors.Is(err, unix.EBUSY) {
			return
		}
		time.Sleep(wait)
	}
}

// removeDead removes what daemons left that were killed.
func removeDead(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), "sandboxd-")
		pid, err := strconv.Atoi(strings.SplitN(rest, "-", 2)[0])
		if ok && err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			removeGroup(filepath.Join(parent, e.Name()))
		}
	}
}
