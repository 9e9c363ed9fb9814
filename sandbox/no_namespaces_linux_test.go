package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/sandboxd/sandboxd/guard"
	"golang.org/x/sys/unix"
)

// bothLevels runs a test with namespaces and without.
func bothLevels(t *testing.T, test func(t *testing.T, b Backend)) {
	t.Helper()
	t.Run("namespaces", func(t *testing.T) {
		b := newCage(t, Options{})
		needCage(t, b)
		test(t, b)
	})
	t.Run("landlock", func(t *testing.T) {
		b := newCage(t, Options{NoNamespaces: true})
		needNoNamespaces(t, b)
		test(t, b)
	})
}

// everywhere runs a kernel test as both users, on both isolation levels, each with a place to work.
func everywhere(t *testing.T, test func(t *testing.T, b Backend, ws string)) {
	bothUsers(t, func(t *testing.T) {
		bothLevels(t, func(t *testing.T, b Backend) { test(t, b, shortTemp(t)) })
	})
}

// needNoNamespaces skips where the kernel cannot hold the isolation level without namespaces.
func needNoNamespaces(t *testing.T, b Backend) {
	t.Helper()
	needCage(t, b, "landlock", "seccomp")
	if rep := b.Probe(); rep.Isolation != "landlock" {
		t.Fatalf("isolation level %q, want landlock (missing: %v)", rep.Isolation, rep.Missing)
	}
}

// TestX39_NothingGetsOutWithoutNamespaces is the second isolation level: the same attempts,
// held by Landlock and the filter.
func TestX39_NothingGetsOutWithoutNamespaces(t *testing.T) {
	t.Setenv("CAGE_TEST_SECRET", "hunter2")
	bothUsers(t, func(t *testing.T) {
		w, cage, settings := newWorld(t, Options{NoNamespaces: true})
		needNoNamespaces(t, cage)
		nothingGetsOut(t, w, cage, settings)
	})
}

// openWithoutNamespaces are the attempts that are no way out at that level, or cannot even be
// prepared, and why.
var openWithoutNamespaces = map[string]string{
	"pidfd of the host":                  "it names the process; a signal by it is stopped, which is another attempt",
	"secret's directory entered":         "Landlock lets it be the working directory; nothing in it can be opened",
	"a mount that honours set-user-id":   "the mounts are the host's; no_new_privs makes execve ignore the bits",
	"a mount that honours devices":       "the mounts are the host's; devices can be neither made nor opened",
	"uid 0 that is more than a user":     "it takes a privilege to lock, and no_new_privs refuses what it would refuse",
	"name of the host":                   "it can be seen, which the report says",
	"git config replaced":                "not even the lock file can be made",
	"loopback reconfigured":              "there is no socket to ask it of",
	"line discipline of an own terminal": "there are no own terminals",
	"console taken by an own terminal":   "there are no own terminals",
	"input pushed into an own terminal":  "there are no own terminals",
	"processes of the host in /proc":     "/proc cannot be listed",
}

