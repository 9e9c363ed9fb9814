// Package vars keeps the variables of a session and expands references to them.
//
// A variable is text with a name. A call that succeeds leaves two, its arguments and its result,
// unless its tool says NoCache; the model and people add their own. In a string argument
// $VAR_REF{{name}} or $VAR_REF{{name:start:length}} stands for the text:
//
//	s := vars.New(db, vars.Options{}) // db has the tables of vars.Schema
//	text := "hello"
//	v, created, err := s.Put(ctx, "s1", "greeting", vars.Change{Value: &text}, tool.OriginPerson)
//	args, origins, err := s.Resolve(ctx, "s1", []byte(`{"command":"echo $VAR_REF{{greeting}}"}`))
//	v, value, found, err := s.Read(ctx, "s1", "greeting") // value.Pieces(ctx) has the text
//
// List lists variables, Update changes one, and Remove deletes all but rules. The daemon calls
// [System.DropPending] once at its start, and SessionCreated, SessionForked and SessionDeleted in
// the transactions of package sessions.
//
// The request path calls Resolve before a call is judged, and Remember after it has run. If the
// result waits for a person or a hook, Remember stores the variables as pending, and nobody can
// read them until Publish. Discard deletes them.
//
// Arguments without a reference come back byte for byte. Text that comes in by a reference is not
// searched for references again, unless the value was written on purpose by the model, a person or
// a rule. [Options].Nested can extend that to all values.
//
// A session holds [Options].Capacity variables. The least recently visited go first. Those with
// keep never go, so they can exceed the capacity. Every value knows its authors, and so does every
// argument that Resolve returns: see docs/provenance.md for what that finds and what it cannot.
//
// Errors that a caller can act on are [*tool.Error] with a stable code. Callers check that a
// session exists and whose it is. Here only a session that was deleted is an error.
//
// A new field of a variable is a column (migrations), a field of record with its place in row (put.go), and a
// field of [Var]. A built-in skill rule is a file in rules/ and an element of AgentRules.
package vars

import (
	"embed"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

//go:embed migrations/*.sql migrations/postgres/*.sql
var migrations embed.FS

// Schema returns the tables of this package.
func Schema() store.Schema { return store.EmbeddedBoth("vars", migrations) }

// Type says who made a variable and what for.
type Type string

// The six types.
const (
	TypeRule         Type = "RULE"
	TypeResult       Type = "ToolCallResult"
	TypeArgs         Type = "ToolCallArgs"
	TypeMessageCache Type = "MessageCache"
	TypeModel        Type = "LLMAdd"
	TypeUser         Type = "USER_ADD"
)

func (t Type) valid() bool {
	switch t {
	case TypeRule, TypeResult, TypeArgs, TypeMessageCache, TypeModel, TypeUser:
		return true
	}
	return false
}

// Var is a variable. Value is nil in lists.
type Var struct {
	Name           string        `json:"name"`
	Length         int           `json:"length"` // of the value, in characters
	Desc           string        `json:"desc,omitempty"`
	Type           Type          `json:"type"`
	Tags           []string      `json:"tags,omitempty"`
	Keep           bool          `json:"keep,omitempty"`
	Created        time.Time     `json:"created"`
	Updated        time.Time     `json:"updated"`
	LastVisited    time.Time     `json:"last_visited"`
	ReferenceCount int           `json:"reference_count"`
	Origins        []tool.Origin `json:"origins"`
	Hosts          []string      `json:"hosts,omitempty"` // that the text of the web came from
	Value          *string       `json:"value,omitempty"`
}

// Nested says in which values references are expanded again.
type Nested string

// The settings of nesting.
const (
	NestedOnPurpose Nested = ""    // values that the model, a person or a rule wrote on purpose
	NestedAll       Nested = "all" // every value, results from the web too
)

// Options bounds and tunes the system. The zero value is the default.
type Options struct {
	Capacity    int // variables of a session; 0 is 1000
	Nested      Nested
	MaxExpanded int // bytes of the arguments of one call after expansion; 0 is 8 MiB
	MaxValue    int // bytes of one value; 0 is 16 MiB
	MaxOutside  int // bytes of outside text that one scope remembers; 0 is 64 MiB
	// Root is the workspace that holds a directory: what a session was told, others of its
	// account there know. Nil is the directory itself.
	Root func(dir string) string
	// Room says whether the disk has room for a value of so many bytes; nil always.
	Room   func(n int) error
	Redact func(string) string // over what is described; nil changes nothing
	Log    *slog.Logger        // nil is silent
	Now    func() time.Time
}

// System is the variables of all sessions. It is safe for concurrent use.
type System struct {
	db       *store.DB
	o        Options
	declared atomic.Pointer[declared]
	heads    *store.Cache[head]
	scopes   *store.Cache[told]
	latest   int64 // of now; used inside writes only
	content  provenance.Index
	large    chan struct{} // holds one token while a piece of a large value is read
}

// New returns the variables in db, which was opened with [Schema]; there is one
// System to a database.
func New(db *store.DB, o Options) *System {
	if o.Capacity <= 0 {
		o.Capacity = 1000
	}
	if o.MaxExpanded <= 0 {
		o.MaxExpanded = 8 << 20
	}
	if o.MaxValue <= 0 {
		o.MaxValue = 16 << 20
	}
	if o.MaxOutside <= 0 {
		o.MaxOutside = 64 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Room == nil {
		o.Room = func(int) error { return nil }
	}
	if o.Now == nil {
		o.Now = db.Now
	}
	s := &System{
		db: db, o: o, heads: store.NewCache(db, headBytes), scopes: store.NewCache(db, toldBytes),
		large:   make(chan struct{}, 1),
		content: provenance.Index{Bound: o.MaxOutside * 3 / 2},
	}
	s.declared.Store(declare())
	return s
}
