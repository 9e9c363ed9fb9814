// Package scopes keeps variables of five scopes: global (the account), chat (a session), branch,
// floor (a turn on a branch) and page (a version of a part of a turn). If several scopes have a
// key, the first of page, floor, branch, chat and global holds.
//
//	s := scopes.New(db) // db has the tables of scopes.Definition().Schema and of sessions.Schema
//	p := s.Part(host) // routes /variables, /floors, /pages, …; tools set_variable and get_variable
//
// What a variable belongs to must exist, and is deleted with its variables. Every look-up names the
// account, so what belongs to another account does not exist. Values are any JSON and are kept as
// they were written, digit for digit.
//
// Routes write variables at once. Tools do not: set_variable stages a write for a page. The write
// is resolved when the page is accepted or rejected, or when its floor is committed. It then
// becomes a variable of the page, or of the page and the floor, or nothing. Each of these is one
// transaction: after a crash all of its writes are staged still, or all are resolved. Nothing is
// promoted further than to the floor. docs/scopes.md has the whole.
//
// POST /sessions/{id}/prompt-runtime/preview shows what the macros of a text would insert and write. It
// stores nothing.
//
// Errors are *tool.Error: 404 for what the account does not have (…_not_found), 409 for what may not change
// now (…_locked, …_conflict), 400 for the rest. A new code that is not 400 needs a row in internal/api/json.go.
// A new route is in the function …Routes of a file …http.go.
//
// The package judges nothing: set_variable and get_variable are judged as every tool is.
//
// The rules are in the files without http in their names, the requests and routes in the others. The
// requirement ids behind rules (S-…) name what the public API of this form does.
package scopes
