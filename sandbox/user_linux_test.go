package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/identity"
	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func newUser(uid, gid int, groups []int) User { return NewUser(uid, gid, groups, "", "") }

// asThread runs f on a thread that is the user in every way, for good.
func asThread(t testing.TB, uid, gid int, groups []int, f func()) {
	t.Helper()
	var err error
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err = identity.SetGroups(groups); err != nil {
			return
		}
		for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
			id := uintptr(gid)
			if call == unix.SYS_SETRESUID {
				id = uintptr(uid)
			}
			if _, _, errno := unix.RawSyscall(call, id, id, id); errno != 0 {
				err = errno
				return
			}
		}
		f()
	})
	done.Wait()
	if err != nil {
		t.Fatal(err)
	}
}

// A box for a user opens what a process of that user could open, and nothing else: owners,
// groups and modes of the file and of the directories above it are judged by the kernel.
func TestABoxForAUserHasItsRights(t *testing.T) {
	needs.Root(t, "to be other users")
	base := shortTemp(t)
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	cage := newCage(t, Options{Roots: are(base)})
	plain := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{base}})
	ids := rapid.SampledFrom([]int{0, 64101, 64102, 64103})
	modes := rapid.SampledFrom([]os.FileMode{0, 0o400, 0o040, 0o004, 0o600, 0o640, 0o644, 0o700, 0o710, 0o711, 0o755, 0o770})
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		file := filepath.Join(dir, "file")
		err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, []byte("text"), 0o644))
		for _, path := range []string{file, dir} {
			mode := modes.Draw(rt, "mode")
			err = errors.Join(err, os.Chown(path, ids.Draw(rt, "owner"), ids.Draw(rt, "group")), os.Chmod(path, mode))
		}
		if err != nil {
			rt.Fatal(err)
		}
		uid, gid := ids.Filter(func(id int) bool { return id != 0 }).Draw(rt, "uid"), ids.Draw(rt, "gid")
		groups := rapid.SliceOfN(ids, 0, 2).Draw(rt, "groups")
		box := plain.As(newUser(uid, gid, groups))

		var want error
		asThread(t, uid, gid, groups, func() {
			fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if want = err; err == nil {
				unix.Close(fd)
			}
		})
		f, err := box.Open(t.Context(), guard.PathUse{Path: file, Op: guard.Read}, os.O_RDONLY)
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			rt.Errorf("read by uid %d, gid %d, groups %v: the box says %v, the kernel %v", uid, gid, groups, err, want)
		}

		made := filepath.Join(dir, "sub", "made")
		asThread(t, uid, gid, groups, func() {
			if want = unix.Mkdir(filepath.Dir(made), 0o755); want == nil {
				want = unix.Rmdir(filepath.Dir(made))
			}
		})
		err = WriteFile(t.Context(), box, guard.PathUse{Path: made}, []byte("text"), 0o640)
		if (err == nil) != (want == nil) || want != nil && !errors.Is(err, unix.EACCES) && !errors.Is(err, want) {
			rt.Errorf("write by uid %d, gid %d, groups %v: the box says %v, the kernel %v", uid, gid, groups, err, want)
		}
		if err == nil {
			for _, path := range []string{made, filepath.Dir(made)} {
				var st unix.Stat_t
				if err := unix.Stat(path, &st); err != nil || int(st.Uid) != uid || int(st.Gid) != gid {
					rt.Errorf("%s belongs to %d:%d, want %d:%d (%v)", path, st.Uid, st.Gid, uid, gid, err)
				}
			}
		}
	})
}

// The groups of the process count, and those that the daemon has do not.
func TestABoxForAUserHasItsGroups(t *testing.T) {
	needs.Root(t, "to be other users")
	base := shortTemp(t)
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	all := newBox(t, newCage(t, Options{Roots: are(base)}), "strict", guard.Settings{})
	for _, group := range []int{0, 64102, 64103} {
		path := filepath.Join(base, fmt.Sprint(group))
		err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 64110, group), os.Chmod(path, 0o040))
		if err != nil {
			t.Fatal(err)
		}
		for _, gid := range []int{0, 64102, 64104} {
			for _, groups := range [][]int{nil, {64103}, {64104, 64103}, {64104}, {0}} {
				f, err := all.As(newUser(64101, gid, groups)).Open(t.Context(), guard.PathUse{Path: path, Op: guard.Read}, 0)
				if err == nil {
					f.Close()
				}
				if want := gid == group || slices.Contains(groups, group); (err == nil) != want {
					t.Errorf("a file of group %d for gid %d, groups %v: got %v", group, gid, groups, err)
				}
			}
		}
	}
}

// After a file was opened for a user, the thread is the daemon's again. A panic and an error
// change nothing of that.
func TestRightsAreGivenBack(t *testing.T) {
	needs.Root(t, "to be other users")
	runtime.LockOSThread() // the thread ends with the goroutine
	if err := identity.SetGroups([]int{0, 64109}); err != nil {
		t.Fatal(err)
	}
	status := func() string {
		b, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			t.Fatal(err)
		}
		var kept []byte
		for line := range bytes.Lines(b) {
			for _, name := range []string{"Uid:", "Gid:", "Groups:", "Cap"} {
				if bytes.HasPrefix(line, []byte(name)) {
					kept = append(kept, line...)
				}
			}
		}
		return string(kept)
	}
	before := status()
	u := newUser(64101, 64102, []int{64103, 64104})
	for name, f := range map[string]func() error{
		"success":          func() error { return nil },
		"an error":         func() error { return errors.New("no") },
		"a user in a user": func() error { return newUser(64105, 64105, nil).Do(func() error { return nil }) },
		"a panic":          func() error { panic("no") },
	} {
		func() {
			defer func() { _ = recover() }()
			_ = u.Do(func() error {
				if !bytes.Contains([]byte(status()), []byte("64101")) {
					t.Errorf("%s: the rights were not taken: %s", name, status())
				}
				return f()
			})
		}()
		if after := status(); after != before {
			t.Errorf("after %s: got\n%s, want\n%s", name, after, before)
		}
	}
}

