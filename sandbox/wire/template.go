package wire

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"path/filepath"

	"github.com/sandboxd/sandboxd/sandbox/identity"
)

// Profile says how far the calls of a session are kept apart from each other.
type Profile string

// The profiles. A call has mount and ipc namespaces and a /proc of its own in strict; in
// light it has those of its session.
const (
	ProfileStrict Profile = "strict"
	ProfileLight  Profile = "light"
)

// Template describes the root directory of a session. All paths are physical paths of
// the host.
type Template struct {
	Profile Profile
	User    *identity.ID `json:",omitempty"` // whose rights programs have; nil: the launcher's

	Read     []string // readable; empty: the whole system
	Write    []string // writable
	WriteAll bool     // everything is writable except Denied
	Denied   []string // hidden wherever they exist
	Show     []string // readable, also below a private directory such as /tmp
	Scratch  string   // directory of the host that holds root/, tmp/, vartmp/ and cache/

	// Lower maps each path of [Overlaid] to the directory of the host below it. A path
	// that is absent here starts empty. Over holds what the session writes; see [OverDirs].
	Lower map[string]string `json:",omitempty"`
	Over  string            `json:",omitempty"`

	AllowBind bool // programs may run TCP servers on the private loopback
	Network   bool `json:",omitempty"` // there is a way out, through the daemon
	// Authority is a certificate in PEM that programs trust besides those of the host. "": none.
	Authority string  `json:",omitempty"`
	Filter    Program // the seccomp filter
	// Listen is the same filter with one difference: where Filter refuses, or where a
	// call is only observed, it asks the launcher. The launcher refuses what Filter
	// refuses and reports what the call was.
	Listen Program

	// NoNamespaces selects the isolation level without namespaces: no root is built,
	// nothing is hidden by mounts, and Grants list the files that exist for programs.
	// Of the other fields only Profile, Scratch and the filters are used.
	NoNamespaces bool    `json:",omitempty"`
	Grants       []Grant `json:",omitempty"`
}

// OverDirs returns the directory for what a session writes over a path of [Overlaid],
// and the work directory that the kernel needs beside it.
func OverDirs(over, place string) (upper, work string) {
	dir := filepath.Join(over, filepath.Base(place))
	return filepath.Join(dir, "upper"), filepath.Join(dir, "work")
}

// Grant allows reading and executing everything below a path, and writing if Write.
type Grant struct {
	Path  string
	Write bool `json:",omitempty"`
}

// Insn is one classic BPF instruction.
type Insn struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

// Program is a filter. On the wire it is its bytes: as a list of objects it was most
// of what a session's first call waited for.
type Program []Insn

// MarshalText implements encoding.TextMarshaler.
func (p Program) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 8*len(p))
	for _, in := range p {
		raw = binary.LittleEndian.AppendUint16(raw, in.Code)
		raw = append(raw, in.Jt, in.Jf)
		raw = binary.LittleEndian.AppendUint32(raw, in.K)
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Program) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("decode a filter: %w", err)
	}
	if len(raw)%8 != 0 {
		return fmt.Errorf("a filter of %d bytes is cut off", len(raw))
	}
	for ; len(raw) > 0; raw = raw[8:] {
		*p = append(*p, Insn{binary.LittleEndian.Uint16(raw), raw[2], raw[3], binary.LittleEndian.Uint32(raw[4:])})
	}
	return nil
}
