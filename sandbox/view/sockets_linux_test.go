package view_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/view"
)

// kept waits until the directories are old enough for what was found to be returned again. A host
// on which sockets come and go, or have names of their own, may not get there.
func kept(s *view.Sockets) (is bool) {
	for end := time.Now().Add(5 * time.Second); !is && time.Now().Before(end); {
		last := s.Find(nil)
		is = last == s.Find(nil)
	}
	return is
}

// What was found is kept while nothing changes, and a socket that moves, comes or goes is seen at once.
func TestSocketsAreFoundWhereTheyAreNow(t *testing.T) {
	s := view.NewSockets()
	t.Cleanup(s.Close)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	one, two := filepath.Join(root, "one"), filepath.Join(root, "two")
	for _, dir := range []string{one, two} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	listen := func(name string) net.Listener {
		t.Helper()
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	are := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, p := range s.Find([]string{root}).Paths {
			if rel, err := filepath.Rel(root, p); err == nil && filepath.IsLocal(rel) {
				got = append(got, rel)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	kept := func() bool { return kept(s) }
	a := listen(filepath.Join(one, "a"))
	are("a socket", "one/a")
	wasKept := kept()
	b := listen(filepath.Join(one, "b"))
	are("another", "one/a", "one/b")
	wasKept = kept() && wasKept
	x := listen(filepath.Join(two, "x"))
	are("one where none was", "one/a", "one/b", "two/x")
	wasKept = kept() && wasKept
	x.Close()
	must(os.Rename(filepath.Join(one, "a"), filepath.Join(one, "c")))
	are("renamed", "one/b", "one/c")
	wasKept = kept() && wasKept
	must(os.Rename(filepath.Join(one, "c"), filepath.Join(two, "c")))
	are("in another directory", "one/b", "two/c")
	wasKept = kept() && wasKept
	must(os.Rename(two, filepath.Join(root, "three")))
	are("with its directory", "one/b", "three/c")
	wasKept = kept() && wasKept
	must(os.Mkdir(two, 0o755))
	must(os.Rename(filepath.Join(one, "b"), filepath.Join(two, "b")))
	must(os.Rename(one, filepath.Join(root, "gone")))
	must(os.Rename(two, one))
	are("in a new directory of the old name", "one/b", "three/c")
	wasKept = kept() && wasKept
	b.Close()
	must(os.Rename(filepath.Join(root, "three", "c"), filepath.Join(root, "three", "d")))
	are("closed", "three/d")
	a.Close()
	are("none")
	t.Logf("what was found was kept between all changes: %v", wasKept)
}

// What a program would see of the sockets is as new as the sockets, for each view and each directory.
func TestMasksAreOfTheSocketsThatAreThere(t *testing.T) {
	s := view.NewSockets()
	t.Cleanup(s.Close)
	root, err := filepath.EvalSymlinks(t.TempDir()) // below /tmp, which a session has of its own
	if err != nil {
		t.Fatal(err)
	}
	rules := guard.NewRules(guard.Settings{})
	sees := view.New(view.Options{Roots: []string{root}}, guard.Settings{}, rules, "/private", nil)
	hides := view.New(view.Options{}, guard.Settings{}, rules, "/private", nil)
	path := filepath.Join(root, "s")
	are := func(what string, want ...bool) {
		t.Helper()
		for range 2 {
			got := []bool{
				slices.Contains(sees.Masks(s, ""), path), slices.Contains(hides.Masks(s, ""), path),
				slices.Contains(hides.Masks(s, root), path), slices.Contains(hides.Masks(s, ""), path),
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
			kept(s)
		}
	}
	are("no socket", false, false, false, false)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	are("a socket", true, false, true, false)
	l.Close()
	are("no socket any more", false, false, false, false)
}

// Short-lived sockets do not fill the memory, and those that stay are still known.
func TestSocketsThatAreGoneAreForgotten(t *testing.T) {
	s := view.NewSockets()
	t.Cleanup(s.Close)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stays, err := net.Listen("unix", filepath.Join(dir, "stays"))
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Close()
	for range 3 {
		var all []net.Listener
		for i := range 300 {
			l, err := net.Listen("unix", filepath.Join(dir, "s"+string(rune('a'+i/26))+string(rune('a'+i%26))))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		if n := len(s.Find(nil).Paths); n < 301 {
			t.Errorf("%d of 301 sockets were found", n)
		}
		for _, l := range all {
			l.Close()
		}
		if !slices.Contains(s.Find(nil).Paths, filepath.Join(dir, "stays")) {
			t.Error("a socket that stays is not found")
		}
	}
	// Of the host too, where other tests have sockets as well.
	if all, there := view.Known(s); all > 3*there+64 || there < 1 {
		t.Errorf("%d sockets are known, of which %d are there", all, there)
	}
}
