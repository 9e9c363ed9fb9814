// Package sandbox decides which files, programs and hosts a call may touch, and
// confines what runs to exactly that.
//
// It has two halves that share one rule set, [Settings]. The checker is pure:
// [Check] holds what a call would touch ([Uses]) against the settings and names
// every [Refusal]. The cage is the kernel: a [Backend] gives a [Box], the hands
// of one call, in which files are opened and programs started under the same
// settings.
//
//	uses := sandbox.ScriptUses(script, dir, home)
//	if refused := sandbox.Check(uses, settings); refused != nil { … }
//	box, err := backend.Box(ctx, session, "strict", settings)
//	proc, err := box.Start(ctx, sandbox.Spec{Argv: []string{"/bin/true"}})
//
// Guaranteed: a path that Check refuses cannot be opened through the Box, nor by
// a program in it, on any rung of the ladder; what a kernel cannot enforce is
// named in [Report] and never skipped in silence. Not guaranteed: anything
// against a bug in the kernel.
package sandbox

import (
	"context"
	"io"
	"net"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/shellparse"
)

// Op is what is done with a path.
type Op = shellparse.Access

// The two operations.
const (
	Read  = shellparse.Read
	Write = shellparse.Write
)

// PathUse is one file or directory that a call would touch.
type PathUse struct {
	Raw       string         // as the caller wrote it
	Path      string         // physical: absolute, cleaned, symlinks resolved; "" when it cannot be known
	Op        Op             //
	Recursive bool           // the whole tree below is touched
	Problem   string         // why Path is "": what could not be known
	Glob      bool           // Path is a pattern: any name that it matches may be touched
	At        shellparse.Pos // where in the command line; zero for a tool's own argument
}

// Uses is what a call would touch, found without side effects.
type Uses struct {
	Script *shellparse.Script // nil when the call runs no shell text
	Paths  []PathUse
	Hosts  []string
	// Unconfined: the call asks for more than the lists of paths allow.
	Unconfined bool `json:",omitempty"`
}

// Settings are the floor under one call: plain data, comparable, and the same on
// the wire. For the path lists empty means unrestricted; for
// AllowedCommands nil means deny-list mode and [] means that nothing may run.
type Settings struct {
	AllowedReadPaths  []string `json:"allowedReadPaths" yaml:"allowedReadPaths"`
	AllowedWritePaths []string `json:"allowedWritePaths" yaml:"allowedWritePaths"`
	DeniedPaths       []string `json:"deniedPaths" yaml:"deniedPaths"`
	DeniedCommands    []string `json:"deniedCommands" yaml:"deniedCommands"`
	AllowedCommands   []string `json:"allowedCommands" yaml:"allowedCommands"`

	AllowNestedSandbox        bool `json:"allowNestedSandbox" yaml:"allowNestedSandbox"`
	EnableWeakerNestedSandbox bool `json:"enableWeakerNestedSandbox" yaml:"enableWeakerNestedSandbox"`
	AutoAllowBashIfSandboxed  bool `json:"autoAllowBashIfSandboxed" yaml:"autoAllowBashIfSandboxed"`
	AllowUnsandboxedCommands  bool `json:"allowUnsandboxedCommands" yaml:"allowUnsandboxedCommands"`

	Network Network `json:"network" yaml:"network"`
	Limits  Limits  `json:"limits" yaml:"limits"`

	// Env adds variables to the child's environment (X-40: all others are an
	// allow list). Values are literal.
	Env map[string]string `json:"env,omitempty" yaml:"env,omitempty"`
	// Require names layers that must hold, else nothing runs: "userns", "netns",
	// "landlock", "seccomp", "cgroup2".
	Require []string `json:"require,omitempty" yaml:"require,omitempty"`
}

// Network is what a confined program may reach.
type Network struct {
	AllowedDomains    []string `json:"allowedDomains" yaml:"allowedDomains"`
	AllowLocalBinding bool     `json:"allowLocalBinding" yaml:"allowLocalBinding"`
}

// Limits bound one call. Zero means the default of [DefaultLimits].
type Limits struct {
	WallSeconds   int   `json:"wallSeconds,omitempty" yaml:"wallSeconds,omitempty"`
	CPUSeconds    int   `json:"cpuSeconds,omitempty" yaml:"cpuSeconds,omitempty"`
	MemoryBytes   int64 `json:"memoryBytes,omitempty" yaml:"memoryBytes,omitempty"`
	Processes     int   `json:"processes,omitempty" yaml:"processes,omitempty"`
	FileSizeBytes int64 `json:"fileSizeBytes,omitempty" yaml:"fileSizeBytes,omitempty"`
	OpenFiles     int   `json:"openFiles,omitempty" yaml:"openFiles,omitempty"`
	OutputBytes   int64 `json:"outputBytes,omitempty" yaml:"outputBytes,omitempty"`
	DiskBytes     int64 `json:"diskBytes,omitempty" yaml:"diskBytes,omitempty"`
}

