package integration

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// newcomer is a user with an empty home.
type newcomer struct {
	t          *testing.T
	home, work string // work is what no program knows of
	env        []string
	uid        int // 0 is that of the test
}

func newUser(t *testing.T) *newcomer {
	t.Helper()
	work, err := newDir(bin, "user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(work) })
	p := &newcomer{t: t, work: work, home: filepath.Join(work, "home")}
	if os.Geteuid() == 0 {
		p.uid = 64140
	}
	if err := errors.Join(os.Mkdir(p.home, 0o700), os.Chmod(work, 0o755), p.own(p.home)); err != nil {
		t.Fatal(err)
	}
	p.env = []string{"HOME=" + p.home, "PATH=/usr/local/bin:/usr/bin:/bin", "GOTOOLCHAIN=local"}
	return p
}

// own gives a file to the person.
func (p *newcomer) own(path string) error {
	if p.uid == 0 {
		return nil
	}
	return os.Chown(path, p.uid, p.uid)
}

func (p *newcomer) mkdir(name string) string {
	p.t.Helper()
	dir := filepath.Join(p.home, name)
	if err := errors.Join(os.Mkdir(dir, 0o755), p.own(dir)); err != nil {
		p.t.Fatal(err)
	}
	return dir
}

func (p *newcomer) command(dir string, words ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	p.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `exec "$@"`, "sh"}, words...)...) // which looks into PATH
	cmd.Dir, cmd.Env = dir, p.env
	if p.uid != 0 {
		id := uint32(p.uid)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	return cmd
}

// run runs a command in a directory and returns both streams.
func (p *newcomer) run(dir string, words ...string) (string, error) {
	out, err := p.command(dir, words...).CombinedOutput()
	return string(out), err
}

// says runs a command and wants a text in what it prints.
func (p *newcomer) says(dir, want string, words ...string) {
	p.t.Helper()
	if out, err := p.run(dir, words...); err != nil || !strings.Contains(out, want) {
		p.t.Errorf("%q: %v, want %q in\n%s", words, err, want, out)
	}
}

// refuses runs a command that fails with a text.
func (p *newcomer) refuses(dir, want string, words ...string) {
	p.t.Helper()
	if out, err := p.run(dir, words...); err == nil || !strings.Contains(out, want) {
		p.t.Errorf("%q: %v, want %q in\n%s", words, err, want, out)
	}
}

// tree lists what is below a directory.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

// TestInstalledUsedAndRemoved is a user who reads the README: with an empty home, as a uid
// of its own, from make install to make uninstall, which leaves nothing but the state.
func TestInstalledUsedAndRemoved(t *testing.T) {
	p := newUser(t)
	install, err := filepath.Abs("../../deploy/install")
	if err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(p.home, ".local")
	p.says(p.home, `export PATH="`+prefix+`/bin:$PATH"`, install, prefix, bin)
	for _, want := range []string{
		"bin/sandboxd", "bin/sandboxd-agent", "libexec/sandboxd/sandboxd-child", "share/man/man1/sandboxd.1", "share/man/man1/sandboxd-allow.1",
		"share/systemd/user/sandboxd.service", "lib/sandboxd/installed",
	} {
		if !slices.Contains(tree(t, prefix), want) {
			t.Errorf("%s is not installed", want)
		}
	}
	unit, err := os.ReadFile(filepath.Join(prefix, "share/systemd/user/sandboxd.service"))
	if err != nil || !strings.Contains(string(unit), "\nExecStart="+prefix+"/bin/sandboxd serve\n") {
		t.Errorf("the unit: %v\n%s", err, unit)
	}
	p.env[1] = "PATH=" + prefix + "/bin:/usr/local/bin:/usr/bin:/bin"
	if out, err := p.run(p.home, install, prefix, bin); err != nil || strings.Contains(out, "PATH") {
		t.Errorf("once more, with it on PATH: %v\n%s", err, out)
	}

	repo, other := p.mkdir("repo"), p.mkdir("other")
	p.refuses(repo, "start one with: sandboxd serve", "sandboxd", "call", "Bash", `{"command":"pwd"}`)
	daemon := p.command(p.home, "sandboxd", "serve")
	log := &lockedBuffer{}
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		_ = daemon.Process.Signal(os.Interrupt)
		_ = daemon.Wait()
	}
	defer func() { stop() }()
	up := func() bool { _, err := p.run(p.home, "sandboxd", "status"); return err == nil }
	if !waitFor(up) {
		t.Fatalf("the daemon does not answer:\n%s", log)
	}
	if !strings.Contains(log.String(), "nothing is allowed yet") {
		t.Errorf("the daemon serves the directory that it began in:\n%s", log)
	}
	p.refuses(p.home, "is in no directory that a person allowed", "sandboxd", "call", "Bash", `{"command":"pwd"}`)
	// What it prints to try works.
	_, try, _ := strings.Cut(log.String(), "in a project of yours:\n")
	p.says(repo, repo+" is allowed\n", "sh", "-e", "-c", strings.Join(strings.SplitAfter(try, "\n")[:2], ""))
	p.says(repo, repo, "sandboxd", "call", "Bash", `{"command":"pwd; echo hello > new.txt"}`)
	p.refuses(other, "sandboxd allow "+other, "sandboxd", "call", "Bash", `{"command":"pwd"}`)
	for dir, want := range map[string]string{
		p.home: "is a home", prefix: "sandboxd's own", filepath.Join(prefix, "bin"): "sandboxd's own",
		filepath.Join(prefix, "libexec"): "sandboxd's own", p.work: "holds the home", "/var/tmp": "belongs to the system",
	} {
		p.refuses(p.home, want, "sandboxd", "allow", dir)
	}
	if p.uid != 0 {
		p.refuses(p.home, "belongs to another user", "sandboxd", "allow", bin+"/scripts")
	}
	p.refuses(other, "sandboxd allow "+other, "sandboxd", "serve")
	if exe := launcherOf(daemon.Process.Pid); exe != filepath.Join(prefix, "libexec/sandboxd/sandboxd-child") {
		t.Errorf("the launcher is %q, want the installed one", exe)
	}
	stop()
	stop = func() {}

	p.says(p.home, "removed from "+prefix, install, "--remove", prefix)
	if left := tree(t, prefix); slices.ContainsFunc(left, func(name string) bool {
		return name != "state" && !strings.HasPrefix(name, "state/")
	}) {
		t.Errorf("left: %q", left)
	}
	p.refuses(p.home, "nothing is installed in "+prefix, install, "--remove", prefix)
	if text, err := os.ReadFile(filepath.Join(repo, "new.txt")); err != nil || string(text) != "hello\n" {
		t.Errorf("the work of the person: %q, %v", text, err)
	}
}

