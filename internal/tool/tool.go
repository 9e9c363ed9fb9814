// Package tool holds what the stages of the request path share: the [Call] that
// moves through them, the [Tool] interface, and the shapes that go over the wire.
//
// A tool gets its input and a [sandbox.Box] bound to the judged settings. The request path first
// calls [Tool.Uses], which says what the call would touch and has no side effects. It may do so
// several times. It calls [Tool.Run] only if the call was allowed, with what Uses said in
// [In].Judged:
//
//	type Echo struct{}
//
//	func (Echo) Spec() tool.Spec { return tool.Spec{Name: "Echo", Schema: …, ReadOnly: true} }
//	func (Echo) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }
//	func (Echo) Run(_ context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) { … }
//
// A tool reads its arguments with [Decode]. It may have more methods: of [Program], if a client can
// start its program instead of Run; of [Lasting], if its call can go on as a job; of [Formatter],
// [Truncater] and [Compressor], for the text of its results. An error of Uses denies the call, and one
// of Run is a result of status ERROR; make it an [*Error] to give code and hint.
//
// The package judges no call by itself and does no I/O. It has rules and helpers that several stages
// need, such as how a [Decision] is combined with the other judges ([Decision.Beside]), which tools
// the skills of a session let through ([Session.Lets]), in which order a [Batch] runs, and how long
// results are cut ([Truncate]). The built-in tools are in package tools.
//
// A type belongs here if several stages use it. What one stage alone needs belongs to the package of that
// stage.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Tool is one thing an agent can call. Implementations are safe for concurrent
// use.
type Tool interface {
	// Spec is constant.
	Spec() Spec
	// Uses says what the call would touch. It has no side effects and may be
	// called several times; an error denies the call.
	Uses(context.Context, In) (guard.Uses, error)
	// Run does it. The world is reached only through the Box. An error becomes
	// status ERROR for the model; make it an [*Error] to give code and hint.
	Run(context.Context, In, sandbox.Box) (Output, error)
}

// Program is a Tool whose call is one program, which another process can start in
// a cage of its own.
type Program interface {
	Argv(In) ([]string, error)
}

// Formatter is a Tool that turns its data into text itself (T-17). Without it
// strings stay as they are and everything else is JSON with two-space indent.
type Formatter interface {
	Format(data any, args json.RawMessage) (string, error)
}

// Truncater is a Tool that shortens its own text (T-20).
type Truncater interface {
	Truncate(formatted string, args json.RawMessage) string
}

// Compressor is a Tool that gives its own short forms for logs (T-32).
type Compressor interface {
	CompressArgs(args json.RawMessage) string
	CompressResult(formatted string) string
}

// Class says what kind of act a tool is; policy speaks in classes.
type Class string

// The classes.
const (
	ClassRead  Class = "read"  // reads files
	ClassWrite Class = "write" // changes files
	ClassExec  Class = "exec"  // starts programs
	ClassNet   Class = "net"   // reaches other hosts
	ClassState Class = "state" // changes the daemon's own state of this session
)

// Spec describes a tool (T-01, T-35, T-36).
type Spec struct {
	Name        string          // unique; PascalCase for built-ins
	Description string          // for the model
	Schema      json.RawMessage // JSON Schema of the arguments, passed on unchanged
	Class       Class
	ReadOnly    bool
	Annotations *Annotations // nil: none are emitted and the tool counts as destructive

	Execution ExecutionPolicy // "" is auto
	Results   ResultPolicy    // "" is never

	Restores    bool     // what it writes is old content, and no work of the session
	Origin      Origin   // author of what it returns; "" is tool
	OutputLimit int      // characters for the model; 0 is DefaultOutputLimit (T-22)
	NoTruncate  bool     // T-19, SKIP_EXTERNAL_TRUNCATE
	NoCache     bool     // CX-19, SKIP_CACHE_RESULT; the vars tools set it (T-26)
	Returns     *Returns // T-33
	MCP         *MCP     // of a tool of an MCP server
}

// MCP is which tool of which server it is. What the server claims of it loosens nothing.
type MCP struct {
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Pin     string `json:"pin"`                          // SHA-256 of its definition
	Claimed Claims `json:"annotations_claimed,omitzero"` // by the server
}

// Claims are annotations that the author of a tool has written. What is not said is nil.
type Claims struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// Annotations are hints for clients; they never change how a tool runs (T-36).
type Annotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

