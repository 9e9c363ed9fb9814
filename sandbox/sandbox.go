// Package sandbox opens files and runs programs for calls, each within its settings.
//
// A [Backend] makes a [Box] for one call, bound to [guard.Settings]. Files are opened and
// programs are started only through the Box. Whoever asked for it closes it, which ends what
// still runs.
//
//	backend, err := sandbox.NewBackend(sandbox.Options{Child: "/usr/bin/sandboxd-child"})
//	box, err := backend.Box(ctx, session, sandbox.ProfileStrict, settings)
//	defer box.Close()
//	proc, err := box.Start(ctx, sandbox.Spec{Argv: []string{"/bin/true"}, Dir: "/work"})
//	exit, err := proc.Wait()
//
// Call [NewBackend] once in a process. A Box has the rights of the daemon until [Box.As] names another
// [User]. [WriteFile], [Create], [Remove], [MakeDir], [MakeLink] and [MakePipe] change files through a
// Box; a [Keeper] keeps what they take away, and [Extended] and [SetExtended] are for attributes. Call
// [Backend.Forget] when a session is deleted and [Backend.Close] last: both end what runs and remove
// private files. Backend and Box are safe for concurrent use.
//
// A Box checks paths and hosts, and no commands: the caller has judged Argv before.
//
// After an error of Backend.Box or Box.Start no program runs, and the caller denies the call. Errors with a type:
//
//   - [MissingError]: this host lacks a layer that is needed.
//   - [RightsError]: no process of the daemon can have the rights of the user.
//   - [guard.Denied], from Open: the settings refuse the path.
//   - [egress.RefusedError], from Box.Dial: the host is refused.
//   - [StartError], from Proc.Wait: the program does not exist or cannot be executed.
//   - [ReplacedError], from [Bind] and Proc.Wait: a file is no longer what a person approved.
//
// The parts are packages of their own, and none of them imports this one: view (what
// programs see), later (what a person's tools would run), bound (files with approved content),
// seccomp (system calls), limit (control groups, disk), stdio (streams), egress (connections to
// other hosts), identity (rights of other users), launch (the daemon's side of the launchers),
// wire and script (the protocol), child (the launcher itself), ctime (whether directories
// changed). reaper runs the operator's programs, which are outside the sandbox.
//
// Guaranteed at each isolation level: Open refuses a path that [guard.Rules.Check] refuses, and
// a program cannot open it on the host either. There are three exceptions:
//
//   - Programs can read [wire.SystemPaths], unless deniedPaths has them.
//   - A program can make and use a denied path that does not exist. The path is moved to
//     quarantine when the program ends, or within two seconds if it is a lasting one, and a
//     [Denial] reports it, if the daemon may look there.
//   - A program that runs sees a denied path that somebody outside makes or replaces meanwhile.
//
// What this host cannot enforce is named in [Report]. Not guaranteed: anything against a bug in
// the kernel.
//
// What a new layer does to a program belongs in package child, and whether this host has it in
// probe_linux.go: a layer that is missing is named in [Report] and never left out silently. A new way to
// reach a file is a method of [Box], or a function over [Box.Open] as in writefile.go, so that it is checked.
// A new attempt of a program to get out is an element of the list of its topic in attempts_*_test.go; a second way
// to one of them is an element of moreAttempts.
package sandbox

