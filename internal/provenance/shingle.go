package provenance

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Shingles finds out whether a text shares a run of [RunLength] bytes with one of
// the texts that were added. It is for [Index], which locks it: it is not safe for
// concurrent use.
//
// Of the blocks of 16 bytes in each such run, wherever it begins, the one with
// the least hash is its sample. Two texts that share a run share its sample, and
// neighbouring runs mostly have the same one: so only every ninth position is
// indexed and looked up. A hit is then compared byte by byte in both directions.
type Shingles struct {
	key   key
	text  []byte    // all texts
	ends  []int     // where each text ends
	by    []Authors // who wrote it
	sieve []uint64  // two bits for each sample: most texts share nothing, and this is small
	heads []uint32  // hash → the last sample with it, plus one
	at    []uint32  // sample → its place in text
	next  []uint32  // sample → the one before with the same hash, plus one
	often []bool    // sample → it stands in more than maxPlaces places
	asked []asked   // of the text that is being matched; kept to be used again
}

const (
	RunLength = 32 // bytes; a shorter text is never found
	block     = 16
	window    = RunLength - block + 1 // blocks in a run
	maxPlaces = 64                    // of one block that are remembered
	maxSteps  = 4 << 20               // comparisons for one text, before it counts as copied
)

// key makes the hash of an index its own: whoever writes the texts must not be
// able to make blocks that all collide.
type key struct{ low, high uint64 }

func newKey() key { return key{rand.Uint64() | 1, rand.Uint64() | 1} }

// hash is that of the block at the start of b.
func (k key) hash(b []byte) uint64 {
	_ = b[block-1]
	h := binary.LittleEndian.Uint64(b)*k.low ^ bits.RotateLeft64(binary.LittleEndian.Uint64(b[8:])*k.high, 32)
	return (h ^ h>>29) * k.high
}

// samples visits the sample of every run of b, each place once. Of equal blocks
// in a run the first is taken, so that equal runs have the same sample.
func (k key) samples(b []byte, visit func(at int, h uint64)) {
	if len(b) < RunLength {
		return
	}
	const ring = 32 // at least window, a power of two
	var hashes [ring]uint64
	least, visited := 0, -1
	for i := range len(b) - block + 1 {
		h := k.hash(b[i : i+block])
		hashes[i%ring] = h
		if from := i - window + 1; least < from {
			least = from
			for j := from + 1; j <= i; j++ {
				if hashes[j%ring] < hashes[least%ring] {
					least = j
				}
			}
		} else if h < hashes[least%ring] {
			least = i
		}
		if i >= window-1 && least != visited {
			visit(least, hashes[least%ring])
			visited = least
		}
	}
}

func (x *Shingles) slot(h uint64) int {
	return int((h * x.key.low) >> (64 - bits.Len(uint(len(x.heads)-1))))
}

// bits returns the word of the sieve and the two bits in it.
func (x *Shingles) bits(h uint64) (word int, want uint64) {
	h = bits.RotateLeft64(h*x.key.low, 32)
	return int(h >> (64 - bits.Len(uint(len(x.sieve)-1)))), 1<<(h&63) | 1<<(h>>6&63)
}

// Add makes a text known.
func (x *Shingles) Add(text []byte, by Authors) {
	if len(text) < RunLength {
		return
	}
	if x.key == (key{}) {
		x.key = newKey()
	}
	start := len(x.text)
	x.text = append(x.text, text...)
	x.ends = append(x.ends, len(x.text))
	x.by = append(x.by, by)
	x.key.samples(x.text[start:], func(at int, h uint64) {
		if len(x.at) >= len(x.heads) {
			x.grow()
		}
		x.insert(start+at, h)
	})
}

// grow makes room for twice the samples and files them anew.
func (x *Shingles) grow() {
	size := max(1024, 2*len(x.heads))
	x.heads, x.sieve = make([]uint32, size), make([]uint64, size/8)
	for n := range x.at {
		x.link(n, x.key.hash(x.text[x.at[n]:]))
	}
}