// TestX39_WithoutNamespacesWorkIsDone: what the settings allow and Landlock can
// say works there, and the report says what cannot be held or is narrower.
func TestX39_WithoutNamespacesWorkIsDone(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		cage := newCage(t, Options{NoNamespaces: true})
		needNoNamespaces(t, cage)
		ws := shortTemp(t)
		for _, d := range []string{".git/hooks", "src"} {
			if err := os.MkdirAll(filepath.Join(ws, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(ws, "README"), []byte("hello\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		box := newBox(t, cage, "strict", guard.DefaultSettings(ws, os.Getenv("HOME"), nil))
		for _, tt := range []struct{ name, script, want string }{
			{"a file is read", "cat README", "hello\n"},
			{"a file that is there is written", "echo more >> README; tail -n 1 README", "more\n"},
			{"a directory takes new files", "echo x > src/new && mkdir -p src/a/b && mv src/new src/a/b/ && cat src/a/b/new && rm -r src/a", "x\n"},
			{"the private directory", `f=$(mktemp) && echo y > "$f" && cat "$f"; case $f in /tmp/tmp.*) exit 1;; esac`, "y\n"},
			{"pipes and jobs", "seq 3 | sort -r | head -n 1 & wait", "3\n"},
			{"caches", `mkdir -p "$GOCACHE" && echo z > "$GOCACHE/z" && cat "$GOCACHE/z"`, "z\n"},
			{
				"nothing new beside what is protected", "echo x > new 2>/dev/null || echo refused; ls new 2>/dev/null",
				"refused\n",
			},
		} {
			e, out := runIn(t, box, ws, "sh", "-c", tt.script)
			if tt.want == "refused\n" {
				out = strings.TrimPrefix(out, "sh: 1: cannot create new: Permission denied\n")
			}
			if out != tt.want {
				t.Errorf("%s: exit %d, got %q, want %q", tt.name, e.Code, out, tt.want)
			}
		}
		rep := box.Report()
		for _, want := range []string{
			"userns: ", "netns: ", "mountns: ", "pidns: ", "ipcns: ", "utsns: ",
			"mountns: nothing new can be made directly in " + ws + ",",
		} {
			if !slices.ContainsFunc(rep.Missing, func(m string) bool { return strings.HasPrefix(m, want) }) {
				t.Errorf("the report does not say %q: %q", want, rep.Missing)
			}
		}
		if slices.Contains(rep.Layers, "netns") || rep.Isolation != "landlock" {
			t.Errorf("report %+v", rep)
		}
		var missing *MissingError
		if _, err := cage.Box(context.Background(), "s", "strict",
			guard.Settings{Require: []string{"netns"}}); !errors.As(err, &missing) || missing.Layer != "netns" {
			t.Errorf("a required network namespace: %v", err)
		}
	})
}

// TestX39_WhatAppearsIsNotGiven: a denied path that comes into existence between
// two calls is as closed as one that was there.
func TestX39_WhatAppearsIsNotGiven(t *testing.T) {
	cage := newCage(t, Options{NoNamespaces: true})
	needNoNamespaces(t, cage)
	ws := shortTemp(t)
	dir := filepath.Join(ws, "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "secret")
	box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}, DeniedPaths: []string{secret}})
	if e, out := runIn(t, box, ws, "sh", "-c", "echo x > dir/other && cat dir/other"); e.Code != 0 {
		t.Fatalf("exit %d: %s", e.Code, out)
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if e, out := runIn(t, box, ws, "sh", "-c", "cat dir/other; cat dir/secret"); e.Code == 0 ||
		strings.Contains(out, "secret\n") || !strings.HasPrefix(out, "x\n") {
		t.Errorf("exit %d: %s", e.Code, out)
	}
}

// TestX39_LadderByWhatTheKernelRefuses takes things away with a filter, as a host
// would, and asks what is left. Never silently weaker: each absence has its reason.
func TestX39_LadderByWhatTheKernelRefuses(t *testing.T) {
	if mode := os.Getenv("CAGE_TEST_REFUSE"); mode != "" {
		ladderUnder(t, mode)
		return
	}
	bothUsers(t, func(t *testing.T) {
		for _, mode := range []string{"namespaces", "landlock", "both"} {
			t.Run(mode, func(t *testing.T) {
				cmd := exec.Command("/proc/self/exe", "-test.run=^TestX39_LadderByWhatTheKernelRefuses$", "-test.v")
				cmd.Env = append(os.Environ(), "CAGE_TEST_REFUSE="+mode)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	})
}

func ladderUnder(t *testing.T, mode string) {
	runtime.LockOSThread()
	installFilter(t, mode != "landlock", mode != "namespaces")
	cage := newCage(t, Options{})
	rep := cage.Probe()
	box := newBox(t, cage, "strict", guard.Settings{})
	p, err := box.Start(context.Background(), Spec{Argv: []string{"true"}, Dir: "/"})
	if err == nil {
		_, err = p.Wait()
	}
	var missing *MissingError
	lacks := func(layer string) bool {
		return slices.ContainsFunc(rep.Missing, func(m string) bool { return strings.HasPrefix(m, layer+": ") })
	}
	switch mode {
	case "namespaces":
		if rep.Isolation != "landlock" || err != nil || !lacks("userns") {
			t.Errorf("%+v, %v", rep, err)
		}
	case "landlock":
		if rep.Isolation != "namespaces" || err != nil || !lacks("landlock") {
			t.Errorf("%+v, %v", rep, err)
		}
	case "both":
		if rep.Isolation != "" || !errors.As(err, &missing) || !lacks("userns") || !lacks("landlock") {
			t.Errorf("%+v, %v", rep, err)
		}
	}
}

// installFilter puts this process and all it starts under a filter that takes
// namespaces away, or Landlock.
func installFilter(t *testing.T, namespaces, landlock bool) {
	t.Helper()
	const (
		load, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_RET | unix.BPF_K
		equal     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		anyBit    = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		number    = 0  // offsets into struct seccomp_data
		flags     = 16 // the first argument
	)
	var code []unix.SockFilter
	refuse := func(nr uint32, errno unix.Errno) {
		code = append(code, unix.SockFilter{Code: load, K: number}, unix.SockFilter{Code: equal, K: nr, Jf: 1},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(errno)})
	}
	if namespaces {
		const all = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS
		for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
			code = append(code, unix.SockFilter{Code: load, K: number}, unix.SockFilter{Code: equal, K: nr, Jf: 3},
				unix.SockFilter{Code: load, K: flags}, unix.SockFilter{Code: anyBit, K: all, Jf: 1},
				unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
		}
	}
	if landlock {
		for _, nr := range []uint32{
			unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE,
			unix.SYS_LANDLOCK_RESTRICT_SELF,
		} {
			refuse(nr, unix.EOPNOTSUPP)
		}
	}
	code = append(code, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	// In front of every thread there is; without a privilege only with this bit,
	// which the call then sets on all of them.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog))); e != 0 {
		t.Fatalf("install a filter: %v", e)
	}
}
