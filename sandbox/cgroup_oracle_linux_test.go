package sandbox

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs"
	"github.com/opencontainers/cgroups/fs2"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/limit"
)

// TestX39_CgroupsOfTheHost gives a group beside that of a call the same limits by the
// library that container runtimes use, and has the kernel say what both groups hold.
// The library gets directories that are made for it, below the daemon's own group, and
// never the making of any.
func TestX39_CgroupsOfTheHost(t *testing.T) {
	backend := newCage(t, Options{})
	needGroups(t, backend)
	g := backend.(*cage).groups
	const oracle = "oracle"
	files, err := g.Open(oracle)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		f.Close()
	}
	t.Cleanup(func() { g.Close(oracle) })

	ws := shortTemp(t)
	box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	for _, l := range []guard.Limits{
		{MemoryBytes: 64 << 20, Processes: 40},
		{MemoryBytes: 2<<30 + 12345, Processes: 1000}, // not a whole number of pages
		{MemoryBytes: 32 << 20, Processes: 7},
	} {
		p, err := box.Start(t.Context(), Spec{Argv: []string{"true"}, Dir: ws, Limits: l})
		if err != nil {
			t.Fatal(err)
		}
		if e, err := p.Wait(); err != nil || e.Code != 0 {
			t.Fatalf("%+v %v", e, err)
		}
		processes := int64(l.Processes)
		r := &cgroups.Resources{Memory: l.MemoryBytes, MemorySwap: l.MemoryBytes, PidsLimit: &processes}
		names := []string{"memory.max", "memory.swap.max", "pids.max"}
		if g.Version == "v1" {
			names = []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "pids.max"}
			err = limitV1(g, oracle, r)
		} else {
			err = limitV2(g, oracle, r)
		}
		if err != nil {
			t.Fatalf("the library: %v", err)
		}
		want := groupValues(t, g, oracle, names)
		if len(want) < 2 {
			t.Fatalf("the library's group holds %v", want)
		}
		// Of the groups of the launcher one had these limits, and the one that waits
		// for the next call may have others.
		found := map[string]string{}
		calls, _ := filepath.Glob(filepath.Join(g.Dirs[0], p.(*proc).launcher.GroupName, "c[0-9]*"))
		for _, c := range calls {
			got := groupValues(t, g, filepath.Join(p.(*proc).launcher.GroupName, filepath.Base(c)), names)
			if found = got; maps.Equal(got, want) {
				break
			}
		}
		if !maps.Equal(found, want) {
			t.Errorf("limits %+v: %v here, %v by the library", l, found, want)
		}
	}
}

func limitV1(g *limit.Groups, name string, r *cgroups.Resources) error {
	if _, err := os.Stat(filepath.Join(g.Dirs[0], name, "memory.memsw.limit_in_bytes")); err != nil {
		r.MemorySwap = 0 // a kernel without it
	}
	if err := (&fs.MemoryGroup{}).Set(filepath.Join(g.Dirs[0], name), r); err != nil {
		return err
	}
	return (&fs.PidsGroup{}).Set(filepath.Join(g.Dirs[1], name), r)
}

func limitV2(g *limit.Groups, name string, r *cgroups.Resources) error {
	m, err := fs2.NewManager(&cgroups.Cgroup{Resources: &cgroups.Resources{}}, filepath.Join(g.Dirs[0], name))
	if err != nil {
		return err
	}
	return m.Set(r)
}

// groupValues are what the kernel holds, of the files that it has.
func groupValues(t *testing.T, g *limit.Groups, name string, files []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range g.Dirs {
		for _, f := range files {
			if b, err := os.ReadFile(filepath.Join(dir, name, f)); err == nil {
				out[f] = strings.TrimSpace(string(b))
			}
		}
	}
	return out
}
