package undo

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard/gitindex"
	"github.com/sandboxd/sandboxd/guard/gitobject"
	"github.com/sandboxd/sandboxd/internal/tools/search"
)

const (
	maxIndex   = 32 << 20 // bytes of an index of git that is read
	maxIgnored = 4 << 20  // bytes of all ignore files that are read for one call
	maxNames   = 10_000   // of one directory of packs
)

// gitBefore knows what git knew of files before a call. Anybody who may write the workspace wrote everything that it
// reads. So a file whose entry cannot be read counts as tracked and not committed.
type gitBefore struct {
	j       *journal
	box     bareBox
	changed map[string]state // by path: what was there before the call
	tops    map[string]string
	repos   map[string]*repository
	ignores *search.Ignores
	left    int // bytes of ignore files that may still be read
}

// repository is the index of a repository and its last commit.
type repository struct {
	head     *gitobject.Repo
	known    bool // the index could be read
	names    gitindex.Names
	modified int64 // of the index
}

func newGitBefore(j *journal, box bareBox, changes []change) *gitBefore {
	g := &gitBefore{
		j: j, box: box, changed: map[string]state{}, tops: map[string]string{}, repos: map[string]*repository{},
		left: maxIgnored,
	}
	for _, c := range changes {
		if _, twice := g.changed[c.Path]; !twice { // the first state is the one before the call
			g.changed[c.Path] = c.Before
		}
	}
	g.ignores = search.NewIgnores(func(path string) []byte {
		b, _, err := g.content(path, int64(g.left))
		if err != nil {
			return nil
		}
		g.left -= len(b)
		return b
	})
	return g
}

// facts says whether git tracked a file, and whether its old content exists nowhere else.
func (g *gitBefore) facts(c change) (tracked, uncommitted bool) {
	if c.Before.Type == nothing || c.Before.Type == isDir || c.Before.Type == isPipe {
		return false, false
	}
	top := g.top(filepath.Dir(c.Path))
	if top == "" {
		return false, false
	}
	rel := c.Path[len(strings.TrimSuffix(top, "/"))+1:]
	if rel == ".git" || strings.HasPrefix(rel, ".git/") {
		return false, c.After.Type == nothing && rel == ".git/HEAD" // the repository goes, with what was never pushed
	}
	r := g.repository(top)
	if !r.known {
		return true, true
	}
	entry, ok := r.names.Entry(rel)
	if !ok {
		tracked = r.names.Has(rel)
		return tracked, tracked || !g.ignores.Ignored(top, c.Path)
	}
	return true, !g.clean(c.Before, entry, r.modified) || !r.committed(rel, entry)
}

// committed reports whether the last commit has the content of the index. What is only staged is in no commit.
func (r *repository) committed(rel string, e gitindex.Entry) bool {
	hash, err := r.head.Blob(rel)
	return err == nil && bytes.Equal(hash, e.Hash)
}

// close closes the files of repositories that were opened.
func (g *gitBefore) close() {
	for _, r := range g.repos {
		if r.head != nil {
			r.head.Close()
		}
	}
}

// clean reports whether a file was as its entry says. Like git, it compares size and time, else the content.
func (g *gitBefore) clean(s state, e gitindex.Entry, index int64) bool {
	if e.Stage != 0 {
		return false
	}
	if s.Type == isFile && e.Modified != 0 && e.Modified == s.Modified && e.Modified < index &&
		e.Size == uint32(s.Size) {
		return true
	}
	if s.Type == isLink {
		return e.Holds(bytes.NewReader(s.Link), int64(len(s.Link)))
	}
	f, err := os.Open(g.j.store.path(s.Sum))
	if err != nil {
		return false
	}
	defer f.Close()
	return e.Holds(f, s.Size)
}

// top returns the directory of the repository in which a directory was, or "".
func (g *gitBefore) top(dir string) string {
	top, known := g.tops[dir]
	if known {
		return top
	}
	switch {
	case filepath.Base(dir) != ".git" && g.was(filepath.Join(dir, ".git")):
		top = dir
	case dir != "/":
		top = g.top(filepath.Dir(dir))
	}
	g.tops[dir] = top
	return top
}

// was reports whether a file existed at the path before the call.
func (g *gitBefore) was(path string) bool {
	if s, changed := g.changed[path]; changed {
		return s.Type != nothing
	}
	var st unix.Stat_t
	err := g.box.user.Do(func() error { return unix.Lstat(path, &st) })
	return err == nil || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
}

