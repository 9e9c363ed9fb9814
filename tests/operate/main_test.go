package operate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/prebuilt"
)

// insideEnv says that this process has namespaces of its own, and where the programs are.
const insideEnv = "OPERATE_INSIDE"

// programs is where sandboxd and its launcher are for the tests.
const programs = "/usr/local/bin"

// inside reports whether the test is in its own namespaces. If not, it runs the test there and
// returns false; then return.
func inside(t *testing.T) bool {
	t.Helper()
	needs.Root(t, "to make users")
	for _, name := range []string{"useradd", "groupadd", "usermod", "gpasswd", "userdel", "curl", "ps"} {
		needs.Program(t, name)
	}
	if os.Getenv(insideEnv) != "" {
		return true
	}
	dir := build(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=15m")
	cmd.Env = append(os.Environ(), insideEnv+"="+dir, "GOCOVERDIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: unix.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("in namespaces of its own: %v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		needs.Elsewhere(t, "%s", out)
	}
	return false
}

// built is where TestMain lets build put the programs.
var built string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv(insideEnv) == "" && os.Getenv(systemdEnv) != "inside" {
		var err error
		if built, err = os.MkdirTemp("/var/tmp", "operate-programs-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(built)
	}
	return m.Run()
}

// makePrograms builds the programs, once for all tests.
var makePrograms = sync.OnceValue(func() error { return prebuilt.Programs(built) })

// build returns a directory with the programs, which the test may use.
func build(t *testing.T) string {
	t.Helper()
	err := makePrograms()
	dir, wrong := os.MkdirTemp("/var/tmp", "operate-")
	if err := errors.Join(err, wrong); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"sandboxd", "sandboxd-child", "sandboxd-agent"} {
		if err := os.Link(filepath.Join(built, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// machine is what a test sees of the machine, and may change.
type machine struct {
	t   *testing.T
	dir string // of the test; everybody may enter it
}

// newMachine mounts a copy over /etc, and empty directories over /run, /var/lib and /usr/local/bin,
// where it installs the programs. Call it only after inside: it would hide those of the machine.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: os.Getenv(insideEnv)}
	m.must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	m.must(unix.Mount("proc", "/proc", "proc", 0, ""))
	m.must(os.Chmod(m.dir, 0o755))
	etc := filepath.Join(m.dir, "etc")
	m.must(os.Mkdir(etc, 0o755))
	m.must(unix.Mount("tmpfs", etc, "tmpfs", 0, "mode=755"))
	if out, err := exec.Command("cp", "-a", "/etc/.", etc).CombinedOutput(); err != nil {
		t.Fatalf("copy /etc: %v\n%s", err, out)
	}
	m.must(os.RemoveAll(filepath.Join(etc, "sandboxd")))
	m.must(unix.Mount(etc, "/etc", "", unix.MS_BIND, ""))
	for _, dir := range []string{"/run", "/var/lib", programs} {
		m.must(unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"))
	}
	for _, name := range []string{"sandboxd", "sandboxd-child", "sandboxd-agent"} {
		m.run("install", "-m", "755", filepath.Join(m.dir, name), programs)
	}
	return m
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// run runs a program as root, which must succeed, and returns what it printed.
func (m *machine) run(argv ...string) string {
	m.t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// user is somebody with an account on the machine.
type user struct {
	m        *machine
	name     string
	uid, gid uint32
	groups   []uint32
}

// addUser makes a user with a home.
func (m *machine) addUser(name string) user {
	m.t.Helper()
	m.run("useradd", "--create-home", "--home-dir", filepath.Join(m.dir, "home-"+name), name)
	return m.login(name)
}

// login is a user with the groups that the user has now.
func (m *machine) login(name string) user {
	m.t.Helper()
	u := user{m: m, name: name}
	_, err := fmt.Sscan(m.run("id", "-u", name), &u.uid)
	m.must(err)
	_, err = fmt.Sscan(m.run("id", "-g", name), &u.gid)
	m.must(err)
	for _, g := range strings.Fields(m.run("id", "-G", name)) {
		var id uint32
		_, err := fmt.Sscan(g, &id)
		m.must(err)
		u.groups = append(u.groups, id)
	}
	return u
}

func (u user) home() string { return filepath.Join(u.m.dir, "home-"+u.name) }

// command is a program of the user.
func (u user) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = u.m.dir
	cmd.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + u.home()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.gid, Groups: u.groups}}
	return cmd
}

// try runs a program of the user.
func (u user) try(argv ...string) (out string, ok bool) {
	text, err := u.command(argv...).CombinedOutput()
	return string(text), err == nil
}

// owner is whose a file is.
func (m *machine) owner(path string) uint32 {
	m.t.Helper()
	info, err := os.Lstat(path)
	m.must(err)
	return info.Sys().(*syscall.Stat_t).Uid
}

// waitFor waits for another process, which gives nothing else to wait for. Only what will never
// come takes so long, on a machine with much to do too.
func (m *machine) waitFor(what string, ok func() bool) {
	m.t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	m.t.Fatalf("waited in vain for %s", what)
}

// absent reports whether there is nothing at a path.
func absent(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}
