package gitobject

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// The kinds of objects, as packs number them.
const (
	kindCommit = 1
	kindTree   = 2
	byOffset   = 6 // a delta whose base is so many bytes before it
	byHash     = 7
)

// object reads an object. chain counts the deltas so far.
func (r *Repo) object(hash []byte, chain int) (kind int, data []byte, err error) {
	for _, p := range r.packs {
		at, ok, err := p.find(hash)
		if err != nil {
			return 0, nil, err
		}
		if ok {
			return r.packedAt(p, at, len(hash), chain)
		}
	}
	name := hex.EncodeToString(hash)
	for _, dir := range r.stores {
		f, err := r.files.Open(filepath.Join(dir, name[:2], name[2:]))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		defer f.Close()
		return r.loose(io.NewSectionReader(f, 0, f.Size()))
	}
	return 0, nil, fmt.Errorf("object %s: %w", name, fs.ErrNotExist)
}

// loose reads an object that has a file of its own.
func (r *Repo) loose(from io.Reader) (kind int, data []byte, err error) {
	z, err := zlib.NewReader(from)
	if err != nil {
		return 0, nil, err
	}
	in := bufio.NewReaderSize(z, 64)
	head, err := in.ReadSlice(0) // no longer than the buffer
	if err != nil {
		return 0, nil, err
	}
	word, number, _ := strings.Cut(string(head[:len(head)-1]), " ")
	size, err := strconv.ParseUint(number, 10, 63)
	if err != nil {
		return 0, nil, err
	}
	data, err = r.take(in, size)
	return map[string]int{"commit": kindCommit, "tree": kindTree}[word], data, err
}

// take reads so many bytes, if that is allowed.
func (r *Repo) take(from io.Reader, size uint64) ([]byte, error) {
	if size > uint64(r.left) {
		return nil, fmt.Errorf("%w: objects of more than %d bytes", errForm, maxRead)
	}
	r.left -= int64(size)
	data := make([]byte, size)
	_, err := io.ReadFull(from, data)
	return data, err
}

// packedAt reads the object at a place in a pack.
func (r *Repo) packedAt(p *pack, at int64, hash, chain int) (kind int, data []byte, err error) {
	if chain > maxChain {
		return 0, nil, errForm
	}
	body, err := p.data()
	if err != nil {
		return 0, nil, err
	}
	if at < 0 || at >= body.Size() {
		return 0, nil, errForm
	}
	in := bufio.NewReader(io.NewSectionReader(body, at, body.Size()-at))
	b, err := in.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	kind = int(b>>4) & 7
	size := uint64(b & 15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = in.ReadByte(); err != nil || shift > 53 {
			return 0, nil, errors.Join(errForm, err)
		}
		size |= uint64(b&0x7f) << shift
	}
	var base []byte
	switch kind {
	case byOffset:
		back, err := offset(in)
		if err != nil || back <= 0 || back > at {
			return 0, nil, errors.Join(errForm, err)
		}
		kind, base, err = r.packedAt(p, at-back, hash, chain+1)
		if err != nil {
			return 0, nil, err
		}
	case byHash:
		of := make([]byte, hash)
		if _, err := io.ReadFull(in, of); err != nil {
			return 0, nil, err
		}
		if kind, base, err = r.object(of, chain+1); err != nil {
			return 0, nil, err
		}
	}
	z, err := zlib.NewReader(in)
	if err != nil {
		return 0, nil, err
	}
	data, err = r.take(z, size)
	if err == nil && base != nil {
		data, err = r.patch(base, data)
	}
	return kind, data, err
}

// offset reads how far in front of a delta its base is.
func offset(in io.ByteReader) (value int64, err error) {
	for range 8 {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		value = value<<7 | int64(b&0x7f)
		if b&0x80 == 0 {
			return value, nil
		}
		value++
	}
	return 0, errForm
}

