// Package gitindex reads which files a git repository tracks, and what is staged.
//
// The bytes of an index file go in, the names of its entries come out, in git's order:
//
//	names, err := gitindex.Read(data)
//	names.Has("src") // true: src or something below it is tracked
//	e, ok := names.Entry("README.md")
//	sum, err := gitindex.Sum(data) // equal sums: the same is staged
//
// Paths are as git writes them: relative to the top of the work tree, with slashes, none at the
// end. Another form may find nothing.
//
// [Sum] is for whoever asks whether somebody staged something since: git status writes the file
// anew with other times, and the sum stays the same.
//
// It reads versions 2, 3 and 4, of repositories with SHA-1 or SHA-256, sparse indexes too. Of a
// split index it reads one file: if Names.Shared is not empty, the caller must read the file
// sharedindex.HASH as well, and the entries of both count.
//
// Whoever may write the repository wrote the bytes, so nothing in them is trusted. Input that is
// not well formed is an error, and callers must then take everything for tracked. The package does
// not compare the checksum of the index. It opens no file: whether a tracked file has changed
// since, the caller finds out with [Entry.As] or [Entry.Holds].
package gitindex

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Names are the entries of an index.
type Names struct {
	List   []string // as they stand: sorted; a directory that is not checked out ends in a slash
	Shared string   // the hash in the name of the file sharedindex.HASH, whose entries count too; "": none

	entries  [][]byte // the first bytes of each of List: times, numbers, the hash and flags
	replaced [][]byte // likewise, of entries without a name: each is in place of one of the shared index
	link     []byte   // which entries of the shared index are deleted, and which are replaced
	hash     int      // bytes of a hash
}

var errForm = errors.New("not an index of git")

// Read reads an index.
func Read(data []byte) (Names, error) {
	if len(data) < 12 || string(data[:4]) != "DIRC" {
		return Names{}, errForm
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return Names{}, errForm
	}
	for _, hash := range []int{20, 32} { // nothing in the file says which
		if n, err := read(data, version, count, hash); err == nil {
			return n, nil
		}
	}
	return Names{}, errForm
}

// Sum returns a sum of what an index stages: names, contents, modes, conflicts and flags. Times and sizes, by which
// git sees quickly what has changed, are not in it. Of a split index it is a sum of this file, which names the shared
// one by its hash: two files that stage the same may then differ in their sums, but never the other way round.
func Sum(data []byte) (string, error) {
	n, err := Read(data)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %x %d\n", n.Shared, n.link, len(n.replaced))
	add := func(name string, entry []byte) {
		e := entryOf(entry, n.hash)
		fmt.Fprintf(sum, "%x %o %d %x %q\n", e.Hash, e.Mode, e.Stage, e.Flags, name)
	}
	for _, entry := range n.replaced {
		add("", entry)
	}
	for i, name := range n.List {
		add(name, n.entries[i])
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func read(data []byte, version, count uint32, hash int) (n Names, err error) {
	n.hash = hash
	if int64(count) > int64(len(data))/int64(42+hash) {
		return n, errForm
	}
	n.List, n.entries = make([]string, 0, count), make([][]byte, 0, count)
	rest, last := data[12:], ""
	for range count {
		name, used, err := entry(rest, version, hash, last)
		if err != nil || name < last && name != "" {
			return n, errForm
		}
		first := rest[:44+hash] // no entry is shorter: a zero and a number, or filling, follow the flags
		if name == "" {
			n.replaced = append(n.replaced, first)
		} else {
			n.List, n.entries, last = append(n.List, name), append(n.entries, first), name
		}
		rest = rest[used:]
	}
	return n, n.extensions(rest, hash)
}

// extended is the flag of an entry that has two more bytes of flags.
const extended = 1 << 14

// entry reads one entry: 40 bytes of times and numbers, the hash, the flags, the name.
func entry(data []byte, version uint32, hash int, last string) (name string, used int, err error) {
	at := 40 + hash
	if len(data) < at+2 {
		return "", 0, errForm
	}
	flags := binary.BigEndian.Uint16(data[at:])
	if at += 2; flags&extended != 0 {
		if at += 2; version < 3 {
			return "", 0, errForm
		}
	}
	if len(data) < at {
		return "", 0, errForm
	}
	begin := ""
	if version == 4 { // how much of the last name is cut off, and what follows instead
		cut, n := offset(data[at:])
		if n == 0 || cut > uint64(len(last)) {
			return "", 0, errForm
		}
		begin, at = last[:len(last)-int(cut)], at+n
	}
	end := bytes.IndexByte(data[at:], 0)
	if end < 0 {
		return "", 0, errForm
	}
	name = begin + string(data[at:at+end])
	if length := int(flags & 0xfff); length != min(len(name), 0xfff) {
		return "", 0, errForm
	}
	if used = at + end + 1; version < 4 {
		used = (at + end + 8) &^ 7 // filled with zeros to eight bytes, one at least
	}
	if used > len(data) {
		return "", 0, errForm
	}
	return name, used, nil
}

// offset reads a number as git writes those in packs: seven bits a byte, one added for each that goes on.
func offset(data []byte) (value uint64, n int) {
	for n < len(data) && n < 8 {
		b := data[n]
		value = value<<7 | uint64(b&0x7f)
		if n++; b&0x80 == 0 {
			return value, n
		}
		value++
	}
	return 0, 0
}

// extensions looks for the one that names a shared index. Behind them is the checksum.
func (n *Names) extensions(data []byte, hash int) error {
	for len(data) > hash {
		if len(data) < 8+hash {
			return errForm
		}
		size := int64(binary.BigEndian.Uint32(data[4:]))
		if size > int64(len(data)-8-hash) {
			return errForm
		}
		body := data[8 : 8+size]
		if string(data[:4]) == "link" {
			if len(body) < hash {
				return errForm
			}
			n.link = append(n.link, body...)
			if id := body[:hash]; !bytes.Equal(id, make([]byte, hash)) {
				n.Shared = hex.EncodeToString(id)
			}
		}
		data = data[8+size:]
	}
	if len(data) != hash {
		return errForm
	}
	return nil
}

// Below returns the entries that a path names: itself, or what lies below it. "" is the top.
func (n *Names) Below(path string) []string {
	if path == "" {
		return n.List
	}
	// Names that go on with a byte in front of "/" stand between a path and what lies below it.
	from, exact := slices.BinarySearch(n.List, path)
	if exact {
		return n.List[from : from+1]
	}
	from, _ = slices.BinarySearch(n.List, path+"/")
	to := from
	for to < len(n.List) && strings.HasPrefix(n.List[to], path+"/") {
		to++
	}
	return n.List[from:to]
}

// Has reports whether a path or something below it is tracked.
func (n *Names) Has(path string) bool {
	if len(n.Below(path)) > 0 {
		return true
	}
	for dir := path; ; { // a directory that is not checked out
		i := strings.LastIndexByte(dir, '/')
		if i < 0 {
			return false
		}
		dir = dir[:i]
		if _, ok := slices.BinarySearch(n.List, dir+"/"); ok {
			return true
		}
	}
}
