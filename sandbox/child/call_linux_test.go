package child

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"github.com/sandboxd/sandboxd/tests/golden"
)

// TestOperationsAreGenerated prints what a call runs, without running it.
func TestOperationsAreGenerated(t *testing.T) {
	s := &server{
		t:   wire.Template{Profile: "strict", Filter: []wire.Insn{{Code: 6, K: 0x7fff0000}}},
		abi: 7, lastCap: 2, privileged: true, procMasks: []string{"/proc/keys"},
		rules: []rule{{"/", llRead, 7}, {"/proc", llRead, -1}, {"/tmp", llRead | llWrite, 8}},
	}
	call := script.Call{
		Argv: []string{"sh", "-c", "true"}, Env: []string{"A=b", "PATH=/usr/bin:bin:/bin"}, Dir: "/ws",
		Limits: wire.Limits{
			CPUSeconds: 10,
			FileSize:   1 << 20,
			OpenFiles:  64,
			Processes:  400,
		}, Devices: [3]script.Device{{Path: "/dev/null"}},
	}
	a, err := newArena(s.fixedRoom() + call.Room())
	if err != nil {
		t.Fatal(err)
	}
	defer a.free()
	got := "init:\n" + strings.Join(names(a.initOps(s, nil)), "\n") +
		"\n\nconfine:\n" + strings.Join(names(a.confineOps(s, nil, call.Limits.Processes, 1, 9)), "\n")
	script := script.Compile(wire.Slot{Arena: uint64(a.At), Area: uint64(a.At) + uint64(a.Used)}, call)
	got += "\n\nprogram:\n" + strings.Join(names(script.Ops), "\n") + "\n"
	golden.Check(t, "testdata/strict.ops", got)
	// The order is the protection: nothing may come after the filter but what it
	// allows, and no file may be opened after the capabilities are gone.
	at := func(name string) int { return strings.Index(got, name) }
	for _, pair := range [][2]string{
		{"drop capability 0", "drop all capabilities"},
		{"drop all capabilities", "no_new_privs"},
		{"no_new_privs", "landlock_restrict_self"},
		{"landlock_restrict_self", "seccomp"},
		{"seccomp", "close other descriptors"},
		{"close other descriptors", "execve"},
		{"mount /proc", "make /proc read-only"},
		{"make /proc read-only", "drop capability 0"},
	} {
		if at(pair[0]) < 0 || at(pair[0]) > at(pair[1]) {
			t.Errorf("%q does not come before %q", pair[0], pair[1])
		}
	}
}

func names(list []script.Op) []string {
	out := make([]string, len(list))
	for i, o := range list {
		out[i] = strings.ReplaceAll(o.Name, "\n", `\n`)
	}
	return out
}

func TestFailureNamesItsOperation(t *testing.T) {
	list := []script.Op{{Name: "setsid"}, {Name: "mount /proc"}}
	if got, want := script.Explain(wire.Failure{Op: 2, Errno: 1}, "set up the call",
		list), "set up the call: op 2 mount /proc: operation not permitted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := script.Explain(wire.Failure{Op: -1, Errno: 11}, "set up the call", list); !strings.Contains(got,
		"temporarily unavailable") {
		t.Errorf("got %q", got)
	}
}

func TestHandledRights(t *testing.T) {
	for abi, want := range map[int]uint64{
		1: 1<<13 - 1, 2: 1<<14 - 1, 3: 1<<15 - 1, 4: 1<<15 - 1, 5: 1<<16 - 1,
		7: 1<<16 - 1,
	} {
		if got := handledFS(abi); got != want {
			t.Errorf("ABI %d handles %#x, want %#x", abi, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		path, root string
		want       bool
	}{{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/", "/a", false}, {"/a", "/", true}} {
		if got := within(tt.path, tt.root); got != tt.want {
			t.Errorf("within(%q, %q) = %v", tt.path, tt.root, got)
		}
	}
}

// TestMemoryOfOrphansIsNotUsedAgain: what a killed init process has left may write to it.
func TestMemoryOfOrphansIsNotUsedAgain(t *testing.T) {
	for _, orphans := range []bool{false, true} {
		s := &server{calls: map[uint64]*running{}}
		a, err := s.arena(usualRoom)
		if err != nil {
			t.Fatal(err)
		}
		s.release(&running{a: a, pidfd: -1, slot: -1, mounts: -1, listener: -1, orphans: orphans})
		if again := len(s.spares.arenas) == 1; again == orphans {
			t.Errorf("orphans %v: used again %v", orphans, again)
		}
		a.whole()[0] = 1 // still there
	}
}
