// Package gitobject reads which content the last commit of a git repository has for a path. Package
// undo uses it to know whether the content that a call replaced is in the last commit.
//
// Files go in, the hash of a blob comes out:
//
//	r := gitobject.Open(files, "/src/.git") // opens nothing yet; files implements Files
//	defer r.Close()
//	hash, err := r.Blob("cmd/main.go") // nil: HEAD does not have it as a file
//
// Open takes the git directory itself: a .git file is not followed. Blob takes a path relative to
// the top of the work tree, with slashes. The hash is in raw bytes, 20 or 32. For a submodule it is
// the id of its commit, for a symbolic link the hash of its target text.
//
// A [Repo] reads HEAD once, so its answers are of one commit. It reads 64 MB of objects in all;
// beyond that is an error. It is for one goroutine.
//
// It reads loose objects and packs (with an index of version 2), SHA-1 and SHA-256, linked work
// trees and alternates. These may lie outside of the git directory: the repository names absolute
// paths, and [Files] must refuse what may not be read. Refs in the format reftable are not read:
// Blob returns an error then.
//
// Whoever may write the repository wrote the bytes, so nothing in them is trusted. What cannot be
// read is an error, and sizes are bounded. An error says nothing about HEAD: a caller must not take it
// for a path that HEAD does not have. No program of git runs, because it would obey the configuration
// of the repository. The package does not check the repository: it looks at no checksum, no order of
// trees, and not whether a hash is that of its object. Who writes objects can commit as well.
//
// The tests compare each way to keep objects with what git says (TestHeadIsWhatGitSays has the list).
package gitobject

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Files are those that are read, by absolute path.
type Files interface {
	// Open opens a regular file. [fs.ErrNotExist] means that nothing is there; anything else that is no regular file
	// is another error.
	Open(path string) (File, error)
	// List has the names in a directory. It may name a file that Open does not have. If the directory is missing, it
	// returns [fs.ErrNotExist] or no names.
	List(dir string) ([]string, error)
}

// File is one of them.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

const (
	maxRead   = 64 << 20 // bytes of objects that one Repo reads
	maxRefs   = 16 << 20 // of packed-refs
	maxLine   = 8 << 10  // of a file with one line
	maxStores = 16       // directories of objects
	maxPacks  = 256      // of all of them
	maxChain  = 4096     // deltas of one object, as git allows
)

var errForm = errors.New("not a repository of git as it is read here")

// Repo is a repository. It is for one goroutine.
type Repo struct {
	files  Files
	dir    string
	left   int64 // bytes of objects that may still be read
	stores []string
	packs  []*pack
	trees  map[string]map[string]entry
	root   []byte
	err    error
	looked bool
}

// entry is one of a tree.
type entry struct {
	dir  bool
	hash []byte
}

// Open begins to read the repository with a git directory. Nothing is read yet.
func Open(files Files, dir string) *Repo {
	return &Repo{files: files, dir: dir, left: maxRead, trees: map[string]map[string]entry{}}
}

// Close closes the files that are open.
func (r *Repo) Close() {
	for _, p := range r.packs {
		p.close()
	}
}

// Blob returns the hash of what HEAD has at a path, which is relative to the top. It is nil if HEAD has nothing
// there or a directory, or if nothing was ever committed.
func (r *Repo) Blob(path string) ([]byte, error) {
	if !r.looked {
		r.looked = true
		r.root, r.err = r.head()
	}
	if r.err != nil || r.root == nil {
		return nil, r.err
	}
	at := entry{dir: true, hash: r.root}
	for name := range strings.SplitSeq(path, "/") {
		if !at.dir {
			return nil, nil
		}
		all, err := r.tree(at.hash)
		if err != nil {
			return nil, err
		}
		ok := false
		if at, ok = all[name]; !ok {
			return nil, nil
		}
	}
	if at.dir {
		return nil, nil
	}
	return at.hash, nil
}

