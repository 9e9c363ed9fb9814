package child

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/tests/needs"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "-restricted" {
		if err := runRestricted(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0) // os.Exit waits for a second under the race detector
	}
	os.Exit(m.Run())
}

// TestX39_LandlockAgainstGoLandlock holds our Landlock rules against those that
// another implementation makes of the same lists: under both, a process meets the
// same answers, errno by errno, and leaves the same tree behind.
//
// Known to differ, and not tried: devices, which our rules never let be made, and
// the network, which is not a matter of paths.
func TestX39_LandlockAgainstGoLandlock(t *testing.T) {
	if abi := landlockABI(); abi < 3 {
		needs.Missing(t, "Landlock of this kernel has version %d, and 3 is needed", abi)
	}
	t.Run("namespaces", func(t *testing.T) {
		// Not below /tmp, where everything may be done.
		for _, parent := range []string{"/srv", os.Getenv("HOME"), "."} {
			p, err := filepath.Abs(parent)
			if err == nil {
				p, err = filepath.EvalSymlinks(p)
			}
			if err == nil && !belowTmp(p) && unix.Access(p, unix.W_OK) == nil {
				againstGoLandlock(t, p, false)
				return
			}
		}
		needs.Missing(t, "nothing outside of /tmp may be written")
	})
	t.Run("landlock alone", func(t *testing.T) { againstGoLandlock(t, os.TempDir(), true) })
}

func againstGoLandlock(t *testing.T, parent string, noNamespaces bool) {
	base, err := os.MkdirTemp(parent, "landlock-")
	if err == nil {
		base, err = filepath.EvalSymlinks(base)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	// Each starts two processes. More: go test ./sandbox/child -run GoLandlock -rapid.checks 1000
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("30")
		t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	}
	rapid.Check(t, func(rt *rapid.T) {
		r := drawRestricted(rt, base+"/t", noNamespaces)
		var answers [2][]string
		var trees [2]map[string]string
		for i, by := range []string{"sandboxd", "go-landlock"} {
			r.By = by
			r.build(rt)
			answers[i] = r.restrict(rt)
			trees[i] = snapshot(rt, r.Tree)
		}
		for i, a := range r.Acts {
			if answers[0][i] != answers[1][i] {
				rt.Errorf("%v: %s here, %s by go-landlock\n%+v", a, answers[0][i], answers[1][i], r)
			}
		}
		if !reflect.DeepEqual(trees[0], trees[1]) {
			rt.Errorf("the tree afterwards: %v, by go-landlock: %v\n%+v", trees[0], trees[1], r)
		}
	})
}

// TestX39_LandlockKeepsSocketsAndSignalsIn: what is outside of the rules is not reached
// by a name without a file, nor by a signal. Rules about files alone let both pass, so
// that it is our scopes that hold them.
func TestX39_LandlockKeepsSocketsAndSignalsIn(t *testing.T) {
	if abi := landlockABI(); abi < 6 {
		needs.Missing(t, "Landlock of this kernel has version %d, and 6 is needed", abi)
	}
	name := fmt.Sprintf("@sandboxd-scope-%d", os.Getpid())
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	acts := [][]string{{"connect", name}, {"signal", strconv.Itoa(os.Getpid())}}
	for _, noNamespaces := range []bool{false, true} {
		for by, want := range map[string][]string{"sandboxd": {"EPERM", "EPERM"}, "go-landlock": {"done ", "done "}} {
			r := restricted{By: by, NoNamespaces: noNamespaces, Acts: acts}
			if got := r.restrict(t); !slices.Equal(got, want) {
				t.Errorf("by %s, without namespaces %v: %q, want %q", by, noNamespaces, got, want)
			}
		}
	}
}

// restricted is what one process is asked to do, under whose rules.
type restricted struct {
	By           string
	NoNamespaces bool
	Template     wire.Template
	Tree         string
	Dirs         []string
	Files        []string
	Acts         [][]string
}