import (
	"context"
	"io"
	"net"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/bound"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Profile says how far the calls of a session are kept apart from each other.
type Profile = wire.Profile

// The profiles.
const (
	ProfileStrict = wire.ProfileStrict // the default
	ProfileLight  = wire.ProfileLight
)

// Profiles are all profiles, the strictest first.
var Profiles = []Profile{ProfileStrict, ProfileLight}

// Report says which layers hold.
type Report struct {
	Profile Profile `json:"profile"`
	// Isolation is the level: "namespaces", or "landlock" on a host that gives none. ""
	// means that programs cannot be confined and none is run.
	Isolation string   `json:"rung,omitempty"`
	Layers    []string `json:"layers"`  // "userns", "netns", "landlock:7", "seccomp", …
	Missing   []string `json:"missing"` // what this kernel or host does not give
	Denials   []Denial `json:"denials"` // what the sandbox stopped during the call
	Landlock  int      `json:"-"`       // ABI version, 0 if absent
	// Limits says what enforces each limit: "cgroup2", "rlimit of each process", …
	Limits map[string]string `json:"limits,omitempty"`
}

// Denial is one act that the sandbox stopped.
type Denial struct {
	Act     string `json:"act"`               // "connect 127.0.0.1:80", "open /etc/shadow"
	Layer   string `json:"layer"`             // "netns", "landlock", …
	Setting string `json:"setting,omitempty"` // what would allow it
}

// Spec is one program to start in a Box. The words are literal.
type Spec struct {
	Argv   []string  // Argv[0] is searched in the PATH of the Box if it has no slash
	Dir    string    // absolute working directory
	Env    []string  // NAME=VALUE added over the environment of the Box
	Stdin  *os.File  // nil: empty
	Stdout io.Writer // a pipe, socket or terminal is passed as it is; nil discards
	Stderr io.Writer // may be the same value as Stdout, to keep their order
	// Bounded says that Stdout and Stderr keep only a bounded part of the output. Then they get
	// all of it, if the limit of output does not end the program.
	Bounded bool
	Limits  guard.Limits // can only lower those of the settings
	// Lasting says that the program may run until somebody ends it. The settings do not limit its
	// wall clock, its processor time and its output; Limits does. Stdout and Stderr decide how fast
	// the output comes. Files that it must not make are moved away while it runs, too.
	Lasting bool
	// Name is the name of a lasting program for other programs that cannot reach its ports: see
	// [Exit.Apart].
	Name string
	// Terminal says that Stdin is a new terminal for this program, which it gets to control.
	Terminal bool
	// Bound are files that the program, and all that it starts, finds at these paths with this
	// content, whatever lies there. One without content is absent. The programs cannot change them.
	// If somebody makes one of them execute something else, the program ends with a
	// [ReplacedError].
	Bound []Bound
}

// Bound is a file with the content that a person approved; see [Bind].
type Bound = bound.File

// Exit is how a program ended.
type Exit struct {
	Code     int    // exit status; 128+n after signal n
	Signal   string // "SIGKILL", "" if it exited
	TimedOut bool   // the wall clock ended it
	Limit    string // the limit that ended it: "output", "memory", …; "" if none
	Overflow int64  // limits.outputBytes, if it wrote more and was not ended for that; else 0
	Usage    Usage
	Denials  []Denial
	Network  egress.Ledger // what it connected to, and what was refused
	// Apart names the lasting programs of the session that run in another network namespace. They
	// began when the settings or the paths of the sandbox were different.
	Apart []string
}

// Why returns one word for how a program ended: "exited", "signaled", "timed_out", or the limit that ended it.
func (e Exit) Why() string {
	switch {
	case e.TimedOut:
		return "timed_out"
	case e.Limit != "":
		return e.Limit
	case e.Signal != "":
		return "signaled"
	}
	return "exited"
}

// Usage is what a program consumed.
type Usage struct {
	Wall        time.Duration
	CPU         time.Duration
	MaxRSSBytes int64
}

// Proc is a started program.
type Proc interface {
	// Wait returns when the program and everything that it started are gone. The error is
	// for failures of the sandbox itself and for a program that did not start
	// ([StartError]), never for an exit status.
	// Cancelling the context given to Start kills all processes.
	Wait() (Exit, error)
	// Terminate ends all processes: with SIGTERM first if grace > 0, then with SIGKILL.
	Terminate(grace time.Duration)
	// Dial connects to a port that programs of the session serve on their loopback. Without
	// network namespaces they have none: that is a [MissingError].
	Dial(ctx context.Context, port uint16) (net.Conn, error)
	// Apart is about a lasting program with a name. It reports whether the program of the session
	// that began last is in another network namespace, and so cannot reach the ports of this one.
	Apart() bool
	// Sweep moves away now the files that a lasting program must not make, and returns them. Without
	// Sweep that happens within two seconds.
	Sweep() []Denial
}

// Box opens files and runs programs for one call, bound to judged settings. It is safe for
// concurrent use.
type Box interface {
	// Open opens exactly use.Path, which must be physical: a symlink anywhere in
	// it, a magic link or a path outside the settings is an error. It never
	// blocks on a fifo and never follows /proc/PID.
	//
	// For Read the file itself is returned. For Write it is the directory that
	// holds use.Path, made if it is absent, so that the write is a new file and
	// a rename: see [WriteFile]. If anything else than a file or a directory lies there, that
	// is an error, unless flag has O_NOFOLLOW.
	Open(ctx context.Context, use guard.PathUse, flag int) (*os.File, error)
	// As returns this box for another user. Open takes the rights of that user, programs have its ids, and what they
	// make belongs to it. Each user of a session has private files of its own.
	As(u User) Box
	// Do runs f with the rights that Open takes for this path. Its goroutine is on one
	// thread meanwhile, and f starts no others.
	Do(use guard.PathUse, f func() error) error
	// Start runs a program in the sandbox. It starts nothing if a required layer is missing.
	Start(ctx context.Context, s Spec) (Proc, error)
	// LookPath searches a name without a slash in the PATH of programs in the sandbox. It returns the
	// program, or "", and the paths that were tried before.
	LookPath(name string) (found string, before []string)
	// Judged returns this box with a judge of connections: those of Dial, and those of programs if the settings
	// allow hosts. A box without a judge allows the hosts that the settings list, and asks nobody.
	Judged(egress.Judge) Box
	// Dial connects to a host for the daemon itself. An [egress.RefusedError] says why not.
	Dial(ctx context.Context, to egress.Connection) (net.Conn, error)
	// Ledger lists the connections of programs that have ended and those of Dial, and what was
	// refused. It closes the connections of Dial.
	Ledger() egress.Ledger
	// Report names the layers this Box runs programs under.
	Report() Report
	// Close ends what still runs in the Box.
	Close() error
}

// Backend makes boxes. It is safe for concurrent use.
type Backend interface {
	// Probe says what this host can enforce, by trying it.
	Probe() Report
	// Binds returns why no program of this host can be given [Spec.Bound], by trying it, or
	// nil.
	Binds() error
	// Box binds one call of a session to its settings; the caller closes it. It is an error if a layer
	// that the settings require is missing. The profile "" is [ProfileStrict].
	Box(ctx context.Context, session string, profile Profile, s guard.Settings) (Box, error)
	// Forget ends what runs in a session and removes its private files. Call it
	// when the session is deleted: its id may be given to somebody else.
	Forget(session string) error
	// Close ends every call and removes all private files.
	Close() error
}
