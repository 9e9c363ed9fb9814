package child

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs"
	"github.com/opencontainers/cgroups/fs2"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestX39_CgroupFilesAgainstLibrary has our limits and those of the library that
// container runtimes use written into directories that only look like control groups,
// of both versions. The files must say the same.
//
// The library is never let near the host's hierarchies: it makes directories in all
// of them. TestX39_CgroupsOfTheHost compares what the kernel reads back.
//
// Known to differ: memory.oom.group, which container runtimes leave to their user.
// When one process of a call is killed because memory ran out, all of it ends.
func TestX39_CgroupFilesAgainstLibrary(t *testing.T) {
	cgroups.TestMode = true
	t.Cleanup(func() { cgroups.TestMode = false })
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		l := groupLimits{
			memory:    rapid.Uint64Range(1<<20, math.MaxInt64).Draw(rt, "memory"),
			processes: rapid.Uint64Range(1, 1<<22).Draw(rt, "processes"),
		}
		swap := rapid.Bool().Draw(rt, "swap is counted")
		if rapid.Bool().Draw(rt, "v2") {
			sameFilesV2(rt, dir, l, swap)
		} else {
			sameFilesV1(rt, dir, l, swap)
		}
	})
}

func sameFilesV2(rt *rapid.T, dir string, l groupLimits, swap bool) {
	names := []string{"memory.max", "memory.oom.group", "pids.max"}
	if swap {
		names = append(names, "memory.swap.max")
	}
	ours, theirs := fakeGroup(rt, dir+"/ours", "", names...), fakeGroup(rt, dir+"/theirs", "", names[0], names[2])
	limited(rt, &groups{v2: true}, &group{memory: ours, pids: ours}, l)

	if err := os.WriteFile(dir+"/theirs/cgroup.controllers", []byte("memory pids\n"), 0o600); err != nil {
		rt.Fatal(err)
	}
	unix.Close(theirs)
	m, err := fs2.NewManager(&cgroups.Cgroup{Resources: &cgroups.Resources{}}, dir+"/theirs")
	if err == nil {
		err = m.Set(resources(l))
	}
	if err != nil {
		rt.Fatalf("the library: %v", err)
	}
	got, want := contents(rt, dir+"/ours"), contents(rt, dir+"/theirs")
	if got["memory.oom.group"] != "1" {
		rt.Errorf("memory.oom.group is %q", got["memory.oom.group"])
	}
	delete(got, "memory.oom.group")
	delete(want, "cgroup.controllers")
	if !swap {
		delete(want, "memory.swap.max") // the library makes files that a kernel does not
	}
	if !maps.Equal(got, want) {
		rt.Errorf("limits %+v: %v here, %v by the library", l, got, want)
	}
}

func sameFilesV1(rt *rapid.T, dir string, l groupLimits, swap bool) {
	names, r := []string{"memory.limit_in_bytes"}, resources(l)
	if swap {
		names = append(names, "memory.memsw.limit_in_bytes")
	} else {
		r.MemorySwap = 0
	}
	const unlimited = "9223372036854771712"
	limited(
		rt,
		&groups{},
		&group{
			memory: fakeGroup(rt, dir+"/ours/memory", "", names...),
			pids:   fakeGroup(rt, dir+"/ours/pids", "", "pids.max"),
		},
		l,
	)
	unix.Close(fakeGroup(rt, dir+"/theirs/memory", unlimited, names...))
	unix.Close(fakeGroup(rt, dir+"/theirs/pids", "max", "pids.max"))
	if err := (&fs.MemoryGroup{}).Set(dir+"/theirs/memory", r); err != nil {
		rt.Fatalf("the library: %v", err)
	}
	if err := (&fs.PidsGroup{}).Set(dir+"/theirs/pids", r); err != nil {
		rt.Fatalf("the library: %v", err)
	}
	for _, c := range []string{"memory", "pids"} {
		if got, want := contents(rt, dir+"/ours/"+c), contents(rt, dir+"/theirs/"+c); !maps.Equal(got, want) {
			rt.Errorf("limits %+v: %v here, %v by the library", l, got, want)
		}
	}
}

// resources are the limits in the words of the library: no swap besides the memory.
func resources(l groupLimits) *cgroups.Resources {
	processes := int64(l.processes)
	return &cgroups.Resources{Memory: int64(l.memory), MemorySwap: int64(l.memory), PidsLimit: &processes}
}

func limited(rt *rapid.T, g *groups, s *group, l groupLimits) {
	defer unix.Close(s.memory)
	if s.pids != s.memory {
		defer unix.Close(s.pids)
	}
	if err := g.limit(s, l); err != nil {
		rt.Fatal(err)
	}
}

// fakeGroup is a directory with these files.
func fakeGroup(rt *rapid.T, dir, text string, names ...string) int {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		rt.Fatal(err)
	}
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), []byte(text), 0o600); err != nil {
			rt.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		rt.Fatal(err)
	}
	return fd
}

func contents(rt *rapid.T, dir string) map[string]string {
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		rt.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			rt.Fatal(err)
		}
		out[e.Name()] = strings.TrimSpace(string(b))
	}
	return out
}

// TestX39_OutOfMemoryAgainstLibrary reads what the kernel has counted, as the library
// does.
func TestX39_OutOfMemoryAgainstLibrary(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		count            func(string) (uint64, error)
	}{
		{"v1", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", fs.OOMKillCount},
		{"v1, never", "memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 0\n", fs.OOMKillCount},
		{"v2", "memory.events", "low 0\nhigh 9\nmax 8\noom 7\noom_kill 5\noom_group_kill 4\n", fs2.OOMKillCount},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cgroups.TestMode = true
			t.Cleanup(func() { cgroups.TestMode = false })
			path := filepath.Join(t.TempDir(), tt.file)
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			want, err := tt.count(filepath.Dir(path))
			if err != nil {
				t.Fatalf("the library: %v", err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := field(int(f.Fd()), "oom_kill "); got != int64(want) {
				t.Errorf("%d here, %d by the library", got, want)
			}
		})
	}
}