func drawRestricted(rt *rapid.T, tree string, noNamespaces bool) restricted {
	segment := rapid.SampledFrom([]string{"a", "b", "c"})
	name := rapid.Custom(func(rt *rapid.T) string {
		return tree + "/" + strings.Join(rapid.SliceOfN(segment, 1, 3).Draw(rt, "name"), "/")
	})
	r := restricted{
		NoNamespaces: noNamespaces,
		Tree:         tree,
		Dirs:         rapid.SliceOfN(name, 1, 5).Draw(rt, "directories"),
		Files:        rapid.SliceOfN(name, 1, 8).Draw(rt, "files"),
	}
	paths := func(label string) []string { return rapid.SliceOfN(name, 0, 3).Draw(rt, label) }
	if r.Template.Profile = "strict"; rapid.Bool().Draw(rt, "light") {
		r.Template.Profile = "light"
	}
	r.Template.Read, r.Template.Write = paths("read"), paths("write")
	r.Template.WriteAll = !noNamespaces && rapid.IntRange(0, 7).Draw(rt, "write all") == 0
	if noNamespaces {
		for _, p := range r.Template.Read {
			r.Template.Grants = append(r.Template.Grants, wire.Grant{Path: p})
		}
		for _, p := range r.Template.Write {
			r.Template.Grants = append(r.Template.Grants, wire.Grant{Path: p, Write: true})
		}
	}
	act := rapid.Custom(func(rt *rapid.T) []string {
		a := []string{rapid.SampledFrom([]string{
			"read", "list", "open for writing", "append", "open and truncate", "truncate", "execute", "create", "mkdir",
			"symlink", "fifo", "socket",
			"unlink", "rmdir", "rename", "rename", "rename", "exchange", "link", "link",
		}).Draw(rt, "act"), name.Draw(rt, "path")}
		if slices.Contains([]string{"rename", "exchange", "link"}, a[0]) {
			a = append(a, name.Draw(rt, "to"))
		}
		return a
	})
	for _, p := range slices.Concat(r.Dirs, r.Files) {
		for _, do := range []string{"read", "list", "open for writing", "execute"} { // which change nothing
			r.Acts = append(r.Acts, []string{do, p})
		}
	}
	r.Acts = append(r.Acts, rapid.SliceOfN(act, 10, 40).Draw(rt, "acts")...)
	for _, p := range []string{
		"/etc/passwd", "/etc/hostname", "/proc/self/status", "/proc/self/environ", "/dev/null",
		"/usr/bin/env",
	} {
		r.Acts = append(r.Acts, []string{"read", p})
	}
	for _, p := range []string{"/", "/etc", "/usr", "/dev", "/proc/self/fd", "/sys/devices/system/cpu"} {
		r.Acts = append(r.Acts, []string{"list", p})
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/etc", "/dev"} {
		p := filepath.Join(dir, filepath.Base(filepath.Dir(tree))+".new")
		r.Acts = append(r.Acts, []string{"create", p}, []string{"unlink", p}, []string{"mkdir", p},
			[]string{"rmdir", p})
	}
	r.Acts = append(r.Acts, []string{"open for writing", "/dev/null"}, []string{"open for writing", "/dev/full"},
		[]string{"execute", "/usr/bin/env"})
	return r
}

// build makes the tree, anew. What cannot be made is left out, the same every time.
func (r restricted) build(rt *rapid.T) {
	if err := os.RemoveAll(r.Tree); err != nil {
		rt.Fatal(err)
	}
	for _, p := range append([]string{r.Tree}, r.Dirs...) {
		_ = os.MkdirAll(p, 0o755)
	}
	for _, p := range r.Files {
		_ = os.MkdirAll(filepath.Dir(p), 0o755)
		if _, err := os.Lstat(p); err != nil {
			_ = os.WriteFile(p, []byte(p), 0o755)
		}
	}
}

// restrict runs the acts in another process.
func (r restricted) restrict(rt rapid.TB) []string {
	in, err := json.Marshal(r)
	if err != nil {
		rt.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("/proc/self/exe", "-restricted")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		rt.Fatalf("%v\n%s\n%s", err, &stderr, in)
	}
	var out []string
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil || len(out) != len(r.Acts) {
		rt.Fatalf("%v: %q", err, &stdout)
	}
	return out
}

// snapshot is what lies in a tree, by names.
func snapshot(rt *rapid.T, tree string) map[string]string {
	out := map[string]string{}
	if err := filepath.WalkDir(tree, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		out[p] = d.Type().String()
		if d.Type().IsRegular() {
			b, err := os.ReadFile(p)
			out[p] += " " + string(b)
			return err
		}
		return nil
	}); err != nil {
		rt.Fatal(err)
	}
	return out
}

