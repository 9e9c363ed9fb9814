// Package idspace runs the daemon in a user namespace that has the ids of its accounts, and no
// others.
//
// A daemon that takes the rights of its callers needs the capabilities to become other users.
// With those it could become root. So a daemon that is started with them, and is not root,
// goes into a namespace in which only its own ids and those of its accounts exist:
//
//	if idspace.Wanted() {
//		return idspace.Run(ids) // this program again, inside; returns when that has ended for good
//	}
//	inside, err := idspace.Enter() // nil outside of such a namespace
//
// There are two processes then. The outer one keeps the capabilities, reads nothing that a
// caller wrote, and does three things: it waits for the inner one, hands signals on, and
// answers one question: which process is at the other end of a connection. The inner one
// cannot answer that by itself, because it has no numbers for most users. For other ids the
// inner one ends with [Again], and the outer one starts the next, with the ids that it reads
// from the configuration by itself.
//
// Wanted must be asked before Enter, which removes what it looks at.
//
// Guaranteed: the inner process has only its own ids and those of accounts, never root's, can
// get no others, and ends with the outer one. Programs that it starts inherit no capability.
package idspace
