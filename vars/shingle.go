package vars

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// shingles finds out whether a text shares a run of [runLength] bytes with one of
// the texts that were added.
//
// Every run that long, wherever it begins, holds one whole block of 16 bytes at a
// multiple of 16 in the added text. So only those blocks are indexed, and a text
// is looked up at each of its positions: a hit is then compared byte by byte in
// both directions.
type shingles struct {
	text  []byte    // all texts, each beginning on a block
	ends  []int     // where each text ends
	by    []authors // who wrote it
	heads []uint32  // hash → the last block with it, plus two
	next  []uint32  // block → the one before with the same hash, plus two
	owner []uint32  // block → its text
	flags []bool    // block → it stands in more than maxPlaces places
	used  int       // blocks
}

const (
	runLength = 32
	block     = 16
	maxPlaces = 64      // of one block that are remembered
	maxSteps  = 4 << 20 // comparisons for one text, before it counts as copied
)

// The hash is a polynomial over the bytes of a window, so that it can move on by
// one byte for one multiplication.
const (
	base  = 0x9E3779B97F4A7C15 // odd; any will do: collisions cost time, not answers
	mixer = 0xD6E8FEB86659FD93
)

// basePower is base to the power of block-1, to take the first byte out again.
const (
	mask      = 1<<64 - 1
	base2     = base * base & mask
	base4     = base2 * base2 & mask
	base8     = base4 * base4 & mask
	basePower = base8 * base4 & mask * base2 & mask * base & mask
)

func hashBlock(b []byte) (h uint64) {
	for _, c := range b[:block] {
		h = h*base + uint64(c) + 1
	}
	return h
}

func (x *shingles) slot(h uint64) int {
	return int((h * mixer) >> (64 - bits.Len(uint(len(x.heads)-1))))
}

// add makes a text known.
func (x *shingles) add(text []byte, by authors) {
	if len(text) < runLength {
		return
	}
	start := len(x.text)
	x.text = append(x.text, text...)
	x.text = append(x.text, make([]byte, -len(x.text)&(block-1))...)
	x.ends = append(x.ends, start+len(text))
	x.by = append(x.by, by)
	for len(x.next) < len(x.text)/block {
		x.next = append(x.next, 0)
		x.flags = append(x.flags, false)
		x.owner = append(x.owner, uint32(len(x.by)-1))
	}
	if x.used+len(text)/block > len(x.heads) {
		x.grow()
	}
	for at := start; at+block <= start+len(text); at += block {
		x.insert(at / block)
	}
}

// grow makes room for twice the blocks and files them anew.
func (x *shingles) grow() {
	size := 1024
	for size < 2*len(x.next) {
		size *= 2
	}
	x.heads = make([]uint32, size)
	old := x.next
	x.next = make([]uint32, len(old))
	for b, known := range old {
		if known != 0 || x.flags[b] {
			x.link(b)
		}
	}
}

// chainEnd is the successor of the last block of a chain; 0 is a block in no chain.
const chainEnd = 1

func (x *shingles) link(b int) {
	at := x.slot(hashBlock(x.text[b*block:]))
	x.next[b] = chainEnd
	if head := x.heads[at]; head != 0 {
		x.next[b] = head
	}
	x.heads[at] = uint32(b) + 2
}

// insert files a block, unless it stands in the same surroundings already, where
// it would find nothing more, or in too many others.
func (x *shingles) insert(b int) {
	here := x.text[b*block : (b+1)*block]
	places := 0
	for n := x.heads[x.slot(hashBlock(here))]; n > chainEnd; n = x.next[n-2] {
		other := int(n - 2)
		if !bytes.Equal(here, x.text[other*block:(other+1)*block]) {
			continue
		}
		if bytes.Equal(x.around(b), x.around(other)) && x.by[x.owner[b]] == x.by[x.owner[other]] {
			return
		}
		if places++; places == maxPlaces {
			x.flags[other] = true
			return
		}
	}
	x.used++
	x.link(b)
}

// around is what a run through a block can hold at most, within its text.
func (x *shingles) around(b int) []byte {
	from := max(b*block-(runLength-block), x.begin(b))
	to := min(b*block+runLength, x.ends[x.owner[b]])
	return x.text[from:to]
}

func (x *shingles) begin(b int) int {
	if o := x.owner[b]; o > 0 {
		return (x.ends[o-1] + block - 1) / block * block
	}
	return 0
}

// match unites the authors of every added text that shares a run with s.
func (x *shingles) match(s string) (by authors) {
	if len(x.by) == 0 || len(s) < runLength {
		return 0
	}
	in := []byte(s)
	h := hashBlock(in)
	steps := 0
	for i := 0; ; i++ {
		for n := x.heads[x.slot(h)]; n > chainEnd; n = x.next[n-2] {
			if steps++; steps > maxSteps {
				return by | x.everybody()
			}
			if b := int(n - 2); x.shared(b, in, i) {
				by |= x.by[x.owner[b]]
			}
		}
		if i+block == len(in) {
			return by
		}
		h = (h-(uint64(in[i])+1)*basePower)*base + uint64(in[i+block]) + 1
	}
}

// shared reports whether block b is at in[i:] and part of a run. A block that
// stands in too many places to remember them all is enough by itself, unless it
// is only filling, such as spaces.
func (x *shingles) shared(b int, in []byte, i int) bool {
	at := b * block
	if !equalBlock(x.text[at:], in[i:]) {
		return false
	}
	if x.flags[b] && !filling(in[i:i+block]) {
		return true
	}
	begin, end := x.begin(b), x.ends[x.owner[b]]
	left := 0
	for left < runLength-block && at-left > begin && i-left > 0 && x.text[at-left-1] == in[i-left-1] {
		left++
	}
	right := 0
	for left+right < runLength-block && at+block+right < end && i+block+right < len(in) && x.text[at+block+right] == in[i+block+right] {
		right++
	}
	return left+block+right >= runLength
}

func equalBlock(a, b []byte) bool {
	_, _ = a[block-1], b[block-1]
	return binary.LittleEndian.Uint64(a) == binary.LittleEndian.Uint64(b) &&
		binary.LittleEndian.Uint64(a[8:]) == binary.LittleEndian.Uint64(b[8:])
}

// filling reports whether a block has so few different bytes that it says
// nothing: indentation, rules of dashes.
func filling(b []byte) bool {
	var seen [256]bool
	different := 0
	for _, c := range b {
		if !seen[c] {
			seen[c] = true
			different++
		}
	}
	return different < 4
}

func (x *shingles) everybody() (by authors) {
	for _, a := range x.by {
		by |= a
	}
	return by
}