// Returns is the declared type of a result (T-33).
type Returns struct {
	Type string `json:"type"`
	Note string `json:"note,omitempty"`
}

// ExecutionPolicy says whether a person must allow a call.
type ExecutionPolicy string

// The execution policies.
const (
	ExecAuto      ExecutionPolicy = "auto"
	ExecAskOnce   ExecutionPolicy = "ask-once"
	ExecAskAlways ExecutionPolicy = "ask-always"
)

// ResultPolicy says whether a person must release a result.
type ResultPolicy string

// The result policies.
const (
	ResultNever   ResultPolicy = "never"
	ResultOnError ResultPolicy = "on-error"
	ResultAlways  ResultPolicy = "always"
)

// Destructive reports whether the tool counts as dangerous: unannotated tools do
// (T-36, CX-33).
func (s Spec) Destructive() bool {
	if s.ReadOnly {
		return false
	}
	return s.Annotations == nil || s.Annotations.Destructive
}

// In is what a tool is given.
type In struct {
	CallID, Session string
	Account         string
	SessionMade     time.Time // its id may be used again
	Dir             string    // working directory of the session, absolute and physical
	Roots           []string  // workspaces: the session stays in them
	Home            string    // home directory of the caller
	Host            Host
	Args            json.RawMessage
	Typed           bool           // the caller may type into a program that the call starts
	Theirs          bool           // another program makes the call, and finds what is denied, too
	Origins         Origins        // who wrote the arguments, for tools that keep them
	By              *Identity      // the process that calls; nil: none did
	Scheduled       bool           // the call was written down earlier: it leaves the session in its directory
	Emit            func(Progress) // tells the caller while it runs; never nil
	// Job is set for Run of a call that may go on when it has been answered.
	Job JobStreams

	// Rules are those of the settings that hold. Uses resolves paths by them, because nobody
	// may learn what lies in denied places. Nil rules deny none.
	Rules *guard.Rules

	// Judged is set for Run: what Uses said and was judged. Run opens its paths; a
	// path resolved again may have become another.
	Judged guard.Uses
	// Obligations are set for Run: what policies demand of the call. The box of the call keeps them; a
	// tool that does its work elsewhere has to.
	Obligations guard.Obligations
	// Approved is set for Run of a call that a person approved: the SHA-256 of the files
	// that the question showed, "absent" for one that was not there. What has another one
	// now must not be changed.
	Approved map[string]string
	// Withheld is set for Run: which of the files that the tool has found by itself the policies keep from
	// the call. Nil where no policies judge.
	Withheld func(ctx context.Context, paths []string) (map[string]bool, error)
}

// Host is the place in a conversation that the client named.
type Host struct {
	Branch string `json:"branch_id,omitempty"`
	Floor  string `json:"floor_id,omitempty"`
	Page   string `json:"page_id,omitempty"`
}

// Output is what a tool returns.
type Output struct {
	Data    any       // JSON-able, for the client
	Text    string    // formatted text, if the tool made it itself (T-18)
	Content []Content // typed content; text is then its text parts joined (T-37)
	Origin  Origin    // overrides Spec.Origin for this result
	// Dir is the session's working directory from now on; "" leaves it. Whoever stores
	// it checks it against the workspace.
	Dir     string
	Tree    string         // the session's Tree from now on; "" leaves it
	Usage   *sandbox.Usage // set by tools that started a program
	Denials []sandbox.Denial
}

// Content is one typed part of a result (T-37).
type Content struct {
	Type     string `json:"type"` // text, image, audio or resource
	Text     string `json:"text,omitempty"`
	Data     []byte `json:"data,omitempty"` // base64 on the wire
	MIMEType string `json:"mime_type,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
}

// Error is what a caller sees of a failure.
type Error struct {
	Code    string `json:"code"`            // stable: "path_denied"
	Stage   string `json:"stage,omitempty"` // "judge"
	Msg     string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Details any    `json:"details,omitempty"`
}

func (e *Error) Error() string { return e.Msg }

// ErrorOf returns what callers see of an error: itself, or one from an error of a package that knows no calls and
// has a code and a hint. Nil is any other.
func ErrorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	var with interface {
		Code() string
		Hint() string
	}
	if errors.As(err, &with) {
		return &Error{Code: with.Code(), Msg: err.Error(), Hint: with.Hint()}
	}
	return nil
}