// Obligations are conditions that a policy attaches to its decision. They only
// tighten.
type Obligations struct {
	NoNetwork   bool `json:"no_network,omitempty"`
	ReadOnly    bool `json:"read_only,omitempty"`
	WallSeconds int  `json:"wall_seconds,omitempty"`
}

// Refusal is one reason why a call is below the floor.
type Refusal struct {
	Code    string         // stable: "path_denied", "path_outside_read_scope", "path_outside_write_scope", "path_unknown", "command_denied", "command_not_allowed", "command_unknown", "host_denied", "opaque", …
	Message string         // one sentence for a model or a person
	Hint    string         // which setting would allow it, or what to do instead
	Rule    string         // the setting that decided: "deniedPaths: /etc"
	At      shellparse.Pos //
	Ask     bool           // a person may allow it; without one it is a denial
	// Caged: the kernel holds everything that this protects (no command list is
	// at stake, only paths and hosts). Under a cage that holds, a caller may go on.
	Caged bool
}

// Report says which layers hold.
type Report struct {
	Profile string `json:"profile"`
	// Rung is what holds a program: "namespaces", or "landlock" on a host that
	// gives none; "" when nothing does, and nothing runs.
	Rung     string   `json:"rung,omitempty"`
	Layers   []string `json:"layers"`  // "userns", "netns", "landlock:7", "seccomp", …
	Missing  []string `json:"missing"` // what this kernel or host could not give
	Denials  []Denial `json:"denials"` // what the cage stopped during the call
	Landlock int      `json:"-"`       // ABI version, 0 if absent
	// Limits says what holds each of the limits: "cgroup2", "rlimit of each
	// process", …
	Limits map[string]string `json:"limits,omitempty"`
}

// Denial is one act that the cage stopped.
type Denial struct {
	Act     string `json:"act"`               // "connect 127.0.0.1:80", "open /etc/shadow"
	Layer   string `json:"layer"`             // "netns", "landlock", …
	Setting string `json:"setting,omitempty"` // what would allow it
}

// Spec is one program to start in a Box. The words are literal.
type Spec struct {
	Argv   []string  // Argv[0] is looked up in the PATH of the Box when it holds no slash
	Dir    string    // absolute working directory
	Env    []string  // NAME=VALUE added over the environment of the Box
	Stdin  *os.File  // nil: empty
	Stdout io.Writer // an *os.File is passed as it is; nil discards
	Stderr io.Writer // may be the same value as Stdout, which keeps the order
	Limits Limits    // only tighten those of the settings
}

// Exit is how a program ended.
type Exit struct {
	Code     int    // exit status; 128+n after signal n
	Signal   string // "SIGKILL", "" if it exited
	TimedOut bool   // the wall clock ended it
	Limit    string // the limit that ended it: "output", "memory", …; "" if none
	Usage    Usage
	Denials  []Denial
}

// Why is one word for how a program ended: "exited", "signaled", "timed_out", or
// the limit that ended it.
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
	// Wait returns when the program and everything it started are gone. The
	// error is for failures of the sandbox itself, never for an exit status.
	// Cancelling the context given to Start kills the whole tree.
	Wait() (Exit, error)
	// Terminate ends the whole tree: politely when grace > 0, then by force.
	Terminate(grace time.Duration)
}

// Box is one call's hands, bound to judged settings. Safe for concurrent use.
type Box interface {
	// Open opens exactly use.Path, which must be physical: a symlink anywhere in
	// it, a magic link or a path outside the settings is an error. It never
	// blocks on a fifo and never follows /proc/PID.
	//
	// For Read the file itself is returned. For Write it is the directory that
	// holds use.Path, made if it is absent, so that the write is a new file and
	// a rename: see [WriteFile].
	Open(ctx context.Context, use PathUse, flag int) (*os.File, error)
	// Start runs a program in the cage. If a layer that is required does not
	// hold, nothing starts.
	Start(ctx context.Context, s Spec) (Proc, error)
	// Dial connects to a host that the settings allow.
	Dial(ctx context.Context, host string) (net.Conn, error)
	// Report names the layers this Box runs programs under.
	Report() Report
	// Close releases what the Box holds on the host and ends what still runs.
	Close() error
}

// Backend makes boxes.
type Backend interface {
	// Probe says what this host can enforce, by trying it.
	Probe() Report
	Box(ctx context.Context, session, profile string, s Settings) (Box, error)
	// Forget ends what runs in a session and removes its private files. Call it
	// when the session is deleted: its id may be given to somebody else.
	Forget(session string) error
	Close() error
}
