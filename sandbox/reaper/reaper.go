// Package reaper runs one program of the operator's outside the sandbox, and ends everything
// that it started when the daemon says so or dies.
//
// Package hooks starts a reaper for each program of the operator that it runs, such as a hook or the
// spawner, and may do so ahead: sandboxd-child with the argument [Flag], which calls [Main].
// Descriptor 3 ([SocketFD]) is a stream socket to the daemon, on which each message is one JSON
// value:
//
//	daemon  Order                which program to run; its descriptors 0 to 2 come with the
//	                             first byte
//	reaper  Report{Error}        it did not start; the reaper ends
//	        Report{Started}      it runs
//	daemon  Terminate            SIGTERM for the process group of the program; any number of them
//	reaper  Report{Ended, Code}  the program has ended, by Signal if one ended it; what it left
//	                             behind runs on, unless it is Alone
//	daemon  end of its stream    kill all that is left; so it is when the daemon dies
//	reaper  Report{Left}         that many processes could not be killed
//	        end of its stream    nothing else is left
//
// The reaper is the subreaper of the program, so the kernel makes it the parent of every process
// whose own parent ends: no fork, new session or empty environment gets away from it. It kills
// its own children until it has none. It needs no privilege for that, unless Order.User is
// another user: then CAP_SETUID, CAP_SETGID and CAP_KILL.
//
// Not guaranteed: a process that the reaper may not signal, such as one of sudo, is left and
// reported. A program with the uid of the daemon could kill the reaper, as it could kill the
// daemon. Then the program ends, and what it started may stay.
//
// The daemon sends one Order. If the program did not start, or the stream ends before a Report, package hooks
// returns an error to whoever wanted the run; for a hook, its setting onError says what that means. The program
// starts in the directory /, with the environment of the Order alone.
//
// A new message is a type here, with a row in the table above, and is sent and handled in Main and by
// package hooks. Main takes every message after the Order for a Terminate: a second kind needs a field that
// tells them apart.
package reaper

import "github.com/sandboxd/sandboxd/sandbox/identity"

const (
	// Flag is the one argument of sandboxd-child as a reaper.
	Flag = "-reaper"
	// SocketFD is the descriptor of its end of the socket.
	SocketFD = 3
)

// Order is the program to run. Its texts are bytes because JSON holds no others than UTF-8.
type Order struct {
	Path []byte       // the file; no search
	Argv [][]byte     // with its name
	Env  [][]byte     // all of it
	User *identity.ID // whose rights it has, without capabilities unless it is root; nil: those of the reaper
}

// Terminate asks the program to end.
type Terminate struct{}

// Report is what the reaper says.
type Report struct {
	Error   string `json:",omitempty"`
	Started bool   `json:",omitempty"`
	Ended   bool   `json:",omitempty"`
	Alone   bool   `json:",omitempty"` // with Ended: nothing that it started is left
	Code    int    `json:",omitempty"` // the exit status, or -1
	Signal  string `json:",omitempty"` // that ended it
	Left    int    `json:",omitempty"`
}
