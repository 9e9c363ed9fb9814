package mask

import "io"

// Reader masks what src gives. Closing it closes src. The reader of a nil set is src.
func (s *Set) Reader(src io.ReadCloser) io.ReadCloser {
	if s == nil {
		return src
	}
	return &reader{set: s, src: src}
}

// What is read at once: most answers are small, so the first reads are.
const (
	firstSize = 2 << 10
	readSize  = 32 << 10
)

// reader has in buf what was read: up to past it has been passed on, up to ready it may be, and
// what follows may be the beginning of a secret.
type reader struct {
	set         *Set
	src         io.ReadCloser
	buf         []byte
	past, ready int
	err         error
}

func (r *reader) Read(p []byte) (int, error) {
	for r.past == r.ready && r.err == nil && len(p) > 0 {
		r.fill()
	}
	n := copy(p, r.buf[r.past:r.ready])
	r.past += n
	if r.past == r.ready {
		return n, r.err
	}
	return n, nil
}

// fill reads once. Everything that is ready has been passed on.
func (r *reader) fill() {
	keep, _ := r.set.tail(r.buf)
	passed := keep - (len(r.buf) - r.ready) // of what is kept
	kept := r.buf[len(r.buf)-keep:]
	size := cap(r.buf)
	switch {
	case r.buf == nil:
		size = firstSize
	case keep > size/2: // a secret is long
		size *= 2
	case len(r.buf) == size: // it was filled
		size = max(size, readSize)
	}
	if size > cap(r.buf) {
		r.buf = append(make([]byte, 0, size), kept...)
	} else {
		r.buf = r.buf[:copy(r.buf[:size], kept)]
	}
	n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	r.past, r.ready, r.err = passed, len(r.buf), err
	r.set.mask(r.buf)
	held, of := r.set.tail(r.buf)
	switch {
	case err == nil && held > shown:
		r.ready = max(len(r.buf)-held, passed)
	case err != nil && 2*held >= of: // the end is missing, and the half says too much
		for i := max(len(r.buf)-held, 0); held > 0 && i < len(r.buf); i++ {
			r.buf[i] = '*'
		}
	}
}

func (r *reader) Close() error { return r.src.Close() }
