package undo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard/gitindex"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// state is what lies at a path. The zero value is nothing.
type state struct {
	Type     string            `json:"type,omitempty"` // "file", "dir", "link", "pipe", or what is not kept
	Mode     uint32            `json:"mode,omitempty"` // permissions
	Size     int64             `json:"size,omitempty"` // of a file
	Modified int64             `json:"modified,omitempty"`
	Sum      string            `json:"sum,omitempty"` // SHA-256 of the content
	Link     []byte            `json:"link,omitempty"`
	Extended map[string][]byte `json:"extended,omitempty"`
	// Index is the sum of the entries of an index of git, if the file is one; see [gitindex.Sum].
	Index string `json:"index,omitempty"`

	open bool // somebody has it open for writing; of what lies there now
}

const (
	nothing    = ""
	isFile     = "file"
	isDir      = "dir"
	isLink     = "link"
	isPipe     = "pipe" // it has a name and a mode
	unreadable = "unreadable"
)

// dirMode are the bits of a mode that an undo restores in a directory: set-group-id, by which new files get the
// group of the directory, sticky, which says who may remove files, and the permissions.
const dirMode = unix.S_ISGID | unix.S_ISVTX | 0o777

// same reports whether two states are the same, except times.
func (s state) same(o state) bool {
	return s.Type == o.Type && s.Mode == o.Mode && s.Size == o.Size && s.Sum == o.Sum &&
		string(s.Link) == string(o.Link) && sameExtended(s.Extended, o.Extended)
}

// file returns the state of a file as it lies on the disk, also if only its content is not kept; see
// [looking.keepSum].
func (s state) file() state {
	if s.Type == unreadable && s.Sum != "" {
		s.Type = isFile
	}
	return s
}

// sameExtended compares attributes. nil are attributes that could not be read: they equal any; see
// [sandbox.ExtendedAt].
func sameExtended(a, b map[string][]byte) bool {
	differs := func(a, b map[string][]byte) bool {
		for name, x := range a {
			y, there := b[name]
			if x != nil && !(there && sameValue(x, y)) {
				return true
			}
		}
		return false
	}
	return !differs(a, b) && !differs(b, a)
}

func sameValue(a, b []byte) bool { return a == nil || b == nil || string(a) == string(b) }

// learn takes over attributes that could not be read, from a state that is otherwise the same.
func (s *state) learn(o state) {
	for name, value := range s.Extended {
		if value == nil {
			s.Extended[name] = o.Extended[name]
		}
	}
}

// indexOf returns the sum of the entries of an index of git. For any other file it returns "".
func indexOf(path string, s state, f io.ReaderAt) string {
	if filepath.Base(path) != "index" || !strings.Contains(path, "/.git/") || s.Type != isFile || s.Size > maxIndex {
		return ""
	}
	data := make([]byte, s.Size)
	if _, err := f.ReadAt(data, 0); err != nil && err != io.EOF {
		return ""
	}
	sum, err := gitindex.Sum(data)
	if err != nil {
		return ""
	}
	return sum
}

// attributes returns what a file gets back beside its content.
func (s state) attributes() sandbox.Attributes {
	a := sandbox.Attributes{Mode: os.FileMode(s.Mode), Extended: s.Extended}
	if s.Type == isFile || s.Modified != 0 { // a file may have the time 0
		a.Modified = time.Unix(0, s.Modified)
	}
	return a
}

// stateOf returns the state of a content, and copies the content of a file to w.
func stateOf(c sandbox.Content, w io.Writer) (state, error) {
	switch {
	case c.File != nil:
	case c.Link != "":
		return state{Type: isLink, Link: []byte(c.Link)}, nil
	case c.Err != nil:
		return state{Type: unreadable}, nil
	default:
		return state{}, nil
	}
	var st unix.Stat_t
	fd := int(c.File.Fd())
	if err := unix.Fstat(fd, &st); err != nil {
		return state{}, err
	}
	s := state{Mode: st.Mode & 0o777, Modified: st.Mtim.Nano()}
	var err error
	if s.Extended, err = sandbox.Extended(fd); err != nil {
		return state{}, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		s.Type, s.Mode = isDir, st.Mode&dirMode
		return s, nil
	case unix.S_IFIFO:
		return state{Type: isPipe, Mode: s.Mode, Extended: s.Extended}, nil
	case unix.S_IFREG:
	default:
		return state{Type: unreadable}, nil
	}
	s.Type = isFile
	sum := sha256.New()
	// One byte more shows that the file grows. A process that goes on writing it could fill the disk of the store.
	whole := io.LimitReader(io.NewSectionReader(c.File, 0, math.MaxInt64), st.Size+1)
	s.Size, err = io.Copy(io.MultiWriter(sum, w), whole) // so that a small file gets a small buffer
	if err == nil && s.Size > st.Size {
		err = &tool.Error{
			Code: growsCode, Msg: "the file grows while it is read",
			Hint: "wait until nobody writes it",
		}
	}
	s.Sum = hex.EncodeToString(sum.Sum(nil))
	return s, err
}

// unreadOf returns what is known of a file without reading it.
func unreadOf(st unix.Stat_t) state {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return state{Type: unreadable}
	}
	return state{Type: unreadable, Mode: st.Mode & 0o777, Size: st.Size, Modified: st.Mtim.Nano()}
}

// growsCode is the code of the error for a file that grows while it is copied.
const growsCode = "file_changed"

// change is one line of the journal.
type change struct {
	N             int
	Path, Temp    string
	State         int
	Before, After state
	Undone        string // the call that undid it
}

// The states of a change.
const (
	begun = iota
	kept
	made
)

// shown returns the change as the answer of a call shows it.
func (c change) shown(dir string) tool.Change {
	t := tool.Change{
		Path: relative(dir, c.Path), Kind: tool.ChangeModify, BytesBefore: c.Before.Size, BytesAfter: c.After.Size,
	}
	switch {
	case c.Before.Type == nothing:
		t.Kind = tool.ChangeCreate
	case c.After.Type == nothing:
		t.Kind = tool.ChangeDelete
	case c.Before.Type == c.After.Type && c.Before.Mode != c.After.Mode:
		t.ModeBefore = fmt.Sprintf("%04o", c.Before.Mode)
	}
	if c.Before.Type == isDir || c.After.Type == isDir {
		t.Path += "/"
	}
	return t
}

// relative returns a path as the answer names it.
func relative(dir, path string) string {
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/"); ok {
		return rest
	}
	return path
}
