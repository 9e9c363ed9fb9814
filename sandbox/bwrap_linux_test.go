package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/view"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestX39_VisibilityAgainstBwrap holds what a program sees in the cage against what it
// sees in bwrap, which is given the same paths to bind and to mask: the same names are
// there, of the same kind, and the same of them can be read, listed and written.
//
// Where they differ on purpose, [differs] says why.
func TestX39_VisibilityAgainstBwrap(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		needs.Program(t, "bwrap")
		if out, err := exec.Command("bwrap", "--unshare-all", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc",
			"/proc", "true").CombinedOutput(); err != nil {
			needs.Missing(t, "no bwrap that runs on this host: %v\n%s", err, out)
		}
		for _, parent := range treeParents() {
			t.Run("default settings in "+parent, func(t *testing.T) { bwrapDefaults(t, parent) })
			t.Run("random settings in "+parent, func(t *testing.T) { bwrapRandom(t, parent) })
		}
	})
}

// treeParents are a directory that the cage has of its own, and one that it has not.
func treeParents() []string {
	parents := []string{os.TempDir()}
	for _, d := range []string{"/srv", os.Getenv("HOME")} {
		if p, err := filepath.EvalSymlinks(d); err == nil && !view.BelowTmp(p) && p != "/" &&
			unix.Access(p, unix.W_OK) == nil {
			return append(parents, p)
		}
	}
	return parents
}

func bwrapDefaults(t *testing.T, parent string) {
	home := treeIn(t, parent)
	ws := home + "/ws"
	for _, p := range []string{
		"ws/file", "ws/sub/deep/f", "ws/.git/hooks/pre-commit", "ws/.git/config", "ws/.vscode/tasks.json", "ws/.envrc",
		"ws/secrets/key", "ws/sub/secret", ".ssh/id", ".aws/credentials", ".netrc", "other/file", ".bash_history",
		".profile",
	} {
		writeTree(t, filepath.Join(home, p))
	}
	for link, to := range map[string]string{
		"ws/out": "../other/file", "ws/key": "../.ssh/id", "ws/away": "/etc/shadow",
		"link": "ws",
	} {
		if err := os.Symlink(to, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	backend := newCage(t, Options{Home: home, Roots: are(ws)})
	needCage(t, backend, "landlock")
	s := guard.DefaultSettings(ws, home, nil)
	s.DeniedPaths = append(s.DeniedPaths, ws+"/secrets", ws+"/sub/secret", ws+"/absent")
	s, _, err := s.Normalise()
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range Profiles {
		againstBwrap(t, home, backend.(*cage), newBox(t, backend, profile, s), s)
	}
}

func bwrapRandom(t *testing.T, parent string) {
	base := treeIn(t, parent)
	backend := newCage(t, Options{Home: base})
	needCage(t, backend, "landlock")
	// Each starts a session and bwrap. More: go test ./sandbox -run Bwrap -rapid.checks 1000
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("12")
		t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		a := &agreement{base: base, tree: fmt.Sprintf("%s/t%d", base, n), cage: backend}
		defer a.end()
		a.build(rt)
		if !a.settle(rt) || view.BelowTmp(parent+"/x") && len(a.s.AllowedReadPaths) > 0 {
			return // what may be read decides there what is bound, which agree_linux_test.go tries
		}
		if slices.ContainsFunc(slices.Concat(a.s.AllowedReadPaths, a.s.AllowedWritePaths, a.s.DeniedPaths),
			throughLink) {
			return // one that a program could have planted, which bwrap would follow
		}
		againstBwrap(rt, base, backend.(*cage), a.box, a.s)
		if rt.Failed() {
			a.tell(rt)
		}
	})
}

func throughLink(p string) bool {
	for ; p != "/"; p = filepath.Dir(p) {
		if _, err := os.Readlink(p); err == nil {
			return true
		}
	}
	return false
}

// treeIn is a directory with the program that walks.
func treeIn(t *testing.T, parent string) string {
	t.Helper()
	base, err := os.MkdirTemp(parent, "cage-bwrap-")
	if err == nil {
		base, err = filepath.EvalSymlinks(base)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = removeTree(base) })
	if err := os.Mkdir(base+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "/proc/self/exe", base+"/bin/actor", 0o755)
	return base
}

func writeTree(t *testing.T, path string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(path), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

type failer interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}

