package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// On the rung without namespaces Landlock holds the files alone. It can only give:
// what is given on a directory holds for everything below. A denied path below a
// tree that may be read, or a protected one below a tree that may be written, is
// therefore left out by giving its neighbours one by one, all the way up to the
// root of the tree. That is narrower than the settings: the directories in between
// cannot be listed, or nothing new can be made in them.

// bareLacks are what that rung does not give, for the report.
var bareLacks = []struct{ layer, why string }{
	{"netns", "no socket can be opened at all, not even on a loopback"},
	{"mountns", "/tmp is out of reach and TMPDIR names a private directory; that files exist, their sizes and times can be seen; modes, owners, times and attributes of files cannot be changed"},
	{"pidns", "numbers of other processes can be told from free ones; Landlock keeps signals and ptrace in; most of /proc is out of reach"},
	{"ipcns", "System V and POSIX queues, semaphores and shared memory are refused, and /dev/shm is out of reach"},
	{"utsns", "the name of the host can be seen"},
}

// maxNeighbours is how many entries of a directory are given one by one. In a
// larger one nothing is.
const maxNeighbours = 4096

// grants are what Landlock gives for a template, and the directories in which that
// is less than the template says, for reading or for writing.
func grants(t child.Template) (given []child.Grant, narrowed []string) {
	read, write := slices.Concat(t.Read, t.Show, t.Write), slices.Clone(t.Write)
	if len(t.Read) == 0 {
		read = append(read, system()...)
	} else {
		read = append(read, child.SystemPaths...)
	}
	if t.WriteAll {
		write = append(system(), t.Show...)
		if len(t.Read) > 0 {
			write = t.Read // what may be written may be read here
		}
	}
	n := narrower{narrowed: map[string]bool{}}
	n.addAll(read, t.Denied, false)
	n.addAll(write, slices.Concat(t.Denied, t.Protected), true)
	for _, dir := range []string{"tmp", "vartmp", "cache"} {
		n.given = append(n.given, child.Grant{Path: filepath.Join(t.Scratch, dir), Write: true})
	}
	for dir := range n.narrowed {
		narrowed = append(narrowed, dir)
	}
	slices.Sort(narrowed)
	return n.given, narrowed
}

// system is the first level of the host, less what is never shown whole.
func system() []string {
	entries, err := os.ReadDir("/")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if p := "/" + e.Name(); e.IsDir() && !slices.Contains(child.OwnPlaces, p) {
			out = append(out, p)
		}
	}
	return out
}

type narrower struct {
	given    []child.Grant
	narrowed map[string]bool // directories that are not given as a whole for writing
}

// addAll gives the trees at the roots, less what is hidden.
func (n *narrower) addAll(roots, hidden []string, write bool) {
	hide := []string{"/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/run"}
	for _, h := range hidden {
		if exists(h) {
			hide = append(hide, h)
		}
	}
	slices.Sort(roots)
	for _, r := range slices.Compact(roots) {
		if r == "" || r == "/" || r == nowhere || Within(r, "/dev") || Within(r, "/proc") || Within(r, "/sys") {
			continue
		}
		// A workspace in a private directory is shown at its own place.
		mine := slices.DeleteFunc(slices.Clone(hide), func(h string) bool {
			return r != h && Within(r, h) && slices.Contains([]string{"/tmp", "/var/tmp", "/run"}, h)
		})
		n.add(r, mine, write)
	}
}

func (n *narrower) add(path string, hide []string, write bool) {
	below := hide[:0:0]
	for _, h := range hide {
		if Within(path, h) {
			return
		}
		if Within(h, path) {
			below = append(below, h)
		}
	}
	if len(below) == 0 {
		n.given = append(n.given, child.Grant{Path: path, Write: write})
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
		if e.Type()&os.ModeSymlink == 0 { // what it leads to has a name of its own
			n.add(filepath.Join(path, e.Name()), below, write)
		}
	}
}

// narrowed tells which directories of the writable trees take no new files.
func (c *cage) narrowed(p *prepared) []string {
	t := c.describe(p.settings, nil, p.gitMore(c))
	if t.WriteAll {
		return []string{"mountns: nothing new can be made in a directory that has a protected or denied path below it"}
	}
	var out []string
	_, dirs := grants(t)
	for _, dir := range dirs {
		out = append(out, fmt.Sprintf("mountns: nothing new can be made directly in %s, because a protected or denied path lies below it", dir))
	}
	return out
}

// bareEnvironment names the private places where they are.
func bareEnvironment(env []string, dir string) []string {
	out := slices.Clone(env)
	for i, e := range out {
		name, value, _ := strings.Cut(e, "=")
		if slices.Contains(child.Overlaid, value) {
			out[i] = name + "=" + filepath.Join(dir, "cache", filepath.Base(value))
		} else if Within(value, child.CacheDir) {
			out[i] = name + "=" + filepath.Join(dir, "cache") + strings.TrimPrefix(value, child.CacheDir)
		} else if name == "TMPDIR" && value == "/tmp" {
			out[i] = "TMPDIR=" + filepath.Join(dir, "tmp")
		}
	}
	return out
}
