package gitindex

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// Entry finds a file by its name. Of one with conflicts it is the first of three.
func (n *Names) Entry(name string) (e Entry, ok bool) {
	i, ok := slices.BinarySearch(n.List, name)
	if !ok {
		return e, false
	}
	return entryOf(n.entries[i], n.hash), true
}

// As reports whether a file has the times and the size of the entry. If it was changed in the second in which the
// index was written, that says nothing.
func (e Entry) As(s *unix.Stat_t) bool {
	return e.Stage == 0 && e.Modified == s.Mtim.Nano() && e.Changed == s.Ctim.Nano() && e.Size == uint32(s.Size)
}

// Holds reports whether the entry is of a file with this content, which no filter of git has changed, or of a link
// that leads there. What cannot be read to its end is not held.
func (e Entry) Holds(content io.Reader, size int64) bool {
	var h hash.Hash = sha1.New()
	if len(e.Hash) == sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	_, err := io.Copy(h, content)
	return err == nil && bytes.Equal(h.Sum(nil), e.Hash)
}
