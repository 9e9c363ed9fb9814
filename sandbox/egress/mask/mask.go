// Package mask hides secrets in what a host answers: it writes * over each of their bytes.
//
//	set := mask.New([]string{"ghp_0123456789"}) // nil, which works too, if there is nothing to hide
//	body := set.Reader(answer.Body) // ghp_0123456789 reads as **************
//	text := set.Text(message)       // for a text that is whole; Name is for names of headers
//
// It looks for each secret as it is, in upper and lower case, in hex, in base64 at each of its
// three alignments, and as JSON, HTML and URLs escape it, with few or all characters escaped. A
// new form belongs in forms.go.
//
// Guaranteed: what is masked keeps its length, so a length that was announced stays true. A
// secret is found across any number of reads: what may be its beginning is held back until the
// rest is known.
//
// Not guaranteed:
//
//   - Secrets shorter than [Least] are not hidden.
//   - Up to three bytes at the end of a read are not held back, so that a message need not wait
//     for the next one. They may be the first bytes of a secret.
//   - If the data ends inside a secret, less than half of it may be shown.
//   - A secret in any other form is not found: compressed, broken into lines, or encrypted by a
//     host that wants to give it away.
package mask

import (
	"bytes"
	"slices"
)

// Least is the shortest secret that can be masked: shorter texts are found where they mean
// nothing.
const Least = 8

// shown is how many bytes at the end of a read are passed on although a secret may begin
// there: a message that happens to end so must not wait for the next one.
const shown = 3

// Set are secrets to hide. It does not change, and may be used by several goroutines.
type Set struct {
	forms [][]byte // longest first
	lower [][]byte // the same in lower case
	least int      // length of the shortest
	// shift is by how much a search may go on after two bytes that end a window of least
	// bytes; 0: a form may begin there.
	shift *[1 << 16]uint8
}

// New makes a set. Secrets shorter than [Least] are left out; nil is a set of none.
func New(secrets []string) *Set {
	var forms [][]byte
	for _, secret := range secrets {
		if len(secret) < Least {
			continue
		}
		for _, f := range formsOf(secret) {
			if !slices.ContainsFunc(forms, func(have []byte) bool { return bytes.Equal(have, f) }) {
				forms = append(forms, f)
			}
		}
	}
	if len(forms) == 0 {
		return nil
	}
	slices.SortFunc(forms, func(a, b []byte) int { return len(b) - len(a) })
	var lower [][]byte
	for _, f := range forms {
		lower = append(lower, bytes.ToLower(f))
	}
	s := &Set{lower: lower, forms: forms, least: min(len(forms[len(forms)-1]), 255), shift: new([1 << 16]uint8)}
	for i := range s.shift {
		s.shift[i] = uint8(s.least - 1)
	}
	for _, f := range forms {
		for i := 1; i < s.least; i++ {
			at := &s.shift[uint16(f[i-1])<<8|uint16(f[i])]
			*at = min(*at, uint8(s.least-1-i))
		}
	}
	return s
}

// Text masks a whole text.
func (s *Set) Text(text string) string {
	if s == nil {
		return text
	}
	spans := s.find([]byte(text))
	if len(spans) == 0 {
		return text
	}
	return string(stars([]byte(text), spans))
}

// Name masks the name of a header, which has no case.
func (s *Set) Name(name string) string {
	if s == nil {
		return name
	}
	plain := s.Text(name)
	b, low := []byte(plain), bytes.ToLower([]byte(name))
	for _, f := range s.lower {
		for i := 0; i+len(f) <= len(low); i++ {
			if bytes.HasPrefix(low[i:], f) {
				copy(b[i:], bytes.Repeat([]byte("*"), len(f)))
			}
		}
	}
	return string(b)
}

// span is where a secret lies.
type span struct{ from, to int }

// find returns where b has secrets. Of those that begin at one place it returns the longest.
func (s *Set) find(b []byte) (found []span) {
	for i := s.least - 1; i < len(b); {
		if n := int(s.shift[uint16(b[i-1])<<8|uint16(b[i])]); n > 0 {
			i += n
			continue
		}
		from := i - s.least + 1
		for _, f := range s.forms {
			if bytes.HasPrefix(b[from:], f) {
				found = append(found, span{from, from + len(f)})
				break // the longest
			}
		}
		i++
	}
	return found
}

// stars returns a copy of b in which the spans are hidden. A span may go beyond b.
func stars(b []byte, spans []span) []byte {
	b = bytes.Clone(b)
	for _, at := range spans {
		for i := at.from; i < min(at.to, len(b)); i++ {
			b[i] = '*'
		}
	}
	return b
}

// tail returns how long the longest end of b is with which a longer form begins.
func (s *Set) tail(b []byte) (n int) {
	for _, f := range s.forms {
		n = max(n, begun(f, b, n))
	}
	return n
}

// half is tail of the forms of which b has the half or more.
func (s *Set) half(b []byte) (n int) {
	for _, f := range s.forms {
		if k := begun(f, b, n); 2*k >= len(f) {
			n = max(n, k)
		}
	}
	return n
}

// begun returns how long the longest end of b is with which f begins, or 0 if it is not longer than least.
func begun(f, b []byte, least int) int {
	for k := min(len(f)-1, len(b)); k > least; k-- {
		if f[k-1] == b[len(b)-1] && bytes.HasSuffix(b, f[:k]) {
			return k
		}
	}
	return 0
}
