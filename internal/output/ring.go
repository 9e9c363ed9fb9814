package output

// ring holds the bytes from begin to end of all that was ever written to it. It never shrinks.
type ring struct {
	bytes      []byte
	begin, end int64
}

const leastRing = 4 << 10

// write appends bytes. Who writes moves begin, so that there are no more than most.
func (r *ring) write(p []byte, most int) {
	if need := int(r.end-r.begin) + len(p); need > len(r.bytes) {
		room := max(need, min(most, max(leastRing, 2*len(r.bytes))))
		grown := ring{bytes: make([]byte, room), begin: r.begin, end: r.begin}
		grown.write(r.read(nil, r.begin, int(r.end-r.begin)), most)
		*r = grown
	}
	for len(p) > 0 {
		n := copy(r.bytes[int(r.end%int64(len(r.bytes))):], p)
		r.end += int64(n)
		p = p[n:]
	}
}

// read appends n bytes from an offset on to b.
func (r *ring) read(b []byte, at int64, n int) []byte {
	for n > 0 {
		from := r.bytes[int(at%int64(len(r.bytes))):]
		from = from[:min(n, len(from))]
		b = append(b, from...)
		at += int64(len(from))
		n -= len(from)
	}
	return b
}