// againstBwrap compares what two walkers see.
func againstBwrap(t failer, base string, c *cage, box Box, s guard.Settings) {
	t.Helper()
	// What the host has, and not only what can be found by listing inside.
	host := map[string]string{}
	survey(host, base, base, func(string, fs.FileMode) string { return "" })
	for _, p := range slices.Concat(wire.SystemPaths, s.DeniedPaths) {
		host[p] = ""
	}
	for _, dir := range append(hides, "/") {
		host[dir] = ""
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			host[filepath.Join(dir, e.Name())] = ""
		}
	}
	names, err := json.Marshal(slices.Sorted(maps.Keys(host)))
	if err != nil {
		t.Fatalf("%v", err)
	}

	walker := []string{base + "/bin/actor", "-walk", base}
	in, err := os.CreateTemp("", "walk-")
	if err == nil {
		defer os.Remove(in.Name())
		defer in.Close()
		_, err = in.Write(names)
	}
	if err == nil {
		_, err = in.Seek(0, 0)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	var out, errs bytes.Buffer
	p, err := box.Start(context.Background(), Spec{
		Argv: walker, Dir: "/", Stdin: in, Stdout: &out, Stderr: &errs,
		Limits: guard.Limits{OutputBytes: 16 << 20},
	})
	if err != nil {
		t.Fatalf("start the walker: %v", err)
	}
	if e, err := p.Wait(); err != nil || e.Code != 0 {
		t.Fatalf("walk in the cage: %+v %v\n%s", e, err, &errs)
	}
	ours := map[string]string{}
	if err := json.Unmarshal(out.Bytes(), &ours); err != nil {
		t.Fatalf("the walker in the cage answered %v", err)
	}

	args := bwrapFor(c, s)
	cmd := exec.Command("bwrap", append(args, walker...)...)
	cmd.Dir, cmd.Stdin = "/", bytes.NewReader(names)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer null.Close()
	for range strings.Count(strings.Join(args, " "), "--ro-bind-data") {
		cmd.ExtraFiles = append(cmd.ExtraFiles, null)
	}
	text, err := cmd.Output()
	if err != nil {
		if e, ok := err.(*exec.ExitError); ok {
			text = e.Stderr
		}
		t.Fatalf("bwrap %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	theirs := map[string]string{}
	if err := json.Unmarshal(text, &theirs); err != nil {
		t.Fatalf("the walker in bwrap answered %v", err)
	}

	if !strings.HasPrefix(ours[base+"/bin/actor"], "file+read") {
		t.Errorf("the walker does not see itself: %v", ours)
	}
	all := maps.Clone(ours)
	maps.Copy(all, theirs)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if ours[p] != theirs[p] && differs(p, ours[p], theirs[p], s) == "" {
			t.Errorf("%s: %q here, %q in bwrap", p, ours[p], theirs[p])
		}
	}
}

// differs is why the cage shows another picture than bwrap does.
func differs(p, ours, theirs string, s guard.Settings) string {
	readable := slices.Concat(wire.SystemPaths, s.AllowedReadPaths, []string{
		"/dev", "/sys", "/proc", "/tmp",
		"/var/tmp",
	})
	switch {
	case p == "/dev/core", p == "/dev/console":
		return "bwrap makes it, and nobody needs it"
	case p == wire.CacheDir, slices.ContainsFunc(wire.Overlaid,
		func(o string) bool { return guard.Within(p, o) }), guard.Within(p, "/run/.masked"):
		return "the cage's own"
	case strings.HasPrefix(theirs, "socket"):
		return "sockets of the host are masked wherever they lie"
	case len(s.AllowedReadPaths) > 0 && strings.Replace(theirs, "+read", "", 1) == ours &&
		!slices.ContainsFunc(readable, func(r string) bool { return guard.Within(p, r) }):
		return "bwrap has no Landlock: what is bound to be written, or is made to reach what is bound, may here not be read or listed"
	}
	return ""
}

// bwrapFor says to bwrap what the settings mean.
func bwrapFor(c *cage, s guard.Settings) []string {
	args := []string{"--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session"}
	add := func(words ...string) { args = append(args, words...) }
	writeAll := len(s.AllowedWritePaths) == 0
	bind := func(how string, p string) {
		if to, err := os.Readlink(p); err == nil {
			add("--symlink", to, p)
		} else {
			add(how, p, p)
		}
	}
	shownHow := "--ro-bind"
	if writeAll {
		shownHow = "--bind"
	}

	var first []string
	if len(s.AllowedReadPaths) > 0 {
		first = slices.Clone(wire.SystemPaths)
	} else {
		entries, _ := os.ReadDir("/")
		for _, e := range entries {
			first = append(first, "/"+e.Name())
		}
		first = slices.DeleteFunc(first, func(p string) bool {
			return slices.Contains([]string{"/proc", "/sys", "/dev", "/tmp", "/run", "/home", "/root", "/lost+found"},
				p)
		})
	}
	shown := slices.Concat(s.AllowedReadPaths, s.AllowedWritePaths, c.workspaces())
	if len(s.AllowedReadPaths) == 0 {
		shown = append(shown, c.opts.Home)
	}
	own := func(p string) bool { // or there is nothing to bind
		return !exists(p) || p == "/tmp" || p == "/var/tmp" || guard.Within(p, "/dev") || guard.Within(p, "/proc") ||
			guard.Within(p, "/sys")
	}
	shown = slices.DeleteFunc(shown, own)
	outside := slices.DeleteFunc(slices.Concat(first, shown), view.BelowTmp)
	slices.Sort(outside)
	for _, p := range slices.Compact(outside) {
		if exists(p) {
			bind(shownHow, p)
		}
	}

	add("--dir", "/home", "--dir", "/root", "--dir", "/run", "--proc", "/proc")
	if add("--dev", "/dev"); !writeAll {
		add("--remount-ro", "/dev")
	}
	add("--perms", "1777", "--tmpfs", "/dev/shm")
	for _, p := range []string{
		"/sys/devices/system/cpu", "/sys/devices/system/node",
		"/sys/kernel/mm/transparent_hugepage",
	} {
		add("--ro-bind-try", p, p)
	}
	add("--perms", "1777", "--tmpfs", "/tmp", "--perms", "1777", "--tmpfs", "/var/tmp")
	slices.Sort(shown)
	shown = slices.Compact(shown)
	for _, p := range shown {
		if view.BelowTmp(p) {
			add(shownHow, p, p)
		}
	}
	write := slices.DeleteFunc(slices.Clone(s.AllowedWritePaths), own)
	slices.Sort(write)
	for _, p := range write {
		add("--bind", p, p)
	}

	// Over that what is protected, and over all what is denied, where it is there.
	there := func(p string) bool {
		info, err := os.Lstat(p)
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return false
		}
		return p == "/home" || p == "/root" || slices.ContainsFunc(slices.Concat(first, shown),
			func(r string) bool { return guard.Within(p, r) || guard.Within(r, p) })
	}
	for _, p := range keptPaths(c.later.Trees(write).State()) {
		if there(p) {
			add("--ro-bind", p, p)
		}
	}
	denied := slices.Sorted(slices.Values(s.DeniedPaths))
	masked, fd := "", 3
	for _, p := range denied {
		if !there(p) || masked != "" && guard.Within(p, masked) {
			continue
		}
		if info, err := os.Lstat(p); err == nil && info.IsDir() {
			add("--perms", "0000", "--tmpfs", p, "--remount-ro", p)
		} else {
			add("--perms", "0000", "--ro-bind-data", fmt.Sprint(fd), p)
			fd++
		}
		masked = p
	}
	if !writeAll {
		add("--remount-ro", "/")
	}
	return args
}

