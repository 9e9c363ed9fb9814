// Package route is how a part of the daemon offers HTTP routes.
//
// A [Route] is one literal: pattern, role, handler, what the OpenAPI document says of it, and
// whether it keeps something on the disk or answers results of calls. A part returns its routes,
// and package api serves them. Here p is the part, and its list a handler:
//
//	route.Route{
//		Pattern: "GET /sessions/{id}/notes", Role: tool.RoleAgent, Handle: p.list,
//		Spec: route.Spec{
//			ID: "listNotes", Summary: "List notes", Query: route.PageQuery, Out: []Note{}, Paged: true,
//		},
//	}
//	func (p *part) list(r *http.Request) (any, error) {
//		page, err := route.Paging(r) // then the notes of route.CallerOf(r).Account
//		return page.List(notes, len(notes), total), err
//	}
//
// A handler reads strict JSON with [Read], pages with [Paging] and the caller with [CallerOf]. It
// returns data, a special answer ([Created], [List], [Items], [Stream] or [Raw]), or an error:
// [BadRequest], [Forbidden], [Missing], or a tool.Error, whose code has its status in package api.
//
// Before the handler runs, package api refuses a caller without the role, and a query that is not
// in Spec. Whether the caller's account owns what the request names, the handler must check.
//
// The rest is for package api and for parts with a listener of their own: [CheckQuery] refuses a query,
// [WithCaller] and [WithStop] fill the context, [ServeStream] and [ServeRaw] write, and [Masked] masks
// secrets. The package opens no socket, and does not decide who may call.
//
// A new kind of answer is a type here and a case of write or encode in package api. [Rows] answers
// rows of the database while they are read. [Body] reads a body that is not JSON of ours.
package route

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Route is one route. Its handler returns the data of the answer, [Items], a [List], a
// [Created], a [Stream] or a [Raw]; an error is answered with the status of its [Error], or
// with the one that its stable code has.
type Route struct {
	Pattern string    // method and path, as [http.ServeMux] takes them
	Role    tool.Role // routes of operators are refused on the agent socket
	// Keeps says that the daemon keeps what an agent sends or what becomes of it: agents are
	// refused when there is no room on its disk.
	Keeps bool
	// Results says that the route answers what calls gave or read. Agents get it whole, and operators, who
	// are people, with secrets masked.
	Results bool
	Handle  func(*http.Request) (any, error)
	Spec    Spec
}

// Spec is what the OpenAPI document says of a route, besides its path and role.
type Spec struct {
	ID      string // of the operation, for generated clients: a verb and what it is about
	Summary string
	Query   []Param
	In, Out any   // values of the Go types; In nil: no body; Out nil: any data
	Created bool  // may answer 201
	Errors  []int // statuses of failures that this route has and others like it have not
	Paged   bool  // data is a list with meta
	// Events are the data of server-sent events. A route that has Out as well sends them
	// only to clients that accept text/event-stream.
	Events any
}

// Param is a parameter of the query. It is a string unless it has another type.
type Param struct {
	Name, Type string   // Type as in JSON Schema: "integer", "boolean"
	Enum       []string // the only values
	Repeats    bool     // may be given more than once
}

// PageQuery are the parameters that [Paging] reads.
var PageQuery = []Param{{Name: "limit", Type: "integer"}, {Name: "offset", Type: "integer"}}

// OneOf is data of one of several types.
type OneOf []any

// Caller is who sent a request, as the kernel and the socket say.
type Caller struct {
	Account string
	// Any is an operator who named no account. An id may then name a thing of any account. Account is
	// then its owner, and owns what the request creates.
	Any  bool
	Role tool.Role
	Only string // the session of a sub-agent that the daemon runs, which reaches no other; "" of others
	Name string // of the user, "" if the database of users has none
	Home string
	// Person is the name that an operator gave to whoever answers on the page; "" elsewhere.
	Person string
	// The ids of the process that calls.
	UID, GID int
	Groups   []int // supplementary
}

// LetIn returns the caller of a request that came by a listener of a part, or why it is refused. It may set headers of
// that answer.
type LetIn func(http.ResponseWriter, *http.Request) (Caller, error)

type callerKey struct{}

// CallerOf returns the caller of a request that the server has let in.
func CallerOf(r *http.Request) Caller { return r.Context().Value(callerKey{}).(Caller) }

// Operator names the person behind a request in records.
func (c Caller) Operator() string {
	if c.Person != "" {
		return fmt.Sprintf("%s (uid:%d)", c.Person, c.UID)
	}
	return fmt.Sprintf("uid:%d", c.UID)
}

// Created is an answer with status 201.
type Created struct{ Data any }

// Deleted is the answer to a deletion.
type Deleted struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

// WithCaller returns ctx with who calls.
func WithCaller(ctx context.Context, w Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, w)
}

// Recorded is the answer to what was written to the record.
type Recorded struct {
	Recorded bool `json:"recorded"`
}