// repository reads the index of the repository at top.
func (g *gitBefore) repository(top string) *repository {
	if r := g.repos[top]; r != nil {
		return r
	}
	r := &repository{}
	g.repos[top] = r
	dir := filepath.Join(top, ".git")
	if pointer, _, err := g.content(dir, 8192); err == nil {
		to, ok := strings.CutPrefix(strings.TrimRight(string(pointer), "\r\n"), "gitdir: ")
		if !ok {
			return r
		}
		if dir = filepath.Clean(to); !filepath.IsAbs(to) {
			dir = filepath.Join(top, to)
		}
	}
	r.head = gitobject.Open(g, dir)
	data, modified, err := g.content(filepath.Join(dir, "index"), maxIndex)
	if errors.Is(err, os.ErrNotExist) {
		r.known = true // nothing was ever added
		return r
	}
	if err != nil {
		return r
	}
	names, err := gitindex.Read(data)
	if err != nil || names.Shared != "" { // half of a split index is in another file
		return r
	}
	r.known, r.names, r.modified = true, names, modified
	return r
}

// content returns what a regular file contained before the call.
func (g *gitBefore) content(path string, most int64) (b []byte, modified int64, err error) {
	f, err := g.file(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if f.size > most {
		return nil, 0, fmt.Errorf("%s has %d bytes: %w", path, f.size, os.ErrInvalid)
	}
	b, err = io.ReadAll(io.LimitReader(f, most))
	return b, f.modified, err
}

// oldFile is a regular file as it was before the call.
type oldFile struct {
	*os.File
	size, modified int64
}

// Size implements [gitobject.File].
func (f oldFile) Size() int64 { return f.size }

// file opens a regular file as it was before the call.
func (g *gitBefore) file(path string) (oldFile, error) {
	if s, changed := g.changed[path]; changed {
		switch s.Type {
		case nothing:
			return oldFile{}, os.ErrNotExist
		case isFile:
		default:
			return oldFile{}, os.ErrInvalid
		}
		f, err := os.Open(g.j.store.path(s.Sum))
		if errors.Is(err, os.ErrNotExist) {
			err = os.ErrInvalid
		}
		return oldFile{f, s.Size, s.Modified}, err
	}
	f, err := g.box.open(path, 0)
	if err != nil {
		return oldFile{}, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return oldFile{}, errors.Join(err, os.ErrInvalid, f.Close())
	}
	return oldFile{f, info.Size(), info.ModTime().UnixNano()}, nil
}

// Open implements [gitobject.Files].
func (g *gitBefore) Open(path string) (gitobject.File, error) {
	f, err := g.file(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// List implements [gitobject.Files]. It lists the files that exist and those that existed before the call.
func (g *gitBefore) List(dir string) ([]string, error) {
	var names []string
	for path, s := range g.changed {
		if s.Type != nothing && filepath.Dir(path) == dir {
			names = append(names, filepath.Base(path))
		}
	}
	d, err := g.box.openDir(dir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return names, err
	}
	defer d.Close()
	now, err := d.Readdirnames(maxNames)
	if err == io.EOF {
		err = nil
	}
	return append(names, now...), err
}

// objectsOfGit returns the lines of objects that a call made in a repository that was there before. An undo leaves
// them: a later commit, branch or push may need them, and git itself removes those that nobody needs. Their names
// come from their content, so they are in nobody's way. If changes were refused, the objects go with everything
// else.
func (r restorer) objectsOfGit(p plan) map[int]bool {
	stay, fresh := map[int]bool{}, map[string]bool{}
	if r.refused {
		return stay
	}
	for _, c := range r.of.Changes {
		if c.Before.Type == nothing && filepath.Base(c.Path) == "objects" {
			fresh[c.Path] = true
		}
	}
	for _, i := range p.Lines {
		c := r.of.Changes[i]
		at := strings.LastIndex(c.Path, "/objects/")
		if c.Before.Type != nothing || at < 0 {
			continue
		}
		repository, rest := c.Path[:at], c.Path[at+len("/objects/"):]
		if !strings.Contains(repository+"/", "/.git/") || fresh[repository+"/objects"] {
			continue
		}
		first, _, _ := strings.Cut(rest, "/")
		stay[i] = first == "pack" || isFanOut(first)
	}
	return stay
}

// isFanOut reports whether a directory of objects holds those whose names begin with its two hexadecimal digits.
func isFanOut(name string) bool {
	_, err := hex.DecodeString(name)
	return len(name) == 2 && err == nil
}