// runWalk is the program in the cage and in bwrap.
func runWalk(base string) {
	var names []string
	if err := json.NewDecoder(os.Stdin).Decode(&names); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	out := map[string]string{}
	survey(out, "/", base, seen)
	for _, p := range names {
		if _, ok := out[p]; !ok {
			survey(out, p, base, seen)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
	syscall.Exit(0) // os.Exit waits for a second under the race detector
}

// hides are directories of the host that a sandbox has of its own. All that is in
// them is looked at; in others, what the host does there meanwhile would be seen by
// one walker and not by the other.
var hides = []string{"/tmp", "/var/tmp", "/home", "/root", "/run", "/dev"}

// survey notes what is at p, in the hidden directories, and below base.
func survey(out map[string]string, p, base string, see func(string, fs.FileMode) string) {
	info, err := os.Lstat(p)
	if err != nil {
		return
	}
	out[p] = see(p, info.Mode())
	if !info.IsDir() || p != "/" && !guard.Within(base, p) && !slices.ContainsFunc(append(hides, base),
		func(h string) bool { return guard.Within(p, h) || guard.Within(h, p) }) {
		return
	}
	entries, _ := os.ReadDir(p)
	for _, e := range entries {
		q := filepath.Join(p, e.Name())
		if p == filepath.Dir(base) && !view.BelowTmp(base) && q != base {
			continue
		}
		survey(out, q, base, see)
	}
}

// seen is the kind of a path, and whether it can be read (a directory: listed) and
// written, which is tried without changing anything.
func seen(p string, mode fs.FileMode) string {
	kind := "file"
	switch {
	case mode&fs.ModeSymlink != 0:
		to, _ := os.Readlink(p)
		return "link to " + to
	case mode.IsDir():
		kind = "dir"
	case mode&fs.ModeSocket != 0:
		kind = "socket"
	case mode&fs.ModeNamedPipe != 0:
		kind = "fifo"
	case mode&fs.ModeDevice != 0:
		kind = "device"
	}
	can := func(flags int) bool {
		fd, err := unix.Open(p, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err == nil
	}
	state := kind
	if can(unix.O_RDONLY) {
		state += "+read"
	}
	if kind == "dir" && can(unix.O_WRONLY|unix.O_TMPFILE) || kind != "dir" && can(unix.O_WRONLY) {
		state += "+write"
	}
	return state
}