// patch makes of a base what a delta says.
func (r *Repo) patch(base, delta []byte) ([]byte, error) {
	from, n := binary.Uvarint(delta)
	if n <= 0 || from != uint64(len(base)) {
		return nil, errForm
	}
	delta = delta[n:]
	size, n := binary.Uvarint(delta)
	if n <= 0 || size > uint64(r.left) {
		return nil, errForm
	}
	r.left -= int64(size)
	delta = delta[n:]
	data := make([]byte, 0, size)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		var part []byte
		if op&0x80 == 0 { // new bytes
			if op == 0 || int(op) > len(delta) {
				return nil, errForm
			}
			part, delta = delta[:op], delta[op:]
		} else { // bytes of the base: which of the seven bytes of place and length follow
			var number [7]uint64
			for i := range number {
				if op>>i&1 == 0 {
					continue
				}
				if len(delta) == 0 {
					return nil, errForm
				}
				number[i], delta = uint64(delta[0]), delta[1:]
			}
			at := number[0] | number[1]<<8 | number[2]<<16 | number[3]<<24
			length := number[4] | number[5]<<8 | number[6]<<16
			if length == 0 {
				length = 0x10000
			}
			if at+length > uint64(len(base)) {
				return nil, errForm
			}
			part = base[at : at+length]
		}
		if uint64(len(data)+len(part)) > size {
			return nil, errForm
		}
		data = append(data, part...)
	}
	if uint64(len(data)) != size {
		return nil, errForm
	}
	return data, nil
}

// pack is a pack with its index. Its files are opened when they are needed.
type pack struct {
	files      Files
	base       string // their path without the ending
	index, all File
}

func (p *pack) close() {
	for _, f := range []File{p.index, p.all} {
		if f != nil {
			f.Close()
		}
	}
}

func (p *pack) data() (File, error) {
	if p.all != nil {
		return p.all, nil
	}
	var err error
	p.all, err = p.files.Open(p.base + ".pack")
	return p.all, err
}

const fanout = 8 // where the first table of an index begins

// find looks an object up in the index: a table of counts by the first byte, the hashes, their checksums, the places.
func (p *pack) find(hash []byte) (at int64, ok bool, err error) {
	if p.index == nil {
		f, err := p.files.Open(p.base + ".idx")
		if errors.Is(err, fs.ErrNotExist) { // List may name a file that Open does not have
			return 0, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		head := make([]byte, fanout)
		if _, err := f.ReadAt(head, 0); err != nil || string(head) != "\xfftOc\x00\x00\x00\x02" {
			return 0, false, errors.Join(errForm, err, f.Close())
		}
		p.index = f
	}
	number := func(at int64) int64 {
		var b [4]byte
		if _, e := p.index.ReadAt(b[:], at); e != nil {
			err = e
		}
		return int64(binary.BigEndian.Uint32(b[:]))
	}
	from, to, count := int64(0), number(fanout+4*int64(hash[0])), number(fanout+4*255)
	if hash[0] > 0 {
		from = number(fanout + 4*int64(hash[0]) - 4)
	}
	length := int64(len(hash))
	if err != nil || from > to || to > count || fanout+1024+count*(length+8) > p.index.Size() {
		return 0, false, errors.Join(errForm, err)
	}
	names := int64(fanout + 1024)
	this := make([]byte, length)
	i, found := sort.Find(int(to-from), func(i int) int {
		if _, e := p.index.ReadAt(this, names+(from+int64(i))*length); e != nil {
			err = e
		}
		return bytes.Compare(hash, this)
	})
	if err != nil || !found {
		return 0, false, err
	}
	places := names + count*(length+4)
	at = number(places + 4*(from+int64(i)))
	if at&(1<<31) != 0 { // of packs of more than 2 GB: the place is in the last table
		large := places + 4*count + 8*(at&^(1<<31))
		at = number(large)<<32 | number(large+4)
	}
	return at, err == nil, err
}
