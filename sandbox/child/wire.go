package child

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"path/filepath"
)

// Places inside the cage that are the same for every session.
const (
	CacheDir  = "/run/cache"    // writable, kept as long as the session
	GoCache   = "/run/go-build" // the same, over the host's build cache
	CargoHome = "/run/cargo"    // the same, over the host's ~/.cargo
	maskDir   = "/run/.masked"  // what is mounted over a denied path
)

// Overlaid are the caches that lie over those of the host.
var Overlaid = []string{GoCache, CargoHome}

// Template describes the root directory of a session. All paths are physical
// host paths.
type Template struct {
	Profile string // "strict" or "light"

	Read      []string // readable; empty: the whole system
	Write     []string // writable
	WriteAll  bool     // everything is writable but what is denied
	Denied    []string // masked wherever they exist
	Protected []string // read-only inside a writable tree
	Show      []string // readable like the system, even below a private directory
	Scratch   string   // host directory that holds root/, tmp/, vartmp/ and cache/

	// Lower are the host's directories below those of Overlaid. One that is not
	// named here begins empty. Over holds what the session writes; see [OverDirs].
	Lower map[string]string `json:",omitempty"`
	Over  string            `json:",omitempty"`

	AllowBind bool    // TCP servers on the private loopback
	Filter    Program // for seccomp
	// Listen is the same filter, but for calls that are refused or watched it asks
	// the launcher, which refuses what Filter refuses and tells what it was.
	Listen Program

	// Bare is the rung without namespaces: no root is built, nothing is masked,
	// and Grants say which files there are. Only the profile, the scratch
	// directory and the filter count besides.
	Bare   bool    `json:",omitempty"`
	Grants []Grant `json:",omitempty"`
}

// OverDirs are where a session's own part of a cache lies, and what the kernel needs
// beside it.
func OverDirs(over, place string) (upper, work string) {
	dir := filepath.Join(over, filepath.Base(place))
	return filepath.Join(dir, "upper"), filepath.Join(dir, "work")
}

// Grant lets everything below a path be read and executed, and written if Write.
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

// Request is one message to the launcher. The first comes right behind the template, and
// its answer says whether the root is built. It asks for a door after a look at what must
// be hidden; the answer is a [Message] for its ID. With a Signal it ends the call of that
// ID, and has no answer. A request that does not fit a message comes as a file.
type Request struct {
	ID     uint64
	Signal int      `json:",omitempty"` // for the tree of call ID; SIGKILL ends it
	Masks  []string `json:",omitempty"` // further paths to hide: sockets of the host
	Limits Limits   // of the call
	Room   int      `json:",omitempty"` // that the call needs
	Doors  []uint64 `json:",omitempty"` // those that would do, unless something had to be hidden
	Seen   uint64   `json:",omitempty"` // the newest door that has arrived
}

// Message is what the launcher says: a door, the answer to a request, the end of a
// call. A request is answered with the door or after it; no door that was made with
// other Mounts is of use from then on.
type Message struct {
	For    uint64 `json:",omitempty"` // the request that it answers
	Error  string `json:",omitempty"` // no door can be made
	Mounts int    `json:",omitempty"` // of every door that is of use
	Door   *Door  `json:",omitempty"` // comes with its descriptor
	Reply  *Reply `json:",omitempty"`
}

// Door leads to a process that is confined and waits to become a program: it takes one
// [Script], and is then of no more use. Who closes it without sends the process away.
type Door struct {
	Call        uint64 // its id
	Arena, Area uint64 // addresses of its memory, and of what of it is for the script
	Room        int    // of the area
	Mounts      int    // the state of the session's mounts that it has a copy of
	Limits      Limits // those that it was made with: of memory and processes
	Others      uint64 `json:",omitempty"` // threads that the limit on processes counts besides
}

// Fits reports whether a call can go through the door.
func (d Door) Fits(l Limits, room int) bool {
	return d.Limits.Memory == l.Memory && d.Limits.Processes == l.Processes && room <= d.Room
}

// Limits are what the kernel counts per process or per call; 0 is no limit.
type Limits struct {
	CPUSeconds, Memory, FileSize, OpenFiles, Processes uint64
}

// Denied is one act that was stopped, however often.
type Denied struct{ Act, Layer string }

// Failure is the operation of a list that went wrong.
type Failure struct {
	Op    int32 // counted from 1
	Errno int32
}

// Reply is the end of a call, when the whole tree is gone.
type Reply struct {
	Call   uint64
	Error  string  `json:",omitempty"` // the cage failed; nothing was run
	Failed Failure // the operation that kept the program from starting; see [Script.Failed]

	Status  uint32 // wait status
	CPUUsec int64
	MaxRSS  int64 // bytes
	// What the control group of the call says: the kernel killed for want of
	// memory; a process was refused.
	OutOfMemory, NoProcess bool `json:",omitempty"`

	// Denied are the acts that the cage stopped, as far as they are known.
	Denied []Denied `json:",omitempty"`
	Deaf   bool     `json:",omitempty"` // the kernel gave no listener, so acts that the filter stopped are not known
}
