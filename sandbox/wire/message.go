package wire

import "net/netip"

// Request is one message to the launcher. With a Signal it signals the tree of call ID
// and has no answer. Otherwise it asks for a slot: the launcher scans the hidden paths
// and answers with a [Message] whose For is the ID.
type Request struct {
	ID     uint64   // of the request, or of the call to signal
	Signal int      `json:",omitempty"` // for the tree of call ID; SIGKILL ends the tree
	Masks  []string `json:",omitempty"` // more paths to hide: sockets of the host
	Kept   []Kept   `json:",omitempty"` // paths to make read-only, if there are others than before
	Limits Limits   // of the call
	Room   int      `json:",omitempty"` // bytes that the script of the call needs
	Slots  []uint64 `json:",omitempty"` // unused slots that fit, if no new path had to be hidden
	Newest uint64   `json:",omitempty"` // the newest slot that the daemon has received
	Bound  *Bound   `json:",omitempty"` // the slot is for this request alone, with these files

	Connect *Connect `json:",omitempty"` // instead of all of the above: answers the Connect of a message
	Sockets bool     `json:",omitempty"` // instead of all of the above but ID: asks for sockets
}

// Connect is a connection of a program to an address of [Names] at which nothing listens
// yet. The descriptor of a listener comes with the message. The connection waits for the
// answer, which has To, Close and Refused. A UDP connection is already refused. It has no descriptor and
// gets no answer.
type Connect struct {
	To      netip.AddrPort
	Call    uint64         `json:",omitempty"`
	UDP     bool           `json:",omitempty"`
	Close   netip.AddrPort `json:",omitzero"`  // the listener at this address is closed before the answer
	Refused bool           `json:",omitempty"` // nobody listens: the connection is refused
}

// Bound are the files of a call whose content a person has approved. The descriptor of
// each content comes with the request, in the same order.
type Bound struct {
	Names  [][]string // of each file: every path by which programs open it
	Absent []string   `json:",omitempty"` // paths at which nothing is, whatever others put there
	Listen Program    // the filter of the call: it asks the launcher about the files too
}

// Kept is a path inside a writable tree that programs must not write. A program may have
// chosen its name, which is bytes and no text.
type Kept struct {
	Path []byte
	Pins int `json:",omitempty"` // directories above it that must keep their names
}

// Message is what the launcher sends: a slot, the answer to a request, or the end of a
// call.
type Message struct {
	For    uint64 `json:",omitempty"` // the request that this answers; 0: none
	Error  string `json:",omitempty"` // why no slot can be made
	Mounts int    `json:",omitempty"` // slots with another value are useless from now on
	Slot   *Slot  `json:",omitempty"` // comes with its descriptor
	Reply  *Reply `json:",omitempty"`

	Network bool     `json:",omitempty"` // the way out is set up; see the package
	NoWay   string   `json:",omitempty"` // why it is not
	Connect *Connect `json:",omitempty"`

	Sockets uint64 `json:",omitempty"` // the request for sockets that this answers
}

// Slot leads to a process that is confined and waits to become a program. It takes one
// script. Closing it unused ends the process.
type Slot struct {
	Call         uint64 // id of the call
	Arena, Area  uint64 // addresses of the call's memory, and of the part for the script
	Room         int    // bytes of that part
	Mounts       int    // which state of the session's mounts the process has a copy of
	Limits       Limits // the limits on memory and processes that the process was made with
	OtherThreads uint64 `json:",omitempty"` // threads of the user that the limit on processes counts too
	Bound        uint64 `json:",omitempty"` // the request whose files are bound; 0: the slot is for any call
}

// Fits reports whether a call with these limits, whose script needs room bytes, can use
// the slot. request is the one with which its files were bound, or 0.
func (s Slot) Fits(l Limits, room int, request uint64) bool {
	return s.Bound == request && s.Limits.Memory == l.Memory && s.Limits.Processes == l.Processes && room <= s.Room
}

// Limits are what the kernel counts for each process or for a call. 0 is no limit.
type Limits struct {
	CPUSeconds, Memory, FileSize, OpenFiles, Processes uint64
}

// Denied is one act that the kernel refused, however often.
type Denied struct{ Act, Layer string }

// Failure is the operation of a list that failed. The zero value is none.
type Failure struct {
	Op    int32 // counted from 1
	Errno int32
}

// Reply is the end of a call. All its processes are gone.
type Reply struct {
	Call   uint64
	Error  string  `json:",omitempty"` // the sandbox failed; no program was run
	Failed Failure // the operation of the script that kept the program from starting

	Status  uint32 // wait status
	CPUUsec int64  // of all processes
	MaxRSS  int64  // bytes, of the largest process
	// OutOfMemory and NoProcess come from the control group of the call: the kernel
	// killed a process because memory ran out, or refused to make one.
	OutOfMemory, NoProcess bool `json:",omitempty"`

	Denied     []Denied `json:",omitempty"` // acts that the filter refused
	NoListener bool     `json:",omitempty"` // the kernel gave no listener, so Denied is not known
	// Replaced is the bound file for which a process became something else. The call was
	// ended.
	Replaced string `json:",omitempty"`
}
