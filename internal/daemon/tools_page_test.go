package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The page and the check of the configuration know every group and
// every tool that a daemon has.
func TestDocs_EveryToolOfADaemonIsDescribedOnce(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "conf.yaml")
	if err := os.WriteFile(conf, []byte("workspace: {roots: ["+dir+"/work]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, _, _ := daemonIn(t, dir, conf)
	page, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	var known, served []string
	for _, g := range BuiltIn() {
		known = append(known, g.Name)
	}
	n := 0
	for _, g := range d.current.Load().tools.Groups() {
		served = append(served, g.Name)
		for _, tl := range g.Tools {
			n++
			name := tl.Spec().Name
			if got := strings.Count(string(page), "\n### "+name+"\n"); got != 1 {
				t.Errorf("docs/tools.md has %d headings of %s, want one", got, name)
			}
		}
	}
	if n < 17 || strings.Count(string(page), "\n### ") != n {
		t.Errorf("a daemon has %d tools, docs/tools.md %d", n, strings.Count(string(page), "\n### "))
	}
	slices.Sort(known)
	slices.Sort(served)
	if !slices.Equal(known, served) {
		t.Errorf("a daemon has the groups %q, the configuration knows %q", served, known)
	}
}
