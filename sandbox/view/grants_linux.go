package view

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Without namespaces only Landlock protects the files. Landlock can only allow, and a right on
// a directory holds for everything below. So if a denied path lies below a readable tree, or a
// kept path below a writable tree, the rights are not given to the tree. They are given to the
// entries beside the path, one by one, at every level up to the root of the tree. That is
// narrower than the settings: the directories in between cannot be listed, or nothing new can
// be made in them.

// maxNeighbours is how many entries of a directory are granted one by one. In a larger
// directory none is.
const maxNeighbours = 4096

// grants returns the rights that Landlock gives for a template without writing the kept paths.
// narrowed are the directories that lose a right to write which the template has.
func grants(t wire.Template, kept []string) (given []wire.Grant, narrowed []string) {
	read, write := slices.Concat(t.Read, t.Show, t.Write), slices.Clone(t.Write)
	if len(t.Read) == 0 {
		read = append(read, system()...)
	} else {
		read = append(read, wire.SystemPaths...)
	}
	if t.WriteAll {
		write = append(system(), t.Show...)
		if len(t.Read) > 0 {
			write = t.Read // what may be written can be read here
		}
	}
	n := narrower{narrowed: map[string]bool{}}
	n.addAll(read, t.Denied, false)
	n.addAll(write, slices.Concat(t.Denied, kept), true)
	for _, dir := range []string{"tmp", "vartmp", "cache"} {
		n.given = append(n.given, wire.Grant{Path: filepath.Join(t.Scratch, dir), Write: true})
	}
	for dir := range n.narrowed {
		narrowed = append(narrowed, dir)
	}
	slices.Sort(narrowed)
	return n.given, narrowed
}

// system returns the directories in / of the host, except those never shown whole.
func system() []string {
	entries, err := os.ReadDir("/")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if p := "/" + e.Name(); e.IsDir() && !slices.Contains(wire.OwnPlaces, p) {
			out = append(out, p)
		}
	}
	return out
}

// narrower collects grants.
type narrower struct {
	given    []wire.Grant
	narrowed map[string]bool // directories not granted whole for writing
}

// addAll grants the trees at the roots, except what is hidden.
func (n *narrower) addAll(roots, hidden []string, write bool) {
	hide := []string{"/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/run"}
	for _, h := range hidden {
		if _, err := os.Lstat(h); err == nil {
			hide = append(hide, h)
		}
	}
	slices.Sort(roots)
	for _, r := range slices.Compact(roots) {
		kernels := guard.Within(r, "/dev") || guard.Within(r, "/proc") || guard.Within(r, "/sys")
		if r == "" || r == "/" || r == guard.NoPath || kernels {
			continue
		}
		// A workspace below /tmp is shown at its own place.
		mine := slices.DeleteFunc(slices.Clone(hide), func(h string) bool {
			return r != h && guard.Within(r, h) && slices.Contains([]string{"/tmp", "/var/tmp", "/run"}, h)
		})
		n.add(r, mine, write)
	}
}

// add grants a tree, or what lies in it beside the hidden paths.
func (n *narrower) add(path string, hide []string, write bool) {
	below := hide[:0:0]
	for _, h := range hide {
		if guard.Within(path, h) {
			return
		}
		if guard.Within(h, path) {
			below = append(below, h)
		}
	}
	if len(below) == 0 {
		n.given = append(n.given, wire.Grant{Path: path, Write: write})
		return
	}
	if write {
		n.narrowed[path] = true
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) > maxNeighbours {
		return
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 { // its target is granted by its own name
			n.add(filepath.Join(path, e.Name()), below, write)
		}
	}
}

// Narrowed says in which directories a view without namespaces allows less than the
// settings: no new file can be made there.
func (v *View) Narrowed(kept []string) []string {
	t := v.describe("")
	if t.WriteAll {
		return []string{"mountns: nothing new can be made in a directory that has a kept or denied path below it"}
	}
	var out []string
	_, dirs := grants(t, kept)
	for i, dir := range dirs {
		if i == maxNamed {
			out = append(out, fmt.Sprintf("mountns: the same in %d more directories", len(dirs)-i))
			break
		}
		out = append(out, "mountns: nothing new can be made directly in "+strings.ToValidUTF8(dir, "\uFFFD")+
			", because a kept or denied path lies below it")
	}
	return out
}

// maxNamed bounds the directories that are named.
const maxNamed = 32

// hostEnvironment replaces the private places by where they lie on the host.
func hostEnvironment(env []string, dir string) []string {
	out := slices.Clone(env)
	for i, e := range out {
		name, value, _ := strings.Cut(e, "=")
		if slices.Contains(wire.Overlaid, value) {
			out[i] = name + "=" + filepath.Join(dir, "cache", filepath.Base(value))
		} else if guard.Within(value, wire.CacheDir) {
			out[i] = name + "=" + filepath.Join(dir, "cache") + strings.TrimPrefix(value, wire.CacheDir)
		} else if name == "TMPDIR" && value == "/tmp" {
			out[i] = "TMPDIR=" + filepath.Join(dir, "tmp")
		}
	}
	return out
}
