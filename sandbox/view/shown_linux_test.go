package view

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// TestPathsOfAView: what a path of the sandbox means, and what a view shows in addition.
func TestPathsOfAView(t *testing.T) {
	write := []string{"/tmp", "/tmp/ws", "/dev/null", "/proc/self"}
	s := guard.Settings{AllowedWritePaths: write, DeniedPaths: []string{"/home/secret"}}
	list := guard.Settings{AllowedReadPaths: []string{"/srv"}, AllowedWritePaths: []string{"/srv/out"}}
	of := func(s guard.Settings) *View {
		return New(Options{Home: "/home/dev", Roots: []string{"/run/ws"}}, s, guard.NewRules(s), "/private", nil)
	}
	usual, listed, all := of(s), of(list), of(guard.Settings{})
	for _, tt := range []struct{ what, got, want string }{
		{"a file of the private directory", usual.OnHost("/tmp/a", ""), "/private/tmp/a"},
		{"the other private directory", usual.OnHost("/var/tmp/a", ""), "/private/vartmp/a"},
		{"a cache", usual.OnHost(wire.CacheDir+"/a", ""), "/private/cache/a"},
		{"a workspace in a private place", usual.OnHost("/tmp/ws/a", ""), "/tmp/ws/a"},
		{"a directory that is shown in addition", usual.OnHost("/tmp/more/a", "/tmp/more"), "/tmp/more/a"},
		{"any other", usual.OnHost("/usr/a", ""), "/usr/a"},

		{"show /usr", usual.MustShow("/usr"), ""},
		{"show the private directory", all.MustShow("/tmp"), ""},
		{"show what is shown", usual.MustShow("/home/dev/a"), ""},
		{"show what is in a private place", usual.MustShow("/tmp/more"), "/tmp/more"},
		{"show another home", usual.MustShow("/home/other"), "/home/other"},
		{"show what is denied", usual.MustShow("/home/secret"), ""},
		{"show what is not readable", listed.MustShow("/home/other"), ""},

		{"hides another home", usual.Hidden("/home/other/a"), "/home"},
		{"hides the home", usual.Hidden("/home/dev/a"), ""},
		{"hides what is above the home", usual.Hidden("/home"), ""},
		{"hides what is in /run", usual.Hidden("/run/user/1"), "/run"},
		{"hides a workspace", usual.Hidden("/run/ws/a"), ""},
		{"hides the programs of NixOS", usual.Hidden("/run/current-system/sw"), ""},
		{"hides the caches", usual.Hidden(wire.CacheDir + "/a"), ""},

		{
			"measured", fmt.Sprint(usual.Writable("/srv")),
			"[/tmp/ws /private/tmp /private/vartmp /private/cache /private/over]",
		},
		{
			"measured where everything may be written", fmt.Sprint(all.Writable("/srv")),
			"[/srv /private/tmp /private/vartmp /private/cache /private/over]",
		},

		{"shown in addition", fmt.Sprint(slices.Contains(usual.describe("/home/other").Show, "/home/other")), "true"},
		{"not shown", fmt.Sprint(slices.Contains(usual.describe("").Show, "/home/other")), "false"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, tt.got, tt.want)
		}
	}
}

// TestReadable: where a right covers what is mounted below, the list of readable paths narrows it.
func TestReadable(t *testing.T) {
	for _, tt := range []struct {
		name       string
		without    bool // namespaces
		read       []string
		paths, got string
	}{
		{"no list", false, nil, "/tmp/a /usr", "/tmp/a /usr"},
		{
			"a part of a path below /tmp", false,
			[]string{"/tmp/a/b", "/tmp/a/c", "/srv"},
			"/tmp/a /usr",
			"/tmp/a/b /tmp/a/c /usr",
		},
		{"all of it", false, []string{"/tmp"}, "/tmp/a", "/tmp/a"},
		{"nothing of it", false, []string{"/srv"}, "/tmp/a", ""},
		{"any path without namespaces", true, []string{"/usr/lib"}, "/tmp/a /usr", "/usr/lib"},
	} {
		v := New(Options{NoNamespaces: tt.without}, guard.Settings{AllowedReadPaths: tt.read}, nil, "/private", nil)
		if got := strings.Join(v.Readable(strings.Fields(tt.paths)), " "); got != tt.got {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.got)
		}
	}
}

