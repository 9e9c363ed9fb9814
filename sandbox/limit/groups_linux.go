package limit

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

// Groups are the control groups that one daemon made, below the group that it runs in or, if that is
// the leaf (leafName), beside it. Besides them and those that killed daemons left, only the group that holds
// them is written to: it hands on controllers, and the daemon may move into a leaf in it. It is safe for
// concurrent use.
type Groups struct {
	Version string   // "v2" or "v1"
	Dirs    []string // v2: one directory; v1: those in the hierarchies of memory, of pids and, if it is there, of cpu
	cpu     bool     // all programs together yield to the daemon
}

// cpuDir is the place of the cpu controller of version 1 in Dirs.
const cpuDir = 2

// Layer returns the name of the layer in a report.
func (g *Groups) Layer() string {
	layer := "cgroup1:memory,pids"
	if g.Version == "v2" {
		layer = "cgroup2:memory,pids"
	}
	if g.cpu {
		layer += ",cpu"
	}
	return layer
}

// NewGroups makes the groups of a daemon, or says why this host gives it none.
func NewGroups() (*Groups, error) {
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
	for i, dir := range g.Dirs {
		removeDead(filepath.Dir(dir))
		if err := os.Mkdir(dir, 0o755); err != nil {
			if i == cpuDir {
				g.Dirs = g.Dirs[:cpuDir] // limits hold without it
				break
			}
			g.Remove()
			return nil, fmt.Errorf("make a control group: %w", err)
		}
	}
	if g.Version == "v2" {
		if err := enable(g.Dirs[0]); err != nil {
			g.Remove()
			return nil, err
		}
	}
	g.yield()
	return g, nil
}

// yield has all programs together weigh less than the daemon, where the cpu controller is there. That is for
// kernels that share the processors among sessions (autogroups, sched(7)), of which a program can begin as
// many as it likes: a session that is in a group has no share of its own.
func (g *Groups) yield() {
	// The weights of a process of priority wire.Nice (110 of 1024), and as much of the default of version 2.
	file, weight := "cpu.shares", "110"
	dir := g.Dirs[len(g.Dirs)-1]
	if g.Version == "v2" {
		file, weight = "cpu.weight", "11"
		for _, up := range []string{filepath.Dir(dir), dir} {
			if os.WriteFile(filepath.Join(up, "cgroup.subtree_control"), []byte("+cpu"), 0o644) != nil {
				return
			}
		}
	} else if len(g.Dirs) <= cpuDir {
		return
	}
	g.cpu = os.WriteFile(filepath.Join(dir, file), []byte(weight), 0o644) == nil
}

// Start calls start, which starts the launcher of this name, in a thread that is in its group of the cpu
// controller: what the launcher starts is in there too. The goroutine must be locked to its thread, and end with
// it. In version 2, programs join that group when they start.
func (g *Groups) Start(name string, start func() error) error {
	if g.Version != "v1" || !g.cpu {
		return start()
	}
	// A single thread may join; a process with many would wait for every processor.
	move := func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "tasks"), []byte("0"), 0o644)
	}
	dir := g.Dirs[cpuDir]
	if err := move(filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("join the control group of a session: %w", err)
	}
	err := start()
	_ = move(filepath.Dir(dir)) // a thread that stays is only slow
	return err
}