// head finds the tree of HEAD; nil: there is no commit.
func (r *Repo) head() ([]byte, error) {
	common := r.dir
	to, err := r.line(filepath.Join(r.dir, "commondir"))
	switch {
	case err == nil && filepath.IsAbs(to):
		common = filepath.Clean(to)
	case err == nil:
		common = filepath.Join(r.dir, to)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	id, err := r.commit(common)
	if id == nil || err != nil {
		return nil, err
	}
	if err := r.open(filepath.Join(common, "objects"), 0); err != nil {
		return nil, err
	}
	kind, data, err := r.object(id, 0)
	if err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	text, ok := bytes.CutPrefix(line, []byte("tree "))
	if kind != kindCommit || !ok {
		return nil, errForm
	}
	return hashOf(string(text))
}

// commit finds the commit of HEAD; nil: the branch has none.
func (r *Repo) commit(common string) ([]byte, error) {
	text, err := r.line(filepath.Join(r.dir, "HEAD"))
	if err != nil {
		return nil, err
	}
	for range 5 { // as git does
		ref, symbolic := strings.CutPrefix(text, "ref: ")
		if !symbolic {
			return hashOf(text)
		}
		if ref = strings.TrimSpace(ref); !filepath.IsLocal(ref) || ref == "refs/heads/.invalid" {
			return nil, fmt.Errorf("%w: HEAD is %q", errForm, ref)
		}
		at := common
		if ownRef(ref) {
			at = r.dir
		}
		text, err = r.line(filepath.Join(at, ref))
		if errors.Is(err, fs.ErrNotExist) {
			return r.packed(common, ref)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errForm
}

// ownRef reports whether each work tree has a ref of this name for itself (git-worktree(1), Refs).
func ownRef(ref string) bool {
	for _, own := range []string{"refs/bisect/", "refs/worktree/", "refs/rewritten/"} {
		if strings.HasPrefix(ref, own) {
			return true
		}
	}
	return !strings.HasPrefix(ref, "refs/")
}

// packed finds a ref in packed-refs; nil: it is not there.
func (r *Repo) packed(common, ref string) ([]byte, error) {
	data, err := r.read(filepath.Join(common, "packed-refs"), maxRefs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(data) {
		if hash, name, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok && name == ref {
			return hashOf(hash)
		}
	}
	return nil, err
}

func hashOf(text string) ([]byte, error) {
	hash, err := hex.DecodeString(text)
	if err != nil || len(hash) != 20 && len(hash) != 32 {
		return nil, errForm
	}
	return hash, nil
}

// open adds a directory of objects, and those that it names.
func (r *Repo) open(dir string, depth int) error {
	if slices.Contains(r.stores, dir) {
		return nil
	}
	if len(r.stores) == maxStores || depth > 5 {
		return fmt.Errorf("%w: too many alternates", errForm)
	}
	r.stores = append(r.stores, dir)
	names, err := r.files.List(filepath.Join(dir, "pack"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if base, ok := strings.CutSuffix(name, ".idx"); ok {
			if len(r.packs) == maxPacks {
				return fmt.Errorf("%w: too many packs", errForm)
			}
			r.packs = append(r.packs, &pack{files: r.files, base: filepath.Join(dir, "pack", base)})
		}
	}
	more, err := r.read(filepath.Join(dir, "info/alternates"), maxStores*maxLine)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range bytes.Lines(more) {
		other := strings.TrimRight(string(line), "\n")
		if other == "" || other[0] == '#' {
			continue
		}
		if other[0] == '"' {
			return fmt.Errorf("%w: the name of an alternate is quoted", errForm)
		}
		if !filepath.IsAbs(other) {
			other = filepath.Join(dir, other)
		}
		if err := r.open(filepath.Clean(other), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// read reads a small file.
func (r *Repo) read(path string, most int64) ([]byte, error) {
	f, err := r.files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Size() > most {
		return nil, fmt.Errorf("%w: %s has %d bytes", errForm, path, f.Size())
	}
	return io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
}

func (r *Repo) line(path string) (string, error) {
	data, err := r.read(path, maxLine)
	return strings.TrimRight(string(data), "\r\n"), err
}

// tree reads a tree.
func (r *Repo) tree(hash []byte) (map[string]entry, error) {
	if known := r.trees[string(hash)]; known != nil {
		return known, nil
	}
	kind, data, err := r.object(hash, 0)
	if err != nil {
		return nil, err
	}
	if kind != kindTree {
		return nil, errForm
	}
	all := map[string]entry{}
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, both := strings.Cut(string(head), " ")
		if !ok || !both || len(rest) < len(hash) {
			return nil, errForm
		}
		mode = strings.TrimLeft(mode, "0") // old programs wrote 040000
		all[name] = entry{dir: mode == "40000", hash: rest[:len(hash):len(hash)]}
		data = rest[len(hash):]
	}
	r.trees[string(hash)] = all
	return all, nil
}
