package frame

import (
	"bytes"
	"encoding/json"
)

// scan reads the bytes of a line once, in pieces. It keeps what is needed to answer a line that is too long to keep:
// whether it looks like one object, how deep it nests, its id, and whether it has a method. It does not check the
// JSON.
type scan struct {
	bytes   int // read so far, with the line break
	any     bool
	first   byte // the first byte that is not white space
	last    byte // the last byte that is not white space
	spaces  int  // white space at the end
	lead    int  // white space at the start
	depth   int
	deepest int
	values  int // about: objects, arrays and commas
	method  bool

	text, escaped bool // inside a string; after its backslash
	key           bool // the token is a key of the outermost object
	value         bool // after the colon of the key id
	token         []byte
	found         []byte
}

// maxToken bounds the bytes that are kept of a key or an id. A longer one is ignored.
const maxToken = 256

func space(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

func (s *scan) feed(piece []byte) {
	s.bytes += len(piece)
	for _, b := range piece {
		if space(b) {
			if s.any {
				s.spaces++
			} else {
				s.lead++
			}
		} else {
			if !s.any {
				s.any, s.first = true, b
			}
			s.last, s.spaces = b, 0
		}
		s.byte(b)
	}
}

func (s *scan) byte(b byte) {
	if s.text {
		s.keep(b)
		switch {
		case s.escaped:
			s.escaped = false
		case b == '\\':
			s.escaped = true
		case b == '"':
			s.text = false
		}
		return
	}
	switch b {
	case '"':
		s.text = true
		s.keep(b)
	case '{', '[':
		s.depth++
		s.values++
		s.deepest = max(s.deepest, s.depth)
		s.key = s.depth == 1
		s.token, s.value = s.token[:0], s.value && s.depth == 1
	case '}', ']':
		s.end()
		s.depth--
	case ',':
		s.values++
		s.end()
		s.key = s.depth == 1
	case ':':
		if s.depth != 1 || !s.key {
			return
		}
		name := ""
		_ = json.Unmarshal(s.token, &name) // a token that is not a string is not one of the keys
		s.method = s.method || name == "method"
		s.key, s.value, s.token = false, name == "id", s.token[:0]
	default:
		if !space(b) {
			s.keep(b)
		}
	}
}

// end ends a member of the outermost object.
func (s *scan) end() {
	if s.depth != 1 {
		return
	}
	if s.value {
		s.found = bytes.Clone(s.token)
	}
	s.value, s.token = false, s.token[:0]
}

func (s *scan) keep(b byte) {
	if s.depth == 1 && (s.key || s.value) && len(s.token) <= maxToken {
		s.token = append(s.token, b)
	}
}

// object reports whether the line looks like one object.
func (s *scan) object() bool { return s.first == '{' && s.last == '}' && s.depth == 0 }

// length returns how many bytes the line has, without the spaces around it.
func (s *scan) length() int { return s.bytes - s.spaces - s.lead }

// id returns the id of the message, a string or a number. It is nil if there is none.
func (s *scan) id() []byte {
	var id any
	if len(s.found) > maxToken || json.Unmarshal(s.found, &id) != nil {
		return nil
	}
	switch id.(type) {
	case string, float64:
		return s.found
	}
	return nil
}