func (x *Shingles) link(n int, h uint64) {
	word, mark := x.bits(h)
	x.sieve[word] |= mark
	slot := x.slot(h)
	x.next[n] = x.heads[slot]
	x.heads[slot] = uint32(n) + 1
}

// insert files a sample, unless it stands in the same surroundings already, where
// it would find nothing more, or in too many others.
func (x *Shingles) insert(at int, h uint64) {
	places := 0
	for n := x.heads[x.slot(h)]; n > 0; n = x.next[n-1] {
		other := int(x.at[n-1])
		if !equalBlock(x.text[at:], x.text[other:]) {
			continue
		}
		if bytes.Equal(x.around(at), x.around(other)) && x.by[x.owner(at)] == x.by[x.owner(other)] {
			return
		}
		if places++; places == maxPlaces {
			x.often[n-1] = true
			return
		}
	}
	x.at, x.next, x.often = append(x.at, uint32(at)), append(x.next, 0), append(x.often, false)
	x.link(len(x.at)-1, h)
}

// owner returns the text that holds a place.
func (x *Shingles) owner(at int) int {
	i, exact := slices.BinarySearch(x.ends, at)
	if exact {
		i++
	}
	return i
}

// limits returns the ends of the text that holds a place.
func (x *Shingles) limits(at int) (begin, end int) {
	o := x.owner(at)
	if o > 0 {
		begin = x.ends[o-1]
	}
	return begin, x.ends[o]
}

// around returns what a run through a block can hold at most, within its text.
func (x *Shingles) around(at int) []byte {
	begin, end := x.limits(at)
	return x.text[max(at-(RunLength-block), begin):min(at+RunLength, end)]
}

// Match unites the authors of every added text that shares a run with s. It asks
// the sieve about all samples first, with nothing between that depends on the
// answers: they are far away in memory, and the processor can wait for many at
// once.
func (x *Shingles) Match(s string) (by Authors) {
	if len(x.at) == 0 {
		return 0
	}
	steps := 0
	for len(s) >= RunLength && steps <= maxSteps {
		by |= x.match([]byte(s[:min(len(s), matchBytes+RunLength)]), &steps)
		s = s[min(len(s), matchBytes):] // a run that lies across the end is whole in one of the two
	}
	return by
}

// matchBytes is how much of a text is matched at once: its samples are in memory.
const matchBytes = 128 << 10

func (x *Shingles) match(in []byte, steps *int) (by Authors) {
	x.asked = x.asked[:0]
	x.key.samples(in, func(at int, h uint64) { x.asked = append(x.asked, asked{at: at, hash: h}) })
	for i := range x.asked {
		word, _ := x.bits(x.asked[i].hash)
		x.asked[i].word = x.sieve[word]
	}
	for _, a := range x.asked {
		if _, want := x.bits(a.hash); a.word&want != want {
			continue
		}
		for n := x.heads[x.slot(a.hash)]; n > 0; n = x.next[n-1] {
			if *steps++; *steps > maxSteps {
				return by | x.everybody()
			}
			if x.shared(int(n-1), in, a.at) {
				by |= x.by[x.owner(int(x.at[n-1]))]
			}
		}
	}
	return by
}

// asked is a sample that is being looked up.
type asked struct {
	at         int
	hash, word uint64
}

// shared reports whether sample n is at in[i:] and part of a run. A block that
// stands in too many places to remember them all is enough by itself, unless it
// is only filling, such as spaces.
func (x *Shingles) shared(n int, in []byte, i int) bool {
	at := int(x.at[n])
	if !equalBlock(x.text[at:], in[i:]) {
		return false
	}
	if x.often[n] && !filling(in[i:i+block]) {
		return true
	}
	begin, end := x.limits(at)
	left := 0
	for left < RunLength-block && at-left > begin && i-left > 0 && x.text[at-left-1] == in[i-left-1] {
		left++
	}
	right := 0
	for left+right < RunLength-block && at+block+right < end && i+block+right < len(in) &&
		x.text[at+block+right] == in[i+block+right] {
		right++
	}
	return left+block+right >= RunLength
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

func (x *Shingles) everybody() (by Authors) {
	for _, a := range x.by {
		by |= a
	}
	return by
}
