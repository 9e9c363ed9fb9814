package gitindex

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// Entry is what git knows of one file.
type Entry struct {
	Size     uint32
	Modified int64  // of the file when it was added, in nanoseconds since 1970; 0: unknown
	Changed  int64  // its change time, likewise
	Hash     []byte // of its blob: SHA-1 or SHA-256
	Stage    int    // not 0 while a merge has conflicts
	Mode     uint32 // type and rights, as in a tree of git
	Flags    uint32 // assume-unchanged, skip-worktree and intent-to-add, with git's numbers; see flagBits
}

// flagBits are the flags that git keeps of an entry, with the extended ones in the upper half.
const flagBits = 1<<15 | 1<<30 | 1<<29

// Entry finds a file by its name. Of one with conflicts it is the first of three.
func (n *Names) Entry(name string) (e Entry, ok bool) {
	i, ok := slices.BinarySearch(n.List, name)
	if !ok {
		return e, false
	}
	return entryOf(n.entries[i], n.hash), true
}

func entryOf(data []byte, hash int) Entry {
	number := func(at int) int64 { return int64(binary.BigEndian.Uint32(data[at:])) }
	flags := uint32(binary.BigEndian.Uint16(data[40+hash:]))
	if flags&extended != 0 {
		flags |= uint32(binary.BigEndian.Uint16(data[42+hash:])) << 16
	}
	return Entry{
		Size: uint32(number(36)), Modified: number(8)*1e9 + number(12), Changed: number(0)*1e9 + number(4),
		Hash:  data[40 : 40+hash],
		Stage: int(flags>>12) & 3, Mode: uint32(number(24)), Flags: flags & flagBits,
	}
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
