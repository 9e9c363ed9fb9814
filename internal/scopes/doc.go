// Package scopes keeps variables of five scopes, and what they belong to: global, chat (a session),
// branch, floor (a turn on a branch) and page (a version of a part of a turn). The strongest scope that
// has a key holds: page, floor, branch, chat, global.
//
//	s := scopes.New(db)
//	p := s.Part(host) // routes /variables, /floors, /pages, …; tools set_variable and get_variable
//
// A variable needs its host, and goes with it. Every look-up asks for the account, so what belongs to
// another account is not there. Values are any JSON and are kept as they were written, digit for digit.
//
// Tools do not write variables: set_variable stages a write for a page. It is resolved when the page is
// accepted or rejected, or when its floor is committed: then it becomes a variable of the page, and of the
// floor, or nothing. Each of these is one transaction, so that a crash leaves all of it staged or none.
// Nothing is ever promoted further than to the floor. docs/scopes.md has the whole.
//
// The package judges nothing: set_variable and get_variable are judged as every tool is.
package scopes
