package skills

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/sandboxd/sandboxd/internal/skills/front"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Bounds of what is read of a package.
const (
	firstRead     = 2 << 10 // most front matter ends within so many bytes
	maxEntries    = 4096    // packages in a directory, and files in a package
	maxDirs       = 256     // subdirectories of a package
	maxName       = 64      // characters
	fileName      = "SKILL.md"
	settled       = 100 * time.Millisecond // a younger file may change without a new time stamp
	readsUnstable = 3
)

// place is the directory of a package.
type place struct {
	dir  string
	base string // whoever reads does not leave this directory; "" may go anywhere, as the user's links do
	user sandbox.User
}

// pack is a place whose directory is open.
type pack struct {
	place
	root *os.Root // nil: links are followed wherever they lead
}

func (p place) open() (pack, error) {
	if p.base == "" {
		return pack{place: p}, nil
	}
	base, err := os.OpenRoot(p.base)
	if err != nil {
		return pack{}, err
	}
	defer base.Close()
	rel, err := filepath.Rel(p.base, p.dir)
	if err != nil {
		return pack{}, err
	}
	root, err := base.OpenRoot(rel)
	return pack{p, root}, err
}

func (p pack) close() {
	if p.root != nil {
		p.root.Close()
	}
}

// file opens a file of the package without blocking on a FIFO.
func (p pack) file(name string) (*os.File, error) {
	if p.root != nil {
		return p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	return os.OpenFile(filepath.Join(p.dir, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func (p pack) stat(name string) (fs.FileInfo, error) {
	if p.root != nil {
		return p.root.Stat(name)
	}
	return os.Stat(filepath.Join(p.dir, name))
}

// stamp identifies the state of a file.
type stamp struct {
	dev, ino, size uint64
	mtime, ctime   int64
}

func stampOf(info fs.FileInfo) stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	return stamp{
		uint64(st.Dev), st.Ino, uint64(info.Size()), info.ModTime().UnixNano(), time.Unix(st.Ctim.Unix()).UnixNano(),
	}
}

// notSkill is the reason why a directory is no skill.
type notSkill string

func (n notSkill) Error() string { return string(n) }

// read returns SKILL.md: all of it, or enough to hold the front matter. If the file changes during the read, it is
// read again.
func (p pack) read(whole bool) (text string, was stamp, err error) {
	f, err := p.file(fileName)
	if err != nil {
		return "", stamp{}, err
	}
	defer f.Close()
	return steady(f, whole)
}

// statReader is an open file.
type statReader interface {
	io.ReaderAt
	Stat() (fs.FileInfo, error)
}

// steady reads a file until its stamp is the same before and after the read.
func steady(f statReader, whole bool) (text string, was stamp, err error) {
	for range readsUnstable {
		before, err := f.Stat()
		if err != nil {
			return "", stamp{}, err
		}
		switch {
		case !before.Mode().IsRegular():
			return "", stamp{}, notSkill(fileName + " is no file")
		case before.Size() > front.MaxFile:
			return "", stamp{}, notSkill(fmt.Sprintf("%s has %d bytes, more than %d",
				fileName, before.Size(), front.MaxFile))
		}
		text, err := readOf(f, before.Size(), whole)
		if err != nil {
			return "", stamp{}, err
		}
		after, err := f.Stat()
		if err != nil {
			return "", stamp{}, err
		}
		if was := stampOf(before); was == stampOf(after) {
			return text, was, nil
		}
	}
	return "", stamp{}, notSkill(fileName + " changes while it is read")
}

func readOf(f io.ReaderAt, size int64, whole bool) (string, error) {
	if whole {
		b, err := io.ReadAll(io.NewSectionReader(f, 0, size))
		return string(b), err
	}
	b := make([]byte, min(size, firstRead))
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch end := matterEnd(b[:n]); {
	case end > 0:
		return string(b[:end]), nil
	case int64(n) == size:
		return string(b[:n]), nil
	}
	b, err = io.ReadAll(io.NewSectionReader(f, 0, min(size, front.MaxMatter)))
	return string(b), err
}

// matterEnd returns the length of a text up to the end of its front matter. It returns 0 if the front matter does
// not end.
func matterEnd(text []byte) int {
	for at := 0; ; {
		next := bytes.Index(text[at:], []byte("\n---"))
		if next < 0 {
			return 0
		}
		at += next + len("\n---")
		rest, _, whole := bytes.Cut(text[at:], []byte("\n"))
		if whole && len(bytes.TrimRight(bytes.TrimSuffix(rest, []byte("\r")), " \t")) == 0 {
			return at + len(rest) + 1
		}
	}
}

// load reads the front matter of a package. deps are the files and directories that it read.
func (p place) load() (k Skill, deps []dep, err error) {
	open, err := p.open()
	if err != nil {
		return Skill{}, nil, err
	}
	defer open.close()
	dir, entries, err := open.entries(".")
	if err != nil {
		return Skill{}, nil, err
	}
	deps = []dep{{p.dir, stampOf(dir)}}
	text, was, err := open.read(false)
	if err != nil {
		return Skill{}, deps, err
	}
	deps = append(deps, dep{filepath.Join(p.dir, fileName), was})
	if k, err = describe(filepath.Base(p.dir), text); err != nil {
		return Skill{}, deps, err
	}
	files, dirs := open.supporting(entries)
	k.SupportingFiles, k.BaseDir, k.place = files, opt(p.dir), p
	k.linked = slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() == fileName && e.Type()&fs.ModeSymlink != 0
	})
	return k, append(deps, dirs...), nil
}

// describe returns the skill that the front matter of a text describes.
func describe(dir, text string) (Skill, error) {
	m := front.Parse(strings.ToValidUTF8(text, "\uFFFD"))
	if !m.Closed {
		return Skill{}, notSkill(fmt.Sprintf("%s does not begin with front matter that ends within %d bytes",
			fileName, front.MaxMatter))
	}
	k := Skill{
		Name: m.Text("name"), Description: m.Text("description"), Model: opt(m.Text("model")),
		WhenToUse:    opt(m.Text("when-to-use", "when_to_use")),
		ArgumentHint: opt(m.Text("argument-hint", "argument_hint")),
		Aliases:      []string{}, Diagnostics: []string{}, Available: true,
		UserInvocable: !strings.EqualFold(m.Text("user-invocable", "user_invocable"), "false"),
	}
	if k.Name == "" {
		k.Name = dir
	}
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '/' }
	if len(k.Name) > 4*maxName || strings.ContainsFunc(k.Name, odd) {
		return Skill{}, notSkill(fmt.Sprintf("its name %.80q is too long, or has characters that names do not have",
			k.Name))
	}
	if k.Description == "" {
		k.Diagnostics = append(k.Diagnostics, "description is missing")
	}
	if f, given := m.Get("aliases"); given {
		k.Aliases = f.List(false)
	}
	if f, given := m.Get("allowed-tools", "allowed_tools"); given {
		list, said := restrict(f.List(true))
		k.ToolRestrictions, k.Diagnostics = list, append(k.Diagnostics, said...)
	}
	if k.restrictsSkill() {
		k.Diagnostics = append(k.Diagnostics, "allowed-tools names Skill, which cannot be restricted: it does not run")
	}
	return k, nil
}

