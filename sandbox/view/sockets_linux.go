package view

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/ctime"
)

// Sockets finds the Unix sockets of this host that have a file. Each that is visible must
// be masked: a read-only mount lets programs connect to it, and so does Landlock before its
// ninth version.
//
// The kernel remembers the name that a socket was bound by. That may be relative, lead
// through a link or be out of date, so the file is searched by its inode. Sockets is safe
// for concurrent use.
type Sockets struct {
	mu    sync.Mutex
	diag  int              // guarded by mu; a netlink socket, -1 when there is none
	found map[uint32]place // guarded by mu; by number of the socket
	last  search           // guarded by mu
	spare []byte           // guarded by mu; the buffer of the answer before the last
}

// place is where a socket was found. Later calls only check that it is still there.
type place struct {
	file  string // "": nowhere
	named string // another file that its name leads to
	dir   string // of file
}

// Found is where the sockets were at one time.
type Found struct{ Paths []string }

// search is what the kernel answered last, and what was found then.
type search struct {
	answer []byte
	dirs   map[string]*ctime.Set // the directories of the files, each alone; nil is a new one
	found  *Found                // nil: it depends on more than that
}

// unchanged returns the directories in which nothing was made, removed or renamed since the
// search. It is asked before anybody looks there again.
func (l search) unchanged() map[string]bool {
	are := make(map[string]bool, len(l.dirs))
	for dir, set := range l.dirs {
		if set != nil {
			are[dir] = set.Unchanged()
			continue
		}
		l.dirs[dir] = &ctime.Set{}
		l.dirs[dir].Add(dir)
	}
	return are
}

type boundSocket struct {
	number uint32 // as in "socket:[number]"
	inode  uint32 // of its file, the low half; 0 when it is not known
	name   string // as it was bound
}

// NewSockets returns a search that has found nothing yet.
func NewSockets() *Sockets { return &Sockets{diag: -1, found: map[uint32]place{}} }

// Find returns where the sockets are now: what it returned before, if nothing has changed. roots
// are searched for a socket whose name does not lead to it.
func (s *Sockets) Find(roots []string) *Found {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, err := s.dump(s.spare[:0])
	unchanged := s.last.unchanged()
	same := func(dir string) bool { return unchanged[dir] }
	if err == nil && s.last.found != nil && bytes.Equal(answer, s.last.answer) && every(s.last.dirs, same) {
		s.spare = answer
		return s.last.found
	}
	bound := parseDump(answer)
	if err != nil {
		bound = boundByTable()
	}
	s.forget(bound)
	now := search{answer: answer, dirs: map[string]*ctime.Set{}}
	var out []string
	lasts := err == nil
	for _, b := range bound {
		at, seen := s.found[b.number]
		if !seen || at.file != "" && !same(at.dir) && !b.is(at.file) {
			at = place{file: b.find(roots)}
			// The name may belong to a newer socket, which has its own entry. Or it belongs to this
			// one: on some file systems the kernel has other inode numbers than stat returns.
			if q := physical(b.name); q != at.file && isSocket(q) {
				at.named = q
			}
			if at.file != "" {
				at.dir = filepath.Dir(at.file)
			}
			s.found[b.number] = at
		}
		if at.file != "" {
			out = append(out, at.file)
			now.dirs[at.dir] = s.last.dirs[at.dir]
		}
		if at.named != "" {
			lasts = false
			if isSocket(at.named) {
				out = append(out, at.named)
			}
		}
	}
	slices.Sort(out)
	found := &Found{slices.Compact(out)}
	if lasts {
		now.found = found
	}
	s.spare, s.last = s.last.answer, now
	return found
}

func every[V any](all map[string]V, is func(string) bool) bool {
	for key := range all {
		if !is(key) {
			return false
		}
	}
	return true
}

// forget drops the entries of sockets that are gone, when there are many.
func (s *Sockets) forget(bound []boundSocket) {
	if len(s.found) <= 2*len(bound)+64 {
		return
	}
	there := make(map[uint32]place, len(bound))
	for _, b := range bound {
		if at, seen := s.found[b.number]; seen {
			there[b.number] = at
		}
	}
	s.found = there
}

func (b boundSocket) is(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK &&
		(b.inode == 0 || uint32(st.Ino) == b.inode)
}

func isSocket(path string) bool { return boundSocket{}.is(path) }

// physical resolves all links of an absolute path; "" if that fails.
func physical(name string) string {
	if !filepath.IsAbs(name) {
		return ""
	}
	p, err := filepath.EvalSymlinks(name)
	if err != nil {
		return ""
	}
	return p
}

// find searches the file of a socket: by its name, in the directories that the name can be
// relative to, and in the workspaces.
func (b boundSocket) find(roots []string) string {
	dirs := []string{filepath.Dir(b.name)}
	if p := physical(b.name); p != "" && b.is(p) {
		return p
	}
	if !filepath.IsAbs(b.name) {
		dirs = nil
		for _, d := range directoriesOfOwners(b.number) {
			p := physical(filepath.Join(d, b.name))
			if p != "" && b.is(p) {
				return p
			}
			dirs = append(dirs, filepath.Dir(filepath.Join(d, b.name)))
		}
	}
	if b.inode == 0 {
		return ""
	}
	for _, d := range dirs {
		entries, _ := os.ReadDir(d)
		for _, e := range entries {
			if p := filepath.Join(d, e.Name()); e.Type() == fs.ModeSocket && b.is(p) {
				return p
			}
		}
	}
	for _, root := range roots {
		if p := b.below(root); p != "" {
			return p
		}
	}
	return ""
}

// below searches a workspace, up to a number of files.
func (b boundSocket) below(root string) (found string) {
	room := 200_000
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if room--; room == 0 {
			return fs.SkipAll
		}
		if err == nil && d.Type() == fs.ModeSocket && b.is(p) {
			found = p
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// directoriesOfOwners returns the working directories of the processes that hold a socket.
func directoriesOfOwners(number uint32) []string {
	want := fmt.Sprintf("socket:[%d]", number)
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	var out []string
	for _, l := range links {
		if to, err := os.Readlink(l); err != nil || to != want {
			continue
		}
		process := filepath.Dir(filepath.Dir(l))
		if d, err := os.Readlink(filepath.Join(process, "cwd")); err == nil && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// Close ends the search.
func (s *Sockets) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.diag >= 0 {
		unix.Close(s.diag)
		s.diag = -1
	}
}