// TestASharedCacheHoldsNothingForeign: the host's cache lies below that of a session only if programs may read
// all of it and no session writes it.
func TestASharedCacheHoldsNothingForeign(t *testing.T) {
	base := physicalTemp(t)
	for _, dir := range []string{"/go/in", "/a:b", "/home/.cargo", "/ws"} {
		if err := os.MkdirAll(base+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ws := []string{base + "/ws"}
	for _, tt := range []struct {
		name, cache string
		private     []string
		s           guard.Settings
		shared      bool
	}{
		{"a cache", "/go", nil, guard.Settings{AllowedWritePaths: ws}, true},
		{"with the private directory", "/go", nil, guard.Settings{AllowedWritePaths: append(ws, "/tmp")}, true},
		{"everything may be written", "/go", nil, guard.Settings{}, false},
		{"it may be written", "/go", nil, guard.Settings{AllowedWritePaths: []string{base + "/go"}}, false},
		{"a part may be written", "/go", nil, guard.Settings{AllowedWritePaths: []string{base + "/go/in"}}, false},
		{"it lies in what may be written", "/go", nil, guard.Settings{AllowedWritePaths: []string{base}}, false},
		{
			"a part is denied", "/go", nil,
			guard.Settings{AllowedWritePaths: ws, DeniedPaths: []string{base + "/go/in"}},
			false,
		},
		{
			"it is not readable", "/go", nil,
			guard.Settings{AllowedWritePaths: ws, AllowedReadPaths: []string{base + "/ws"}},
			false,
		},
		{"a part is the daemon's", "/go", []string{base + "/go/in"}, guard.Settings{AllowedWritePaths: ws}, false},
		{"it is the daemon's", "/go", []string{base}, guard.Settings{AllowedWritePaths: ws}, false},
		{"a name that a mount cannot have", "/a:b", nil, guard.Settings{AllowedWritePaths: ws}, false},
		{"it is not there", "/absent", nil, guard.Settings{AllowedWritePaths: ws}, false},
	} {
		v := New(Options{Home: base + "/home", Private: tt.private}, tt.s, guard.NewRules(tt.s), "/private",
			[]string{"GOCACHE=" + base + tt.cache})
		if dir, shared := v.lower()[wire.GoCache]; shared != tt.shared || shared && dir != base+tt.cache {
			t.Errorf("%s: shared %q %v, want %v", tt.name, dir, shared, tt.shared)
		}
	}
	v := New(Options{Home: base + "/home"}, guard.Settings{AllowedWritePaths: ws},
		guard.NewRules(guard.Settings{AllowedWritePaths: ws}), "/private", nil)
	if got := v.lower()[wire.CargoHome]; got != base+"/home/.cargo" {
		t.Errorf("the one in the home: %q", got)
	}
}

// TestNarrowed: without namespaces a call hears where nothing new can be made.
func TestNarrowed(t *testing.T) {
	ws := physicalTemp(t)
	kept := []string{ws + "/.envrc"}
	for i := range 40 {
		kept = append(kept, fmt.Sprintf("%s/d%d/.envrc", ws, i))
	}
	for _, p := range kept {
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	of := func(write ...string) *View {
		s := guard.Settings{AllowedWritePaths: write}
		return New(Options{NoNamespaces: true}, s, guard.NewRules(s), "/private", nil)
	}
	if got, want := of(ws).Narrowed(kept[:1]), "mountns: nothing new can be made directly in "+ws+
		", because a kept or denied path lies below it"; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got := of(ws).Narrowed(kept)
	if len(got) != 33 || got[32] != "mountns: the same in 9 more directories" {
		t.Errorf("got %d, %q", len(got), got)
	}
	if got := of().Narrowed(nil); len(got) != 1 || got[0] !=
		"mountns: nothing new can be made in a directory that has a kept or denied path below it" {
		t.Errorf("everything may be written: %q", got)
	}
	if got := of(ws).Narrowed(nil); len(got) != 0 {
		t.Errorf("nothing is kept: %q", got)
	}
}

// TestGrantsWhereEverythingMayBeWritten: without namespaces only what a list says, and never a place of the kernel.
func TestGrantsWhereEverythingMayBeWritten(t *testing.T) {
	for _, tt := range []struct {
		name              string
		read, want, never []string
	}{
		{
			"no list", nil,
			[]string{"/usr true", "/home/dev true"},
			[]string{"/proc true", "/dev true", "/tmp true", "/ true"},
		},
		{
			"a list",
			[]string{"/usr/lib"},
			[]string{"/usr/lib true", "/usr/lib false"},
			[]string{"/usr true", "/home/dev true"},
		},
	} {
		template := wire.Template{WriteAll: true, Read: tt.read, Show: []string{"/home/dev"}, Scratch: "/x"}
		given, _ := grants(template, nil)
		var got []string
		for _, g := range given {
			got = append(got, fmt.Sprint(g.Path, " ", g.Write))
		}
		for _, w := range tt.want {
			if !slices.Contains(got, w) {
				t.Errorf("%s: %q lacks %q", tt.name, got, w)
			}
		}
		for _, n := range tt.never {
			if slices.Contains(got, n) {
				t.Errorf("%s: %q has %q", tt.name, got, n)
			}
		}
	}
}

// "/" in the list is everything, as no list is.
func TestTheRootInTheListIsEverything(t *testing.T) {
	for _, tt := range []struct {
		write []string
		all   bool
	}{{nil, true}, {[]string{"/srv", "/"}, true}, {[]string{"/srv"}, false}} {
		s := guard.Settings{AllowedWritePaths: tt.write}
		v := New(Options{}, s, guard.NewRules(s), "/private", nil)
		if got := v.describe("").WriteAll; got != tt.all {
			t.Errorf("%q: everything may be written: %v, want %v", tt.write, got, tt.all)
		}
	}
}

// TestNothingIsGrantedInALargeDirectory: beside a denied path, where the rights would be too many.
func TestNothingIsGrantedInALargeDirectory(t *testing.T) {
	dir := physicalTemp(t)
	for i := range maxNeighbours {
		if err := os.WriteFile(fmt.Sprint(dir, "/f", i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	of := func() (n int) {
		given, _ := grants(wire.Template{Read: []string{dir}, Denied: []string{dir + "/f0"}, Scratch: "/x"}, nil)
		for _, g := range given {
			if guard.Within(g.Path, dir) {
				n++
			}
		}
		return n
	}
	if n := of(); n != maxNeighbours-1 {
		t.Errorf("%d entries are granted beside the denied one, want %d", n, maxNeighbours-1)
	}
	if err := os.WriteFile(dir+"/more", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if n := of(); n != 0 {
		t.Errorf("%d entries of a larger directory are granted, want none", n)
	}
}

// TestASocketIsFoundByItsNameAlone: on some file systems the kernel has another inode number than stat returns.
func TestASocketIsFoundByItsNameAlone(t *testing.T) {
	path := physicalTemp(t) + "/s"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(os.Remove(path), unix.Mknod(path, unix.S_IFSOCK|0o600, 0)); err != nil {
		t.Fatal(err)
	}
	s := NewSockets()
	defer s.Close()
	for _, again := range []bool{false, true} {
		if got := s.Find(nil).Paths; !slices.Contains(got, path) {
			t.Errorf("again %v: %q lacks %s", again, got, path)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := s.Find(nil).Paths; slices.Contains(got, path) {
		t.Errorf("%q has a socket that is gone", got)
	}
}

// TestSocketsWithANameOfTheirOwn: a relative name is meant from the directory of whoever has the socket.
func TestSocketsWithANameOfTheirOwn(t *testing.T) {
	dir := physicalTemp(t)
	t.Chdir(dir)
	l, err := net.Listen("unix", "relative")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	is := func(what, path string) {
		t.Helper()
		s := NewSockets()
		defer s.Close()
		if got := s.Find(nil).Paths; !slices.Contains(got, path) {
			t.Errorf("%s: %q lacks %s", what, got, path)
		}
	}
	is("a relative name", dir+"/relative")
	if err := os.Rename("relative", "other"); err != nil {
		t.Fatal(err)
	}
	is("a relative name that was changed", dir+"/other")
}

// TestSocketsOfAKernelWithoutNetlink: the table in /proc has the names.
func TestSocketsOfAKernelWithoutNetlink(t *testing.T) {
	dir := physicalTemp(t)
	t.Chdir(dir)
	own := fmt.Sprint("s", os.Getpid())
	want := map[string]string{dir + "/s": dir + "/s", own: dir + "/" + own}
	for _, name := range []string{dir + "/s", own, "@" + own} {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	for _, b := range boundByTable() {
		if strings.HasPrefix(b.name, "@") || b.number == 0 {
			t.Errorf("%+v", b)
		}
		if path, ok := want[b.name]; ok {
			delete(want, b.name)
			if got := b.find(nil); got != path {
				t.Errorf("%s was found at %q, want %q", b.name, got, path)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("not in the table: %q", want)
	}
}