// Nobody opens nothing; the daemon itself and whoever has its uid open what it can open.
func TestUsers(t *testing.T) {
	if err := (User{}).Do(func() error { t.Error("nobody did something"); return nil }); !errors.Is(err, unix.EACCES) {
		t.Errorf("nobody: got %v", err)
	}
	for name, u := range map[string]User{"the daemon": Daemon(), "its uid": newUser(os.Geteuid(), 7, []int{8})} {
		ran := false
		if err := u.Do(func() error { ran = true; return nil }); err != nil || !ran {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if os.Geteuid() == 0 {
		// An id that nobody can have is not taken.
		if err := newUser(-1, -1, nil).Do(func() error { t.Error("it ran"); return nil }); err == nil {
			t.Error("the rights of uid -1 were taken")
		}
	}
}

// A service can be started so that the kernel leaves the capabilities for files when the uid
// changes. They are dropped all the same.
func TestRightsWithKeptCapabilities(t *testing.T) {
	needs.Root(t, "to be other users")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const noSetuidFixup = 1 << 2
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, noSetuidFixup, 0, 0, 0); err != nil {
			t.Error(err)
			return
		}
		err := newUser(64101, 64101, nil).Do(func() error { return unix.Access(secret, unix.F_OK) })
		err = errors.Join(err, newUser(64101, 64101, nil).Do(func() error {
			if f, err := os.Open(secret); err == nil {
				f.Close()
				t.Error("a file of root was opened")
			}
			return nil
		}))
		if err != nil && !errors.Is(err, unix.EACCES) {
			t.Error(err)
		}
	})
	done.Wait()
}

// The private files of a session lie in a directory that only the daemon can enter. They
// are the user's own all the same.
func TestPrivateFilesAreTheUsersOwn(t *testing.T) {
	needs.Root(t, "to be other users")
	base := shortTemp(t)
	all := newBox(t, newCage(t, Options{}), "strict", guard.Settings{AllowedWritePaths: []string{base, "/tmp"}})
	box := all.As(newUser(64101, 64101, nil))
	use := guard.PathUse{Path: "/tmp/notes", Op: guard.Read}
	if err := WriteFile(t.Context(), box, use, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := box.Open(t.Context(), use, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	f.Close()
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != 64101 {
		t.Errorf("it belongs to %+v (%v)", info, err)
	}
	if f, err := all.As(User{}).Open(t.Context(), use, os.O_RDONLY); err == nil {
		f.Close()
		t.Error("nobody opened it")
	}
}

// Without a group that it has, a user could read what a mode keeps from that group. So the rights
// of a user are taken with all groups, or not at all.
func TestAGroupThatCannotBeTakenIsNotLeftOut(t *testing.T) {
	needs.Root(t, "to be other users")
	const inside = "TEST_USER_GROUPS"
	file := os.Getenv(inside)
	if file == "" {
		dir := shortTemp(t)
		file = filepath.Join(dir, "file")
		err := errors.Join(os.WriteFile(file, nil, 0o604), os.Chown(file, 0, 64102), os.Chmod(file, 0o604), os.Chmod(dir, 0o755))
		if err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		one := func(id int) syscall.SysProcIDMap { return syscall.SysProcIDMap{ContainerID: id, HostID: id, Size: 1} }
		cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"="+file, "GOCOVERDIR=")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, Pdeathsig: unix.SIGKILL, GidMappingsEnableSetgroups: true,
			UidMappings: []syscall.SysProcIDMap{one(0), one(64101)},
			GidMappings: []syscall.SysProcIDMap{one(64101), one(64103)},
			Credential:  &syscall.Credential{Gid: 64101},
		}
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for _, tt := range []struct {
		groups []int
		why    string // "": its rights are taken
	}{
		{nil, ""},
		{[]int{64103}, ""},
		{[]int{64103, 64102}, "group 64102"},
		{[]int{64102}, "group 64102"},
		{[]int{0}, "group 0"},
		{[]int{64103, 0}, "group 0"},
	} {
		u := NewUser(64101, 64101, tt.groups, "", "")
		opened := false
		err := u.Do(func() error {
			f, err := os.Open(file)
			if opened = err == nil; opened {
				f.Close()
			}
			return err
		})
		missing, _ := errors.AsType[*RightsError](u.Missing())
		if tt.why == "" {
			if err != nil || missing != nil { // for others it is open
				t.Errorf("groups %v: %v, %v", tt.groups, err, missing)
			}
			continue
		}
		if !errors.As(err, &missing) || opened || !strings.Contains(missing.Why, tt.why) {
			t.Errorf("groups %v: got %v, opened %v, want an error about %s", tt.groups, err, opened, tt.why)
		}
	}
}