// runRestricted is the other process.
func runRestricted() error {
	var r restricted
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return err
	}
	runtime.LockOSThread() // ours restrict this thread alone
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	restrict := r.ours
	if r.By == "go-landlock" {
		restrict = r.theirs
	}
	if err := restrict(); err != nil {
		return fmt.Errorf("restrict this process by %s: %w", r.By, err)
	}
	out := make([]string, len(r.Acts))
	for i, a := range r.Acts {
		text, err := do(a)
		var no syscall.Errno
		switch {
		case errors.As(err, &no):
			out[i] = unix.ErrnoName(no)
		case err != nil:
			return err
		default:
			out[i] = "done " + text
		}
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func (r restricted) ours() error {
	list := rulesWithoutNamespaces
	if !r.NoNamespaces {
		list = func([]wire.Grant) []rule { return rules(r.Template) }
	}
	a, err := newArena(1 << 20)
	if err != nil {
		return err
	}
	defer a.free()
	ops := a.landlockOps(landlockABI(), list(r.Template.Grants), true)
	var f wire.Failure
	raw := a.Encode(ops)
	if !rawRun(a, unsafe.Pointer(&raw[0]), len(raw), &f) {
		return errors.New(script.Explain(f, "restrict", ops))
	}
	return nil
}

// theirs says in the words of go-landlock what the lists mean.
func (r restricted) theirs() error {
	const write = ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir |
		ll.AccessFSMakeReg | ll.AccessFSMakeSock |
		ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSTruncate | ll.AccessFSRefer
	const writeFile = ll.AccessFSWriteFile | ll.AccessFSTruncate
	config := landlock.V3
	if landlockABI() >= 5 {
		config = landlock.V5
	}
	var given []landlock.Rule
	device := func(f landlock.FSRule) landlock.FSRule {
		if landlockABI() >= 5 {
			f = f.WithIoctlDev()
		}
		return f.IgnoreIfMissing()
	}
	add := func(dir, file func(...string) landlock.FSRule, paths ...string) {
		for _, p := range paths {
			info, err := os.Stat(p)
			switch {
			case err != nil: // what is not there needs no rule
			case info.IsDir():
				given = append(given, dir(p))
			default:
				given = append(given, file(p))
			}
		}
	}
	all := func(p ...string) landlock.FSRule { return landlock.RWDirs(p...).WithRefer() }
	for _, p := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"} {
		given = append(given, device(landlock.PathAccess(ll.AccessFSReadFile|writeFile, p)))
	}
	if r.NoNamespaces {
		add(landlock.RODirs, landlock.ROFiles, r.Template.Read...)
		add(all, landlock.RWFiles, r.Template.Write...)
		for _, p := range kernelFiles {
			add(func(p ...string) landlock.FSRule {
				return landlock.PathAccess(ll.AccessFSReadFile|ll.AccessFSReadDir, p...)
			},
				func(p ...string) landlock.FSRule { return landlock.PathAccess(ll.AccessFSReadFile, p...) }, p)
		}
		for _, name := range ownFiles {
			given = append(given, landlock.PathAccess(ll.AccessFSReadFile, "/proc/self/"+name))
		}
		given = append(given, landlock.PathAccess(ll.AccessFSReadDir, "/proc/self/fd"))
		return config.RestrictPaths(given...)
	}
	if len(r.Template.Read) == 0 {
		given = append(given, landlock.RODirs("/"))
	} else {
		add(landlock.RODirs, landlock.ROFiles, slices.Concat(wire.SystemPaths, r.Template.Read,
			[]string{"/dev", "/sys", "/proc"})...)
	}
	if r.Template.WriteAll {
		given = append(given, landlock.PathAccess(write, "/"))
	}
	add(func(p ...string) landlock.FSRule { return landlock.PathAccess(write, p...) },
		func(p ...string) landlock.FSRule { return landlock.PathAccess(writeFile, p...) }, r.Template.Write...)
	add(all, all, "/tmp", "/var/tmp", "/dev/shm")
	given = append(given, device(landlock.PathAccess(ll.AccessFSReadFile|ll.AccessFSReadDir|writeFile, "/dev/pts")))
	return config.RestrictPaths(given...)
}

func do(a []string) (string, error) {
	p := a[1]
	opened := func(flags int) error {
		// Not to wait at a FIFO for somebody.
		fd, err := unix.Open(p, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o755)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	switch a[0] {
	case "read":
		return "", opened(unix.O_RDONLY)
	case "list":
		return "", opened(unix.O_RDONLY | unix.O_DIRECTORY)
	case "open for writing":
		return "", opened(unix.O_WRONLY)
	case "append":
		return "", opened(unix.O_WRONLY | unix.O_APPEND)
	case "open and truncate":
		return "", opened(unix.O_WRONLY | unix.O_TRUNC)
	case "truncate":
		return "", unix.Truncate(p, 2)
	case "execute":
		// The files are no programs, which is told after the right is asked for.
		pid, err := syscall.ForkExec(p, []string{p}, nil)
		if err == nil {
			_, err = syscall.Wait4(pid, nil, 0, nil)
		}
		return "", err
	case "create":
		return "", opened(unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL)
	case "mkdir":
		return "", unix.Mkdir(p, 0o755)
	case "symlink":
		return "", unix.Symlink("../a", p)
	case "fifo":
		return "", unix.Mkfifo(p, 0o644)
	case "socket":
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		return "", unix.Bind(fd, &unix.SockaddrUnix{Name: p})
	case "unlink":
		return "", unix.Unlink(p)
	case "rmdir":
		return "", unix.Rmdir(p)
	case "rename":
		return "", unix.Rename(p, a[2])
	case "exchange":
		return "", unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, a[2], unix.RENAME_EXCHANGE)
	case "link":
		return "", unix.Link(p, a[2])
	case "connect":
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		return "", unix.Connect(fd, &unix.SockaddrUnix{Name: p})
	case "signal":
		pid, err := strconv.Atoi(p)
		if err != nil {
			return "", err
		}
		return "", unix.Kill(pid, 0)
	}
	return "", fmt.Errorf("%q is not an act", a[0])
}
