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

// reader has in raw what it has read and not yet forgotten. out is what is ready of it and not passed on. From keep
// on, raw may be the beginning of a secret: that is looked at again with what is read next.
type reader struct {
	set    *Set
	src    io.ReadCloser
	raw    []byte
	out    []byte
	keep   int
	passed int // bytes behind keep that out has, or had
	hidden int // bytes behind keep that belong to a secret before them
	err    error
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.out) == 0 && r.err == nil && len(p) > 0 {
		r.fill()
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	if len(r.out) == 0 {
		return n, r.err
	}
	return n, nil
}

// fill reads once. Everything that was ready has been passed on.
func (r *reader) fill() {
	kept := r.raw[r.keep:]
	size := cap(r.raw)
	switch {
	case r.raw == nil:
		size = firstSize
	case len(kept) > size/2: // a secret is long
		size *= 2
	case len(r.raw) == size: // it was filled
		size = max(size, readSize)
	}
	if size > cap(r.raw) {
		r.raw = append(make([]byte, 0, size), kept...)
	} else {
		r.raw = r.raw[:copy(r.raw[:size], kept)]
	}
	n, err := r.src.Read(r.raw[len(r.raw):cap(r.raw)])
	r.raw, r.err = r.raw[:len(r.raw)+n], err
	spans := r.set.find(r.raw)
	if r.hidden > 0 {
		spans = append(spans, span{0, r.hidden})
	}
	held, ready := r.set.tail(r.raw), len(r.raw)
	switch {
	case err != nil: // the end is missing, and the half says too much
		spans = append(spans, span{len(r.raw) - r.set.half(r.raw), len(r.raw)})
	case held > shown:
		ready = max(len(r.raw)-held, r.passed)
	}
	r.out = r.raw[r.passed:ready]
	if len(spans) > 0 { // raw is needed as it is
		r.out = stars(r.raw[:ready], spans)[r.passed:]
	}
	r.keep, r.hidden = len(r.raw)-held, 0
	r.passed = ready - r.keep
	for _, s := range spans {
		if s.from < r.keep {
			r.hidden = max(r.hidden, s.to-r.keep)
		}
	}
}

func (r *reader) Close() error { return r.src.Close() }
