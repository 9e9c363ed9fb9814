package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// bothRungs runs a test with namespaces and without.
func bothRungs(t *testing.T, test func(t *testing.T, b Backend)) {
	t.Helper()
	t.Run("namespaces", func(t *testing.T) {
		b := newCage(t, Options{})
		needCage(t, b)
		test(t, b)
	})
	t.Run("landlock", func(t *testing.T) {
		b := newCage(t, Options{NoNamespaces: true})
		needBare(t, b)
		test(t, b)
	})
}

// everywhere runs a kernel test as both users, on both rungs, each with a place to work.
func everywhere(t *testing.T, test func(t *testing.T, b Backend, ws string)) {
	bothUsers(t, func(t *testing.T) {
		bothRungs(t, func(t *testing.T, b Backend) { test(t, b, shortTemp(t)) })
	})
}

// needBare skips where the kernel cannot hold the rung without namespaces.
func needBare(t *testing.T, b Backend) {
	t.Helper()
	needCage(t, b, "landlock", "seccomp")
	if rep := b.Probe(); rep.Rung != "landlock" {
		t.Fatalf("rung %q, want landlock (missing: %v)", rep.Rung, rep.Missing)
	}
}

// TestX39_NothingGetsOutWithoutNamespaces is the second rung: the same attempts,
// held by Landlock and the filter.
func TestX39_NothingGetsOutWithoutNamespaces(t *testing.T) {
	t.Setenv("CAGE_TEST_SECRET", "hunter2")
	bothUsers(t, func(t *testing.T) {
		w, cage, settings := newWorld(t, Options{NoNamespaces: true})
		needBare(t, cage)
		nothingGetsOut(t, w, cage, settings)
	})
}

