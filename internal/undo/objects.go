package undo

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// objects is a directory of contents. Each is a file whose name is its SHA-256.
type objects struct{ dir string }

// newPrefix begins the name of a file whose content is not complete.
const newPrefix = "new-"

func openObjects(dir string) (objects, error) {
	return objects{dir}, os.MkdirAll(dir, 0o700)
}

func (o objects) path(sum string) string { return filepath.Join(o.dir, sum) }

// copied is a content on its way to the store.
type copied struct {
	state
	data []byte // the content, or
	temp string // a file in the store with it; "" and no data: there is nothing to keep
}

func (c copied) empty() bool { return c.temp == "" && c.data == nil }

// maxInMemory bounds a content that waits in memory.
const maxInMemory = 1 << 20

// copy copies a content. The caller ends it with keep or drop.
func (o objects) copy(c sandbox.Content) (copied, error) {
	if c.File == nil {
		s, err := stateOf(c, nil)
		return copied{state: s}, err
	}
	if info, err := c.File.Stat(); err == nil && info.Size() <= maxInMemory {
		data := bytes.NewBuffer(make([]byte, 0, info.Size()+1)) // an empty content is a content
		s, err := stateOf(c, data)
		if err != nil || s.Type != isFile {
			return copied{state: s}, err
		}
		return copied{state: s, data: data.Bytes()}, nil
	}
	temp := filepath.Join(o.dir, newPrefix+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return copied{}, noRoom(err)
	}
	s, err := stateOf(c, f)
	err = errors.Join(err, f.Close())
	if err != nil || s.Type != isFile {
		return copied{state: s}, errors.Join(noRoom(err), os.Remove(temp))
	}
	return copied{state: s, temp: temp}, nil
}

// keep puts the content into the store under its name. A crash may leave a content that no line names; sweep removes
// it.
func (o objects) keep(c copied) (err error) {
	if c.temp != "" {
		return os.Rename(c.temp, o.path(c.Sum))
	}
	f, err := os.OpenFile(o.path(c.Sum), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(c.data)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(o.path(c.Sum))
	}
	return err
}

func (o objects) drop(c copied) {
	if c.temp != "" {
		os.Remove(c.temp)
	}
}

// sweep removes the files that a crash left: incomplete contents, and contents that no line of the journal names.
func (o objects) sweep(known map[string]int64) error {
	names, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	for _, e := range names {
		if _, ok := known[e.Name()]; !ok || strings.HasPrefix(e.Name(), newPrefix) {
			err = errors.Join(err, os.Remove(o.path(e.Name())))
		}
	}
	return err
}

// noRoom adds a hint to the error of a full disk. It returns any other error unchanged.
func noRoom(err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	return &tool.Error{
		Code: "undo_store_full", Msg: "the old content cannot be kept, for the disk of the state directory is full; " +
			"nothing was changed",
		Hint: "an operator frees some space, by sandboxd undo purge for example, or lowers undo.keepBytes",
	}
}