// launcherOf is the program of a child of a process, or "".
func launcherOf(pid int) string {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return ""
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if exe, err := os.Readlink(filepath.Join(filepath.Dir(file), "exe")); err == nil {
			return exe
		}
	}
	return ""
}

// TestInstallationsAreRemovedAsTheyWereMade: what others put beside it stays, and a newer
// version removes what an older one had.
func TestInstallationsAreRemovedAsTheyWereMade(t *testing.T) {
	p := newUser(t)
	install, err := filepath.Abs("../../deploy/install")
	if err != nil {
		t.Fatal(err)
	}
	usr := p.mkdir("usr")
	theirs := filepath.Join(usr, "bin/theirs")
	if err := errors.Join(os.Mkdir(filepath.Join(usr, "bin"), 0o755), os.WriteFile(theirs, nil, 0o755),
		p.own(filepath.Join(usr, "bin"))); err != nil {
		t.Fatal(err)
	}
	p.says(p.home, "installed", install, usr, bin)
	list := filepath.Join(usr, "lib/sandboxd/installed")
	old := filepath.Join(usr, "share/man/man1/sandboxd-old.1")
	text, err := os.ReadFile(list)
	if err == nil {
		err = errors.Join(os.WriteFile(old, nil, 0o644), os.WriteFile(list, []byte(old+"\n"+string(text)), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	p.says(p.home, "installed", install, usr, bin)
	if _, err := os.Stat(old); err == nil {
		t.Error("a page of the older version is left")
	}
	p.says(p.home, "removed", install, "--remove", usr)
	if got := tree(t, usr); !slices.Equal(got, []string{"bin", "bin/theirs"}) {
		t.Errorf("left %q, want what was there before", got)
	}

	p.env = append(p.env, "DESTDIR="+filepath.Join(p.home, "package"))
	p.says(p.home, "installed /usr/bin/sandboxd", install, "/usr", bin)
	if !slices.Contains(tree(t, p.home), "package/usr/lib/systemd/user/sandboxd.service") {
		t.Errorf("with DESTDIR: %q", tree(t, p.home))
	}
	// What a service of the system starts, and setup --undo needs, stays.
	unit := filepath.Join(p.home, "package/etc/systemd/system/sandboxd.service")
	if err := errors.Join(os.MkdirAll(filepath.Dir(unit), 0o755),
		os.WriteFile(unit, []byte("[Service]\nExecStart=/usr/bin/sandboxd serve --config x\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	p.refuses(p.home, "sandboxd setup --undo", install, "--remove", "/usr")
	if err := os.Remove(unit); err != nil {
		t.Fatal(err)
	}
	p.says(p.home, "removed from /usr", install, "--remove", "/usr")
	for prefix, want := range map[string]string{"relative": "is relative", "/a/../b": "..", "/a b": "odd", "/": "the prefix is /"} {
		p.refuses(p.home, want, install, prefix, bin)
	}
	p.refuses(p.home, "hint: make build", install, usr, p.home)
}

// TestMakeInstalls: the rules of the Makefile name this script.
func TestMakeInstalls(t *testing.T) {
	needs.Program(t, "make")
	for target, want := range map[string]string{
		"install": "deploy/install '/opt/x' ", "uninstall": "deploy/install --remove '/opt/x'", "run": "\n./bin/sandboxd serve\n",
	} {
		cmd := exec.Command("make", "-n", target, "PREFIX=/opt/x")
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("make %s: %v, want %q in\n%s", target, err, want, out)
		}
	}
}

// TestMakeSaysWhatIsMissing: who has no Go, or lacks a package that is needed, is told what to install.
func TestMakeSaysWhatIsMissing(t *testing.T) {
	program := needs.Program(t, "make")
	dir := t.TempDir() // all that there is
	for _, name := range []string{"sh", "sed", "id"} {
		if err := os.Symlink(needs.Program(t, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string]string{
		"build":     "error: go is not installed\nsandboxd: hint: install Go 1.",
		"run":       "error: not installed: git \nsandboxd: hint: sudo apt-get install git",
		"tools-web": "error: not installed: git curl npm chromium ",
	} {
		cmd := exec.Command(program, target, "VERSION=dev", "ROOT=", "CHROMIUM=chromium")
		cmd.Dir, cmd.Env = "../..", []string{"PATH=" + dir}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("make %s: %v, want %q in\n%s", target, err, want, out)
		}
	}
}