// Open makes the groups of one launcher and opens them for it. Close takes the same name.
func (g *Groups) Open(name string) ([]*os.File, error) {
	var files []*os.File
	for i, parent := range g.Dirs {
		dir := filepath.Join(parent, name)
		err := os.Mkdir(dir, 0o755)
		if err == nil && g.Version == "v2" {
			err = enable(dir)
		}
		if err == nil && i == cpuDir {
			continue // of cpu, which Start joins
		}
		var f *os.File
		if err == nil {
			f, err = os.Open(dir)
		}
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			g.Close(name)
			return nil, fmt.Errorf("make the control group of a session: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// Close removes the groups of a launcher that has ended.
func (g *Groups) Close(name string) {
	for _, parent := range g.Dirs {
		removeGroup(filepath.Join(parent, name), patience)
	}
}

// Remove removes all groups, when every launcher has ended.
func (g *Groups) Remove() {
	for _, dir := range g.Dirs {
		removeGroup(dir, patience)
	}
}

// leafName is the group that the daemon moves into.
const leafName = "sandboxd"

// groupName contains the pid: by it [removeDead] finds the groups of daemons that were
// killed.
func groupName() string {
	return fmt.Sprintf("%s%d-%d", groupPrefix(), os.Getpid(), time.Now().UnixNano())
}

// groupPrefix begins the names of this PID namespace.
func groupPrefix() string {
	var ns unix.Stat_t
	_ = unix.Stat("/proc/self/ns/pid", &ns) // without /proc there are no groups either
	return fmt.Sprintf("sandboxd-ns%d-", ns.Ino)
}

// groupsV2 needs memory and pids delegated to the group that this process is in.
func groupsV2(table, mounts string) (*Groups, error) {
	own, ok := groupDir(table, mounts, "")
	if !ok {
		return nil, errors.New("cgroup v2 is not mounted")
	}
	if up := filepath.Dir(own); filepath.Base(own) == leafName && enable(up) == nil {
		own = up // this process has moved into the leaf before
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
		return &Groups{Version: "v2", Dirs: []string{filepath.Join(own, groupName())}}, nil
	}
	// A group with processes cannot delegate controllers. If this process is the only
	// one in it, it moves into a group of its own.
	procs, err := os.ReadFile(filepath.Join(own, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	if pids := strings.Fields(string(procs)); len(pids) != 1 || pids[0] != strconv.Itoa(os.Getpid()) {
		return nil, fmt.Errorf("cgroup %s holds other processes too, so its controllers cannot be handed on", own)
	}
	if err := moveDown(own); err != nil {
		return nil, err
	}
	if err := enable(own); err != nil {
		return nil, err
	}
	return &Groups{Version: "v2", Dirs: []string{filepath.Join(own, groupName())}}, nil
}

// Leave moves this process out of the way, if its group of version 2 is delegated to it: a group
// with processes cannot hand on controllers. A process that it starts then makes the groups.
func Leave() error {
	table, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	own, ok := groupDir(string(table), string(mounts), "")
	delegated := func() bool { return unix.Access(filepath.Join(own, "cgroup.subtree_control"), unix.W_OK) == nil }
	if !ok || filepath.Base(own) == leafName || !delegated() {
		return nil
	}
	return moveDown(own)
}

// moveDown moves this process into a group below.
func moveDown(own string) error {
	leaf := filepath.Join(own, leafName)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte("0"), 0o644); err != nil {
		return fmt.Errorf("move into a cgroup of its own: %w", err)
	}
	return nil
}

// enable delegates the controllers to the groups below dir.
func enable(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory +pids"), 0o644); err != nil {
		return fmt.Errorf("hand on the controllers of cgroup %s: %w", dir, err)
	}
	return nil
}

// groupsV1 is for hosts that have each controller in a hierarchy of its own. Only root
// may use those.
func groupsV1(table, mounts string) (*Groups, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("cgroup v1 needs root")
	}
	g := &Groups{Version: "v1"}
	for _, c := range []string{"memory", "pids"} {
		own, ok := groupDir(table, mounts, c)
		if !ok {
			return nil, fmt.Errorf("the %s controller is not mounted as cgroup v1 either", c)
		}
		g.Dirs = append(g.Dirs, filepath.Join(own, groupName()))
	}
	if own, ok := groupDir(table, mounts, "cpu"); ok {
		g.Dirs = append(g.Dirs, filepath.Join(own, groupName()))
	}
	return g, nil
}

// groupDir returns the directory of the group that this process is in, of a controller
// of version 1 or, for "", of version 2. table is /proc/self/cgroup, mounts is mountinfo.
func groupDir(table, mounts, controller string) (string, bool) {
	path, found := "", false
	for line := range strings.Lines(table) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		if controller == "" && f[0] == "0" && f[1] == "" {
			path, found = f[2], true
		}
		if controller != "" && slices.Contains(strings.Split(f[1], ","), controller) {
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
		if controller == "" && r[0] != "cgroup2" {
			continue
		}
		if controller != "" && (r[0] != "cgroup" || !slices.Contains(strings.Split(r[2], ","), controller)) {
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

// patience is for a group whose processes have just ended.
const patience = 256 * time.Millisecond

// removeGroup removes a group and those below it. While one is busy it tries again for
// twice the patience: the kernel counts a process in its group for a moment after
// the process is gone.
func removeGroup(dir string, patience time.Duration) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeGroup(filepath.Join(dir, e.Name()), patience)
		}
	}
	for wait := time.Millisecond; ; wait *= 2 {
		if err := unix.Rmdir(dir); !errors.Is(err, unix.EBUSY) || wait > patience {
			return
		}
		time.Sleep(wait)
	}
}

// removeDead removes the groups of daemons that were killed, and ends what is left in them, as
// after a freeze. A start does not wait for a group that is still busy; the next one finds it.
func removeDead(parent string) {
	entries, _ := os.ReadDir(parent)
	prefix := groupPrefix()
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), prefix)
		pid, err := strconv.Atoi(strings.SplitN(rest, "-", 2)[0])
		if ok && err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			dir := filepath.Join(parent, e.Name())
			killGroup(dir)
			removeGroup(dir, 0)
		}
	}
}

// killGroup kills the processes of a group and of those below it.
func killGroup(dir string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cgroup.procs" {
			return nil
		}
		pids, _ := os.ReadFile(path)
		for _, text := range strings.Fields(string(pids)) {
			if pid, err := strconv.Atoi(text); err == nil && pid > 0 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		return nil
	})
}
