package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// sockets finds the Unix sockets of this host that lie in the file system. Neither
// a read-only mount nor, before its ninth version, Landlock keeps anybody from
// connecting to them, so each that is visible is masked.
//
// The kernel remembers the name that a socket was bound by. It may be relative,
// lead through a link or be out of date, so the file is looked for by its inode.
type sockets struct {
	mu    sync.Mutex
	diag  int              // guarded by mu; a netlink socket, -1 when there is none
	found map[uint32]place // guarded by mu; by number of the socket
}

// place is where a socket was found, once: every call asks only whether it is
// still there.
type place struct {
	file  string // "": nowhere
	named string // what its name leads to, where that is another file
}

type boundSocket struct {
	number uint32 // as in "socket:[number]"
	inode  uint32 // of its file, the low half; 0 when it is not known
	name   string // as it was bound
}

func newSockets() *sockets { return &sockets{diag: -1, found: map[uint32]place{}} }

// maxFound bounds the memory that short-lived sockets can take.
const maxFound = 4096

// paths are where those sockets are now. roots are searched when a name says
// nothing.
func (s *sockets) paths(roots []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	bound, err := s.list()
	if err != nil {
		bound = boundByTable()
	}
	if len(s.found) > maxFound {
		clear(s.found)
	}
	var out []string
	for _, b := range bound {
		at, seen := s.found[b.number]
		if !seen || at.file != "" && !b.is(at.file) {
			at = place{file: b.find(roots)}
			// The name may be held by a newer socket, which has its own line, or
			// by this one on a file system whose inodes the kernel numbers otherwise.
			if q := physical(b.name); q != at.file && isSocket(q) {
				at.named = q
			}
			s.found[b.number] = at
		}
		if at.file != "" {
			out = append(out, at.file)
		}
		if at.named != "" && isSocket(at.named) {
			out = append(out, at.named)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (b boundSocket) is(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK && (b.inode == 0 || uint32(st.Ino) == b.inode)
}

func isSocket(path string) bool { return boundSocket{}.is(path) }

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

// find looks where the name says, in the directories that it can have been
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

// below walks a workspace, as far as that ends soon.
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

// directoriesOfOwners are the working directories of the processes that hold a
// socket.
func directoriesOfOwners(number uint32) []string {
	want := fmt.Sprintf("socket:[%d]", number)
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	var out []string
	for _, l := range links {
		if to, err := os.Readlink(l); err != nil || to != want {
			continue
		}
		if d, err := os.Readlink(filepath.Join(filepath.Dir(filepath.Dir(l)), "cwd")); err == nil && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.diag >= 0 {
		unix.Close(s.diag)
		s.diag = -1
	}
}