// entries lists a directory of the package. If it is no directory, the list is empty.
func (p pack) entries(name string) (fs.FileInfo, []fs.DirEntry, error) {
	f, err := p.file(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, nil, err
	}
	found, _ := f.ReadDir(maxEntries) // of an empty directory the error is io.EOF
	return info, found, nil
}

// supporting lists the files beside SKILL.md and one level below, and returns the directories that it read. Links
// that leave a package of the workspace are neither followed nor listed.
func (p pack) supporting(top []fs.DirEntry) (files []string, dirs []dep) {
	files = p.files(".", top, []string{})
	for _, e := range top {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") || len(dirs) == maxDirs {
			continue
		}
		if info, found, err := p.entries(e.Name()); err == nil {
			dirs = append(dirs, dep{filepath.Join(p.dir, e.Name()), stampOf(info)})
			files = p.files(e.Name(), found, files)
		}
	}
	slices.Sort(files)
	return files, dirs
}

// files adds those entries of a directory that are files.
func (p pack) files(dir string, entries []fs.DirEntry, files []string) []string {
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || name == fileName || e.IsDir() || len(files) == maxEntries {
			continue
		}
		if !e.Type().IsRegular() {
			if info, err := p.stat(name); err != nil || !info.Mode().IsRegular() {
				continue
			}
		}
		files = append(files, name)
	}
	return files
}