// bareOpen are the attempts that are no way out on that rung, or cannot even be
// prepared, and why.
var bareOpen = map[string]string{
	"pidfd of the host":                  "it names the process; a signal by it is stopped, which is another attempt",
	"secret's directory entered":         "Landlock lets it be the working directory; nothing in it can be opened",
	"a mount that honours set-user-id":   "the mounts are the host's; no_new_privs makes execve ignore the bits",
	"a mount that honours devices":       "the mounts are the host's; devices can be neither made nor opened",
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
		needBare(t, cage)
		ws := shortTemp(t)
		for _, d := range []string{".git/hooks", "src"} {
			if err := os.MkdirAll(filepath.Join(ws, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(ws, "README"), []byte("hello\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		box := newBox(t, cage, "strict", DefaultSettings(ws, os.Getenv("HOME"), nil))
		for _, tt := range []struct{ name, script, want string }{
			{"a file is read", "cat README", "hello\n"},
			{"a file that is there is written", "echo more >> README; tail -n 1 README", "more\n"},
			{"a directory takes new files", "echo x > src/new && mkdir -p src/a/b && mv src/new src/a/b/ && cat src/a/b/new && rm -r src/a", "x\n"},
			{"the private directory", `f=$(mktemp) && echo y > "$f" && cat "$f"; case $f in /tmp/tmp.*) exit 1;; esac`, "y\n"},
			{"pipes and jobs", "seq 3 | sort -r | head -n 1 & wait", "3\n"},
			{"caches", `mkdir -p "$GOCACHE" && echo z > "$GOCACHE/z" && cat "$GOCACHE/z"`, "z\n"},
			{"nothing new beside what is protected", "echo x > new 2>/dev/null || echo refused; ls new 2>/dev/null", "refused\n"},
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
		for _, want := range []string{"userns: ", "netns: ", "mountns: ", "pidns: ", "ipcns: ", "utsns: ", "mountns: nothing new can be made directly in " + ws + ","} {
			if !slices.ContainsFunc(rep.Missing, func(m string) bool { return strings.HasPrefix(m, want) }) {
				t.Errorf("the report does not say %q: %q", want, rep.Missing)
			}
		}
		if slices.Contains(rep.Layers, "netns") || rep.Rung != "landlock" {
			t.Errorf("report %+v", rep)
		}
		var missing *MissingError
		if _, err := cage.Box(context.Background(), "s", "strict", Settings{Require: []string{"netns"}}); !errors.As(err, &missing) || missing.Layer != "netns" {
			t.Errorf("a required network namespace: %v", err)
		}
	})
}

// TestX39_WhatAppearsIsNotGiven: a denied path that comes into existence between
// two calls is as closed as one that was there.
func TestX39_WhatAppearsIsNotGiven(t *testing.T) {
	cage := newCage(t, Options{NoNamespaces: true})
	needBare(t, cage)
	ws := shortTemp(t)
	dir := filepath.Join(ws, "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "secret")
	box := newBox(t, cage, "strict", Settings{AllowedWritePaths: []string{ws}, DeniedPaths: []string{secret}})
	if e, out := runIn(t, box, ws, "sh", "-c", "echo x > dir/other && cat dir/other"); e.Code != 0 {
		t.Fatalf("exit %d: %s", e.Code, out)
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if e, out := runIn(t, box, ws, "sh", "-c", "cat dir/other; cat dir/secret"); e.Code == 0 || strings.Contains(out, "secret\n") || !strings.HasPrefix(out, "x\n") {
		t.Errorf("exit %d: %s", e.Code, out)
	}
}

// TestGrants: what is given is never more than the settings say.
func TestGrants(t *testing.T) {
	base := shortTemp(t)
	for _, f := range []string{"ws/a/b/secret", "ws/a/b/other", "ws/a/c/file", "ws/d/file", "ws/.git/hooks/x", "ws/.git/objects/y", "read/x"} {
		p := filepath.Join(base, f)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a/b/secret", filepath.Join(base, "ws/link")); err != nil {
		t.Fatal(err)
	}
	under := func(names ...string) []string {
		for i, n := range names {
			names[i] = filepath.Join(base, n)
		}
		return names
	}
	given, narrowed := grants(child.Template{
		Read: under("read"), Write: append(under("ws"), "/tmp", "/dev/null"), Scratch: base + "/scratch",
		Denied: under("ws/a/b/secret", "ws/absent", "read/absent"), Protected: under("ws/.git/hooks", "ws/.envrc"),
	})
	got := map[string]bool{}
	for _, g := range given {
		if rel, ok := strings.CutPrefix(g.Path, base+"/"); ok {
			got[fmt.Sprint(rel, " ", g.Write)] = true
		} else if Within(g.Path, "/tmp") || g.Write {
			t.Errorf("%+v is given", g)
		}
	}
	for _, want := range []string{
		"read false", "ws/a/b/other false", "ws/a/c false", "ws/d false", "ws/.git false",
		"ws/a/b/other true", "ws/a/c true", "ws/d true", "ws/.git/objects true", "scratch/tmp true", "scratch/vartmp true", "scratch/cache true",
	} {
		if !got[want] {
			t.Errorf("not given: %s", want)
		}
		delete(got, want)
	}
	for g := range got {
		t.Errorf("given besides: %s", g)
	}
	if want := under("ws", "ws/.git", "ws/a", "ws/a/b"); !slices.Equal(narrowed, want) {
		t.Errorf("narrowed %q, want %q", narrowed, want)
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
	var rules []sysRule
	if mode != "landlock" {
		rules = append(rules, sysRule{unix.SYS_CLONE, unix.EPERM, []cond{{arg: cloneFlagsArg, anyBit: cloneNamespaces}}},
			sysRule{unix.SYS_UNSHARE, unix.EPERM, []cond{{arg: 0, anyBit: namespaces}}})
	}
	if mode != "namespaces" {
		rules = append(rules, refuse(unix.EOPNOTSUPP, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF)...)
	}
	installFilter(t, rules)
	cage := newCage(t, Options{})
	rep := cage.Probe()
	box := newBox(t, cage, "strict", Settings{})
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
		if rep.Rung != "landlock" || err != nil || !lacks("userns") {
			t.Errorf("%+v, %v", rep, err)
		}
	case "landlock":
		if rep.Rung != "namespaces" || err != nil || !lacks("landlock") {
			t.Errorf("%+v, %v", rep, err)
		}
	case "both":
		if rep.Rung != "" || !errors.As(err, &missing) || !lacks("userns") || !lacks("landlock") {
			t.Errorf("%+v, %v", rep, err)
		}
	}
}

// installFilter puts this process and all it starts under a filter.
func installFilter(t *testing.T, rules []sysRule) {
	t.Helper()
	var code []unix.SockFilter
	for _, in := range filter(rules) {
		code = append(code, unix.SockFilter{Code: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K})
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	// In front of every thread there is; without a privilege only with this bit,
	// which the call then sets on all of them.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); e != 0 {
		t.Fatalf("install a filter: %v", e)
	}
}
